//! Which threads submit to a ring, and which wait for its completions.

use serde::{Deserialize, Serialize};

use crate::vehicle::Vehicle;

/// The threads that were seen to use one ring; of a ring that several processes use, one process's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RingThreads {
    /// Those that submitted or waited most.
    pub threads: Vec<ThreadRecord>,
    /// So many others at least.
    pub more: u64,
    /// How many of all these waited in io_uring_enter for this ring's completions. Null: none did, and who takes its completions is not
    /// known: whoever looks into its memory is not seen.
    pub waiting: Option<u64>,
    /// Null: there is none.
    pub detour: Option<Detour>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRecord {
    pub tid: u32,
    /// When it was met first; null: not known.
    pub comm: Option<String>,
    /// Requests that it submitted, estimated from the followed ones.
    pub submitted: u64,
    /// Times that it began to wait in io_uring_enter for this ring's completions: all of them.
    pub waits: u64,
    /// Mean delivery delay of the followed completions that its task work posted; null: of none it is known.
    pub delivery_ns: Option<f64>,
}

/// Completions that the task work of their submitter posted, while other threads wait for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Detour {
    /// Followed completions, of submitters that do not wait on this ring, whoever else does,
    pub completions: u64,
    /// what they stand for,
    pub estimated: u64,
    /// their share of all of the ring's,
    pub share: f64,
    /// and how many threads submitted them.
    pub threads: u64,
    /// Mean delivery delay of those; null: of none it is known.
    pub delivery_ns: Option<f64>,
    /// The same of completions that the task work of threads posted which do wait on this ring; null: there are none.
    pub others_delivery_ns: Option<f64>,
    /// What delivered them, the most frequent first.
    pub vehicles: Vec<VehicleShare>,
}

/// What delivered a part of the detour's completions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VehicleShare {
    pub vehicle: Vehicle,
    /// The system call, of `syscall_exit`.
    pub detail: Option<String>,
    pub share: f64,
}
