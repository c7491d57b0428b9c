//! Compares `trace` with ground truth: `tests/ground` causes every delivery path and every pathology, prints its
//! counts, and is traced like any program. Counts must be equal, and the scenario's finding must be present, but no
//! other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use iotrail_answer::diagnose;
use iotrail_host::kernel::version;
use iotrail_probe::support::Facts;
use iotrail_schema::account::{Reason, ThreadRow};
use iotrail_schema::trace_record::{OpcodeRecord, TraceRecord};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::bench::file;
use crate::trial;

/// Each scenario is a separate test.
pub fn trials() -> Vec<Trial> {
    let listed = Command::new(ground()).arg("list").output().expect("cargo test builds the ground program");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let names = listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    names
        .map(|name| {
            trial::test(format!("ground::{name}"), move || {
                // Delivery paths, and therefore findings, depend on other activity; counts do not.
                let attempt = || {
                    let before = preempted();
                    let (trace, truth) = watch(&name);
                    counts(&trace, &truth);
                    shares(&trace, &truth, preempted() - before > ALONE || is_emulated())
                };
                let holds = |wrong: &Vec<String>| if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) };
                trial::attempts(&[0, 0, 0], attempt, holds)?;
                Ok(())
            })
        })
        .collect()
}

/// Located next to the tests' binaries: target/PROFILE/deps/kernel-… → target/PROFILE/examples/ground.
pub fn ground() -> PathBuf {
    let this = std::env::current_exe().expect("the test has a path");
    let profile = this.parent().and_then(|deps| deps.parent()).expect("in target/PROFILE/deps");
    profile.join("examples/ground")
}

/// Maximum number of preemptions of a scenario and its trace on an otherwise idle machine.
const ALONE: i64 = 50;

/// An emulated CPU takes so long for each interrupt that the next one arrives before it returns.
pub fn is_emulated() -> bool {
    iotrail_host::virtualisation::detect().as_deref() == Some("qemu")
}

/// If the kernel runs programs on tracepoints preemptibly (Linux 7), a program preempted before its first instruction
/// completes causes the next one on that CPU to be skipped. On an emulated CPU, that instruction takes long.
pub fn may_lose() -> bool {
    is_emulated() && Facts::of_this_kernel().preemptible
}

/// Reduces scenarios that would take too long on an emulated CPU.
fn fewer(scenario: &str) -> &'static [&'static str] {
    if scenario == "kick_storm" && is_emulated() { &["--count", "2000"] } else { &[] }
}

/// Number of preemptions of child processes and their descendants.
fn preempted() -> i64 {
    // SAFETY: a plain C structure, valid when zero, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a live address for the result.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) }, 0);
    usage.ru_nivcsw
}

pub fn watch(scenario: &str) -> (TraceRecord, Value) {
    watch_with(scenario, fewer(scenario))
}

pub fn watch_with(scenario: &str, options: &[&str]) -> (TraceRecord, Value) {
    watch_one_in(scenario, 1, options)
}

pub fn watch_one_in(scenario: &str, one_in: u32, options: &[&str]) -> (TraceRecord, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrail"));
    command.args(["trace", "--json", "--one-in", &one_in.to_string(), "--"]).arg(ground()).arg(scenario).args(options);
    // Otherwise, each scenario would write a file of its own.
    if !options.contains(&"--file") {
        command.arg("--file").arg(file());
    }
    let out = command.output().expect("iotrail runs");
    // The traced program's standard output goes to standard error.
    let said = String::from_utf8_lossy(&out.stderr);
    let truth = said.lines().rev().find(|l| l.starts_with('{')).unwrap_or_else(|| panic!("{scenario}: {said}"));
    let trace = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{scenario}: {e}: {said}"));
    (trace, serde_json::from_str(truth).expect("ground prints JSON"))
}

