//! What the followed requests tell of all.

use serde::{Deserialize, Serialize};

/// io_uring_enter calls that asked for so many requests, in powers of two, estimated from the followed requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnterBatch {
    /// Requests that the call was asked to submit: this many, and fewer than twice as many.
    pub at_least: u64,
    /// Followed requests in such calls.
    pub requests: u64,
    /// How many of all requests these stand for.
    #[serde(default)]
    pub estimated: Option<u64>,
    /// How many calls that were, estimated.
    pub calls: f64,
    /// 95 % interval of `calls`; wide where `requests` are few.
    #[serde(default)]
    pub calls_ci95: Option<[f64; 2]>,
}

impl EnterBatch {
    /// As [`CpuPair::stands_for`].
    pub fn stands_for(&self) -> f64 {
        self.estimated.unwrap_or(self.requests) as f64
    }
}

/// A total that the followed requests tell of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    pub total: f64,
    /// Its 95 % interval; both ends are the total where nothing was left out.
    pub ci95: [f64; 2],
}

/// Followed completions that were ready on one CPU and posted on another, or the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPair {
    /// The CPU on which they were ready.
    pub ready_cpu: u32,
    /// The CPU on which they were posted.
    pub posted_cpu: u32,
    /// Followed completions.
    pub completions: u64,
    /// How many of all completions these stand for. By windows, of requests that were chosen from.
    #[serde(default)]
    pub estimated: Option<u64>,
    /// The fewest threads that submitted nine in ten of them; null in older records.
    #[serde(default)]
    pub threads: Option<u64>,
}

impl CpuPair {
    /// Of one and the same record, to be compared with others.
    pub fn stands_for(&self) -> u64 {
        self.estimated.unwrap_or(self.completions)
    }
}

/// Followed completions carried by runs of exactly so many items. An item of a multishot request may post several: the runs
/// themselves are in `task_work_batches`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunItems {
    /// Items of the run.
    pub items: u32,
    /// Followed completions that such runs carried.
    pub completions: u64,
    /// How many of all completions these stand for.
    #[serde(default)]
    pub estimated: Option<u64>,
}

impl RunItems {
    /// As [`CpuPair::stands_for`].
    pub fn stands_for(&self) -> u64 {
        self.estimated.unwrap_or(self.completions)
    }
}
