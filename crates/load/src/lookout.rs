//! The calling thread while a load is running: waits until its threads are quiet, samples their counters, reports
//! progress, and stops them when the user stops the load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::gate::Gate;
use super::series::Series;
use super::spec::End;
use super::{Doing, Progress};

pub const TICK: Duration = Duration::from_millis(250);

pub struct Lookout<'a> {
    pub gate: &'a Gate,
    /// I/Os of the current stage, by thread.
    pub done: &'a [AtomicU64],
    /// Makes the threads submit nothing more.
    pub halt: &'a AtomicBool,
    /// Set by the user to stop.
    pub stop: &'a AtomicBool,
}

impl Lookout<'_> {
    /// Returns when every thread is at the gate. During the measurement, adds the counters to `series`. `end`: the end
    /// of the measured stage.
    pub fn wait_quiet(&self, doing: Doing, end: End, series: &mut Series, progress: &mut dyn FnMut(Progress)) {
        let total = end.ios().filter(|_| doing == Doing::Measuring);
        let began = Instant::now();
        let mut told = Duration::ZERO;
        loop {
            let next = match doing {
                Doing::Measuring => series.next().min(told + TICK),
                _ => told + TICK,
            };
            let quiet = self.gate.all_stand(next.saturating_sub(began.elapsed()));
            let done = self.done.iter().map(|d| d.load(Ordering::Relaxed)).sum();
            let elapsed = began.elapsed();
            if doing == Doing::Measuring {
                series.look(elapsed, done);
            }
            if quiet {
                return;
            }
            if self.stop.load(Ordering::Relaxed) {
                self.halt.store(true, Ordering::Relaxed);
            }
            if elapsed >= told + TICK {
                told = elapsed;
                progress(Progress { doing, done, total, elapsed });
            }
        }
    }
}
