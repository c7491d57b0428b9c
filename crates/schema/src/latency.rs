//! Spans of time: latencies and delays.

use serde::{Deserialize, Serialize};

/// Latency of single I/Os, from the stamp before their submission (open loop: from their intended time) to the stamp
/// after the look that found them. A quantile that too few samples support is null (`stats::quantile`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many latencies.
    pub count: u64,
    /// The mean.
    pub mean: Option<f64>,
    /// 95 % interval of `mean` of followed requests; null of a load's own I/Os. Both ends are the mean where nothing was left out. It
    /// is of the sampling alone: where the mean of all requests of this span lies, not of another span. Null where fewer than 500
    /// requests tell of it, since a few samples of a heavy tail may be far off with no sign of it.
    #[serde(default)]
    pub mean_ci95: Option<[f64; 2]>,
    /// The smallest.
    pub min: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90 % were no longer.
    pub p90: Option<u64>,
    /// 95 % were no longer.
    pub p95: Option<u64>,
    /// 99 % were no longer.
    pub p99: Option<u64>,
    /// 99.9 % were no longer.
    pub p99_9: Option<u64>,
    /// 99.99 % were no longer.
    pub p99_99: Option<u64>,
    /// The largest.
    pub max: Option<u64>,
}

/// Delivery delay, posted − ready, of the followed completions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// Median.
    pub p50: Option<u64>,
    /// 99 % were no longer.
    pub p99: Option<u64>,
    /// The largest.
    pub max: Option<u64>,
    /// Followed completions that it is of, with ready seen.
    #[serde(default)]
    pub count: Option<u64>,
    /// 90 % were no longer.
    #[serde(default)]
    pub p90: Option<u64>,
    /// Of `count`, those delivered more than a millisecond late.
    #[serde(default)]
    pub over_1ms: Option<u64>,
}
