//! Completions in the completion queue.

use serde::{Deserialize, Serialize};

use crate::measurement::Delay;

/// How long completions lay in the completion queue: from *posted* until the program had taken them out (*reaped*). Each is known by two
/// bounds, and so is each quantile. Of some of the followed completions: each ring's first ones, then one in eight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reaping {
    /// Completions that were looked at until they were taken out. Each ring's first ones, then one in eight of the followed.
    pub completions: u64,
    /// How many these stand for.
    pub estimated: u64,
    /// Until the last look that found it in the queue. Each true quantile lies between this one and that of `at_most_ns`.
    pub at_least_ns: Delay,
    /// Until the first look that did not find it.
    pub at_most_ns: Delay,
    /// 95 % interval of the mean; null: fewer than 500.
    #[serde(default)]
    pub mean_ns_ci95: Option<[f64; 2]>,
    /// Part of `at_least_ns` in which no thread waited for more completions than there were. The thread that used the ring last had a
    /// CPU or slept.
    pub left_ns: Delay,
    /// Completions of which that part is 10 ms or longer, those never taken out included.
    pub left_long: u64,
    /// How many these stand for.
    pub left_long_estimated: u64,
    /// Completions in the queue when one was posted, itself included.
    pub depth: Depth,
    /// The most that were seen in it at a time.
    pub deepest: u32,
    /// Not taken out before the ring, the watch or its window ended; in no quantile.
    pub unreaped: u64,
    /// How many these stand for.
    pub unreaped_estimated: u64,
    /// How long the oldest of these lay there, at least; null: there are none.
    pub unreaped_at_least_ns: Option<u64>,
}

/// Quantiles of a number of completions; null where too few tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    /// Median.
    pub p50: Option<u64>,
    /// 99 % were no more.
    pub p99: Option<u64>,
    /// The most.
    pub max: Option<u64>,
}
