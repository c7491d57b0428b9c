//! Requests that were followed whole, and their stages.

use serde::{Deserialize, Serialize};

use crate::latency::Latency;
use crate::runnable::Runnable;

/// Requests that were kept open until something came (`path::waits`): in no mean latency, no stages and no order of submission of the
/// others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Followed ones.
    pub requests: u64,
    /// How many these stand for,
    pub estimated: u64,
    /// with its 95 % interval: where not every request was followed, there may be more of which none was.
    #[serde(default)]
    pub estimated_ci95: Option<[f64; 2]>,
    /// Their own mean latency.
    pub mean_ns: f64,
}

/// Means over the followed completions with both *issued* and *ready*; `issue_ns`, `wait_ns` and `delivery_ns` sum to `total_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    pub completions: u64,
    pub issue_ns: f64,
    pub wait_ns: f64,
    pub delivery_ns: f64,
    /// Of `delivery_ns`: until a kernel worker of the file system had finished the I/O; null where none was seen.
    #[serde(default)]
    pub file_system_ns: Option<f64>,
    /// Of the delivery: until task work was added for it; null where that was not seen. A mean over the `queued_completions` of
    /// which it was seen.
    #[serde(default)]
    pub queued_ns: Option<f64>,
    #[serde(default)]
    pub queued_completions: u64,
    /// `delivery_ns` of the same: what `queued_ns` is a part of.
    #[serde(default)]
    pub queued_delivery_ns: Option<f64>,
    /// Of the delivery: the submitting thread could run and waited for a CPU; null: not known of any.
    #[serde(default)]
    pub runnable: Option<Runnable>,
    pub total_ns: f64,
    /// As `mean_ci95` of a latency.
    #[serde(default)]
    pub total_ci95: Option<[f64; 2]>,
    pub delivery_delay_ns: Latency,
}

impl StageRecord {
    /// The part of the delivery delay that was spent in a kernel worker of the file system.
    pub fn file_system_share(&self) -> Option<f64> {
        self.file_system_ns.filter(|_| self.delivery_ns > 0.0).map(|ns| ns / self.delivery_ns)
    }
}

/// How many requests were followed whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Followed {
    /// One request in so many; 1: all.
    pub one_in: u32,
    /// All requests of a CPU were followed while there were few, and one in `one_in` of the others.
    #[serde(default)]
    pub adaptive: bool,
    pub completions: u64,
    /// Of `completions`: of requests that were followed while all were.
    #[serde(default)]
    pub whole: u64,
    /// Requests of which only one in `one_in` was chosen; null where all had to be followed, or it was not counted.
    #[serde(default)]
    pub sampled_from: Option<u64>,
    /// Requests that came while windows finished, which none of the followed ones stands for: counted, and in `requests_estimated`.
    /// Null: not watched by windows.
    #[serde(default)]
    pub came_later: Option<u64>,
    /// How many requests the followed and the unfinished ones stand for (the sum of their weights), with those that came later: to
    /// be held against those counted.
    #[serde(default)]
    pub requests_estimated: Option<f64>,
    /// Its 95 % interval (`stats::estimate`).
    #[serde(default)]
    pub requests_ci95: Option<[f64; 2]>,
    /// Of `completions`: those with both *issued* and *ready* seen.
    pub with_stages: u64,
    /// Of `completions`: those with *queued* seen; null where the kernel lets no probe see it.
    #[serde(default)]
    pub with_queued: Option<u64>,
    /// Chosen, but given up: no room to keep them.
    pub no_room: u64,
    /// Whole, but lost on the way: the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Chosen, and without a completion as far as was seen: the program asked for none if they succeed
    /// (IOSQE_CQE_SKIP_SUCCESS).
    #[serde(default)]
    pub skipped: u64,
    /// Chosen, and over without a completion that was seen: it overflowed, or was missed.
    #[serde(default)]
    pub no_completion: u64,
    /// Chosen, and not complete when watching ended.
    pub unfinished: u64,
    /// Chosen, of native aio and complete, or of POSIX AIO; their results were not seen to be reaped.
    #[serde(default)]
    pub unreaped: u64,
    /// Completions that are not among `completions`, since another open request had what they name: of multishot requests the user
    /// data, of native aio the control block.
    #[serde(default)]
    pub shared_user_data: u64,
}

impl Followed {
    /// Which requests were followed, in words.
    pub fn sampling(&self) -> String {
        match (self.one_in, self.adaptive) {
            (0 | 1, _) => "all requests".into(),
            (_, true) if self.sampled_from == Some(0) => "all requests".into(),
            (n, true) => format!("all requests of a CPU up to 20 k a second, 1 in {n} beyond"),
            (n, false) => format!("1 in {n} requests"),
        }
    }

    /// Some requests were left out, and the followed ones stand for them: what is said of these is an estimate.
    pub fn is_sample(&self) -> bool {
        self.one_in > 1 && self.sampled_from != Some(0)
    }

    /// What is said of the followed ones is no count: some were left out, or lost.
    pub fn is_estimate(&self) -> bool {
        self.is_sample() || self.came_later.is_some_and(|n| n > 0) || self.no_room + self.ring_buffer_full > 0
    }

    /// All requests for each that the followed ones tell of: more than one where some came while windows finished, and are taken to be
    /// like the others.
    pub fn of_all(&self) -> f64 {
        let later = self.came_later.unwrap_or(0) as f64;
        self.requests_estimated.filter(|all| *all > later).map_or(1.0, |all| all / (all - later))
    }
}
