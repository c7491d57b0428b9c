//! A load's result, combined from its jobs.

use iotrail_schema::setup_flag;
use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::engine::capabilities::Failure;
use crate::engine::io_uring::flags::Flag;
use crate::engine::nvme::status::Status;
use iotrail_base::error::{Error, OrFail, Result, errno_name};
use iotrail_schema::measurement::{Cpu, ErrorCount, LoadRecord, Phases, Throughput, Warning};

use iotrail_base::corruption::Corruption;

use super::clock::Clock;
use super::cpus::unpinned;
use super::job::{JobOutcome, LOST, full_result};
use super::phases::Ticks;
use super::spec::{LoadSpec, ReaperKind};
use super::tally::Tally;
use super::usage::Usage;

/// A measured load.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub record: LoadRecord,
    /// Wall clock time at the start of the measured stage, in seconds since the epoch (UTC).
    pub started_unix_s: u64,
    /// From the first job's start to the last job's last completion.
    pub elapsed_ns: u64,
    /// Completed I/Os, including failed and short ones.
    pub ios: u64,
    pub bytes: u64,
    pub errors: u64,
    pub short_ios: u64,
    /// By name, most frequent first.
    pub errors_by: Vec<ErrorCount>,
    /// Latency of every I/O, including failed ones, in ns.
    pub histogram: Histogram<u64>,
    /// Fractions of the time of all load threads. With a reaper thread, each job has two threads.
    pub phases: Phases,
    pub cpu: Cpu,
    /// Usage of the load's own threads.
    pub usage: Usage,
    /// Completions over the measured stage; `None` if it was too short.
    pub throughput: Option<Throughput>,
    /// System calls of the load's threads during the measured stage; `None` if a library makes them (POSIX AIO).
    pub syscalls: Option<u64>,
    /// The user stopped the load; the measurement so far is valid.
    pub interrupted: bool,
    pub warnings: Vec<Warning>,
    /// Thread IDs of the load's own threads in job order; each is followed by its reaper thread.
    pub tids: Vec<i32>,
    /// The clock used for latency: `tsc`, `cntvct` or `monotonic`.
    pub clock: &'static str,
}

/// The calling thread's data, in addition to the jobs' results.
pub struct CallerTotals {
    /// Seed of all the load's random decisions.
    pub seed: u32,
    pub started_unix_s: u64,
    pub sqpoll_ns: Option<u64>,
    pub throughput: Option<Throughput>,
    /// CPU time of all threads except the calling thread during the measured stage.
    pub others_ns: Option<u64>,
    pub interrupted: bool,
    pub warnings: Vec<Warning>,
}

/// Combines the jobs. Fails if all I/Os failed, or if verification found a mismatch.
pub fn assemble(spec: &LoadSpec, clock: &Clock, jobs: Vec<JobOutcome>, around: CallerTotals) -> Result<Outcome> {
    let mut sum = Tally::new(full_result(spec));
    let mut ticks = Ticks::default();
    let mut usage = Usage { run_queue_wait_ns: Some(0), ..Usage::default() };
    let (mut syscalls, mut wakeups) = (Some(0), None);
    let began = jobs.iter().map(|job| job.began).min().unwrap_or(0);
    let ended = jobs.iter().map(|job| job.ended).max().unwrap_or(0);
    let elapsed_ns = clock.ns(ended.saturating_sub(began));
    // Before limiting it to the span, because the difference is not a helper's time.
    let mut own_ns = 0;
    let (mut lag_ns, mut missed, mut moved) = (0, 0, 0);
    let mut tids = Vec::new();
    let mut granted = Vec::new();
    for job in jobs {
        sum.add(&job.tally).or_machine("cannot add the jobs' histograms", "")?;
        if let Some((lag, miss)) = job.lateness {
            lag_ns = lag_ns.max(lag);
            missed += miss;
        }
        for part in job.parts {
            ticks.add(part.ticks);
            own_ns += part.usage.user_ns + part.usage.system_ns;
            usage.add(part.usage.within(elapsed_ns));
            syscalls = syscalls.zip(part.syscalls).map(|(a, b)| a + b);
            if let Some(n) = part.wakeups {
                *wakeups.get_or_insert(0) += n;
            }
            moved += u32::from(part.bound == Some(false));
            tids.push(part.tid);
        }
        granted = job.granted;
    }
    // Time of the jobs' and SQPOLL threads. If an SQPOLL thread's time is unknown, so is that of the other helpers.
    let sqpoll_ns = around.sqpoll_ns.or((!setup_flag::is_set(&granted, "sqpoll")).then_some(0));
    let known = sqpoll_ns.map(|ns| own_ns + ns);
    if let Some(first) = sum.first_mismatch {
        return Err(Error::corruption(Corruption {
            file: spec.file.as_ref().map_or_else(String::new, |p| p.display().to_string()),
            offset: first.offset,
            expected: first.expected(),
            found: first.found(),
            blocks: sum.wrong.len() as u64,
            block_bytes: u64::from(spec.block_bytes),
            cell: None,
        }));
    }
    if sum.ios > 0 && sum.errors == sum.ios {
        return Err(all_failed(spec, &sum));
    }
    let mut warnings = spec.warnings.clone();
    warnings.extend(around.warnings);
    warnings.extend(warn(spec, &sum, lag_ns, missed, moved));
    Ok(Outcome {
        record: LoadRecord { seed: Some(around.seed), ..spec.record(&granted) },
        started_unix_s: around.started_unix_s,
        elapsed_ns,
        ios: sum.ios,
        bytes: sum.bytes,
        errors: sum.errors,
        short_ios: sum.short_ios,
        errors_by: by_name(&sum.failures),
        histogram: sum.histogram,
        phases: ticks.fractions(clock),
        cpu: Cpu {
            user_ns: Some(usage.user_ns),
            system_ns: Some(usage.system_ns),
            sqpoll_ns: around.sqpoll_ns,
            sqpoll_wakeups: wakeups,
            helpers_ns: around.others_ns.zip(known).map(|(all, known)| all.saturating_sub(known)),
        },
        usage,
        throughput: around.throughput,
        syscalls,
        interrupted: around.interrupted,
        warnings,
        tids,
        clock: clock.name(),
    })
}

