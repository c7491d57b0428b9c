//! Estimates for all requests, based on the traced requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The `count_intervals` of a trace or a ring.
pub type CountIntervals = BTreeMap<String, Option<[f64; 2]>>;

/// io_uring_enter calls by number of requests to submit, in powers of two. Estimated from traced requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnterBatch {
    /// Requests to submit: this many, and fewer than twice as many.
    pub at_least: u64,
    /// Traced requests in these calls.
    pub requests: u64,
    /// Estimated number over all requests.
    #[serde(default)]
    pub estimated: Option<u64>,
    /// Estimated number of calls.
    pub calls: f64,
    /// 95 % interval of `calls`; wide if `requests` is small.
    #[serde(default)]
    pub calls_ci95: Option<[f64; 2]>,
}

impl EnterBatch {
    /// As [`CpuPair::stands_for`].
    pub fn stands_for(&self) -> f64 {
        self.estimated.unwrap_or(self.requests) as f64
    }
}

/// A total that is estimated from the traced requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    pub total: f64,
    /// Its 95 % interval; both ends equal the total if nothing was left out.
    pub ci95: [f64; 2],
}

/// Traced completions that became ready on one CPU and were posted on the same or a different CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPair {
    /// The CPU on which they became ready.
    pub ready_cpu: u32,
    /// The CPU on which they were posted.
    pub posted_cpu: u32,
    /// Number of traced completions.
    pub completions: u64,
    /// Estimated number over all completions. With windows: over requests that could be selected.
    #[serde(default)]
    pub estimated: Option<u64>,
    /// Smallest number of threads that submitted 90 % of them; null in older records.
    #[serde(default)]
    pub threads: Option<u64>,
}

impl CpuPair {
    /// For comparisons within one record.
    pub fn stands_for(&self) -> u64 {
        self.estimated.unwrap_or(self.completions)
    }
}

/// Traced completions in task work runs of exactly this many items. An item of a multishot request may post several
/// completions: `task_work_batches` counts the runs themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunItems {
    /// Items of the run.
    pub items: u32,
    /// Traced completions in these runs.
    pub completions: u64,
    /// Estimated number over all completions.
    #[serde(default)]
    pub estimated: Option<u64>,
}

impl RunItems {
    /// As [`CpuPair::stands_for`].
    pub fn stands_for(&self) -> u64 {
        self.estimated.unwrap_or(self.completions)
    }
}
