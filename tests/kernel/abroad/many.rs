//! Many rings, processes and threads, one after another and at once.

use std::process::{Command, Stdio};

use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::top_record::{Rates, TopRecord};
use iotrail_schema::trace_record::{RingRecord, TraceRecord};
use libtest_mimic::Failed;

use super::Test;
use crate::ground::{ground, is_emulated};

pub const TESTS: &[(&str, Test)] = &[
    ("rings_created_and_closed_in_turn_are_all_counted", rings_in_turn),
    ("rings_open_at_once_are_counted_separately", rings_at_once),
    ("top_keeps_complete_sums_while_rings_are_created_and_closed", top),
    ("a_fork_storm_is_traced_without_processes_that_reuse_its_pids", forks),
    ("exited_threads_do_not_affect_the_delivery_paths", threads),
    ("threads_that_take_turns_on_one_ring_are_all_traced", turns),
    ("a_ring_shared_by_processes_is_counted_per_process", one_ring_of_processes),
    ("cpu_time_of_unreaped_children_is_counted", unwaited_children),
    ("requests_cancelled_by_a_kill_do_not_count_as_completions", killed_in_flight),
    ("requests_cancelled_by_the_close_of_their_ring_do_not_count_as_completions", closed_in_flight),
    ("tracing_uses_no_more_memory_than_documented", memory),
];

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// Number of rings that a record lists individually.
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

/// Requests and completions of all rings, of listed rings, and of rings without a record.
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

/// Intervals are printed while rings come and go, and while there are more rings than a trace distinguishes.
fn top() -> Result<(), Failed> {
    sums_of_top("rings_in_turn", 20_000, 40_000, "0.1")?;
    sums_of_top("children_with_rings", 160, 80_000, "0.1")?;
    sums_of_top("children_with_rings", 160, 80_000, "0.3")?;
    // More than 16,384; a larger number might exceed the descriptor limit, and is too much for a small guest.
    if is_emulated() {
        return Ok(());
    }
    sums_of_top("rings_at_once", 18_000, 18_000 * 3 + 2997, "0.1")
}

