//! Measures one cell: runs its load with the probes attached.

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::follow::{self, Requests};
use super::watched::{self, Counted, ProbeFigures};
use iotrail_answer::comparable;
use iotrail_answer::warnings::doubt::{doubts, samples_lost};
use iotrail_base::error::{Error, Result};
use iotrail_base::words::plural;
use iotrail_host::{self, circumstances};
use iotrail_load::engine::capabilities::{Completions, TargetKind};
use iotrail_load::engine::io_uring::flags::Flag;
use iotrail_load::options::{LoadOptions, Trace};
use iotrail_load::spec::{LoadSpec, ReaperKind};
use iotrail_load::{self, Boundary, Doing, Outcome, Progress};
use iotrail_path::sample::Sample;
use iotrail_probe::numbers::KernelIds;
use iotrail_probe::observed::Observed;
use iotrail_probe::profile::{self, Profiler, Whom};
use iotrail_probe::sampled::Profile;
use iotrail_probe::sampling::Sampling;
use iotrail_probe::subject::{Interface, Scope, Subject};
use iotrail_probe::watch::ObjectSlot;
use iotrail_schema::measurement::{Circumstances, Host, INTERRUPTED, Measurement, SCHEMA, Target, Warning};
use iotrail_stats::quantile;

/// The result of one cell.
pub struct Measured {
    pub measurement: Measurement,
    /// Latencies of all jobs, in nanoseconds.
    pub histogram: Histogram<u64>,
    /// The samples behind the measurement's CPU shares; empty without profiling.
    pub samples: Vec<Sample>,
    /// The run stopped early, so its numbers cover less than the requested time.
    pub interrupted: bool,
}

/// Optional data that is traced in addition to counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watching {
    /// CPU sampling; `None` disables it.
    pub sampling: Option<Sampling>,
    /// Traces 1 in N io_uring requests end to end, selected at random, for delivery delays, stages, order and punts.
    /// `None` traces none, which is cheapest.
    pub follow: Option<u32>,
}

