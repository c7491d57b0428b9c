//! A run's stopping rule.

use std::time::{Duration, Instant};

use iotrail_answer::compare::{Metric, interval_width, metrics, place};
use iotrail_schema::run_record::{CellRecord, RunRecord, Stop};

/// Whether the intervals of all comparisons on the run's metrics are narrow enough. Ignores comparisons that cannot
/// have an interval on this host (an untestable cell, an unknown metric).
pub fn narrow_enough(run: &RunRecord, stop: &Stop) -> bool {
    let Some((base, others)) = run.arms.split_first() else { return true };
    let metrics = metrics(run);
    let is_arm = |c: &&CellRecord, arm: &str| c.arm() == arm && c.untestable.is_none();
    run.cells.iter().filter(|c| is_arm(c, base)).all(|a| {
        let others = run.cells.iter().filter(|b| others.iter().any(|arm| is_arm(b, arm)) && place(b) == place(a));
        others.into_iter().all(|b| metrics.iter().all(|m| narrow(*m, a, b, stop)))
    })
}

fn narrow(metric: Metric, a: &CellRecord, b: &CellRecord, stop: &Stop) -> bool {
    let (a, b) = (a.measurements.all(), b.measurements.all());
    let done = a.len().min(b.len());
    // Values that are unknown or 0 have no ratio.
    let has_ratio = a.iter().chain(b.iter()).all(|m| metric.of(m).is_some_and(|x| x > 0.0));
    done >= stop.at_least as usize
        && (!has_ratio || interval_width(metric, &a, &b).is_some_and(|half_width| half_width <= stop.within))
}

/// A run's time limit.
pub struct Budget {
    began: Instant,
    whole: Option<Duration>,
}

impl Budget {
    pub fn new(seconds: Option<f64>) -> Self {
        Self { began: Instant::now(), whole: seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()) }
    }

    /// Whether the next block will end in time. `share`: its number of measurements relative to previous blocks.
    pub fn has_room(&self, share: f64) -> bool {
        let spent = self.began.elapsed();
        self.whole.is_none_or(|whole| spent + spent.mul_f64(share) <= whole)
    }
}
