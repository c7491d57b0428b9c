//! The accounting of threads and their system calls, for programs with known activity. Asserts shares and sums within a
//! run, but no times.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use iotrail_schema::account::{
    CallRecord, End, Reason, RequestReason, RequestStage, Role, Start, ThreadAccount, ThreadRow, ThreadState,
};
use iotrail_schema::trace_record::TraceRecord;
use libtest_mimic::{Failed, Trial};

use crate::cases::build;
use crate::ground::{ground, watch_with};
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 13] = [
        ("a_sleeping_thread_is_blocked_in_its_sleep_call", sleeps),
        ("a_thread_that_never_switches_is_accounted", never_switches),
        ("both_ends_of_a_pipe_are_blocked_by_each_other", pipe),
        ("fsync_is_blocked_by_writeback", fsync),
        ("time_rows_of_threads_with_rings_add_up_to_their_wall_time", rings),
        ("windows_break_down_the_full_wall_time", windows),
        ("calls_are_counted_with_their_errors", calls),
        ("a_command_is_counted_from_its_exec", from_exec),
        ("a_cpu_wait_is_reported_with_the_thread_that_used_the_cpu", holders),
        ("a_thread_that_ran_last_did_not_use_the_whole_wait", last_runner),
        ("a_time_limit_hidden_by_a_submission_is_counted", time_limits),
        ("a_descriptor_that_ends_waits_is_reported_with_its_file", woken_by),
        ("request_latency_is_broken_down_by_cause", requests),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("account::{name}"), test)).collect()
}

fn trace(args: &[&str]) -> Result<TraceRecord, Failed> {
    let out = Command::new(env!("CARGO_BIN_EXE_iotrail")).args(["trace", "--json"]).args(args).output()?;
    assert!(out.status.success(), "trace {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

fn shell(script: &str) -> Result<TraceRecord, Failed> {
    trace(&["--", "sh", "-c", script])
}

fn threads(t: &TraceRecord) -> Result<&[ThreadAccount], Failed> {
    Ok(&t.account.as_ref().ok_or("an account")?.threads)
}

fn named<'t>(t: &'t TraceRecord, comm: &str) -> Result<&'t ThreadAccount, Failed> {
    let found = threads(t)?.iter().find(|thread| thread.comm == comm);
    found.ok_or_else(|| format!("no thread {comm}: {:?}", t.account).into())
}

fn sum(thread: &ThreadAccount, of: impl Fn(&ThreadRow) -> bool) -> u64 {
    thread.rows.iter().filter(|row| of(row)).map(|row| row.ns).sum()
}

/// The rows add up to the wall time, almost nothing is unknown, and the running time equals the scheduler's within the
/// cost of the switches.
fn closes(thread: &ThreadAccount) {
    assert_eq!(sum(thread, |_| true), thread.wall_ns, "{thread:?}");
    let unknown = sum(thread, |row| row.state == ThreadState::Unknown);
    assert!(unknown <= thread.wall_ns / 100 + 5_000_000, "{thread:?}");
    let running = sum(thread, |row| row.state == ThreadState::Running);
    let cpu = thread.cpu_ns.expect("it is read");
    let switches: u64 = thread.rows.iter().filter_map(|row| row.count).sum();
    // The tracepoint fires some time after the scheduler reads its clock; BPF programs of other tracers may run in
    // between.
    let apart = thread.wall_ns / 50 + 10_000_000 + switches * 20_000;
    assert!(running.abs_diff(cpu) <= apart, "running {running}, {cpu} by the scheduler: {thread:?}");
}

fn sleeps() -> Result<(), Failed> {
    let t = shell("sleep 0.5")?;
    threads(&t)?.iter().for_each(closes);
    // The shell executes its last command without forking.
    let sleep = named(&t, "sleep")?;
    let asleep = sum(sleep, |row| row.reason == Some(Reason::Sleep));
    assert!((490_000_000..=sleep.wall_ns).contains(&asleep), "{sleep:?}");
    let call = sleep.rows.iter().find(|row| row.reason == Some(Reason::Sleep)).and_then(|row| row.syscall.as_deref());
    assert_eq!((call, sleep.role), (Some("clock_nanosleep"), Role::Thread));
    Ok(())
}

