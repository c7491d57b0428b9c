//! Completions in the completion queue.

use serde::{Deserialize, Serialize};

use crate::measurement::Delay;

/// How long completions lay in the completion queue: from *posted* until the program had taken them out (*reaped*). Each is known by two
/// bounds, and so is each quantile. Of some of the followed completions: each ring's first ones, then one in eight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reaping {
    /// Those that were looked at until they were taken out.
    pub completions: u64,
    /// How many these stand for.
    pub estimated: u64,
    /// Until the last look that found it in the queue.
    pub at_least_ns: Delay,
    /// Until the first look that did not.
    pub at_most_ns: Delay,
    /// The part of `at_least_ns` in which no thread was waiting in io_uring_enter for more completions than there were, and the one that
    /// used the ring last was not waiting for a CPU.
    pub left_ns: Delay,
    /// Completions of which that part is 10 ms or longer, those that were never taken out included,
    pub left_long: u64,
    /// and how many these stand for.
    pub left_long_estimated: u64,
    /// Completions in the queue when one was posted, itself included.
    pub depth: Depth,
    /// The most that were seen in it at a time.
    pub deepest: u32,
    /// Looked at, and not taken out before the ring, the watch or its window ended.
    pub unreaped: u64,
    /// How many these stand for.
    pub unreaped_estimated: u64,
    /// How long the one lay there that lay there longest, at least; null: there are none.
    pub unreaped_at_least_ns: Option<u64>,
}

/// Quantiles of a number of completions; null where too few tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: Option<u64>,
}
