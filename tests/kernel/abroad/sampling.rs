//! How traced requests are selected, and the estimates based on them.

use std::process::Command;

use iotrail_schema::trace_record::{CountIntervals, OpcodeRecord, TraceRecord};
use libtest_mimic::Failed;

use super::Test;
use crate::bench::file;
use crate::ground::ground;

pub const TESTS: &[(&str, Test)] = &[
    ("all_requests_of_a_program_with_48_are_traced", few),
    ("the_traced_requests_represent_all_requests", many),
    ("a_requested_sampling_rate_is_kept", asked),
    ("all_requests_are_traced_again_after_a_burst", after_a_burst),
    ("costly_events_of_a_busy_program_are_sampled_in_windows", windows_while_busy),
    ("requests_during_the_end_of_a_window_are_counted", windows),
    ("rates_are_relative_to_the_counted_time", over_counted_time),
    ("a_trace_with_high_overhead_continues_in_windows", goes_on_by_windows),
];

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

fn traced(args: &[&str], command: &[&str]) -> Result<TraceRecord, Failed> {
    let out = Command::new(TOOL).args(["trace", "--json"]).args(args).arg("--").args(command).output()?;
    assert!(out.status.success(), "trace {args:?} {command:?}: {}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// No-ops at a rate far above the rate up to which all requests are traced.
const STORM: &str =
    "bench --engine io_uring --rw nop --depth 64 --batch 32 --count 300000 --warmup 0 --trace off --json";

fn storm() -> Vec<&'static str> {
    std::iter::once(TOOL).chain(STORM.split_whitespace()).collect()
}

fn opcode<'a>(t: &'a TraceRecord, name: &str) -> Result<&'a OpcodeRecord, Failed> {
    t.total.opcodes.iter().find(|o| o.opcode == name).ok_or_else(|| format!("no {name}").into())
}

/// A field of the load's own measurement, which goes to standard error if iotrail prints JSON.
fn measured(said: &str, field: &str) -> Result<u64, Failed> {
    let from = said.find("{\n").ok_or_else(|| format!("no measurement: {said}"))?;
    let mut values = serde_json::Deserializer::from_str(&said[from..]).into_iter::<serde_json::Value>();
    let m = values.next().ok_or("no measurement")??;
    m[field].as_u64().ok_or_else(|| format!("it has no {field}").into())
}

/// Traces a load; returns the trace and the load's own measurement.
fn beside_its_own(options: &[&str], load: &str) -> Result<(TraceRecord, String), Failed> {
    let out = Command::new(TOOL)
        .args(["trace", "--json"])
        .args(options)
        .args(["--", TOOL, "bench", "--warmup", "0", "--trace", "off", "--json"])
        .args(load.split_whitespace())
        .output()?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    Ok((serde_json::from_slice(&out.stdout)?, said))
}

/// iotrail traces almost none of these requests. Based only on traced requests, the ring would appear to be in use for
/// microseconds. The count keeps even a fast machine busy for more than the 20 ticks that a CPU time needs.
fn over_counted_time() -> Result<(), Failed> {
    let (t, said) = beside_its_own(&["--one-in", "1000000"], "--rw nop --depth 64 --batch 32 --runtime 500ms")?;
    assert!(t.total.followed.completions < 20, "{:?}", t.total.followed);
    let took_ns = measured(&said, "elapsed_ns")?;
    let busiest = t.rings.iter().max_by_key(|r| r.completions).ok_or("a ring")?;
    let active_ns = busiest.active_ns.ok_or_else(|| format!("a load of {took_ns} ns is long enough to tell"))?;
    // Exact to one tick at each end, plus the load's time before its measurement.
    assert!(active_ns + 20_000_000 >= took_ns, "{active_ns} ns of {took_ns}");
    assert!(active_ns <= t.total.elapsed_ns + 20_000_000, "{active_ns} ns in {} ns", t.total.elapsed_ns);
    Ok(())
}

fn nothing_lost(t: &TraceRecord) {
    let f = &t.total.followed;
    assert_eq!(
        (t.total.probe.lost, f.no_room, f.ring_buffer_full, f.no_completion, f.unfinished),
        (Some(0), 0, 0, 0, 0)
    );
}

