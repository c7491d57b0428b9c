//! Spans of time: latencies and delays.

use serde::{Deserialize, Serialize};

/// Latency of single I/Os, from the stamp before their submission (open loop: from their intended time) to the stamp
/// after the look that found them. A quantile that too few samples support is null (`stats::quantile`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean: Option<f64>,
    /// Where it is of followed requests, the mean's 95 % interval (`stats::mean`): both ends are the mean where nothing was left out.
    /// Null where too few of a sample tell of it. Of a load's own latencies, which are all there, always null.
    #[serde(default)]
    pub mean_ci95: Option<[f64; 2]>,
    pub min: Option<u64>,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
    pub p99_9: Option<u64>,
    pub p99_99: Option<u64>,
    pub max: Option<u64>,
}

/// Delivery delay, posted − ready, of the followed completions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: Option<u64>,
    /// Completions that it is of: those that were followed, with *ready* seen.
    #[serde(default)]
    pub count: Option<u64>,
    #[serde(default)]
    pub p90: Option<u64>,
    /// Of `count`, how many were delivered more than a millisecond late.
    #[serde(default)]
    pub over_1ms: Option<u64>,
}
