//! The order of completions.

use serde::{Deserialize, Serialize};

/// Of the followed requests (`path::order`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Followed completions, each request once; no waits.
    pub completions: u64,
    /// Completions that overtook one submitted before.
    pub inversions: u64,
    /// Completions that were overtaken; null in older records. One that takes long is overtaken by all.
    #[serde(default)]
    pub overtaken: Option<u64>,
    /// The most places that one was posted ahead of its turn.
    pub max_displacement: u64,
    /// Between which stages they overtook.
    pub by: OrderBy,
    /// Requests that are left out of this, since they are waits; `delivery` has them.
    #[serde(default)]
    pub waits: u64,
    /// The same of ready to posted; null where no completion was seen to become ready.
    #[serde(default)]
    pub delivery: Option<Delivery>,
}

/// Whether completions were posted in the order in which they were ready, whatever the order of their submissions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Followed completions that were seen to become ready. Of a multishot request, each that was.
    pub completions: u64,
    /// Followed completions that were not seen to become ready. They were done at their submission, or are further ones of one wake-up
    /// of a multishot request.
    pub without_ready: u64,
    /// Posted before one that was ready earlier.
    pub inversions: u64,
    /// The most places that one was posted ahead of its turn.
    pub max_displacement: u64,
    /// Where a later one overtook.
    pub by: DeliveredBy,
}

/// Where a later one overtook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveredBy {
    /// In kernel workers of a file system. Null where the end of direct I/O is not seen (before Linux 6.6): then under `task_work`.
    pub file_system: Option<u64>,
    /// In task work.
    pub task_work: u64,
    /// Of those under `task_work`: posted by their submission, since they were done by then. What was ready before waited for task
    /// work. Null in older records.
    #[serde(default)]
    pub inline: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderBy {
    /// In the block layer.
    pub block: u64,
    /// In the device.
    pub device: u64,
    /// In kernel workers of a file system. Null where the end of direct I/O is not seen (before Linux 6.6): then under `task_work`.
    #[serde(default)]
    pub file_system: Option<u64>,
    /// In task work.
    pub task_work: u64,
}
