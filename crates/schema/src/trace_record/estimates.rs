//! What the followed requests tell of all.

use serde::{Deserialize, Serialize};

/// io_uring_enter calls that asked for so many requests, in powers of two, estimated from the followed requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnterBatch {
    pub at_least: u64,
    /// Followed requests in such calls.
    pub requests: u64,
    /// As [`CpuPair::estimated`].
    #[serde(default)]
    pub estimated: Option<u64>,
    /// Estimated calls: each request stands for 1/batch of one, times its weight.
    pub calls: f64,
    /// The estimate's 95 % interval (`stats::estimate`); of few requests it says little.
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
    pub total: f64,
    /// Its 95 % interval (`stats::estimate`); both ends are the total where nothing was left out.
    pub ci95: [f64; 2],
}

/// Followed completions that were ready on one CPU and posted on another, or the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPair {
    pub ready_cpu: u32,
    pub posted_cpu: u32,
    pub completions: u64,
    /// How many of all completions these stand for (the sum of their weights).
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
    pub items: u32,
    pub completions: u64,
    /// As [`CpuPair::estimated`].
    #[serde(default)]
    pub estimated: Option<u64>,
}

impl RunItems {
    /// As [`CpuPair::stands_for`].
    pub fn stands_for(&self) -> u64 {
        self.estimated.unwrap_or(self.completions)
    }
}
