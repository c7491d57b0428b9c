//! Compares the tool's counts with independent observers: /proc/interrupts and strace.

use std::process::Command;

use iotrail_host::irq;
use iotrail_schema::measurement::Measurement;
use libtest_mimic::{Failed, Trial};

use crate::bench::{exact, file, until, watched};
use crate::beside::Beside;
use crate::ground::{is_emulated, watch_with};
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 5] = [
        ("kicks_and_interrupts_agree_with_proc_interrupts", proc_interrupts),
        ("interrupts_of_buffered_reads_agree_with_proc_interrupts", buffered_reads),
        ("system_calls_agree_with_strace", strace),
        ("io_of_another_program_is_not_counted", neighbour),
        ("mode_switches_by_syscall_agree_with_the_sys_exit_tracepoint", peek_makes_no_calls),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("agreement::{name}"), test)).collect()
}

/// `ours` differs from `theirs` by at most the relative amount `within`.
fn near(what: &str, ours: f64, theirs: f64, within: f64) -> Result<(), String> {
    let so = (ours - theirs).abs() <= within * theirs.max(1.0);
    so.then_some(()).ok_or(format!("{what}: {ours} against {theirs}"))
}

fn proc_interrupts() -> Result<(), Failed> {
    file();
    until(
        || {
            let before = irq::snapshot().expect("/proc/interrupts can be read");
            let m = watched("--depth 1 --cpus non-irq --wait peek --count 40000 --warmup 0");
            (m, irq::snapshot().expect("/proc/interrupts can be read").since(&before))
        },
        |(m, around)| {
            // The span around the measurement contains more than the measured span.
            let cpu = m.load.cpus[0];
            let res =
                m.interrupts.iter().find(|i| i.vector == "RES" && i.cpu == cpu).expect("reschedule_entry is there");
            let theirs = res.proc_count.expect("a row of reschedule interrupts");
            assert!(theirs <= around.count("RES", cpu).expect("a row of reschedule interrupts"));
            near("reschedule IPIs on the load's CPU", res.count as f64, theirs as f64, 0.01)?;
            // The load's reschedule IPIs, and the kicks sent to it: nearly all of these IPIs are kicks.
            let resched = m.per_io.resched_ipis.expect("reschedule_entry is there") * m.ios.unwrap() as f64;
            let kicks = m.per_io.kicks.expect("ipi_send_cpu is there") * m.ios.unwrap() as f64;
            // Its main thread may receive some on another CPU.
            let everywhere: u64 = m.interrupts.iter().filter(|i| i.vector == "RES").flat_map(|i| i.proc_count).sum();
            // Under emulation, reading /proc/interrupts takes as long as some tens of interrupts.
            let meanwhile = if is_emulated() { 0.01 * everywhere as f64 } else { 5.0 };
            assert!(resched <= everywhere as f64 + meanwhile, "{resched} of {everywhere}");
            near("kicks are nearly all of the load's", kicks, resched, 0.1)?;
            // One read at a time: each has one disk interrupt. Other programs use the disk too, and the probes miss
            // some interrupts. Under emulation, the handler may find the next completion before it returns, so
            // /proc/interrupts counts fewer.
            let lines: Vec<String> =
                m.host.target.iter().flat_map(|t| &t.interrupts).map(|l| l.irq.to_string()).collect();
            let of_disk = || m.interrupts.iter().filter(|i| lines.iter().any(|line| i.vector == *line));
            let theirs: u64 = of_disk().flat_map(|i| i.proc_count).sum();
            let most: u64 = lines.iter().flat_map(|l| around.row(l)).flat_map(|row| &row.counts).sum();
            assert!((1..=most).contains(&theirs), "{theirs} of {most}");
            let unseen = theirs.saturating_sub(of_disk().map(|i| i.count).sum());
            let ours = m.per_io.device_irqs.expect("irq_handler_entry is there") * m.ios.unwrap() as f64;
            assert!(
                ours <= m.ios.unwrap() as f64 + 0.5 && ours <= theirs as f64,
                "{ours} for {} of {theirs}",
                m.ios.unwrap()
            );
            let due = if is_emulated() { m.ios.unwrap().min(theirs) } else { m.ios.unwrap() } as f64;
            let told = due - ours <= unseen as f64 + 0.01 * due;
            told.then_some(())
                .ok_or(format!("the disk's interrupts: {ours} for {} and {theirs}, {unseen} unseen", m.ios.unwrap()))
        },
    );
    Ok(())
}

/// The interrupt of a read into the page cache belongs to no request of the ring; it is attributed to the thread whose
/// task work runs on its return.
fn buffered_reads() -> Result<(), Failed> {
    let (trace, truth) = watch_with("device_irq_buffered", &[]);
    if truth["unsupported"].is_string() {
        return Ok(());
    }
    let total = trace.total;
    assert_eq!(total.ios, 1000);
    let own = total.per_io.device_irqs.expect("irq_handler_entry is there") * 1000.0;
    let lines = || total.interrupts.iter().filter(|i| i.credited.is_some());
    let seen: u64 = lines().map(|i| i.count).sum();
    let theirs: u64 = lines().map(|i| i.proc_count.expect("/proc/interrupts")).sum();
    assert!(own <= 1000.5 && own <= seen as f64, "{own} of {seen}");
    let due = 1000.0f64.min(theirs as f64);
    assert!(due - own <= theirs.saturating_sub(seen) as f64 + 0.01 * due, "{own} of {theirs}, {seen} seen");
    Ok(())
}

fn strace() -> Result<(), Failed> {
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("strace.out");
    let out = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=io_uring_enter", "-e", "signal=none", "-o"])
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_iotrail"))
        .args(["bench", "--json", "--trace", "off", "--warmup", "0", "--count", "2000", "--depth", "4", "--file"])
        .arg(file())
        .output();
    let out = out.map_err(|e| format!("strace: {e} (the package of that name)"))?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let m: Measurement = serde_json::from_slice(&out.stdout)?;
    let calls = std::fs::read_to_string(&log)?.lines().filter(|l| l.contains("io_uring_enter(")).count();
    let ours = (m.per_io.syscalls.expect("io_uring counts its calls") * m.ios.unwrap() as f64).round();
    assert_eq!(ours as usize, calls);
    Ok(())
}

fn neighbour() -> Result<(), Failed> {
    // The same load without probes in another process, which runs at least as long as the traced one.
    let other = Beside::bench(file(), "--depth 4")?;
    let ours = watched("--depth 4 --runtime 1s");
    exact(&ours);
    let theirs = other.stop()?;
    let stopped = theirs.warnings.iter().any(|w| w.code == "interrupted");
    assert!(stopped && theirs.elapsed_ns >= ours.elapsed_ns && theirs.ios > Some(0), "the other program ended early");
    Ok(())
}

fn peek_makes_no_calls() -> Result<(), Failed> {
    // One call per I/O, for submission; polling makes none. The tracepoint counts POSIX AIO's calls.
    let m = watched("--depth 1 --cpus non-irq --wait peek --runtime 1s");
    near("system calls per I/O", m.per_io.syscalls.expect("io_uring counts its calls"), 1.0, 0.001)?;
    let m = watched("--engine sync --depth 1 --count 5000 --warmup 0");
    near("calls of sync", m.per_io.syscalls.expect("sync counts its calls"), 1.0, 0.02)?;
    Ok(())
}
