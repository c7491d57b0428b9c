//! CPU time by place: shares implied by the kernel's code, and comparisons with the kernel's CPU time accounting.

use std::collections::BTreeMap;

use iotrail_schema::measurement::{CpuSamples, Measurement};
use iotrail_schema::place::Place;
use libtest_mimic::{Failed, Trial};

use crate::bench::{file, run};
use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("cached_reads_spend_most_cpu_time_in_copying", cached),
        ("a_no_op_load_spends_most_cpu_time_in_submission", nop),
        ("blocking_reads_leave_the_cpu_idle", blocking),
        ("samples_agree_with_the_kernels_cpu_time", cpu_time),
        ("code_with_interrupts_off_is_sampled_at_its_end", interrupts_off),
        ("folded_stacks_and_flame_graph_contain_all_samples", files),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("profile::{name}"), test)).collect()
}

/// Runs a sampled load, and asserts that the samples add up to the CPU time.
fn sampled(options: &str) -> Measurement {
    let began = std::time::Instant::now();
    let m = run(&format!("--profile --warmup 200ms {options}"));
    let whole_s = began.elapsed().as_secs_f64();
    let (shares, how) = (m.cpu_shares.as_ref().expect("sampled"), how(&m));
    assert_eq!(shares.iter().map(|s| s.place).collect::<Vec<_>>(), Place::ALL);
    assert_eq!(shares.iter().map(|s| s.samples).sum::<u64>(), how.taken);
    let sum: f64 = shares.iter().map(|s| s.share.expect("enough samples")).sum();
    assert!((sum - 1.0).abs() < 1e-9, "shares sum to 1: {sum}");
    for s in shares {
        let (lo, share, hi) = (s.lo.expect("as share"), s.share.expect("seen"), s.hi.expect("as share"));
        assert!(0.0 <= lo && lo <= share && share <= hi && hi <= 1.0, "{s:?}");
    }
    // Every period of every CPU is accounted for, because the events count their own time. A timer may fire once more
    // at the end.
    let expected = how.expected.expect("paced by time");
    let all = how.taken + how.elsewhere + how.lost;
    assert!((expected..=expected + u64::from(m.host.cpus)).contains(&all), "{all} of {expected}: {how:?}");
    // At least the measured time; more if another program uses the CPU between the end of the load and the end of
    // sampling.
    let by_wall_time = |s: f64| s * f64::from(how.hz) * f64::from(m.host.cpus);
    let range = 0.99 * by_wall_time(m.elapsed_ns as f64 / 1e9)..=by_wall_time(whole_s);
    assert!(range.contains(&(expected as f64)), "{expected} samples expected, {range:?} by wall time");
    m
}

fn how(m: &Measurement) -> &CpuSamples {
    m.cpu_samples.as_deref().expect("sampled")
}

fn share(m: &Measurement, place: Place) -> f64 {
    let shares = m.cpu_shares.as_ref().expect("sampled");
    shares.iter().find(|s| s.place == place).expect("all places").share.expect("enough samples")
}

fn cached() -> Result<(), Failed> {
    let load = format!("--file {} --buffered --bs 64k --depth 4 --cpus 0 --trace off", file().display());
    run(&format!("{load} --rw read --count 1024 --warmup 0"));
    let m = sampled(&format!("{load} --runtime 2s"));
    let copy = share(&m, Place::Copy);
    for place in Place::ALL {
        let kernel = !matches!(place, Place::Copy | Place::Idle | Place::User);
        assert!(!kernel || share(&m, place) < copy, "{place} takes more than copy: {:?}", m.cpu_shares);
    }
    assert!(copy > 0.4, "{copy}");
    Ok(())
}

