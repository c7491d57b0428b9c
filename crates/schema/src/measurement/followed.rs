//! Requests that were traced end to end, and their stages.

use serde::{Deserialize, Serialize};

use crate::latency::Latency;
use crate::runnable::Runnable;

/// Requests that wait for an event of unknown time (`path::waits`). The mean latency, the stages and the
/// submission order exclude them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Number of traced requests.
    pub requests: u64,
    /// Estimated number over all requests.
    pub estimated: u64,
    /// 95 % interval of `estimated`. If not every request was traced, waits of which none was traced may be missing.
    #[serde(default)]
    pub estimated_ci95: Option<[f64; 2]>,
    /// Their own mean latency.
    pub mean_ns: f64,
}

/// Means over the traced completions with *issued* and *ready*. `issue_ns`, `wait_ns` and `delivery_ns` sum to
/// `total_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Number of traced completions on which the means are based.
    pub completions: u64,
    /// Submitted to issued.
    pub issue_ns: f64,
    /// Issued to ready.
    pub wait_ns: f64,
    /// Ready to posted.
    pub delivery_ns: f64,
    /// Part of `delivery_ns` until a file system worker finished the I/O. Null: none was seen.
    #[serde(default)]
    pub file_system_ns: Option<f64>,
    /// Part of the delivery until task work was added; null: not seen. A mean over `queued_completions`.
    #[serde(default)]
    pub queued_ns: Option<f64>,
    /// Completions with *queued* seen.
    #[serde(default)]
    pub queued_completions: u64,
    /// Mean `delivery_ns` of the same completions.
    #[serde(default)]
    pub queued_delivery_ns: Option<f64>,
    /// Time that runnable submitters waited for a CPU; null: not known. It is a part of the delivery.
    #[serde(default)]
    pub runnable: Option<Box<Runnable>>,
    /// The sum of `issue_ns`, `wait_ns` and `delivery_ns`.
    pub total_ns: f64,
    /// 95 % interval of `total_ns`, as `mean_ci95` of a latency. It covers the requests with visible stages, like the
    /// interval of `delivery_delay_ns`. For block I/O with `sampled_events` these are only the requests in its windows.
    #[serde(default)]
    pub total_ci95: Option<[f64; 2]>,
    /// Distribution of ready to posted.
    pub delivery_delay_ns: Latency,
}

impl StageRecord {
    /// Share of the delivery delay spent in a kernel worker of the file system.
    pub fn file_system_share(&self) -> Option<f64> {
        self.file_system_ns.filter(|_| self.delivery_ns > 0.0).map(|ns| ns / self.delivery_ns)
    }
}

/// Number of requests traced end to end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Followed {
    /// N, if 1 in N requests is traced; 1: all.
    pub one_in: u32,
    /// Whether all requests of a CPU are traced at low rates, and 1 in `one_in` at higher rates. False: always 1 in
    /// `one_in`.
    #[serde(default)]
    pub adaptive: bool,
    /// Number of traced completions.
    pub completions: u64,
    /// Part of `completions`: those selected while all requests were. Each has weight 1, the others `one_in`.
    #[serde(default)]
    pub whole: u64,
    /// Requests of which only 1 in `one_in` was selected; 0: all were selected. Null if `one_in` is 1, and if not
    /// counted.
    #[serde(default)]
    pub sampled_from: Option<u64>,
    /// Requests that came while windows finished; counted, never traced. `requests_estimated` includes them. Null: no
    /// windows.
    #[serde(default)]
    pub came_later: Option<u64>,
    /// Number of requests that the traced and unfinished ones represent, including those that came later. Compare it
    /// with `requests`. It excludes requests that were given up, lost, skipped or without a completion.
    #[serde(default)]
    pub requests_estimated: Option<f64>,
    /// 95 % interval of `requests_estimated`.
    #[serde(default)]
    pub requests_ci95: Option<[f64; 2]>,
    /// Part of `completions`: those with both *issued* and *ready* seen.
    pub with_stages: u64,
    /// Part of `completions`: those with *queued* seen. Null: the kernel does not allow a probe there.
    #[serde(default)]
    pub with_queued: Option<u64>,
    /// Selected requests that were abandoned because the map was full.
    pub no_room: u64,
    /// Completed requests that were lost because the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Selected requests that succeeded without a completion, as requested (IOSQE_CQE_SKIP_SUCCESS).
    #[serde(default)]
    pub skipped: u64,
    /// Selected requests that ended without a visible completion: it overflowed, or was missed.
    #[serde(default)]
    pub no_completion: u64,
    /// Selected requests that had not completed at the end of the trace or window.
    pub unfinished: u64,
    /// Completed requests that were not seen to be reaped: native aio and POSIX AIO.
    #[serde(default)]
    pub unreaped: u64,
    /// Completions excluded because another open request had the same key. The key is the user data of a multishot
    /// request, or the iocb of
    /// native aio.
    #[serde(default)]
    pub shared_user_data: u64,
}

impl Followed {
    /// The sampling of requests, as text.
    pub fn sampling(&self) -> String {
        match (self.one_in, self.adaptive) {
            (0 | 1, _) => "all requests".into(),
            (_, true) if self.sampled_from == Some(0) => "all requests".into(),
            (n, true) => format!("all requests of a CPU up to 20 k a second, 1 in {n} beyond"),
            (n, false) => format!("1 in {n} requests"),
        }
    }

    /// Some requests were left out and the traced ones represent them: numbers based on them are estimates.
    pub fn is_sample(&self) -> bool {
        self.one_in > 1 && self.sampled_from != Some(0)
    }

    /// Numbers based on the traced requests are not counts: some requests were left out or lost.
    pub fn is_estimate(&self) -> bool {
        self.is_sample() || self.came_later.is_some_and(|n| n > 0) || self.no_room + self.ring_buffer_full > 0
    }

    /// Number of all requests per request that the traced ones represent. It is more than one if some came while
    /// windows finished; those
    /// are assumed to be like the others.
    pub fn of_all(&self) -> f64 {
        let later = self.came_later.unwrap_or(0) as f64;
        self.requests_estimated.filter(|all| *all > later).map_or(1.0, |all| all / (all - later))
    }
}