fn few() -> Result<(), Failed> {
    let ground = ground();
    let t = traced(&[], &[&ground.to_string_lossy(), "clean", "--count", "48"])?;
    nothing_lost(&t);
    let f = &t.total.followed;
    assert_eq!((f.adaptive, f.completions, f.whole, f.sampled_from), (true, 48, 48, Some(0)));
    assert_eq!((f.requests_estimated, f.requests_ci95), (Some(48.0), Some([48.0, 48.0])));
    let latency = &opcode(&t, "read")?.latency_ns;
    assert_eq!((latency.count, latency.p99), (48, None));
    assert!(latency.p50.is_some() && latency.mean.is_some(), "{latency:?}");
    assert_eq!(t.total.order.as_ref().map(|o| o.completions), Some(48));
    // A block event is missed while a thread of process 1 is current (docs/kernels.md).
    let stages = t.total.stages.as_ref().map_or(0, |s| s.completions);
    assert!((40..=48).contains(&stages), "{stages} with stages");
    let requests: u64 = t.total.enter_batches.iter().map(|b| b.requests).sum();
    let calls = t.total.enter_calls.map(|c| (c.total, c.ci95));
    assert_eq!((requests, calls), (48, Some((3.0, [3.0, 3.0]))), "three calls of 16");
    Ok(())
}

fn many() -> Result<(), Failed> {
    let t = traced(&[], &storm())?;
    nothing_lost(&t);
    let (f, requests) = (&t.total.followed, opcode(&t, "nop")?.requests);
    assert!(requests >= 300_000, "{requests}");
    let sampled = f.sampled_from.ok_or("it is counted")?;
    assert_eq!((f.adaptive, f.whole + sampled), (true, requests), "all, and one in 100 of the others");
    // On a busy machine, a window or two may contain no no-ops.
    assert!(f.whole >= 200 && sampled >= requests / 2, "{f:?}");
    let [lo, hi] = f.requests_ci95.ok_or("an interval")?;
    assert!(lo <= requests as f64 && requests as f64 <= hi, "{requests} is not in {lo} to {hi}");
    assert!((hi - lo) / (requests as f64) < 0.12, "{lo} to {hi}");
    assert_eq!(t.total.latency_ns.count, f.completions, "as many as were followed, not as they stand for");
    Ok(())
}

fn asked() -> Result<(), Failed> {
    let t = traced(&["--one-in", "50"], &storm())?;
    nothing_lost(&t);
    let (f, requests) = (&t.total.followed, opcode(&t, "nop")?.requests);
    assert_eq!((f.one_in, f.adaptive, f.whole, f.sampled_from), (50, false, 0, Some(requests)));
    let [lo, hi] = f.requests_ci95.ok_or("an interval")?;
    assert!(lo <= requests as f64 && requests as f64 <= hi, "{requests} is not in {lo} to {hi}");
    Ok(())
}

/// Requests at the end of a window are not traced, and a busy load keeps submitting them.
fn windows() -> Result<(), Failed> {
    let file = file();
    let reads = |engine: &str, depth: u32| format!("--engine {engine} --file {} --depth {depth}", file.display());
    let nops = "--rw nop --depth 64 --batch 32".to_owned();
    for (one_in, load) in [
        ("1", nops.clone()),
        ("50", nops),
        ("1", reads("io_uring", 32)),
        ("1", reads("libaio", 32)),
        ("1", reads("posix_aio", 8)),
    ] {
        let load = format!("bench --trace off --warmup 0 --runtime 2s --json {load}");
        let command: Vec<&str> = std::iter::once(TOOL).chain(load.split_whitespace()).collect();
        let t = traced(&["--windows", "10ms/100ms", "--one-in", one_in], &command)?;
        let (f, w) = (&t.total.followed, t.total.windows.ok_or("it was watched by windows")?);
        let requests: u64 = t.total.opcodes.iter().map(|o| o.requests).sum();
        let later = f.came_later.ok_or("it is counted")?;
        let [lo, hi] = f.requests_ci95.ok_or("an interval")?;
        assert!(lo <= requests as f64 && requests as f64 <= hi, "{load}: {requests} is not in {lo} to {hi}: {f:?}");
        assert!(later > 0 && later < requests && w.opened >= 3, "{load}: {f:?} {w:?}");
        match one_in {
            "1" => assert_eq!(lo, hi, "{load}: nothing is estimated"),
            _ => assert_eq!(f.sampled_from, Some(requests - later), "{load}: those that came later are not sampled"),
        }
        let (choosing, finishing) = w.choosing_ns.zip(w.finishing_ns).ok_or("both are told")?;
        assert_eq!(choosing + finishing, t.total.elapsed_ns, "{load}: {w:?}");
        // The first window may have opened before the load started, and the last one when it ended.
        assert!(choosing >= (w.opened - 1) * w.open_ns && finishing > 0, "{load}: {w:?}");
    }
    Ok(())
}

