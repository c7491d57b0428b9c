//! Threads that submit to a ring, and threads that wait for its completions.

use serde::{Deserialize, Serialize};

use crate::delivery_path::DeliveryPath;

/// Threads that used one ring; for a ring of several processes, the threads of one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RingThreads {
    /// The threads with the most submissions and waits, at most 16.
    pub threads: Vec<ThreadRecord>,
    /// Minimum number of further threads.
    pub more: u64,
    /// Number of threads that waited in io_uring_enter for its completions; null: none did. In that case, the reaping
    /// threads are unknown, because the probes do not see reads of the ring's memory.
    pub waiting: Option<u64>,
    /// Completions posted by threads that do not wait for them; null: there are none.
    pub detour: Option<Detour>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRecord {
    /// Thread ID.
    pub tid: u32,
    /// Its name when it was first seen; null: not known.
    pub comm: Option<String>,
    /// Number of its submitted requests, estimated from the traced ones.
    pub submitted: u64,
    /// Number of times that it started waiting in io_uring_enter for this ring's completions.
    pub waits: u64,
    /// Mean delivery delay of completions posted by its own task work; null: not known.
    pub delivery_ns: Option<f64>,
}

/// Completions posted by the task work of their submitter while other threads wait for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Detour {
    /// Traced completions of submitters that do not wait on this ring, in any process.
    pub completions: u64,
    /// Estimated number over all completions.
    pub estimated: u64,
    /// Their share of all completions of the ring.
    pub share: f64,
    /// Number of threads that submitted them.
    pub threads: u64,
    /// Mean delivery delay of these completions; null: not known.
    pub delivery_ns: Option<f64>,
    /// Mean delivery delay of completions posted by threads that wait on this ring; null: there are none.
    pub others_delivery_ns: Option<f64>,
    /// Their delivery paths, most frequent first.
    pub vehicles: Vec<DeliveryPathShare>,
}

/// Completions of the detour by delivery path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryPathShare {
    /// The delivery path.
    pub vehicle: DeliveryPath,
    /// The system call, for `syscall_exit`.
    pub detail: Option<String>,
    /// Share of the detour's completions.
    pub share: f64,
}
