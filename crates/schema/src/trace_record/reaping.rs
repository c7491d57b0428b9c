//! Completions in the completion queue.

use serde::{Deserialize, Serialize};

use crate::measurement::Delay;

/// Time that completions stayed in the completion queue: from *posted* until the program had reaped them. Each time and
/// each quantile has a lower and an upper bound. Only some traced completions are checked: the first ones of each ring,
/// then 1 in 8.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reaping {
    /// Completions checked until they were reaped. These are the first ones of each ring, then 1 in 8 of the traced
    /// ones.
    pub completions: u64,
    /// Estimated number over all completions.
    pub estimated: u64,
    /// Time until the last check that found it in the queue. Each true quantile is between this one and that of
    /// `at_most_ns`.
    pub at_least_ns: Delay,
    /// Time until the first check that did not find it.
    pub at_most_ns: Delay,
    /// 95 % interval of the mean; null: fewer than 500.
    #[serde(default)]
    pub mean_ns_ci95: Option<[f64; 2]>,
    /// Part of `at_least_ns` in which no thread waited for more completions than were available. The thread that last
    /// used the ring was running or asleep.
    pub left_ns: Delay,
    /// Completions for which that part is 10 ms or longer, including those never reaped.
    pub left_long: u64,
    /// Estimated number over all completions.
    pub left_long_estimated: u64,
    /// Completions in the queue when one was posted, including itself.
    pub depth: Depth,
    /// Largest number seen in the queue at one time.
    pub deepest: u32,
    /// Not reaped before the end of the ring, the trace or the window; excluded from the quantiles.
    pub unreaped: u64,
    /// Estimated number over all completions.
    pub unreaped_estimated: u64,
    /// Minimum time that the oldest of these stayed in the queue; null: there are none.
    pub unreaped_at_least_ns: Option<u64>,
}

/// Quantiles over a number of completions; null: too few samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    /// Median.
    pub p50: Option<u64>,
    /// 99 % were at most this many.
    pub p99: Option<u64>,
    /// The largest.
    pub max: Option<u64>,
}