/// The intervals add up to these numbers: in total, by process, by ring, and by delivery path.
fn sums_of_top(scenario: &str, count: u64, all: u64, interval: &str) -> Result<(), Failed> {
    let mut load = Command::new(ground())
        .args([scenario, "--count", &count.to_string(), "--start-on-stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut watch = Command::new(TOOL)
        .args(["top", "--json", "--interval", interval, "-p", &load.id().to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    // Tracing has started once its first interval is printed.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watch.stdout.take().expect("piped")));
    let mut told: Vec<TopRecord> = vec![serde_json::from_str(&lines.next().expect("an interval")?)?];
    std::io::Write::write_all(&mut load.stdin.take().expect("piped"), b"\n")?;
    for line in lines {
        told.push(serde_json::from_str(&line?)?);
    }
    assert!(load.wait()?.success() && watch.wait()?.success(), "{scenario}");
    assert!(told.len() > 2, "{scenario}: too few intervals to see rings come and go");
    let by_process = |r: &TopRecord| r.processes.iter().map(|p| p.rates.clone()).collect();
    let by_ring = |r: &TopRecord| {
        let rings = r.rings.iter().map(|r| r.rates.clone());
        rings.chain(r.other_rings.iter().map(|others| others.rates.clone())).collect()
    };
    type Rule = fn(&TopRecord) -> Vec<Rates>;
    let parts: [(&str, Rule); 3] =
        [("all", |r| vec![r.total.rates.clone()]), ("by process", by_process), ("by ring", by_ring)];
    for (what, of) in parts {
        let sum = |rate: fn(&Rates) -> f64| {
            let seconds = |r: &TopRecord| r.elapsed_ns as f64 / 1e9;
            told.iter().flat_map(|r| of(r).into_iter().map(move |n| rate(&n) * seconds(r))).sum::<f64>().round() as u64
        };
        let carried = told.iter().flat_map(of).flat_map(|rates| rates.vehicles).map(|v| v.completions).sum();
        let sums = [sum(|r| r.requests_per_s), sum(|r| r.completions_per_s), carried];
        assert_eq!(sums, [all; 3], "{scenario}, {what}: requests, completions, and what carried them");
    }
    assert!(told.iter().all(|r| r.rings.len() as u64 <= TOLD));
    assert_eq!(told.iter().map(|r| r.total.lost).sum::<u64>(), 0);
    Ok(())
}

fn forks() -> Result<(), Failed> {
    // An untraced process, whose children reuse the IDs of traced ones.
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
    let slept = |v: &&DeliveryPathCount| v.detail.as_deref().is_some_and(|d| d.contains("slept"));
    let slept: u64 = t.total.vehicles.iter().filter(slept).map(|v| v.completions).sum();
    // If the timer expires before the program waits, the program does not sleep.
    assert!((270..=300).contains(&slept), "{slept} of 300 slept: {:?}", t.total.vehicles);
    let inline: u64 = t.total.vehicles.iter().filter(|v| v.vehicle.name() == "inline").map(|v| v.completions).sum();
    assert_eq!(inline, 4000, "{:?}", t.total.vehicles);
    Ok(())
}

/// The kernel reuses the same request structure; each thread's request has completed by the thread's next turn.
fn turns() -> Result<(), Failed> {
    let t = trace("threads_take_turns", 2400)?;
    let f = &t.total.followed;
    assert_eq!((t.total.ios, f.completions, f.no_room), (2400, 2400, 0), "{f:?}");
    Ok(())
}

const MIB: u64 = 1 << 20;

/// With 500 rings, and with more traced requests per operation than the small maps have entries.
fn memory() -> Result<(), Failed> {
    let (kernel, user, maps) = most_memory(&[], &["rings_at_once", "--count", "500", "--pause-ms", "1500"])?;
    assert!(maps > 20, "{maps} maps were found");
    assert!(kernel < 37 * MIB && user < 64 * MIB, "{kernel} bytes of maps and programs, {user} of its own");
    assert!(
        kernel > 4 * MIB && user > MIB,
        "{kernel} bytes of maps and programs, {user} of its own: too little to be all"
    );
    let (_, user, _) = most_memory(&["--one-in", "1"], &["operations_of_rings", "--count", "500"])?;
    assert!(user < 64 * MIB, "{user} bytes of its own, all followed");
    Ok(())
}

/// Maximum memory in bytes while tracing a scenario: of maps and programs according to the kernel's fdinfo, and of
/// iotrail itself; then the number of maps.
fn most_memory(options: &[&str], scenario: &[&str]) -> Result<(u64, u64, usize), Failed> {
    let mut watch = Command::new(TOOL)
        .args(["trace", "--json"])
        .args(options)
        .arg("--")
        .arg(ground())
        .args(scenario)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let (mut kernel, mut user, mut maps) = (0, 0, 0);
    while watch.try_wait()?.is_none() {
        let of = |file: &str, key: &str| -> Option<u64> {
            let text = std::fs::read_to_string(format!("/proc/{}/{file}", watch.id())).ok()?;
            text.lines().find_map(|l| l.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
        };
        let fds = std::fs::read_dir(format!("/proc/{}/fdinfo", watch.id())).into_iter().flatten().flatten();
        let infos: Vec<String> = fds.map(|fd| format!("fdinfo/{}", fd.file_name().to_string_lossy())).collect();
        kernel = kernel.max(infos.iter().filter_map(|info| of(info, "memlock:")).sum());
        maps = maps.max(infos.iter().filter(|info| of(info, "map_type:").is_some()).count());
        user = user.max(1024 * of("status", "RssAnon:").unwrap_or_default());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(watch.wait()?.success());
    Ok((kernel, user, maps))
}

/// Three processes make a sixth, a third and half of 3,000 requests on one ring.
fn one_ring_of_processes() -> Result<(), Failed> {
    let t = trace("one_ring_of_processes", 3000)?;
    let uses: Vec<_> = t.rings.iter().map(|r| (r.use_of, r.requests, r.completions)).collect();
    assert_eq!(uses, [(None, 500, 500), (Some(0), 1000, 1000), (Some(0), 1500, 1500)]);
    assert!(t.rings.iter().all(|r| r.vehicles.iter().map(|v| v.completions).sum::<u64>() == r.completions));
    let tgids: std::collections::BTreeSet<u32> = t.rings.iter().map(|r| r.tgid).collect();
    assert_eq!(tgids.len(), 3, "each is another process: {tgids:?}");
    assert_eq!(sums(&t)[0], (3000, 3000));
    let followed = &t.total.followed;
    assert_eq!((followed.no_room, followed.no_completion, followed.unfinished), (0, 0, 0));
    Ok(())
}

fn unwaited_children() -> Result<(), Failed> {
    let t = trace("unwaited_children", 10)?;
    let used = t.total.cpu.user_ns.zip(t.total.cpu.system_ns).map(|(user, system)| user + system);
    // 10 times 50 ms, plus the time to create and end the processes.
    let used = used.ok_or("CPU time is told")?;
    assert!((500_000_000..700_000_000).contains(&used), "{used} ns");
    Ok(())
}

/// The program cannot reap them, so they have no latency either.
fn closed_in_flight() -> Result<(), Failed> {
    let t = trace("closed_in_flight", 50)?;
    let counts: Vec<_> = t.rings.iter().map(|r| (r.requests, r.completions, r.errors)).collect();
    assert_eq!(counts, [(60, 10, 0); 3], "{:?}", t.total.vehicles);
    let open: Vec<_> = t.total.open.iter().map(|o| (&*o.opcode, o.estimated, o.closed)).collect();
    assert_eq!(open, [("read", 50, 50); 3], "{:?}", t.total.open);
    assert_eq!((t.total.latency_ns.count, t.total.followed.unfinished), (30, 150));
    let requests = t.account.as_ref().and_then(|account| account.requests.as_ref()).expect("the no-ops");
    assert_eq!(requests.count, 30, "{requests:?}");
    let [f] = &t.findings[..] else { panic!("one finding: {:?}", t.findings) };
    let said = "150 requests had no completion when the program closed their rings: 50 read in a poll";
    assert!(f.code == "never_completed" && f.text.starts_with(said), "{f:?}");
    Ok(())
}

/// The requests are reported as unfinished, even with `-a`.
fn killed_in_flight() -> Result<(), Failed> {
    let has_50_open = |t: &TraceRecord| {
        let reads = |r: &RingRecord| r.opcodes.iter().any(|o| (&*o.opcode, o.requests) == ("read", 50));
        // Other programs may run at the same time.
        let ring = t.rings.iter().find(|r| r.comm == "ground" && reads(r)).expect("its ring");
        assert_eq!((ring.completions, ring.overflows, ring.errors), (10, 0, 0), "{:?}", ring.vehicles);
        let open = t.total.open.iter().find(|o| o.ring == Some(ring.ring)).expect("they are in flight");
        assert_eq!((open.estimated, &*open.user_data), (50, "0x0"), "{open:?}");
        assert_eq!((open.file.as_deref(), open.descriptor.is_some()), (Some("pipe"), true), "{open:?}");
    };
    let t = trace("killed_in_flight", 50)?;
    has_50_open(&t);
    let [f] = &t.findings[..] else { panic!("one finding: {:?}", t.findings) };
    assert!(f.code == "never_completed" && f.text.contains("50 read in a poll"), "{f:?}");
    let watch = Command::new(TOOL)
        .args(["trace", "-a", "--json", "--duration", "4"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Loading the probes takes about a second.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let done = Command::new(ground()).arg("killed_in_flight").output()?;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let out = watch.wait_with_output()?;
    has_50_open(&serde_json::from_slice(&out.stdout)?);
    Ok(())
}
