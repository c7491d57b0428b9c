//! Drives an engine: options → specification → worker threads. Does not depend on the probes.
//!
//! | file | responsible for |
//! |---|---|
//! | `options`, `spec`, `cpus` | the options; the validated plan; CPU lists and binding |
//! | `target`, `layout`, `device`, `extents` | the file or device: open and check; create; claim; holes |
//! | `alignment`, `refusal` | alignment of direct I/O; why a target is unusable |
//! | `drive` | an NVMe namespace without files: its generic device, or a complete drive |
//! | `job`, `rounds` | shared state and results of jobs; the work of their threads around I/Os |
//! | `worker`, `apart` | a job that reaps its own completions; one with a reaper thread |
//! | `feeder`, `pattern`, `pace`, `verify` | next submissions: slots, blocks, intended times, checkable content |
//! | `clock`, `tally`, `phases`, `usage` | stamps; sums and latency; time by phase; CPU time of threads |
//! | `series` | completions over the measured stage |
//! | `gate`, `lookout` | the barrier between stages; the work of the calling thread meanwhile |
//! | `buffers`, `scratch`, `neighbour` | I/O memory; bookkeeping memory; busy programs next to the load |
//! | `outcome` | totals over the jobs |
//!
//! A load has the following stages. *Quiet* means that no job has anything in flight and all threads wait at the gate,
//! so counts between the two quiet points cover exactly the measured I/Os:
//!
//! ```text
//! open, lay out, start threads and rings → Ready → warm-up → quiet → MeasureBegins → measured → quiet → MeasureEnds → end
//! ```
//!
//! Depends on `iotrail-base`, `iotrail-schema`, `iotrail-host`, `iotrail-stats`.

mod alignment;
mod apart;
pub mod buffers;
pub mod clock;
pub mod cpus;
pub mod device;
mod drive;
pub mod engine;
mod extents;
mod feeder;
pub mod gate;
mod job;
mod layout;
pub mod lookout;
pub mod neighbour;
pub mod options;
mod outcome;
pub mod pace;
mod pattern;
mod phases;
mod refusal;
mod rounds;
mod scratch;
pub mod series;
pub mod spec;
mod tally;
mod target;
#[cfg(test)]
mod tests;
pub mod usage;
mod verify;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iotrail_base::error::{Error, Kind, OrFail, Result};

use job::Shared;
use lookout::{Lookout, TICK};
pub use outcome::Outcome;
use spec::{LoadSpec, ReaperKind};

/// A point between two stages. The calling thread passes it while all threads of the load wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// Rings and threads exist; nothing has been submitted.
    Ready,
    /// The warm-up is over and nothing is in flight.
    MeasureBegins,
    /// Every measured I/O has been reaped and nothing is in flight.
    MeasureEnds,
}

/// The current stage of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Writing a new target; `done` and `total` are in bytes.
    LayingOut,
    /// `done` is in I/Os.
    WarmingUp,
    /// `done` is in I/Os, as is `total` if the load ends by count.
    Measuring,
}

/// Reported about four times per second on the calling thread.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub doing: Doing,
    pub done: u64,
    pub total: Option<u64>,
    pub elapsed: Duration,
}