/// A process that always sleeps, and one that computes.
fn never_switches() -> Result<(), Failed> {
    let mut sleeper = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn()?;
    let traced = trace(&["-p", &sleeper.id().to_string(), "--duration", "300ms"]);
    sleeper.kill()?;
    sleeper.wait()?;
    let traced = traced?;
    let [thread] = threads(&traced)? else { return Err(format!("{:?}", traced.account).into()) };
    closes(thread);
    assert_eq!(sum(thread, |row| row.reason == Some(Reason::Sleep)), thread.wall_ns, "{thread:?}");
    Ok(())
}

fn pipe() -> Result<(), Failed> {
    let t = shell("yes | head -c 300000000 > /dev/null")?;
    threads(&t)?.iter().for_each(closes);
    for (comm, syscall, reason) in [("yes", "write", Reason::PipeFull), ("head", "read", Reason::PipeEmpty)] {
        let thread = named(&t, comm)?;
        let blocked = |row: &ThreadRow| row.state == ThreadState::Blocked && row.syscall.as_deref() == Some(syscall);
        let all = sum(thread, blocked);
        let known = sum(thread, |row| blocked(row) && row.reason.as_ref() == Some(&reason));
        assert!(known >= all / 10 * 9, "{thread:?}");
    }
    Ok(())
}

fn fsync() -> Result<(), Failed> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let file = folder.path().join("synced");
    let of = format!("of={}", file.display());
    let t = trace(&["--", "dd", "if=/dev/zero", &of, "bs=64k", "count=64", "conv=fsync", "status=none"])?;
    threads(&t)?.iter().for_each(closes);
    assert_eq!(call(&t, "fsync")?.count, 1);
    assert!(call(&t, "write")?.count >= 64);
    let dd = named(&t, "dd")?;
    // An in-memory file system has no writeback.
    let blocked = |row: &ThreadRow| row.state == ThreadState::Blocked && row.syscall.as_deref() == Some("fsync");
    assert_eq!(call(&t, "fsync")?.blocked_ns, sum(dd, blocked));
    assert!(dd.rows.iter().filter(|row| blocked(row)).all(|row| row.reason.is_some() || row.ns < 100_000), "{dd:?}");
    Ok(())
}

/// The rows add up to the latency. Its mean without the queues equals the printed mean, little is unknown, and each
/// stage of the scenario is present.
fn requests() -> Result<(), Failed> {
    use RequestStage::{Device, InFlight, Inline, Iowq, IowqQueue, Ordered, Poll, Posted, Ready, Unsubmitted};
    let scenarios: [(&str, &[RequestStage]); 9] = [
        ("inline_nop", &[Inline]),
        ("clean", &[Inline, Device, Ready]),
        ("iowq", &[Iowq, IowqQueue]),
        ("linked_direct", &[Ordered, Device]),
        ("drained", &[Ordered]),
        ("timeouts", &[Poll]),
        ("libaio", &[Device, Posted]),
        ("posix_aio", &[InFlight]),
        ("left_lying_sqpoll", &[Posted]),
    ];
    for (scenario, stages) in scenarios {
        let (t, truth) = watch_with(scenario, &[]);
        if !truth["unsupported"].is_null() {
            continue;
        }
        let account = t.account.as_ref().and_then(|account| account.requests.as_ref());
        let account = account.ok_or_else(|| format!("{scenario}: no account"))?;
        let sum = |stage: RequestStage| -> u64 {
            account.rows.iter().filter(|row| row.stage == stage).map(|row| row.ns).sum()
        };
        assert_eq!(account.rows.iter().map(|row| row.ns).sum::<u64>(), account.latency_sum_ns, "{scenario}");
        for stage in stages {
            assert!(sum(*stage) > 0, "{scenario}: no {stage:?} in {account:?}");
        }
        // Task work of its own, which no event shows, runs a request that finds the drain finished.
        if scenario != "drained" {
            assert!(sum(RequestStage::Unknown) <= account.latency_sum_ns / 20, "{scenario}: {account:?}");
        }
        // For native and POSIX AIO requests, only the latency until reaping is known.
        let queues = if t.rings.is_empty() { 0 } else { sum(Posted) + sum(Unsubmitted) };
        let mean = (account.latency_sum_ns - queues) as f64 / account.count as f64;
        let printed = t.total.latency_ns.mean.ok_or("a mean")?;
        assert!((mean / printed - 1.0).abs() < 0.01, "{scenario}: {mean} of {printed}: {account:?}");
        if t.rings.is_empty() {
            assert_eq!((account.from, account.to), (Start::Intended, End::Reaped), "{scenario}");
        }
        if scenario == "drained" {
            assert!(account.rows.iter().any(|row| row.reason == Some(RequestReason::Drain)), "{account:?}");
        }
    }
    Ok(())
}

