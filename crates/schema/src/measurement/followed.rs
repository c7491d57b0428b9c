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
    /// How many these stand for.
    pub estimated: u64,
    /// 95 % interval of `estimated`. Where not every request was followed, there may be more of which none was.
    #[serde(default)]
    pub estimated_ci95: Option<[f64; 2]>,
    /// Their own mean latency.
    pub mean_ns: f64,
}

/// Means over the followed completions with both *issued* and *ready*; `issue_ns`, `wait_ns` and `delivery_ns` sum to `total_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Followed completions that the means are of.
    pub completions: u64,
    /// Submitted to issued.
    pub issue_ns: f64,
    /// Issued to ready.
    pub wait_ns: f64,
    /// Ready to posted.
    pub delivery_ns: f64,
    /// Part of `delivery_ns` until a kernel worker of the file system had finished the I/O. Null where none was seen.
    #[serde(default)]
    pub file_system_ns: Option<f64>,
    /// Part of the delivery until task work was added; null where that was seen of none. A mean over `queued_completions`.
    #[serde(default)]
    pub queued_ns: Option<f64>,
    /// Completions of which `queued` was seen.
    #[serde(default)]
    pub queued_completions: u64,
    /// Mean `delivery_ns` of the same completions.
    #[serde(default)]
    pub queued_delivery_ns: Option<f64>,
    /// How long submitters that could run waited for a CPU; null: known of none. A part of the delivery.
    #[serde(default)]
    pub runnable: Option<Box<Runnable>>,
    /// The sum of `issue_ns`, `wait_ns` and `delivery_ns`.
    pub total_ns: f64,
    /// 95 % interval of `total_ns`, as `mean_ci95` of a latency. It and that of `delivery_delay_ns` are of the requests whose stages
    /// could be seen: of block I/O with `sampled_events`, those in its windows alone.
    #[serde(default)]
    pub total_ci95: Option<[f64; 2]>,
    /// Distribution of ready to posted.
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
    /// All requests of a CPU while there are few, one in `one_in` of the others. False: one in `one_in` throughout.
    #[serde(default)]
    pub adaptive: bool,
    /// Followed completions.
    pub completions: u64,
    /// Of `completions`: those chosen while all requests were. Each stands for itself, the others for `one_in`.
    #[serde(default)]
    pub whole: u64,
    /// Requests of which one in `one_in` was chosen; 0: nothing was left out. Null with `one_in` 1, and where it was not counted.
    #[serde(default)]
    pub sampled_from: Option<u64>,
    /// Requests that came while windows finished: counted, and followed by none. They are in `requests_estimated`. Null: not watched by
    /// windows.
    #[serde(default)]
    pub came_later: Option<u64>,
    /// How many requests the followed and unfinished ones stand for. Those that came later are in it. It is to be held against
    /// `requests`; those given up, lost, skipped or without a completion are missing.
    #[serde(default)]
    pub requests_estimated: Option<f64>,
    /// 95 % interval of `requests_estimated`.
    #[serde(default)]
    pub requests_ci95: Option<[f64; 2]>,
    /// Of `completions`: those with both issued and ready seen.
    pub with_stages: u64,
    /// Of `completions`: those with queued seen. Null where the kernel lets no probe see it.
    #[serde(default)]
    pub with_queued: Option<u64>,
    /// Chosen, and given up: no room to keep them.
    pub no_room: u64,
    /// Complete, and lost on the way: the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Chosen, and without a completion, as asked for (IOSQE_CQE_SKIP_SUCCESS).
    #[serde(default)]
    pub skipped: u64,
    /// Chosen, and over without a completion that was seen: it overflowed, or was missed.
    #[serde(default)]
    pub no_completion: u64,
    /// Chosen, and not complete at the end of the watch or of their window.
    pub unfinished: u64,
    /// Complete, and their result was not seen to be reaped: native aio and POSIX AIO.
    #[serde(default)]
    pub unreaped: u64,
    /// Completions left out, since another open request had what they name. Of a multishot request that is its user data, of native aio
    /// its iocb.
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