fn nop() -> Result<(), Failed> {
    let m = sampled("--rw nop --depth 32 --batch 32 --cpus 0 --runtime 2s --trace off");
    let own = share(&m, Place::User) + share(&m, Place::Submit) + share(&m, Place::SyscallEntry);
    assert!(own > 0.95, "{own}: {:?}", m.cpu_shares);
    assert!(share(&m, Place::Submit) > 0.5, "{:?}", m.cpu_shares);
    assert!(share(&m, Place::Other) < 0.02, "{:?}", how(&m).unplaced);
    // With probes, the only additional place is `tracing`.
    let watched = sampled("--rw nop --depth 32 --batch 32 --cpus 0 --runtime 2s --trace on");
    let tracing = share(&watched, Place::Tracing);
    assert!(tracing > 0.1 && share(&m, Place::Tracing) < 0.02, "{tracing} of {:?}", watched.cpu_shares);
    Ok(())
}

/// Nanoseconds of a CPU since boot according to the kernel (in ticks of 10 ms): the sum of these columns of its
/// /proc/stat line.
fn of_cpu_ns(cpu: u32, columns: std::ops::Range<usize>) -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc is there");
    let line = stat.lines().find(|l| l.starts_with(&format!("cpu{cpu} "))).expect("a line for each CPU");
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().skip(1).map(|n| n.parse().expect("a number of ticks")).collect();
    ticks[columns].iter().sum::<u64>() * 10_000_000
}

/// Idle or waiting for I/O, without interrupts in between.
fn idle_ns(cpu: u32) -> u64 {
    of_cpu_ns(cpu, 3..5)
}

/// Time for which the hypervisor ran something else.
fn stolen_ns(cpu: u32) -> u64 {
    of_cpu_ns(cpu, 7..8)
}

fn blocking() -> Result<(), Failed> {
    // Samples count an interrupt on an idle CPU, and the switch after it, as idle; the kernel does not. Both are equal
    // only if these are rare.
    for (rate, at_most_by_kernel) in [("", false), ("--rate 300", true)] {
        idles(rate, at_most_by_kernel)?;
    }
    Ok(())
}

fn idles(rate: &str, at_most_by_kernel: bool) -> Result<(), Failed> {
    // Other programs may keep the CPU from being idle; one quiet run of three suffices, unless they are always running.
    let mut said = vec![];
    for _ in 0..3 {
        let (before, started) = (
            iotrail_host::cpu::online()?.into_iter().map(|c| (c, idle_ns(c))).collect::<BTreeMap<_, _>>(),
            std::time::Instant::now(),
        );
        let load = format!("--file {} --depth 1 --cpus non-irq --runtime 2s --trace off {rate}", file().display());
        let m = sampled(&load);
        let cpu = m.load.cpus[0];
        let by_kernel = (idle_ns(cpu) - before[&cpu]) as f64;
        let outside = started.elapsed().as_nanos() as f64 - m.elapsed_ns as f64;
        let period = how(&m).period_ns.expect("paced by time") as f64;
        let by_samples = share(&m, Place::Idle) * how(&m).taken as f64 * period;
        // There is more idle time outside of the measured span; lost samples may have been idle, too.
        let error = 0.03 * m.elapsed_ns as f64;
        let least = by_kernel - outside - error - how(&m).lost as f64 * period;
        let most = if at_most_by_kernel { by_kernel + error } else { m.elapsed_ns as f64 };
        assert!(
            (least..=most).contains(&by_samples),
            "{rate}: {by_samples} ns idle by samples, {by_kernel} by /proc/stat"
        );
        if share(&m, Place::Idle) > 0.2 {
            return Ok(());
        }
        said.push(by_kernel / m.elapsed_ns as f64);
        trial::attempt_failed(format!("{rate}: idle for {said:?} of the time by /proc/stat, and hardly by samples"));
    }
    let busy = said.iter().all(|idle| *idle < 0.5);
    busy.then_some(())
        .ok_or_else(|| format!("idle for these parts by /proc/stat, and hardly by samples: {said:?}").into())
}

