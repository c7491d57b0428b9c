//! The sender: threads that keep requests in flight on their connections and check every response.
//!
//! | file | responsible for |
//! |---|---|
//! | `spec` | the options, checked |
//! | `thread` | one thread through the stages of the load, closed loop and open loop |
//! | `link`, `links`, `traffic` | its sockets: open, lose; sends and receives |
//! | `connection`, `check` | one connection's requests in flight; responses against their requests |
//! | `epoll` | waiting with nanosecond resolution |
//! | `tally`, `outcome` | sums and latency of a thread; totals |
//!
//! The stages are those of all loads ([`iotrail_load`]): at the two quiet points every request has been answered, so
//! between them the sender's and the server's counts agree.

mod check;
mod connection;
mod epoll;
mod link;
mod links;
mod outcome;
pub mod spec;
mod tally;
#[cfg(test)]
mod tests;
mod thread;
mod traffic;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::address::Address;
use super::descriptors;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_load::clock::Clock;
use iotrail_load::gate::{self, Gate};
use iotrail_load::lookout::{Lookout, TICK};
use iotrail_load::series::Series;
use iotrail_load::{Boundary, Doing, Progress};
use iotrail_stats::random::SplitMix64;

pub use outcome::Sent;
use spec::SenderSpec;
use thread::Shared;

/// Runs the load of `spec` against the server at `address`. The calling thread only waits; the sender has threads of
/// its own.
///
/// `boundary` is called at the three [`Boundary`] points and `progress` in between, both on the calling thread. An
/// error of `boundary` ends the load; an error at `MeasureEnds` comes after the measurement and is returned as
/// [`Sent::broken_off`]. Setting `stop` ends the load at a quiet point and returns the measurement so far, marked
/// `interrupted`.
///
/// If a connection breaks or is given up during the measured stage, the load ends, and the measurement so far is
/// returned with the reason in `broken_off`. With [`SenderSpec::reconnect`], the load continues.
///
/// Fails without a connection, with too few file descriptors, on a wrong response at any time, and if a connection
/// breaks or is given up before the measured stage.
pub fn run(
    spec: &SenderSpec,
    address: &Address,
    boundary: &mut dyn FnMut(Boundary) -> Result<()>,
    progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<Sent> {
    descriptors::make_room(u64::from(spec.connections) + u64::from(spec.idle_connections) + u64::from(spec.threads))?;
    let now = unix_time()?;
    let shared = Shared {
        spec,
        address,
        clock: Clock::get(),
        gate: Gate::new(spec.threads as usize),
        halt: AtomicBool::new(false),
        done: (0..spec.threads).map(|_| AtomicU64::new(0)).collect(),
        run: check::Run { first: SplitMix64::new(spec.seed.into()).draw() },
        serial: AtomicU64::new(0),
        broken_off: Mutex::new(None),
    };
    let finished = Mutex::new(Vec::new());
    let mut conductor = Conductor {
        shared: &shared,
        boundary,
        progress,
        stop,
        started_unix_s: now.as_secs(),
        series: Series::default(),
        refused: None,
    };
    std::thread::scope(|scope| {
        for number in 0..spec.threads {
            let (shared, finished) = (&shared, &finished);
            let thread = std::thread::Builder::new().name(format!("send-{number}"));
            let spawned = thread.spawn_scoped(scope, move || {
                let done = thread::run(shared, number);
                finished.lock().unwrap_or_else(PoisonError::into_inner).push((number, done));
            });
            if let Err(e) = spawned {
                let remedy = "raise ulimit -u, or use fewer --sender-threads";
                let e = Error::machine("cannot start a sender thread", remedy).because(e);
                finished.lock().unwrap_or_else(PoisonError::into_inner).push((number, Err(e)));
                shared.halt.store(true, Ordering::Relaxed);
                // Accounts for the threads that do not exist.
                (number..spec.threads).for_each(|_| shared.gate.leave());
                break;
            }
        }
        conductor.conduct();
    });
    let Conductor { started_unix_s, series, refused, .. } = conductor;
    let mut threads = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    threads.sort_by_key(|(number, _)| *number);
    // A thread that was only cancelled is not the cause.
    let (done, failed): (Vec<_>, Vec<_>) = threads.into_iter().map(|(_, done)| done).partition(|d| d.is_ok());
    let mut failures: Vec<Error> = refused.into_iter().chain(failed.into_iter().filter_map(Result::err)).collect();
    failures.sort_by_key(gate::is_called_off);
    if let Some(e) = failures.into_iter().next() {
        return Err(match gate::is_called_off(&e) && stop.load(Ordering::Relaxed) {
            true => Error::machine("the load was stopped before the first measurement", ""),
            false => e,
        });
    }
    if done.len() != spec.threads as usize {
        return Err(Error::machine("a sender thread panicked", "report this"));
    }
    let around = outcome::CallerTotals {
        started_unix_s,
        throughput: series.throughput(spec.end.span()),
        interrupted: stop.load(Ordering::Relaxed),
        broken_off: shared.broken_off.into_inner().unwrap_or_else(PoisonError::into_inner),
    };
    outcome::assemble(spec, &shared.clock, done.into_iter().filter_map(Result::ok).collect(), around)
}

fn unix_time() -> Result<std::time::Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).or_machine("the system clock is set before 1970", "set it")
}

/// The calling thread's part: opens the gate between stages, reports progress, and stops the load on request.
struct Conductor<'a, 'b> {
    shared: &'a Shared<'b>,
    boundary: &'a mut dyn FnMut(Boundary) -> Result<()>,
    progress: &'a mut dyn FnMut(Progress),
    stop: &'a AtomicBool,
    started_unix_s: u64,
    /// Completions over the measured stage.
    series: Series,
    /// The caller's error, which ended the load.
    refused: Option<Error>,
}

impl Conductor<'_, '_> {
    fn conduct(&mut self) {
        // Nothing has been measured yet, so a stop ends the load.
        while !self.shared.gate.all_stand(TICK) {
            if self.stop.load(Ordering::Relaxed) {
                self.shared.halt.store(true, Ordering::Relaxed);
            }
        }
        if !self.pass(Boundary::Ready) {
            return;
        }
        self.wait_quiet(Doing::WarmingUp);
        if let Ok(now) = unix_time() {
            self.started_unix_s = now.as_secs();
        }
        if !self.pass(Boundary::MeasureBegins) {
            return;
        }
        self.wait_quiet(Doing::Measuring);
        self.pass(Boundary::MeasureEnds);
    }

    /// With all threads at the gate, calls the caller and releases the threads; cancels the load if a thread failed or
    /// the caller requests it.
    fn pass(&mut self, at: Boundary) -> bool {
        let mut off = self.shared.gate.someone_left();
        if !off && let Err(e) = (self.boundary)(at) {
            if at == Boundary::MeasureEnds {
                self.shared.break_off(e);
            } else {
                self.refused = Some(e);
                off = true;
            }
        }
        self.shared.gate.open(off);
        !off
    }

    fn wait_quiet(&mut self, doing: Doing) {
        let shared = self.shared;
        let lookout = Lookout { gate: &shared.gate, done: &shared.done, halt: &shared.halt, stop: self.stop };
        lookout.wait_quiet(doing, shared.spec.end, &mut self.series, self.progress);
    }
}
