//! Which threads submit to a ring, and which wait for its completions.

use serde::{Deserialize, Serialize};

use crate::delivery_path::DeliveryPath;

/// The threads that were seen to use one ring; of a ring that several processes use, one process's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RingThreads {
    /// Those that submitted and waited most, 16 at most.
    pub threads: Vec<ThreadRecord>,
    /// So many others at least.
    pub more: u64,
    /// How many of all these waited in io_uring_enter for its completions; null: none did. Who takes the completions is not known then:
    /// whoever looks into the ring's memory is not seen.
    pub waiting: Option<u64>,
    /// Completions posted by threads that leave it to others to wait; null: there are none.
    pub detour: Option<Detour>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRecord {
    /// Its number.
    pub tid: u32,
    /// Its name when it was met first; null: not known.
    pub comm: Option<String>,
    /// Requests that it submitted, estimated from the followed ones.
    pub submitted: u64,
    /// Times that it began to wait in io_uring_enter for this ring's completions: all of them.
    pub waits: u64,
    /// Mean delivery delay of what its own task work posted; null: known of none.
    pub delivery_ns: Option<f64>,
}

/// Completions that the task work of their submitter posted, while other threads wait for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Detour {
    /// Followed completions of submitters that do not wait on this ring, in whichever process.
    pub completions: u64,
    /// How many these stand for.
    pub estimated: u64,
    /// Their share of all the ring's completions.
    pub share: f64,
    /// How many threads submitted them.
    pub threads: u64,
    /// Mean delivery delay of those; null: known of none.
    pub delivery_ns: Option<f64>,
    /// The same of what threads posted that do wait on this ring; null: there are none.
    pub others_delivery_ns: Option<f64>,
    /// What delivered them, the most frequent first.
    pub vehicles: Vec<DeliveryPathShare>,
}

/// What delivered a part of the detour's completions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryPathShare {
    /// The delivery path.
    pub vehicle: DeliveryPath,
    /// The system call, of `syscall_exit`.
    pub detail: Option<String>,
    /// Their share of the detour's completions.
    pub share: f64,
}
