//! The order of completions.

use serde::{Deserialize, Serialize};

/// Order of the traced requests (`path::order`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Traced completions, each request once, without waits.
    pub completions: u64,
    /// Completions that overtook an earlier submission.
    pub inversions: u64,
    /// Completions that were overtaken; null in older records. One slow request can be overtaken by all others.
    #[serde(default)]
    pub overtaken: Option<u64>,
    /// Largest number of positions by which a completion was posted ahead of its turn.
    pub max_displacement: u64,
    /// Stages between which completions overtook.
    pub by: OrderBy,
    /// Waits, which are excluded here; `delivery` includes them.
    #[serde(default)]
    pub waits: u64,
    /// The same for ready to posted; null: no completion with *ready* seen.
    #[serde(default)]
    pub delivery: Option<Delivery>,
}

/// Whether completions were posted in the order in which they became ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Traced completions with *ready* seen. For a multishot request: each such completion.
    pub completions: u64,
    /// Traced completions without *ready* seen. They were done at submission, or they are further completions of one
    /// wake-up of a
    /// multishot request.
    pub without_ready: u64,
    /// Completions posted before one that was ready earlier.
    pub inversions: u64,
    /// Largest number of positions by which a completion was posted ahead of its turn.
    pub max_displacement: u64,
    /// Stages in which a later completion overtook.
    pub by: DeliveredBy,
}

/// Stages in which a later completion overtook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveredBy {
    /// In kernel workers of a file system. Null if the end of direct I/O is not visible (before Linux 6.6): then in
    /// `task_work`.
    pub file_system: Option<u64>,
    /// In task work.
    pub task_work: u64,
    /// Part of `task_work`: posted by their submission because they were already done. Completions that were ready
    /// earlier waited for
    /// task work. Null in older records.
    #[serde(default)]
    pub inline: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderBy {
    /// In the block layer.
    pub block: u64,
    /// In the device.
    pub device: u64,
    /// In kernel workers of a file system. Null if the end of direct I/O is not visible (before Linux 6.6): then in
    /// `task_work`.
    #[serde(default)]
    pub file_system: Option<u64>,
    /// In task work.
    pub task_work: u64,
}