fn after_a_burst() -> Result<(), Failed> {
    let ground = ground();
    let both = format!("{TOOL} {STORM} --cpus 0 && sleep 0.1 && {} clean --count 48 --cpu 0", ground.display());
    let t = traced(&[], &["sh", "-c", &both])?;
    nothing_lost(&t);
    let (reads, nops) = (opcode(&t, "read")?, opcode(&t, "nop")?);
    assert_eq!((reads.requests, reads.latency_ns.count), (48, 48));
    assert!(nops.latency_ns.count < nops.requests / 2, "{} of {}", nops.latency_ns.count, nops.requests);
    Ok(())
}

/// One request per call, a few hundred thousand calls per second.
fn windows_while_busy() -> Result<(), Failed> {
    let one_by_one = |rw: &str, engine: &str| {
        format!("{TOOL} bench --engine {engine} --rw {rw} --depth 1 --runtime 4s --warmup 0 --trace off --json")
    };
    let nops = one_by_one("nop", "io_uring");
    let nops: Vec<&str> = nops.split_whitespace().collect();
    let t = traced(&[], &nops)?;
    nothing_lost(&t);
    let sampled = t.total.sampled_events.as_ref().ok_or("it is busy")?;
    assert!(sampled.windows >= 5 && sampled.completions * 4 < t.total.ios, "{sampled:?}");
    // Setup before the load and teardown after it are not calls of an I/O.
    let per_io = t.total.per_io.syscalls.ok_or("estimated")?;
    assert!((0.999..1.01).contains(&per_io), "{per_io}");
    let [lo, hi] = t.total.per_io_intervals.get("syscalls").ok_or("enough windows")?;
    // The width depends on the machine's other activity.
    assert!(0.5 < *lo && lo <= &per_io && &per_io <= hi && *hi < 1.5, "{lo} to {hi}");

    let t = traced(&["--exact"], &nops)?;
    assert_eq!(t.total.sampled_events, None);
    let calls = t.total.mode_switches.iter().find(|s| s.cause == "syscall").ok_or("counted")?.count;
    assert!((t.total.ios..t.total.ios + 10_000).contains(&calls), "{calls} calls of {} no-ops", t.total.ios);

    // Native AIO's system calls show all its requests.
    let file = tempfile::NamedTempFile::new()?;
    file.as_file().set_len(16 << 20)?;
    let reads = format!("{} --file {}", one_by_one("randread", "libaio"), file.path().display());
    let t = traced(&[], &reads.split_whitespace().collect::<Vec<_>>())?;
    assert_eq!(t.total.sampled_events, None);
    let (of, all) = (&t.contexts[0], &t.total);
    assert_eq!((of.completions, of.reaped, of.requests), (all.ios, all.ios, all.ios));
    Ok(())
}

