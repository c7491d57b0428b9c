//! `trace --record`, `--slowest` and `--profile` on an iotrail load with known I/Os.

use std::path::{Path, PathBuf};
use std::process::Command;

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::place::Place;
use iotrail_schema::recorded::{Ending, Entry, Header};
use iotrail_schema::trace_record::TraceRecord;
use iotrail_watch::recording::Reader;
use libtest_mimic::{Failed, Trial};

use crate::bench::{file, run, until};
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("all_of_80_000_nops_per_second_are_recorded", || all_recorded("--rw nop --depth 32 --batch 8")),
        ("all_of_80_000_cached_reads_per_second_are_recorded", || {
            all_recorded(&format!("--file {} --buffered --depth 32 --batch 8", file().display()))
        }),
        ("only_the_slowest_requests_are_recorded", slowest),
        ("windows_contain_only_complete_requests", windows),
        ("the_cpu_time_of_a_commands_child_is_sampled", child_sampled),
        ("each_of_64_merged_reads_has_its_stages", merged),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("record::{name}"), test)).collect()
}

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// Runs `trace --json` on `bench --json`: returns both outputs and the requested files.
fn traced(trace: &[&str], bench: &str) -> (TraceRecord, serde_json::Value, Measurement) {
    let out = Command::new(TOOL)
        .args(["trace", "--json"])
        .args(trace)
        .args(["--", TOOL, "bench", "--json", "--trace", "off", "--warmup", "0"])
        .args(bench.split_whitespace())
        .output()
        .expect("the built binary starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "trace of bench {bench}: {}: {stderr}", out.status);
    let printed: serde_json::Value = serde_json::from_slice(&out.stdout).expect("--json prints one document");
    // The command's standard output is iotrail's standard error.
    let json = &stderr[stderr.find('{').expect("bench prints its measurement")..];
    let measured = serde_json::Deserializer::from_str(json).into_iter().next().expect("one").expect("a measurement");
    (serde_json::from_value(printed.clone()).expect("a record"), printed, measured)
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn read(path: &Path) -> (Header, Vec<Entry>, Ending) {
    let mut reader = Reader::open(path).expect("a recording");
    let entries = reader.by_ref().collect::<Result<Vec<Entry>, _>>().expect("whole entries");
    (reader.header().clone(), entries, reader.ending().expect("read to its end").clone())
}

/// The block layer merges adjacent reads into a single device request.
fn merged() -> Result<(), Failed> {
    let load = format!("--file {} --rw read --depth 64 --batch 64 --count 6400", file().display());
    let (record, ..) = traced(&["--one-in", "1", "--no-store"], &load);
    let staged = record.total.stages.map_or(0, |stages| stages.completions);
    // On virtual machines, interrupts that no BPF program observed have left some requests without an end.
    assert!(record.total.ios == 6400 && staged > 3200, "{staged} of {}", record.total.ios);
    Ok(())
}

fn all_recorded(load: &str) -> Result<(), Failed> {
    let path = scratch("all.iotrail");
    let recorded = ["--record", path.to_str().expect("a plain name"), "--force"];
    until(
        || {
            let (record, _, m) = traced(&recorded, &format!("{load} --rate 80000 --count 240000"));
            let (header, entries, ending) = read(&path);
            let trails = entries.iter().filter(|e| matches!(e, Entry::Trail(_))).count() as u64;
            let end = ending.end().expect("it was ended");
            assert_eq!((header.one_in, header.slowest), (1, None));
            assert_eq!((m.ios.unwrap(), record.total.ios, trails), (240_000, 240_000, 240_000), "{:?}", end.losses);
            assert_eq!((end.losses.followed, end.losses.lost(), end.unfinished), (240_000, 0, 0));
            // A loss record is written once per second if the machine manages it, and one at the end.
            let notes = (entries.len() as u64 - trails) as f64;
            let seconds = record.total.elapsed_ns as f64 / 1e9;
            assert!((1.0..=seconds).contains(&notes), "{notes} notes in {seconds} s");
            m
        },
        // Nearly as fast as without probes; on a slow machine, below the requested rate.
        |m| {
            let alone = run(&format!("{load} --rate 80000 --count 80000 --warmup 0 --trace off")).iops.unwrap();
            let so = m.iops.unwrap() > 0.5 * alone;
            so.then_some(()).ok_or(format!("the load came to {} a second, and unwatched to {alone}", m.iops.unwrap()))
        },
    );
    let out = Command::new(TOOL).args(["explain", "--json", "--slowest", "7"]).arg(&path).output()?;
    let explained: serde_json::Value = serde_json::from_slice(&out.stdout)?;
    assert_eq!(explained["completions"], 240_000);
    assert_eq!(explained["ios"].as_array().map(Vec::len), Some(7));
    let reads = if load.contains("nop") { 0 } else { 240_000 };
    exported(&path, 240_000, reads)?;
    std::fs::remove_file(&path)?;
    Ok(())
}

/// The table contains all completions; fio's log contains the reads of a named file, and its open and close.
fn exported(path: &Path, completions: usize, reads: usize) -> Result<(), Failed> {
    let [table, log] = ["requests.csv", "requests.log"].map(scratch);
    let mut export = Command::new(TOOL);
    export.args(["export", "--force"]).arg(path).arg("--csv").arg(&table).arg("--iolog").arg(&log);
    assert!(export.output()?.status.success());
    let [rows, lines] = [std::fs::read_to_string(&table)?, std::fs::read_to_string(&log)?];
    assert_eq!(rows.lines().count(), 1 + completions);
    assert_eq!(lines.lines().next(), Some("fio version 3 iolog"));
    let of = |action: &str| lines.lines().filter(|line| line.split(' ').nth(2) == Some(action)).count();
    let files = usize::from(reads > 0);
    assert_eq!(["read", "write", "add", "open", "close"].map(of), [reads, 0, files, files, files]);
    let times = lines.lines().skip(1).map(|line| line.split(' ').next().and_then(|us| us.parse::<u64>().ok()));
    assert!(times.collect::<Option<Vec<u64>>>().is_some_and(|all| all.is_sorted()));
    [table, log].iter().try_for_each(std::fs::remove_file)?;
    Ok(())
}

fn slowest() -> Result<(), Failed> {
    let path = scratch("slowest.iotrail");
    let options = ["--slowest", "3", "--record", path.to_str().expect("a plain name"), "--force"];
    let load = format!("--file {} --depth 4 --count 4000", file().display());
    let (record, printed, m) = traced(&options, &load);
    let (header, entries, ending) = read(&path);
    let latency = |e: &Entry| match e {
        Entry::Trail(t) | Entry::Later(t) => Some(t.latency_ns()),
        Entry::Losses(_) => None,
    };
    let mut latencies: Vec<u64> = entries.iter().filter_map(latency).collect();
    latencies.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!((header.slowest, latencies.len()), (Some(3), 3));
    assert_eq!(ending.end().map(|e| e.losses.followed), Some(m.ios.unwrap()));
    // The slowest request is included: the histogram's maximum, within its precision.
    let max = record.total.latency_ns.max.expect("all were followed") as f64;
    assert!((latencies[0] as f64 / max - 1.0).abs() < 0.01, "{latencies:?} and {max}");
    let told: Vec<u64> = printed["slowest"]
        .as_array()
        .expect("asked for")
        .iter()
        .map(|io| io["latency_ns"].as_u64().expect("a number"))
        .collect();
    assert_eq!(told, latencies);
    std::fs::remove_file(&path)?;
    Ok(())
}

fn windows() -> Result<(), Failed> {
    const DEPTH: u64 = 8;
    let path = scratch("windows.iotrail");
    let options = ["--windows", "20ms/200ms", "--record", path.to_str().expect("a plain name"), "--force"];
    let load = format!("--file {} --depth {DEPTH} --runtime 3s", file().display());
    let (record, _, m) = traced(&options, &load);
    let (header, entries, ending) = read(&path);
    let total = &record.total;
    let windows = total.windows.ok_or("it was watched by windows")?;
    assert_eq!(
        (header.windows, windows.open_ns, windows.period_ns),
        (Some((20_000_000, 200_000_000)), 20_000_000, 200_000_000)
    );
    // On a busy machine, some windows may be skipped, and some may close late.
    assert!((3..=windows.span_ns / windows.period_ns + 1).contains(&windows.opened), "{windows:?}");
    assert!(total.elapsed_ns >= windows.opened * windows.open_ns * 9 / 10, "{} ns: {windows:?}", total.elapsed_ns);
    let share = total.elapsed_ns as f64 / windows.span_ns as f64;
    assert!(share < 0.5, "{share} of the time was watched: {windows:?}");

    // I/Os in flight at a window's start or end are cut off.
    let cut = windows.opened * DEPTH;
    let requests: u64 = total.opcodes.iter().map(|o| o.requests).sum();
    assert!(requests.abs_diff(total.ios) <= cut, "{requests} requests, {} completions", total.ios);
    assert_eq!(total.vehicles.iter().map(|v| v.completions).sum::<u64>(), total.ios);
    let unknown: u64 =
        total.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::Unknown).map(|v| v.completions).sum();
    assert!(unknown <= cut, "{:?}", total.vehicles);
    assert!(total.ios > 0 && (total.ios as f64) < 0.75 * m.ios.unwrap() as f64, "{} of {}", total.ios, m.ios.unwrap());
    let rate = total.iops / m.iops.unwrap();
    assert!((0.25..4.0).contains(&rate), "{} a second in the windows, {} in all", total.iops, m.iops.unwrap());
    // The ring was created before the first window and is the same in all windows.
    assert_eq!(record.rings.iter().map(|r| r.found).collect::<Vec<_>>(), [false]);
    assert_eq!((total.cpu.user_ns, record.rings[0].active_ns), (None, None), "/proc tells of all the time");

    // Each window's requests are contiguous and complete.
    let end = ending.end().ok_or("it was ended")?;
    assert_eq!(end.losses.lost(), 0);
    let mut trails: Vec<_> =
        entries.iter().filter_map(|e| if let Entry::Trail(t) = e { Some(t) } else { None }).collect();
    assert_eq!(trails.len() as u64, total.followed.completions);
    trails.sort_by_key(|t| t.submitted.ns);
    // A window in which the load had no CPU contains no requests.
    let groups = 1 + trails.windows(2).filter(|t| t[1].submitted.ns - t[0].submitted.ns > 30_000_000).count() as u64;
    assert!(groups <= windows.opened && 2 * groups + 1 >= windows.opened, "{groups} groups, {windows:?}");
    assert!(trails.iter().all(|t| t.posted.ns >= t.submitted.ns));
    std::fs::remove_file(&path)?;
    Ok(())
}

/// The command is a shell whose child does the work: sampling of the child starts at its first event.
fn child_sampled() -> Result<(), Failed> {
    let load =
        format!("{TOOL} bench --trace off --rw nop --depth 32 --batch 32 --warmup 0 --runtime 2s --cpus 0; true");
    let out = Command::new(TOOL).args(["trace", "--json", "--profile", "--", "sh", "-c", &load]).output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let record: TraceRecord = serde_json::from_slice(&out.stdout)?;
    let (shares, how) = (record.total.cpu_shares.ok_or("sampled")?, record.total.cpu_samples.ok_or("sampled")?);
    assert_eq!(shares.iter().map(|s| s.samples).sum::<u64>(), how.taken);
    let of = |places: &[Place]| shares.iter().filter(|s| places.contains(&s.place)).map(|s| s.samples).sum::<u64>();
    let busy = how.taken - of(&[Place::Idle]);
    let cpu = record.total.cpu.user_ns.zip(record.total.cpu.system_ns).map(|(u, s)| u + s).ok_or("/proc is there")?;
    let sampled = busy as f64 * how.period_ns.ok_or("paced by time")? as f64 / cpu as f64;
    assert!((0.5..=1.1).contains(&sampled), "{sampled} of {cpu} ns of CPU time was sampled: {how:?}");
    assert!(of(&[Place::Submit, Place::Tracing, Place::User]) > busy / 2, "{shares:?}");
    Ok(())
}
