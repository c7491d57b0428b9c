//! Many rings, many processes, many threads, one after another and at once.

use std::process::{Command, Stdio};

use iotrail::top_record::TopRecord;
use iotrail::trace_record::TraceRecord;
use libtest_mimic::Failed;

use super::Test;
use crate::ground::ground;

pub const TESTS: &[(&str, Test)] = &[
    ("rings_made_and_closed_in_turn_are_all_counted", rings_in_turn),
    ("rings_open_at_once_are_told_apart", rings_at_once),
    ("top_keeps_the_sums_while_rings_come_and_go", top),
    ("a_storm_of_forks_is_watched_to_its_end_and_no_stranger_is_adopted", forks),
    ("threads_that_have_ended_leave_the_attribution_as_it_is", threads),
    ("watching_takes_no_more_memory_than_is_said", memory),
];

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// Rings that a record tells of one by one.
const TOLD: u64 = 512;

fn trace(scenario: &str, count: u64) -> Result<TraceRecord, Failed> {
    let out = Command::new(TOOL)
        .args(["trace", "--json", "--"])
        .arg(ground())
        .args([scenario, "--count", &count.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && !said.contains("ground: "), "{scenario}: {}: {said}", out.status);
    let record: TraceRecord = serde_json::from_slice(&out.stdout)?;
    assert_eq!(record.total.probe.lost, Some(0), "{scenario}: {:?}", record.total.warnings);
    Ok(record)
}

/// Requests and completions of all, of the rings one by one, and of the other rings; and how many these are.
fn sums(t: &TraceRecord) -> [(u64, u64); 3] {
    let nops = t.total.opcodes.iter().filter(|o| o.opcode == "nop");
    let all = nops.map(|o| (o.requests, o.completions)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let rings = t.rings.iter().map(|r| (r.requests, r.completions)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let others = t.others.iter().map(|o| (o.requests, o.completions)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    [all, rings, others]
}

fn rings_in_turn() -> Result<(), Failed> {
    let t = trace("rings_in_turn", 5000)?;
    let told = t.rings.len() as u64;
    assert_eq!((t.total.ios, told), (10_000, TOLD));
    assert_eq!(sums(&t), [(10_000, 10_000), (2 * TOLD, 2 * TOLD), (10_000 - 2 * TOLD, 10_000 - 2 * TOLD)]);
    let [others] = &t.others[..] else { panic!("the other rings of one process: {:?}", t.others) };
    assert_eq!((others.rings, others.tgid, &*others.comm), (5000 - TOLD, Some(t.rings[0].tgid), "ground"));
    assert!(t.rings.iter().all(|r| (r.requests, r.completions, r.found) == (2, 2, false)));
    Ok(())
}

fn rings_at_once() -> Result<(), Failed> {
    let t = trace("rings_at_once", 1500)?;
    let all = 1500 * 3 + 2997;
    assert_eq!(t.total.ios, all);
    assert_eq!(sums(&t)[0], (all, all));
    assert_eq!(t.others.iter().map(|o| o.rings).sum::<u64>(), 1500 - TOLD);
    let busiest = t.rings.iter().max_by_key(|r| r.requests).expect("rings");
    assert_eq!((busiest.requests, busiest.completions, busiest.ring), (3000, 3000, 1499), "the busiest is told");
    assert!(t.rings.iter().filter(|r| r.ring != 1499).all(|r| r.requests == 3));
    Ok(())
}

/// One number more or less is what the two ends of a watch are apart.
fn top() -> Result<(), Failed> {
    let mut load = Command::new(ground())
        .args(["rings_in_turn", "--count", "4000", "--start-on-stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut watch = Command::new(TOOL)
        .args(["top", "--json", "--interval", "0.5", "-p", &load.id().to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    // It has begun to watch when its first interval is told.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().expect("piped")));
    let first: TopRecord = serde_json::from_str(&lines.next().expect("an interval")?)?;
    std::io::Write::write_all(&mut load.stdin.take().expect("piped"), b"\n")?;
    let mut all = vec![first];
    for line in lines {
        all.push(serde_json::from_str(&line?)?);
    }
    assert!(load.wait()?.success() && watch.wait()?.success());
    let sum = |of: &dyn Fn(&TopRecord) -> f64| {
        all.iter().map(|r| of(r) * r.elapsed_ns as f64 / 1e9).sum::<f64>().round() as u64
    };
    assert_eq!(sum(&|r| r.total.rates.requests_per_s), 8000);
    assert_eq!(sum(&|r| r.total.rates.completions_per_s), 8000);
    assert_eq!(sum(&|r| r.processes.iter().map(|p| p.rates.requests_per_s).sum()), 8000, "by process");
    let rings = |r: &TopRecord| {
        let others = r.other_rings.as_ref().map_or(0.0, |o| o.rates.requests_per_s);
        r.rings.iter().map(|r| r.rates.requests_per_s).sum::<f64>() + others
    };
    assert_eq!(sum(&rings), 8000, "by ring");
    assert!(all.iter().all(|r| r.rings.len() as u64 <= TOLD));
    assert_eq!(all.iter().map(|r| r.total.lost).sum::<u64>(), 0);
    Ok(())
}

fn forks() -> Result<(), Failed> {
    // Nobody's who is watched, and its children take numbers that were theirs.
    let mut stranger = Command::new(ground())
        .args(["forks", "--count", "3000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let t = trace("forks", 5000)?;
    assert!(stranger.wait()?.success());
    let all = 5000 / 50 + 1000;
    assert_eq!(t.total.ios, all, "{:?}", t.total.warnings);
    assert_eq!(sums(&t)[0], (all, all));
    assert_eq!(t.rings.len(), 101);
    let processes = t.total.processes.len() as u64 + t.total.more_processes;
    assert_eq!(processes, 5001, "{} of them named", t.total.processes.len());
    Ok(())
}

fn threads() -> Result<(), Failed> {
    let t = trace("threads_in_turn", 4000)?;
    assert_eq!(t.total.ios, 4300);
    let slept = |detail: &Option<String>| detail.as_deref().is_some_and(|d| d.contains("slept"));
    let slept: u64 = t.total.vehicles.iter().filter(|v| slept(&v.detail)).map(|v| v.completions).sum();
    // A timer that is faster than the program's way to its wait finds it awake.
    assert!((270..=300).contains(&slept), "{slept} of 300 slept: {:?}", t.total.vehicles);
    let inline: u64 = t.total.vehicles.iter().filter(|v| v.vehicle.name() == "inline").map(|v| v.completions).sum();
    assert_eq!(inline, 4000, "{:?}", t.total.vehicles);
    Ok(())
}

/// By the kernel's own account of each map, while 500 rings are watched.
fn memory() -> Result<(), Failed> {
    const MIB: u64 = 1 << 20;
    let mut watch = Command::new(TOOL)
        .args(["trace", "--json", "--"])
        .arg(ground())
        .args(["rings_at_once", "--count", "500", "--pause-ms", "3000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let of = |file: String, key: &str| -> Option<u64> {
        let text = std::fs::read_to_string(file).ok()?;
        text.lines().find_map(|l| l.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
    };
    let (mut kernel, mut maps) = (0, 0);
    for fd in std::fs::read_dir(format!("/proc/{}/fd", watch.id()))? {
        let info = format!("/proc/{}/fdinfo/{}", watch.id(), fd?.file_name().to_string_lossy());
        // A program's fdinfo has a memlock as well.
        if of(info.clone(), "map_type:").is_some() {
            kernel += of(info, "memlock:").unwrap_or_default();
            maps += 1;
        }
    }
    let user = 1024 * of(format!("/proc/{}/status", watch.id()), "RssAnon:").unwrap_or_default();
    assert!(watch.wait()?.success());
    assert!(maps > 20, "{maps} maps were found");
    assert!(kernel < 32 * MIB && user < 64 * MIB, "{kernel} bytes of maps, {user} of its own");
    assert!(kernel > 4 * MIB && user > MIB, "{kernel} bytes of maps, {user} of its own: too little to be all");
    Ok(())
}