/// SQPOLL threads and io-wq workers are among the threads.
fn rings() -> Result<(), Failed> {
    for (scenario, role) in [("reaped_elsewhere_sqpoll", Role::Sqpoll), ("punted", Role::Iowq)] {
        let (t, truth) = watch_with(scenario, &[]);
        if !truth["unsupported"].is_null() {
            continue;
        }
        threads(&t)?.iter().for_each(closes);
        let of_role: Vec<&ThreadAccount> = threads(&t)?.iter().filter(|thread| thread.role == role).collect();
        assert!(!of_role.is_empty(), "{scenario}: {:?}", t.account);
        let calls = of_role.iter().flat_map(|thread| &thread.rows).filter_map(|row| row.syscall.as_ref()).count();
        assert_eq!(calls, 0, "{of_role:?}");
        let enters = call(&t, "io_uring_enter")?;
        assert!(enters.count > 0 && enters.ended.is_some(), "{enters:?}");
    }
    Ok(())
}

fn windows() -> Result<(), Failed> {
    let ground = ground();
    let program = ground.to_str().ok_or("a plain path")?;
    let t = trace(&["--windows", "50ms/200ms", "--", program, "reaped_elsewhere", "--count", "200000"])?;
    for thread in threads(&t)? {
        assert_eq!(sum(thread, |_| true), thread.wall_ns, "{thread:?}");
        // The counters are the kernel's, read at both ends.
        let cpu = thread.cpu_ns.map(|ns| ns.min(thread.wall_ns));
        assert_eq!(Some(sum(thread, |row| row.state == ThreadState::Running)), cpu, "{thread:?}");
        assert_eq!(sum(thread, |row| row.state == ThreadState::Unknown), 0, "{thread:?}");
    }
    Ok(())
}

fn call<'t>(t: &'t TraceRecord, name: &str) -> Result<&'t CallRecord, Failed> {
    let calls = t.calls.as_ref().ok_or("calls")?;
    calls.iter().find(|call| call.syscall == name).ok_or_else(|| format!("no {name}: {calls:?}").into())
}

/// A program without any ring.
fn calls() -> Result<(), Failed> {
    let t = shell("for i in 1 2 3 4 5; do true < /nonexistent-$i; done 2>/dev/null; exit 0")?;
    let open = call(&t, "openat")?;
    assert!(open.errors.get("ENOENT").is_some_and(|n| *n >= 5 && *n <= open.count), "{open:?}");
    assert!(open.count_ci95.is_none() && open.ended.is_none(), "{open:?}");
    // A new process returns from the call that made it, too.
    let forked = shell("for i in 1 2 3; do ( : ); done; exit 0")?;
    assert_eq!(call(&forked, "clone")?.count, 3);
    let slept = shell("sleep 0.01; sleep 0.01")?;
    let sleeps = call(&slept, "clock_nanosleep")?;
    let ended = sleeps.ended.ok_or("it waits")?;
    assert_eq!((sleeps.count, ended.time_limit, &sleeps.errors), (2, 2, &BTreeMap::new()));
    Ok(())
}