fn warn(spec: &LoadSpec, sum: &Tally, lag_ns: u64, missed: u64, moved: u32) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some((failure, count)) = sum.failures.iter().max_by_key(|(_, n)| **n) {
        warnings.push(Warning::new(
            "io_errors",
            format!("{} of {} I/Os failed, {count} of them with: {}", sum.errors, sum.ios, describe(*failure)),
            remedy(spec, *failure),
        ));
    }
    if sum.in_vain >= LOST {
        warnings.push(Warning::new(
            "target_lost",
            format!("the last {} I/Os all failed or transferred nothing: the load was stopped", sum.in_vain),
            "check the kernel log: the device may have been removed",
        ));
    }
    if sum.short_ios > 0 {
        warnings.push(Warning::new(
            "short_ios",
            format!("{} of {} I/Os transferred fewer bytes than the block size", sum.short_ios, sum.ios),
            "check that no program truncates the target, and that its disk has free space",
        ));
    }
    warnings.extend(unpinned(moved));
    if let Some(rate) = spec.rate {
        if missed > 0 {
            warnings.push(Warning::new(
                "rate_not_met",
                format!("{missed} of the requested {rate} I/Os per second were not submitted in time; the latency does not include them"),
                "use a lower --rate, or a larger --depth",
            ));
        } else if lag_ns > 1_000_000 {
            warnings.push(Warning::new(
                "rate_lag",
                format!("a submission was {} µs late (included in the latency)", lag_ns / 1000),
                "use a larger --depth, or --wait peek",
            ));
        }
    }
    warnings
}

/// If every I/O failed, reports one line instead of a table of zeros.
pub fn all_failed(spec: &LoadSpec, tally: &Tally) -> Error {
    let Some((&failure, _)) = tally.failures.iter().max_by_key(|(_, n)| **n) else {
        return Error::machine("every I/O failed", "see `iotrail check`");
    };
    let target = spec.file.as_ref().map_or("the ring".into(), |p| p.display().to_string());
    Error::machine(format!("every {} on {target} failed: {}", spec.rw, describe(failure)), remedy(spec, failure))
}

/// `failure`: a negated result, which is an errno or a drive status.
fn describe(failure: i32) -> String {
    match Status::of_negated(failure) {
        Some(status) => status.to_string(),
        None => std::io::Error::from_raw_os_error(failure).to_string(),
    }
}

fn by_name(failures: &BTreeMap<i32, u64>) -> Vec<ErrorCount> {
    let name = |failure: i32| match Status::of_negated(failure) {
        Some(status) => status.to_string(),
        None => errno_name(failure),
    };
    let mut named: Vec<ErrorCount> =
        failures.iter().map(|(&failure, &count)| ErrorCount { error: name(failure), count }).collect();
    named.sort_by_key(|e| std::cmp::Reverse(e.count));
    named
}

fn remedy(spec: &LoadSpec, failure: i32) -> String {
    if Status::of_negated(failure).is_some() {
        return "the drive itself reports this: check its logs (nvme smart-log, nvme error-log)".into();
    }
    let failed = Failure { errno: failure, iopoll: spec.ring.setup.has(Flag::Iopoll), has_target: spec.file.is_some() };
    if let Some(remedy) = (spec.engine.engine().remedy)(&failed) {
        return remedy.into();
    }
    match failure {
        libc::ENODEV => "the device or its driver was removed: check the kernel log".into(),
        libc::EINVAL if spec.direct => {
            "the target rejects this block size or O_DIRECT: use another --bs, or --buffered".into()
        }
        libc::ENOSPC => "free space on the file system, or use a smaller --size".into(),
        libc::EIO => "check the kernel log: the device reports an error".into(),
        libc::EBADF | libc::EPERM | libc::EACCES => "check the target's permissions".into(),
        libc::EAGAIN => "use a smaller --depth".into(),
        _ => String::new(),
    }
}

/// Warns that a reaper thread shares the submitter's CPU.
pub fn shared_cpu_warning(spec: &LoadSpec) -> Option<Warning> {
    match spec.reaper {
        ReaperKind::Thread { cpu: Some(cpu) } if spec.cpus.contains(&cpu) => Some(Warning::new(
            "reaper_cpu",
            format!("the reaper thread shares CPU {cpu} with a submitting thread: they run alternately"),
            "give it a CPU of its own: --reaper thread:CPU",
        )),
        _ => None,
    }
}