fn goes_on_by_windows() -> Result<(), Failed> {
    let (t, said) = beside_its_own(&["--light-after", "500ms"], "--rw nop --depth 16 --batch 8 --runtime 9s")?;
    let w = t.total.windows.ok_or_else(|| format!("no-ops feel the probes: {:?}", t.total))?;
    let (whole, cost) = w.whole_ns.zip(w.cost).ok_or("why, and since when")?;
    assert!(whole >= 500_000_000 && cost > 0.015 && w.opened >= 3, "{w:?}");
    let open = w.choosing_ns.zip(w.finishing_ns).map(|(a, b)| a + b).ok_or("they are measured")?;
    assert!(open < w.span_ns / 2 && t.total.elapsed_ns.abs_diff(w.span_ns) < 100_000_000, "{open} ns: {w:?}");
    // The rings' counters were read at most a second before the load's end. The windows contain much less.
    let (posted, all) = (w.posted.ok_or("they are read")?, measured(&said, "ios")?);
    assert!(posted <= all, "{posted} of {all}: {w:?}");
    // Extrapolated by time, because the ring is closed at the end.
    let ratio = t.total.ios as f64 / all as f64;
    assert!((0.2..5.0).contains(&ratio), "{} of {all}: {w:?}", t.total.ios);
    assert!(posted as f64 > 0.6 * all as f64 && w.posted_is_all == Some(false), "{posted} of {all}: {w:?}");
    // At least as much as the rings' counters. Each count, in total and of the ring, is marked as an estimate.
    assert!(t.total.ios >= posted - posted / 1000, "{} of {posted}: {w:?}", t.total.ios);
    let marked = |of: &CountIntervals, path: &str| of.contains_key(&format!("vehicles.{path}"));
    for v in &t.total.vehicles {
        let name = v.vehicle.name();
        assert!(marked(&t.total.count_intervals, name) && marked(&t.rings[0].count_intervals, name), "{name}: {t:?}");
    }
    assert!(t.rings[0].opcodes.iter().all(|o| o.seen.is_some_and(|seen| seen < o.completions)), "{:?}", t.rings);

    let (t, said) = beside_its_own(&["--light-after", "500ms"], "--rw nop --depth 1 --rate 200 --runtime 3s")?;
    assert_eq!((t.total.windows, t.total.ios), (None, measured(&said, "ios")?), "nobody feels 200 a second");

    // A load that continues after the trace, so its counters are read at the end.
    let mut load = Command::new(TOOL)
        .args(["bench", "--rw", "nop", "--depth", "16", "--batch", "8", "--runtime", "60s", "--trace", "off", "--json"])
        .stdout(std::process::Stdio::null())
        .spawn()?;
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (pid, before) = (load.id().to_string(), posted_by(load.id())?);
    let out = Command::new(TOOL).args(["trace", "--json", "--light-after", "300ms", "-d", "4", "-p", &pid]).output();
    let after = posted_by(load.id());
    load.kill()?;
    load.wait()?;
    let (out, after) = (out?, after?);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let t: TraceRecord = serde_json::from_slice(&out.stdout)?;
    let w = t.total.windows.ok_or_else(|| format!("no-ops feel the probes: {:?}", t.total))?;
    let posted = w.posted.ok_or("they are read")?;
    assert!(posted <= after - before && w.posted_is_all == Some(true), "{before} {after} {w:?}");
    // Rounded per ring, opcode and delivery path.
    assert!(t.total.ios.abs_diff(posted) * 1000 < posted, "{} of {posted}: {w:?}", t.total.ios);
    // Batches of 8: extrapolated by the windows' time, and by their completions.
    let calls = t.total.per_io.syscalls.zip(t.total.per_io_intervals.get("syscalls").copied());
    if let Some((calls, [lo, hi])) = calls {
        assert!((lo..=hi).contains(&calls) && lo <= 0.126 && hi >= 0.125, "{calls} [{lo}, {hi}]");
    }
    let used = w.user_ns.zip(w.system_ns).map(|(user, system)| user + system).ok_or("/proc tells")?;
    assert!(used > w.whole_ns.unwrap_or(0) / 10 && used < 2 * w.span_ns, "{used}: {w:?}");
    Ok(())
}

/// Completions posted to a process's only ring since its creation, according to fdinfo; empty while the ring is locked.
fn posted_by(pid: u32) -> Result<u64, Failed> {
    for _ in 0..100_000 {
        for fd in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
            let fd = fd?.file_name();
            let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", fd.to_string_lossy()))?;
            if let Some(tail) = text.lines().find_map(|line| line.strip_prefix("CachedCqTail:\t")) {
                return Ok(tail.parse()?);
            }
        }
    }
    Err("its ring is locked".into())
}