/// iotrail's child waits in read(2) before it executes the program.
fn from_exec() -> Result<(), Failed> {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let program = place.path().join("writes");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernel/writes.c");
    let built = Command::new("cc").args(["-O2", "-nostdlib", "-static", "-o"]).arg(&program).arg(source).status()?;
    assert!(built.success(), "cc {source}");
    let limits = place.path().join("budget.toml");
    std::fs::write(&limits, "[budget]\n\"calls.read\" = 0\n\"calls.write\" = { at_least = 5, at_most = 5 }\n")?;
    let (program, limits) = (program.to_str().ok_or("a plain path")?, limits.to_str().ok_or("a plain path")?);
    let t = trace(&["--expect", limits, "--", program])?;
    let by_call = t.total.mode_switches.iter().find(|s| s.cause == "syscall").ok_or("counted")?;
    assert_eq!((by_call.count, call(&t, "write")?.count), (1 + 5, 5), "execve and the writes: {:?}", t.calls);
    let [thread] = threads(&t)? else { return Err(format!("{:?}", t.account).into()) };
    closes(thread);
    assert!(thread.rows.iter().all(|row| row.syscall.is_none()), "{thread:?}");
    // Only the first exec begins the trace.
    let opened = |script: &str| Ok::<_, Failed>(call(&shell(script)?, "openat")?.count);
    let (once, twice) = (opened(&format!("exec {program}"))?, opened(&format!("exec sh -c 'exec {program}'"))?);
    assert_eq!(twice, 2 * once);
    Ok(())
}

/// Two loops alternate on a CPU.
fn holders() -> Result<(), Failed> {
    // SCHED_RR threads of equal priority alternate on the CPU, independent of other threads.
    let t = shell("for i in 1 2; do timeout 1 chrt -r 1 taskset -c 0 sh -c 'while :; do :; done' & done; wait; true")?;
    let loops: Vec<&ThreadAccount> =
        threads(&t)?.iter().filter(|thread| thread.comm == "sh" && thread.cpus == Some(1)).collect();
    let [a, b] = loops.as_slice() else { return Err(format!("two loops: {:?}", t.account).into()) };
    for (thread, other) in [(a, b), (b, a)] {
        assert!(sum(thread, |row| row.state == ThreadState::Runnable) > 0, "{thread:?}");
        assert!(thread.cpu_had.iter().any(|by| by.tid == Some(other.tid)), "{thread:?}");
    }
    Ok(())
}

/// Two loops share a CPU with a thread that sleeps almost all the time: that thread often ran last before a loop.
fn last_runner() -> Result<(), Failed> {
    let t = shell(
        "for i in 1 2; do timeout 1.5 taskset -c 0 sh -c 'while :; do :; done' & done; \
         taskset -c 0 perl -e 'select(undef, undef, undef, 0.001) for 1..1000'; wait; true",
    )?;
    let sleeper = named(&t, "perl")?;
    let ran = sum(sleeper, |row| row.state == ThreadState::Running);
    let waits = |thread: &&ThreadAccount| sum(thread, |row| row.state == ThreadState::Runnable) > 100_000_000;
    let loops: Vec<&ThreadAccount> = threads(&t)?.iter().filter(|thread| thread.comm == "sh").filter(waits).collect();
    assert!(!loops.is_empty(), "{:?}", t.account);
    for thread in loops {
        let waited = sum(thread, |row| row.state == ThreadState::Runnable) as f64;
        let share: f64 = thread.cpu_had.iter().filter(|by| by.tid == Some(sleeper.tid)).map(|by| by.share).sum();
        assert!(share * waited <= 1.05 * ran as f64 + 1e6, "{ran} ns: {thread:?}");
    }
    Ok(())
}

fn time_limits() -> Result<(), Failed> {
    let program = build("storage/waits_for_too_many.c")?;
    let file = crate::bench::file().display().to_string();
    let program = program.to_str().ok_or("a plain path")?;
    let ended = |t: &TraceRecord| call(t, "io_uring_enter")?.ended.ok_or(Failed::from("it waits"));
    // 200 completions, at most 4 per wait.
    let sick = ended(&trace(&["--", program, &file])?)?;
    assert!(sick.time_limit >= 50 && sick.completions == 0 && sick.partial <= sick.time_limit, "{sick:?}");
    let healthy = ended(&trace(&["--", program, &file, "one"])?)?;
    assert!(healthy.completions >= 50 && healthy.partial == 0, "{healthy:?}");
    Ok(())
}

fn woken_by() -> Result<(), Failed> {
    let program = build("network/epoll_spins_on_hup.c")?;
    let t = trace(&["--", program.to_str().ok_or("a plain path")?])?;
    let waits = call(&t, "epoll_wait")?;
    let by = waits.woken_by.first().ok_or("a descriptor")?;
    assert!(by.share > 0.9 && by.fd.is_some() && by.events.contains(&"EPOLLHUP".to_owned()), "{waits:?}");
    assert_eq!(by.file.as_deref(), Some("TCP socket"));
    Ok(())
}