/// Runs a load. The calling thread does none of the load's I/O and only sleeps during the measurement; the load has
/// threads of its own, and only these (and helpers of the kernel and glibc) run meanwhile.
///
/// `boundary` is called at the three [`Boundary`] points and `progress` in between, both on the calling thread. Setting
/// `stop` ends the load early; the result then covers the time so far and is marked `interrupted`.
///
/// Fails on an unusable target, an interface or flag that the kernel rejects, limits that are too low, I/Os that all
/// fail, and failed verification. In these cases, nothing is left behind except a completely laid out target.
pub fn run(
    spec: &LoadSpec,
    boundary: &mut dyn FnMut(Boundary),
    progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<Outcome> {
    let clock = clock::Clock::get();
    buffers::check_room(spec.jobs, spec.depth, spec.block_bytes)?;
    let target = target::Target::open(spec, progress, stop)?;
    let parties = spec.jobs as usize * if spec.reaper == ReaperKind::Same { 1 } else { 2 };
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).or_machine("the system clock is set before 1970", "set it")?;
    let seed = spec.seed.unwrap_or_else(iotrail_stats::random::fresh_seed);
    let shared = Shared {
        spec,
        clock,
        gate: gate::Gate::new(parties),
        halt: AtomicBool::new(false),
        done: (0..spec.jobs).map(|_| AtomicU64::new(0)).collect(),
        sq_tids: (0..spec.jobs).map(|_| AtomicI32::new(0)).collect(),
        blocks: target.bytes / u64::from(spec.block_bytes),
        passage: target.passage.as_ref(),
        seed,
    };
    // Must fork while this thread is the only one.
    let neighbours = neighbour::Neighbours::start(spec.neighbours, &spec.neighbour_cpus)?;
    let finished = Mutex::new(Vec::new());
    let mut conductor = Conductor {
        shared: &shared,
        boundary,
        progress,
        stop,
        started_unix_s: now.as_secs(),
        sqpoll_ns: None,
        series: series::Series::default(),
        others_ns: None,
    };
    std::thread::scope(|scope| {
        for job in 0..spec.jobs {
            let (shared, finished) = (&shared, &finished);
            let fd = target.fd(job);
            let thread = std::thread::Builder::new().name(format!("load-{job}"));
            let spawned = thread.spawn_scoped(scope, move || {
                let run = AssertUnwindSafe(|| worker::run(shared, job, fd));
                let done = catch_unwind(run).unwrap_or_else(|payload| {
                    shared.halt.store(true, Ordering::Relaxed);
                    Err(Error::of_panic("a load thread", payload.as_ref()))
                });
                finished.lock().unwrap_or_else(PoisonError::into_inner).push((job, done));
            });
            if let Err(e) = spawned {
                let e = Error::machine("cannot start a load thread", "raise ulimit -u, or use fewer --jobs").because(e);
                finished.lock().unwrap_or_else(PoisonError::into_inner).push((job, Err(e)));
                // Accounts for the threads that do not exist.
                let missing = parties / spec.jobs as usize * (spec.jobs - job) as usize;
                (0..missing).for_each(|_| shared.gate.leave());
                break;
            }
        }
        conductor.conduct();
    });
    drop(neighbours);
    let mut jobs = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    jobs.sort_by_key(|(job, _)| *job);
    // A job that was only cancelled is not the cause.
    let (done, failed): (Vec<_>, Vec<_>) = jobs.into_iter().map(|(_, done)| done).partition(|d| d.is_ok());
    let mut failures: Vec<Error> = failed.into_iter().filter_map(std::result::Result::err).collect();
    failures.sort_by_key(|e| (e.kind != Kind::Internal, gate::is_called_off(e)));
    if let Some(e) = failures.into_iter().next() {
        return Err(e);
    }
    if done.len() != spec.jobs as usize {
        return Err(Error::internal(format!(
            "{} of {} load threads ended without a result",
            spec.jobs as usize - done.len(),
            spec.jobs
        )));
    }
    let mut warnings = target.warnings.clone();
    warnings.extend(target.passage.as_ref().and_then(|passage| drive::settle(passage, spec)));
    warnings.extend(outcome::shared_cpu_warning(spec));
    let around = outcome::CallerTotals {
        seed,
        started_unix_s: conductor.started_unix_s,
        sqpoll_ns: conductor.sqpoll_ns,
        throughput: conductor.series.throughput(spec.end.span()),
        others_ns: conductor.others_ns,
        interrupted: stop.load(Ordering::Relaxed),
        warnings,
    };
    outcome::assemble(spec, &clock, done.into_iter().filter_map(std::result::Result::ok).collect(), around)
}

/// The calling thread's part: opens the gate between stages, reports progress, and stops the load on request.
struct Conductor<'a, 'b> {
    shared: &'a Shared<'b>,
    boundary: &'a mut dyn FnMut(Boundary),
    progress: &'a mut dyn FnMut(Progress),
    stop: &'a AtomicBool,
    started_unix_s: u64,
    /// CPU time of the SQPOLL threads during the measured stage.
    sqpoll_ns: Option<u64>,
    /// Completions over the measured stage.
    series: series::Series,
    /// CPU time of all threads except the calling thread during the measured stage.
    others_ns: Option<u64>,
}

impl Conductor<'_, '_> {
    fn conduct(&mut self) {
        // Setup may take long (registering buffers), without progress to report.
        while !self.shared.gate.all_stand(TICK) {}
        if !self.pass(Boundary::Ready) {
            return;
        }
        self.wait_quiet(Doing::WarmingUp);
        let before = self.sqpoll_time();
        if let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) {
            self.started_unix_s = now.as_secs();
        }
        if !self.pass(Boundary::MeasureBegins) {
            return;
        }
        let others_before = usage::of_others().ok();
        self.wait_quiet(Doing::Measuring);
        let others = usage::of_others().ok();
        self.others_ns = others.zip(others_before).map(|(after, before)| after.saturating_sub(before));
        self.sqpoll_ns = self.sqpoll_time().zip(before).map(|(after, before)| after.saturating_sub(before));
        self.pass(Boundary::MeasureEnds);
    }

    /// With all threads at the gate, calls the caller and releases the threads, or cancels the load if a thread failed.
    fn pass(&mut self, at: Boundary) -> bool {
        let off = self.shared.gate.someone_left();
        if !off {
            (self.boundary)(at);
        }
        self.shared.gate.open(off);
        !off
    }

    fn wait_quiet(&mut self, doing: Doing) {
        let shared = self.shared;
        let lookout = Lookout { gate: &shared.gate, done: &shared.done, halt: &shared.halt, stop: self.stop };
        lookout.wait_quiet(doing, shared.spec.end, &mut self.series, self.progress);
    }

    /// Sum over all jobs; either every job has an SQPOLL thread or none has. `None` if one is unknown.
    fn sqpoll_time(&self) -> Option<u64> {
        sum_of_all(self.shared.sq_tids.iter().map(|t| t.load(Ordering::Relaxed)), usage::of_tid)
    }
}

fn sum_of_all(tids: impl Iterator<Item = i32>, time: impl Fn(i32) -> Option<u64>) -> Option<u64> {
    tids.map(|tid| if tid == 0 { None } else { time(tid) }).sum()
}
