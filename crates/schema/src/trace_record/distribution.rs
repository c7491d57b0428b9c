//! Distribution of latencies, and rates over the course of a trace.

use serde::{Deserialize, Serialize};

use crate::delivery_path::DeliveryPath;

/// Latencies of the traced requests of one opcode and one delivery path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyHistogram {
    /// The operation.
    pub opcode: String,
    /// The delivery path; null: not known, as for native and POSIX AIO.
    pub vehicle: Option<DeliveryPath>,
    /// Classes in powers of two, without empty ones.
    pub buckets: Vec<LatencyBucket>,
}

/// Requests with a latency from `at_least_ns` to twice that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyBucket {
    /// A power of two, or 0.
    pub at_least_ns: u64,
    /// Estimated number of requests.
    pub requests: u64,
}

/// Completions over time, from the traced requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of a slice.
    pub slice_ns: u64,
    /// Slices from the first traced completion; at most 240.
    pub slices: Vec<TimeSlice>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeSlice {
    /// Estimated number of completions.
    pub completions: u64,
    /// Mean latency; null: no request ended in it.
    pub latency_mean_ns: Option<f64>,
    /// The longest latency of a traced request; null: no request ended in it.
    pub latency_max_ns: Option<u64>,
}
