//! Durations: latencies and delays.

use serde::{Deserialize, Serialize};

/// Latency of single I/Os, from the timestamp before submission (open loop: the intended time) to the timestamp after
/// the poll that found the completion. A quantile is null if it has too few samples (`stats::quantile`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of latencies.
    pub count: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// 95 % interval of the traced requests' `mean`; null for iotrail's own loads. Both ends equal the mean if all
    /// requests were traced. It covers only the sampling error. Null below 500 traced requests, since a few samples of
    /// a heavy tail may be far off without showing it.
    #[serde(default)]
    pub mean_ci95: Option<[f64; 2]>,
    /// Minimum.
    pub min: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90 % were at most this long.
    pub p90: Option<u64>,
    /// 95 % were at most this long.
    pub p95: Option<u64>,
    /// 99 % were at most this long.
    pub p99: Option<u64>,
    /// 99.9 % were at most this long.
    pub p99_9: Option<u64>,
    /// 99.99 % were at most this long.
    pub p99_99: Option<u64>,
    /// Maximum.
    pub max: Option<u64>,
}

/// Delivery delay, posted − ready, of the traced completions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// Median.
    pub p50: Option<u64>,
    /// 99 % were at most this long.
    pub p99: Option<u64>,
    /// Maximum.
    pub max: Option<u64>,
    /// Number of traced completions for which *ready* was seen, on which this is based.
    #[serde(default)]
    pub count: Option<u64>,
    /// 90 % were at most this long.
    #[serde(default)]
    pub p90: Option<u64>,
    /// Part of `count`: completions delivered more than 1 ms late.
    #[serde(default)]
    pub over_1ms: Option<u64>,
}