/// The scheduler's CPU time of a thread equals its samples times the period, for loads that rarely sleep: the scheduler
/// includes the part of each switch in which the thread is not current.
fn cpu_time() -> Result<(), Failed> {
    for load in ["--rw nop --depth 32 --batch 32", "--buffered --bs 64k", "--depth 1 --wait peek"] {
        let stolen = || iotrail_host::cpu::online().map(|cpus| cpus.into_iter().map(|c| (c, stolen_ns(c))).collect());
        let before: BTreeMap<_, _> = stolen()?;
        let m = sampled(&format!("--file {} {load} --cpus non-irq --runtime 2s --trace off", file().display()));
        let cpu = m.load.cpus[0];
        let stolen = (stolen()?[&cpu] - before[&cpu]) as f64;
        let how = how(&m);
        let busy = how.taken - (share(&m, Place::Idle) * how.taken as f64).round() as u64;
        let by_samples = busy as f64 * how.period_ns.expect("paced by time") as f64;
        // Excludes stolen time.
        let by_kernel =
            m.cpu.user_ns.zip(m.cpu.system_ns).map(|(user, system)| user + system).expect("our own threads") as f64;
        // Lost samples may belong to the thread; 2 % for interrupt time, which the scheduler attributes to the thread,
        // but sampling to idle.
        let lost = how.lost as f64 * how.period_ns.expect("paced by time") as f64;
        let error = 4.0 * (busy as f64).sqrt() / busy as f64 + 0.02;
        let range = by_kernel * (1.0 - error) - lost..=by_kernel * (1.0 + error) + stolen;
        assert!(
            range.contains(&by_samples),
            "{load}: {by_samples} ns by samples, {by_kernel} by the scheduler, {stolen} stolen: {how:?}"
        );
    }
    Ok(())
}

fn scratch(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The sampling timer is itself an interrupt: it cannot fire within another handler, only after that has ended.
fn interrupts_off() -> Result<(), Failed> {
    let folded = scratch("interrupts.folded");
    let load = format!("--file {} --depth 4 --wait peek --cpus irq --runtime 3s --trace off", file().display());
    let m = sampled(&format!("{load} --force --folded {}", folded.display()));
    let taken = how(&m).taken;
    let text = std::fs::read_to_string(&folded)?;
    let with = |function: &str| -> u64 {
        let stacks = text.lines().filter(|l| l.split([';', ' ']).any(|f| f == function));
        stacks.map(|l| l.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a count")).sum()
    };
    assert_eq!(with("handle_irq_event") + with("hrtimer_interrupt"), 0, "of {taken}");
    // Code that runs after the handler with interrupts enabled is visible: softirqs and the return path.
    assert!(with("asm_common_interrupt") > 0, "of {taken}:\n{text}");
    Ok(())
}

fn files() -> Result<(), Failed> {
    let (folded, svg) = (scratch("files.folded"), scratch("files.svg"));
    let load = format!("--file {} --depth 8 --runtime 1s", file().display());
    let m = sampled(&format!("{load} --force --folded {} --flamegraph {}", folded.display(), svg.display()));
    let count = |text: &str| -> u64 {
        text.lines().map(|l| l.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a count")).sum()
    };
    assert_eq!(count(&std::fs::read_to_string(&folded)?), how(&m).taken);
    // Commas separate thousands.
    let drawn = std::fs::read_to_string(&svg)?.replace(',', "");
    assert!(drawn.contains(&format!("all ({} samples 100%)", how(&m).taken)), "{}", &drawn[..drawn.len().min(3000)]);
    // Task work only: every stack starts there.
    let m = sampled(&format!("{load} --stacks task-work --force --folded {}", folded.display()));
    let text = std::fs::read_to_string(&folded)?;
    assert!(count(&text) > 0 && count(&text) < how(&m).taken);
    for line in text.lines() {
        let first = line.split([';', ' ']).nth(1);
        assert!(matches!(first, Some("task_work_run" | "tctx_task_work" | "tctx_task_work_run")), "{line}");
    }
    Ok(())
}
