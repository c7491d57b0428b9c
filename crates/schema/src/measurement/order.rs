//! The order of completions.

use serde::{Deserialize, Serialize};

/// Of the followed requests (`path::order`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Each request once: submitted → posted. No waits.
    pub completions: u64,
    /// Those that overtook another one, and
    pub inversions: u64,
    /// those that were overtaken by another one: one that takes long is, by all. Null in older records.
    #[serde(default)]
    pub overtaken: Option<u64>,
    pub max_displacement: u64,
    pub by: OrderBy,
    /// Requests that were left out of this, since they are waits; `delivery` has them.
    #[serde(default)]
    pub waits: u64,
    /// Ready → posted; null where no completion was seen to become ready.
    #[serde(default)]
    pub delivery: Option<Delivery>,
}

/// Whether completions were posted in the order in which they were ready, whatever the order of their submissions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Those that were seen to become ready; of a multishot request, each that was.
    pub completions: u64,
    /// Followed, and not seen to: done while they were submitted, or further ones of one wake-up of a multishot request.
    pub without_ready: u64,
    /// Posted before one that was ready earlier.
    pub inversions: u64,
    pub max_displacement: u64,
    pub by: DeliveredBy,
}

/// Where a later one overtook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveredBy {
    /// As in [`OrderBy`].
    pub file_system: Option<u64>,
    pub task_work: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderBy {
    pub block: u64,
    pub device: u64,
    /// In kernel workers of a file system; null where the end of direct I/O is not seen (before Linux 6.6): then under
    /// `task_work`.
    #[serde(default)]
    pub file_system: Option<u64>,
    pub task_work: u64,
}