/// Runs the load once, traced according to `options.trace` and `watching`. Counts and load cover exactly the same I/Os,
/// because no I/O is in flight at either boundary.
///
/// If a resource is temporarily exhausted (memory, descriptors, a busy device), retries the load after each of
/// [`PAUSES`] and adds a warning to the measurement. Returns the last attempt's error from [`iotrail_load::run`].
pub fn run(
    options: &LoadOptions,
    watching: Watching,
    progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<Measured> {
    patiently(PAUSES, stop, &mut || once(options, watching, progress, stop))
}

/// Pauses between attempts.
const PAUSES: &[Duration] = &[Duration::from_millis(100), Duration::from_millis(300), Duration::from_millis(1000)];

fn patiently(pauses: &[Duration], stop: &AtomicBool, run: &mut dyn FnMut() -> Result<Measured>) -> Result<Measured> {
    let mut refused: Option<String> = None;
    for (tries, pause) in (1..).zip(pauses) {
        match run() {
            Err(e) if e.is_transient() && !stop.load(Ordering::Relaxed) => refused = Some(e.to_string()),
            Ok(mut measured) => {
                measured.measurement.warnings.extend(refused.map(|why| {
                    let text = format!("the load failed to start {} before it ran: {why}", plural(tries - 1, "time"));
                    Warning::new("retried", text, "stop other users of memory, descriptors or the device")
                }));
                return Ok(measured);
            }
            Err(e) => return Err(e),
        }
        std::thread::sleep(*pause);
    }
    run().map_err(|e| match e.is_transient() {
        true => Error { what: format!("{} ({} tries in a row)", e.what, pauses.len() + 1), ..e },
        false => e,
    })
}

fn once(
    options: &LoadOptions,
    watching: Watching,
    progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<Measured> {
    let host = host_facts(options)?;
    let online = iotrail_host::cpu::online()?;
    let spec = LoadSpec::resolve(options, host.target.as_ref(), &online)?;
    let mut warnings = Vec::new();

    let interface = interface(&spec);
    let is_ring = matches!(interface, Some(Interface::IoUring { .. }));
    let how =
        watching.follow.filter(|_| is_ring && spec.trace != Trace::Off).map(|one_in| follow::follow(one_in.max(1)));
    if watching.follow.is_some() && how.is_none() {
        let why = if is_ring { "the probes are off" } else { "only io_uring requests can be traced" };
        warnings.push(Warning::new(
            "not_followed",
            format!("no request was traced end to end: {why}"),
            "omit --follow",
        ));
    }
    let mut room = ObjectSlot::default();
    // While the load runs, the calling thread only waits; all other threads belong to the load or its helpers.
    let subject = interface.map(|interface| Subject {
        who: Scope::OtherThreads,
        interface,
        target_irqs: host.target.iter().flat_map(|t| &t.interrupts).map(|i| i.irq).collect(),
        follow: how,
        aio_awaited: false,
        spans_timed: watching.sampling.is_some(),
    });
    let watch = match subject {
        Some(subject) => watched::open(&mut room, subject, spec.trace, &mut warnings)?,
        None => None,
    };
    // Both boundaries and progress use it, at different times.
    let watch = RefCell::new(watch.map(|watch| (watch, how.map(Requests::new))));

    let mut sampling_room = profile::ObjectSlot::default();
    let mut profiler = watching
        .sampling
        .map(|sampling| {
            let own = KernelIds::of_this_thread()?;
            let subject = profile::Subject { whom: Whom::Tgids(vec![own.tgid]), exclude_tid: own.tid, sampling };
            Profiler::open(&mut sampling_room, subject)
        })
        .transpose()?;

    let of_files = spec.file.as_deref().filter(|_| !spec.engine.engine().target.is_past_files());
    // The file itself may not exist, for example if the load appends to a new file next to it.
    let of_files = of_files.and_then(existing);
    let around = circumstances::Subject { target: of_files, bytes: spec.size, cpus: &cpus_of(&spec, &host, &online) };
    let mut before: Option<circumstances::Before> = None;
    let mut found: Option<Circumstances> = None;
    let mut observed: Option<Observed> = None;
    let mut profiled: Option<Profile> = None;
    let failed: RefCell<Option<Error>> = RefCell::default();
    let fail = |e: Error| {
        failed.borrow_mut().get_or_insert(e);
    };
    let mut boundary = |at: Boundary| {
        let mut watch = watch.borrow_mut();
        // Samples exclude the reset and the readout of the counters.
        let result = match at {
            Boundary::Ready => Ok(()),
            Boundary::MeasureBegins => {
                before = Some(circumstances::before(around));
                watch
                    .as_mut()
                    .map_or(Ok(()), |(watch, _)| watch.begin())
                    .and_then(|()| profiler.as_mut().map_or(Ok(()), Profiler::begin))
            }
            Boundary::MeasureEnds => (|| {
                profiled = profiler.as_mut().map(Profiler::end).transpose()?;
                if let Some((watch, requests)) = watch.as_mut() {
                    observed = Some(watch.end()?);
                    requests.as_mut().map_or(Ok(()), |requests| requests.take_out(watch))?;
                }
                found = before.take().map(circumstances::Before::after);
                Ok(())
            })(),
        };
        result.unwrap_or_else(fail);
    };
    let mut progress = |p: Progress| {
        if let (Doing::Measuring, Some((watch, Some(requests)))) = (p.doing, watch.borrow_mut().as_mut()) {
            requests.make_room(watch, p.done).unwrap_or_else(fail);
        }
        progress(p);
    };
    let outcome = iotrail_load::run(&spec, &mut boundary, &mut progress, stop)?;
    if let Some(e) = failed.into_inner() {
        return Err(e);
    }
    let watch = watch.into_inner();
    if let Some((watch, _)) = &watch {
        warnings.extend(watch.missing());
    }
    let loss = observed.as_ref().map(|o| o.follow_loss);
    let leave_events = spec.direct || spec.engine.engine().synchronous_if_buffered.is_none();
    let mut measured = measured(outcome, observed, found, host, warnings, (spec.trace, leave_events))?;
    if let (Some((_, Some(requests))), Some(loss)) = (watch, loss) {
        requests.tell(&mut measured.measurement, loss);
    }
    if let Some(profile) = profiled {
        let pinned: Vec<u32> = spec.cpus.iter().copied().chain(reaper_cpu(&spec)).chain(spec.ring.sq_cpu).collect();
        let shares = profile.shares((!spec.cpus.is_empty()).then_some(&pinned));
        measured.measurement.warnings.extend(samples_lost(&shares.how));
        measured.measurement.cpu_shares = Some(shares.shares);
        measured.measurement.cpu_samples = Some(shares.how.into());
        measured.samples = shares.samples;
    }
    Ok(measured)
}

fn reaper_cpu(spec: &LoadSpec) -> Option<u32> {
    match spec.reaper {
        ReaperKind::Thread { cpu } => cpu,
        ReaperKind::Same => None,
    }
}

/// The CPUs whose state affects the load; see [`Circumstances::cpus`].
fn cpus_of(spec: &LoadSpec, host: &Host, online: &[u32]) -> Vec<u32> {
    if spec.cpus.is_empty() {
        return online.to_vec();
    }
    let helpers = reaper_cpu(spec).into_iter().chain(spec.ring.sq_cpu);
    let interrupts = host.target.iter().flat_map(|t| &t.interrupts).flat_map(|i| i.cpus.iter().copied());
    let mut cpus: Vec<u32> = spec.cpus.iter().copied().chain(helpers).chain(interrupts).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Facts about this machine and the load's target.
fn host_facts(options: &LoadOptions) -> Result<Host> {
    Ok(Host { target: target_of(options), ..iotrail_host::facts(None)? })
}

/// A load's target, as far as known before it exists. A missing file is attributed to its nearest existing parent
/// directory and that directory's disk. `None` if the load has no target or iotrail cannot examine the target. The load
/// then reports the error.
pub fn target_of(options: &LoadOptions) -> Option<Target> {
    let file = options.file.as_deref()?;
    let path = file.display().to_string();
    if options.engine.engine().target == TargetKind::Drive {
        // Neither a file nor a kernel device.
        return Some(Target { device: Some(path.clone()), path, ..Target::default() });
    }
    let there = existing(file)?;
    let target = iotrail_host::block::target(there).ok()?;
    Some(if there == file { target } else { Target { path, ..target } })
}

/// The file, or its nearest existing parent directory.
fn existing(file: &Path) -> Option<&Path> {
    file.ancestors().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p }).find(|p| p.exists())
}

/// The probes that observe this load's completions; `None` if they do not occur in the kernel.
fn interface(spec: &LoadSpec) -> Option<Interface> {
    match spec.engine.engine().completions {
        Completions::Ring => Some(Interface::IoUring { iopoll: spec.ring.setup.has(Flag::Iopoll) }),
        Completions::Aio => Some(Interface::Aio),
        Completions::HelperCalls => Some(Interface::HelperCalls),
        Completions::OwnCalls => Some(Interface::OwnCalls),
        Completions::Unseen => None,
    }
}

fn measured(
    outcome: Outcome,
    observed: Option<Observed>,
    found: Option<Circumstances>,
    host: Host,
    mut warnings: Vec<Warning>,
    (trace, leave_events): (Trace, bool),
) -> Result<Measured> {
    let seconds = outcome.elapsed_ns as f64 / 1e9;
    warnings.extend(outcome.warnings);
    if outcome.interrupted {
        warnings.push(Warning::new(
            INTERRUPTED,
            "the load was stopped early: the numbers cover only the part that ran",
            "run it again for a complete measurement",
        ));
    }
    let counted =
        Counted { ios: outcome.ios, completions: Some(outcome.ios), leave_events, syscalls: outcome.syscalls };
    let seen = ProbeFigures::of(observed, counted, trace)?;
    let circumstances = found.map(|mut found| {
        if let Some(device) = &mut found.device {
            device.asked_bytes = outcome.bytes;
        }
        found.run_queue_wait_ns = outcome.usage.run_queue_wait_ns;
        found.involuntary_switches = Some(outcome.usage.involuntary_switches);
        found.minor_faults = Some(outcome.usage.minor_faults);
        found.major_faults = Some(outcome.usage.major_faults);
        found.throughput = outcome.throughput;
        found
    });
    let mut measurement = Measurement {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_unix_s: outcome.started_unix_s,
        load: outcome.record.into(),
        elapsed_ns: outcome.elapsed_ns,
        ios: Some(outcome.ios),
        bytes: Some(outcome.bytes),
        errors: Some(outcome.errors),
        errors_by: Some(outcome.errors_by),
        short_ios: Some(outcome.short_ios),
        iops: Some(if seconds > 0.0 { outcome.ios as f64 / seconds } else { 0.0 }),
        latency_ns: quantile::summary(&outcome.histogram),
        phases: Some(outcome.phases),
        cpu: outcome.cpu,
        circumstances: circumstances.map(Into::into),
        net: None,
        host: host.into(),
        warnings,
        thrown_away: 0,
        ..Measurement::default()
    };
    seen.tell(&mut measurement);
    let doubts: Vec<Warning> = doubts(&measurement).into_iter().chain(comparable::warnings(&measurement)).collect();
    measurement.warnings.extend(doubts);
    Ok(Measured { measurement, histogram: outcome.histogram, samples: vec![], interrupted: outcome.interrupted })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        Measured {
            measurement: Measurement::default(),
            histogram: iotrail_stats::histogram::new(),
            samples: Vec::new(),
            interrupted: false,
        }
    }

    fn refused(errno: i32) -> Error {
        Error::machine("cannot set up an io_uring", "").because(std::io::Error::from_raw_os_error(errno))
    }

    /// Number of attempts, and the result if the first `n` fail with `errno`.
    fn tried(n: usize, errno: i32) -> (usize, Result<Measured>) {
        let mut tries = 0;
        let pauses = [Duration::ZERO; 3];
        let outcome = patiently(&pauses, &AtomicBool::new(false), &mut || {
            tries += 1;
            if tries <= n { Err(refused(errno)) } else { Ok(measured()) }
        });
        (tries, outcome)
    }

    #[test]
    fn a_temporary_shortage_in_the_kernel_is_retried_and_counted() {
        let (tries, outcome) = tried(2, libc::ENOMEM);
        let warnings = outcome.ok().unwrap().measurement.warnings;
        assert_eq!((tries, warnings.len()), (3, 1));
        assert_eq!(warnings[0].code, "retried");
        assert!(
            warnings[0].text.starts_with("the load failed to start 2 times before it ran: cannot set up an io_uring: ")
        );
        let (tries, outcome) = tried(0, libc::ENOMEM);
        assert_eq!((tries, outcome.ok().unwrap().measurement.warnings), (1, vec![]));
        // The error contains the errno.
        let (tries, outcome) = tried(9, libc::EMFILE);
        let e = outcome.err().unwrap();
        assert_eq!((tries, e.exit_status()), (4, 3));
        assert!(e.to_string().starts_with("cannot set up an io_uring (4 tries in a row): Too many open files"), "{e}");
        // Permanent errors are not retried.
        assert_eq!(tried(9, libc::EPERM).0, 1);
    }
}