fn number(of: &Value, key: &str) -> u64 {
    of.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// Asserts the counts that must be equal, independent of other activity.
pub fn counts(trace: &TraceRecord, truth: &Value) {
    let scenario = truth["scenario"].as_str().expect("a name");
    let total = &trace.total;
    let seen: u64 = total.vehicles.iter().map(|v| v.completions).sum();
    let lost = total.probe.lost.expect("losses are counted");
    if lost > 0 && may_lose() {
        // Each missed event is at most one completion; then no other count is exact.
        let expected = number(&truth["expected"], "completions");
        assert!(seen <= expected && expected - seen <= lost, "{scenario}: {seen} of {expected} with {lost} lost");
        eprintln!("ground::{scenario}: {lost} events lost, {seen} completions of {expected} seen");
        return;
    }
    assert_eq!(lost, 0, "{scenario}: lost");
    assert_eq!(seen, total.ios, "{scenario}: vehicles sum to the completions");
    let rings = truth["rings"].as_array().expect("rings");
    assert_eq!(trace.rings.len(), rings.len(), "{scenario}: rings");
    for r in &trace.rings {
        let carried: u64 = r.vehicles.iter().map(|v| v.completions).sum();
        assert_eq!(carried, r.completions, "{scenario}: delivery paths of a ring");
    }
    let expected = number(&truth["expected"], "completions");
    assert_eq!(seen, expected, "{scenario}: completions");
    let others = truth["others"].as_object().expect("interfaces");
    let interfaces: Vec<&str> = trace.contexts.iter().map(|c| c.interface.as_str()).collect();
    assert_eq!(interfaces, others.keys().collect::<Vec<_>>(), "{scenario}: contexts");
    let warned = |code: &str| total.warnings.iter().any(|w| w.code == code);
    let unreturned = scenario == "posix_aio_unreturned";
    let out_of_sight = scenario == "libaio_user_ring" || unreturned;
    assert_eq!(warned("results_unseen"), out_of_sight, "{scenario}: {:?}", total.warnings);
    assert_eq!(warned("nothing_asynchronous"), expected == 0 && !unreturned, "{scenario}: {:?}", total.warnings);
    let pread_calls = number(&truth["facts"], "pread_calls");
    assert!(total.pread_pwrite_calls >= Some(pread_calls), "{scenario}: {:?}", total.pread_pwrite_calls);
    if unreturned {
        let (c, f) = (&trace.contexts[0], &total.followed);
        assert_eq!((c.requests, c.completions, f.unreaped, f.unfinished), (200, 0, 200, 0), "{scenario}: {f:?}");
        return;
    }
    if out_of_sight {
        let c = &trace.contexts[0];
        assert_eq!((c.requests, c.completions, c.reaped), (expected, expected, 0), "{scenario}");
        assert_eq!((c.bytes, c.errors), (None, None), "{scenario}: nobody saw a result");
        return;
    }

    // The SQPOLL thread's time is reported up to its exit, while the program read it earlier.
    if let Some(cpu_ms) = truth["facts"]["sqpoll_cpu_ms"].as_u64() {
        let s = trace.rings[0].sqpoll.as_ref().unwrap_or_else(|| panic!("{scenario}: no thread"));
        let (cpu_ns, elapsed_ns) = (s.cpu_ns.expect("its time"), s.elapsed_ns.expect("how long it was there"));
        assert!(cpu_ns >= cpu_ms * 1_000_000 && elapsed_ns >= cpu_ns, "{scenario}: {cpu_ms} ms seen, {s:?}");
        assert!(s.wakeups >= truth["facts"]["wakeups"].as_u64(), "{scenario}: {s:?}");
    }

    // Waits are counted separately and completely, and are excluded from every mean.
    if let Some(waits) = truth["facts"]["waits"].as_u64().filter(|_| truth["unsupported"].is_null()) {
        let w = total.waits.as_ref().unwrap_or_else(|| panic!("{scenario}: no waits"));
        let order = total.order.as_ref().expect("all were followed");
        assert_eq!((w.requests, w.estimated, order.waits), (waits, waits, waits), "{scenario}: {w:?}");
        assert_eq!(order.completions + waits, total.ios, "{scenario}: {order:?}");
        let (mean, p50) = (total.latency_ns.mean.expect("reads"), total.latency_ns.p50.expect("many reads"));
        assert!(w.mean_ns > 100.0 * mean && mean < w.mean_ns / 100.0, "{scenario}: mean {mean}, p50 {p50}, {w:?}");
    }
    if let Some(shared) = truth["facts"]["overlapping"].as_u64() {
        let overlapping = total.memory.as_ref().map_or(0, |memory| memory.overlapping);
        assert_eq!(overlapping, if truth["finding"].is_null() { 0 } else { shared }, "{scenario}: {:?}", total.memory);
    }
    if let (Some(outlived), Some(memory)) = (truth["facts"]["outlived"].as_u64(), &total.memory) {
        assert_eq!(memory.outlived, outlived, "{scenario}: {memory:?}");
    }
    // Requests that are punted to io-wq several times count once.
    if let Some(punted) = truth["facts"]["requests_punted"].as_u64() {
        let read = total.opcodes.iter().find(|o| o.opcode == "read").expect("reads");
        assert_eq!(read.punted_requests.map(|e| e.total), Some(punted as f64), "{scenario}: {read:?}");
        assert!(read.punted_asked >= punted, "{scenario}: {read:?}");
        let said =
            trace.findings.iter().find(|f| f.code == "punted").map(|f| (f.evidence["punted"], f.evidence["share"]));
        assert_eq!(said, Some((punted as f64, 1.0)), "{scenario}: {:?}", trace.findings);
    }

    let fact = |name: &str| truth["facts"][name].as_u64();
    let of_opcodes = |of: fn(&OpcodeRecord) -> u64| total.opcodes.iter().map(of).sum::<u64>();
    for (name, n) in [("denied", of_opcodes(|o| o.denied)), ("reporting", of_opcodes(|o| o.reporting))] {
        assert_eq!(n, fact(name).unwrap_or(0), "{scenario}: {name}");
    }
    if let Some(calls) = fact("enter_calls") {
        assert_eq!(total.enter_calls.map(|e| e.total), Some(calls as f64), "{scenario}: calls");
    }
    if let Some(taken) = fact("buffers_taken") {
        let b = &trace.rings[0].buffers.as_ref().expect("they are counted")[0];
        assert_eq!((b.taken, b.enobufs, b.rearmed), (taken, 0, 0), "{scenario}: {b:?}");
        if version().is_none_or(|v| v >= (6, 10, 0)) {
            let (out_of_order, repeated) =
                (fact("buffers_out_of_order").unwrap_or(0), fact("buffers_repeated").unwrap_or(0));
            let order = fact("buffers_provided").map_or((Some(out_of_order), Some(repeated)), |_| (None, None));
            assert_eq!((b.out_of_order, b.repeated_offsets), order, "{scenario}: {b:?}");
        }
        if let Some(sufficient) = fact("buffers_sufficient").filter(|_| b.available_max.is_some()) {
            let most = fact("buffers_entries").or(fact("buffers_provided")).unwrap() as u32;
            let mean = fact("buffers_available").unwrap() as f64 / taken as f64;
            assert_eq!(
                (b.entries, b.available_max, b.available_mean),
                (fact("buffers_entries").map(|n| n as u32), Some(most), Some(mean)),
                "{b:?}"
            );
            assert_eq!(b.available_min, Some(most - sufficient as u32), "{b:?}");
            assert_eq!(b.sufficient.map(u64::from), Some(sufficient), "{b:?}");
            assert_eq!(b.not_returned.map(u64::from), fact("buffers_not_returned"), "{b:?}");
        }
    }
    if let Some(min_waits) = fact("min_waits") {
        let w = trace.rings[0].enter_waits.expect("they are counted");
        let wanted = (Some(w.registered), Some(w.no_iowait));
        assert_eq!(
            (Some(w.min_wait), wanted),
            (Some(min_waits), (fact("registered_waits"), fact("no_iowait"))),
            "{w:?}"
        );
    }
    if let (Some(wall), Some(cpu)) = (fact("busy_poll_ns"), fact("busy_poll_cpu_ns")) {
        let rows = trace.account.iter().flat_map(|a| &a.threads).flat_map(|t| &t.rows);
        let polled: u64 = rows.filter(|r| r.reason == Some(Reason::BusyPoll)).map(|r| r.ns).sum();
        // Excludes the first poll of each wait, and the rest of its call.
        assert!(polled <= cpu && polled >= cpu * 3 / 4, "{scenario}: {polled} of {cpu} ns, limit {wall}");
        let registered = trace.rings[0].register_calls.iter().flatten().map(|of| (of.operation.as_str(), of.calls));
        assert_eq!(registered.collect::<Vec<_>>(), [("napi", 1)], "{scenario}");
        // /proc is only read at intervals.
        assert!(trace.rings[0].napi.is_none_or(|n| n.busy_poll_ns == 2_000_000), "{scenario}");
    }
    if let Some(most) = fact("loop_waits_most") {
        let w = trace.rings[0].enter_waits.expect("they are counted");
        let slept = total.vehicles.iter().filter(|v| v.detail.as_deref().is_some_and(|d| d.starts_with("slept")));
        let slept: u64 = slept.map(|v| v.completions).sum();
        assert_eq!((w.waits, w.bpf_loop), (slept, slept), "{scenario}: each wait with a sleep ends with a timeout");
        assert!((most / 2..=most).contains(&slept), "{scenario}: {w:?}");
        let rows = trace.account.iter().flat_map(|a| &a.threads).flat_map(|t| &t.rows);
        let waited = |r: &&ThreadRow| {
            r.reason == Some(Reason::UringCompletions) && r.syscall.as_deref() == Some("io_uring_enter")
        };
        assert!(rows.filter(waited).map(|r| r.ns).sum::<u64>() > 0, "{scenario}: the waits have a row");
    }
    if let (Some(least), Some(most)) = (fact("iowait_least_ns"), fact("iowait_most_ns")) {
        let w = trace.rings[0].enter_waits.expect("they are counted");
        let all = trace.account.as_ref().and_then(|account| account.iowait).expect("it waited");
        assert_eq!(Some(w.no_iowait), fact("waits_outside"), "{scenario}: {w:?}");
        // The program's clock includes the calls; a sleep begins a few microseconds after its timer.
        let of_ring = w.iowait_ns.expect("one thread waits on one ring");
        assert!((least - least / 50..=most).contains(&of_ring), "{scenario}: {least} to {most}, {w:?}");
        assert_eq!(all.enter_ns, of_ring, "{scenario}: {all:?}");
        assert_eq!(all.no_iowait_available, Some(w.no_iowait > 0), "{scenario}: {all:?}");
    }

    let mut wanted: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for of_one in rings.iter().map(|ring| &ring["opcodes"]).chain(others.values()) {
        for (opcode, of_opcode) in of_one.as_object().expect("opcodes") {
            let sums = wanted.entry(opcode).or_default();
            for (key, n) in of_opcode.as_object().expect("counts").iter().filter(|(_, n)| n.is_u64()) {
                *sums.entry(key).or_default() += n.as_u64().unwrap();
            }
        }
    }
    if let ([seen], [made]) = (&trace.rings[..], &rings[..]) {
        let sizes = (number(made, "sq_entries"), number(made, "cq_entries"));
        assert_eq!((seen.sq_entries.into(), seen.cq_entries.into()), sizes, "{scenario}: sizes of the queues");
    }
    let overflows: u64 = rings.iter().map(|r| number(r, "overflows")).sum();
    assert_eq!(trace.rings.iter().map(|r| r.overflows).sum::<u64>(), overflows, "{scenario}: overflows");
    for o in &total.opcodes {
        let want = wanted.remove(o.opcode.as_str()).unwrap_or_default();
        let got = [
            ("requests", o.requests),
            ("completions", o.completions),
            ("skips", o.skips),
            ("unposted", o.unposted),
            ("bytes", o.bytes),
            ("errors", o.errors),
            ("more", o.more),
            ("notif", o.notifications),
            ("copied", o.copied),
        ];
        for (key, n) in got.into_iter().chain(o.short.map(|n| ("short", n))) {
            assert_eq!(n, want.get(key).copied().unwrap_or(0), "{scenario}: {} {key}", o.opcode);
        }
    }
    assert_eq!(wanted.into_keys().collect::<Vec<_>>(), Vec::<&str>::new(), "{scenario}: opcodes not seen");

    let f = &total.followed;
    assert_eq!((f.no_room, f.ring_buffer_full), (0, 0), "{scenario}: followed requests lost");
    let of_rings = |key| {
        rings.iter().flat_map(|r| r["opcodes"].as_object().expect("opcodes").values()).map(move |o| number(o, key))
    };
    assert_eq!(f.skipped, of_rings("skipped").sum::<u64>(), "{scenario}: no completion, as asked");
    assert_eq!(
        (f.no_completion, f.unfinished, f.unreaped),
        (overflows, 0, 0),
        "{scenario}: no completion that was seen"
    );
    let refused: u64 = rings.iter().map(|r| number(r, "refused")).sum();
    let whole: u64 = total.opcodes.iter().map(|o| o.completions - o.messages - o.more.min(o.completions)).sum();
    if total.opcodes.iter().all(|o| o.more == 0) {
        assert_eq!(
            f.completions + f.shared_user_data + refused + overflows,
            whole,
            "{scenario}: every request was followed to its end"
        );
    }
}

/// Errors in the delivery paths and findings. `beside_others`: other programs used the CPUs.
fn shares(trace: &TraceRecord, truth: &Value, beside_others: bool) -> Vec<String> {
    let scenario = truth["scenario"].as_str().expect("a name");
    // An unsupported scenario is not evaluated. The kernel does not report how many completions of a chain were inline;
    // its count is that of the run's last round.
    if !truth["unsupported"].is_null() {
        return vec![];
    }
    let mut wrong = vec![];
    let mut carried: BTreeMap<String, u64> = BTreeMap::new();
    for v in &trace.total.vehicles {
        let detail = v.detail.as_deref().unwrap_or_default();
        let detail = if detail.starts_with("slept") { "slept" } else { detail };
        *carried.entry(v.vehicle.to_string()).or_default() += v.completions;
        *carried.entry(format!("{}:{detail}", v.vehicle)).or_default() += v.completions;
    }
    // If none is expected inline, completions of requests that the disk finished before their submission returned are
    // not evaluated, because their number depends on the disk. They are posted during the submission or at its exit.
    let expected = truth["expected"]["vehicles"].as_object().expect("vehicles");
    let reads = trace.total.opcodes.iter().any(|o| o.opcode == "read");
    let disk = (reads || scenario.starts_with("libaio")) && !expected.keys().any(|k| k.starts_with("inline"));
    let by = |vehicle: &str| carried.get(vehicle).copied().unwrap_or(0);
    let early = if disk { by("inline") + by("syscall_exit:io_uring_enter") } else { 0 };
    // A completion that is ready while the thread has no CPU waits for the tick that schedules it, or for the return to
    // it.
    let waited =
        if beside_others && !expected.keys().any(|k| k.starts_with("timer_tick")) { by("timer_tick") } else { 0 };
    let early = early + waited;
    let late = 1.0 - early as f64 / trace.total.ios.max(1) as f64;
    // How a burst of wake-ups from another CPU is delivered depends on the timing of both CPUs.
    let by_chance = ["linked", "kick_bursts"].contains(&scenario);
    let mut named = 0;
    for (vehicle, range) in expected {
        let n = carried.get(vehicle).copied().unwrap_or(0);
        if !vehicle.contains(':') {
            named += n;
        }
        let least = number(range, "min").saturating_sub(early);
        // Under arm64 emulation, a timer may expire before the thread reaches its wait.
        let least =
            if cfg!(target_arch = "aarch64") && is_emulated() && vehicle == "enter:slept" { least / 2 } else { least };
        if !by_chance && !(least..=number(range, "max")).contains(&n) {
            wrong.push(format!("{vehicle} {n}, not {range}"));
        }
    }
    if let Some(most) = truth["expected"]["other"]["max"].as_u64()
        && !by_chance
        && trace.total.ios.saturating_sub(named + early) > most
    {
        wrong.push(format!("{} by other vehicles, more than {most}", trace.total.ios - named));
    }
    let finding = truth["finding"].as_str();
    // The number of items per run of the SQPOLL thread depends on its speed relative to the requests'.
    let mut may_miss = scenario == "capped_batches_sqpoll" || late < 0.5 || beside_others;
    // A kernel that runs task work in reverse shuffles the earlier order; and before 6.13, runs are not capped.
    may_miss |= finding == Some("reordered") && !crate::order::is_kept_here();
    may_miss |= finding == Some("capped_batch") && version().is_some_and(|v| v < (6, 13, 0));
    // On these kernels, requests never outlive their buffers, because the kernel waits for them.
    may_miss |= finding == Some("unregistered_in_flight") && version().is_some_and(|v| v < (6, 13, 0));
    let mut allowed: Vec<&str> = truth["allowed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // Before it begins, a scenario lays out its file, or reads it into the page cache.
    allowed.push("synchronous_calls");
    if is_emulated() {
        // The emulator's threads complete the emulated drive's requests, in the order in which the host schedules them.
        // Drive and CPUs are slow: more requests wait for the drive, and threads that poll for a limited time fall
        // asleep in between.
        allowed.extend(["reordered", "iowq_fanout", "punted", "sqpoll_napping"]);
        // Findings that compare times are not reported on an emulated machine.
        may_miss |= finding.is_some_and(|code| diagnose::unjudged(trace, code).is_some());
    }
    if scenario.starts_with("iopoll_") {
        // Task work returns a request that a worker could not execute, with a kick if the thread is running.
        allowed.push("kick_storm");
    }
    if !crate::order::is_kept_here() {
        // Applies to all requests that become ready together.
        allowed.extend(["delivered_out_of_order", "reordered"]);
    }
    if scenario == "batches_of_8_sqpoll" && version().is_some_and(|v| v < (6, 16, 0)) {
        // Such runs are indistinguishable from that kernel's limit.
        allowed.push("capped_batch");
    }
    if beside_others {
        // A completion that is ready while the thread has no CPU waits for the CPU.
        allowed.extend(["stranded", "waiting_for_cpu"]);
    }
    // No single CPU is right for several threads.
    let several = truth["facts"]["threads"].as_u64().is_some_and(|n| n > 1);
    let to_one = |f: &&iotrail_schema::finding::Finding| {
        f.remedy.contains("taskset -c") || f.remedy.contains("run the thread on")
    };
    wrong.extend(trace.findings.iter().filter(|f| several && to_one(f)).map(|f| format!("{}: {}", f.code, f.remedy)));
    let codes: Vec<&str> = trace.findings.iter().map(|f| f.code.as_str()).collect();
    if codes.iter().any(|code| ["punted", "iowq_fanout"].contains(code)) {
        // How long requests wait for a worker depends on the CPUs' other activity.
        allowed.push("iowq_queue");
    }
    if let Some(code) = finding.filter(|code| !may_miss && !codes.contains(code)) {
        wrong.push(format!("no finding {code} among {codes:?}"));
    }
    for code in codes.iter().filter(|code| Some(**code) != finding && !allowed.contains(code)) {
        wrong.push(format!("finding {code} is of another scenario"));
    }
    wrong
}
