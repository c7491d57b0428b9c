//! The recorded program's metrics, for comparison with its replay, and gaps in the recording.

use std::collections::VecDeque;

use crate::batches::Batches;
use iotrail_stats::durations::Durations;

/// Metrics of the recorded program.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// From the first submission to the return of the last call.
    pub elapsed_ns: u64,
    /// Sums over the replayed threads.
    pub sums: Sums,
    pub batches: Batches,
    pub doubts: Doubts,
    pub registered_files: bool,
    pub registered_buffers: bool,
    /// The recording continues after the replayed part.
    pub is_part: bool,
}

/// Values that are summed over threads.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// Replayed requests and synchronous calls.
    pub ios: u64,
    /// Calls that submit, wait, read, write or sync.
    pub calls: u64,
    /// From submission to the first call that shows the completion as reaped, matched in order: the n-th reaped with
    /// the n-th submitted. Synchronous calls count with their duration.
    pub latencies: Durations,
    /// User time between calls.
    pub think_ns: u64,
    /// Time between calls for which the threads were off the CPU.
    pub idle_ns: u64,
    /// Time of the threads, from first to last event.
    pub threads_ns: u64,
}

impl Sums {
    pub fn add(&mut self, other: &Sums) {
        self.ios += other.ios;
        self.calls += other.calls;
        self.latencies.add(&other.latencies);
        self.think_ns = self.think_ns.saturating_add(other.think_ns);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.threads_ns = self.threads_ns.saturating_add(other.threads_ns);
    }
}

/// Gaps in the recording, and requests that the replay omits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doubts {
    pub lost_events: u64,
    /// Requests of unsupported kinds.
    pub other_requests: u64,
    /// Requests on sockets, pipes and other files that are neither regular files nor block devices.
    pub other_files: u64,
    /// Requests whose ring, file or call is missing from the recording.
    pub unexplained: u64,
    pub sqpoll_rings: u64,
    /// Rings used by several threads.
    pub shared_rings: u64,
    pub posix_aio: bool,
    /// Requests that post no completion on success.
    pub skipped_completions: u64,
    /// Requests at the current file position.
    pub at_position: u64,
    /// Calls by threads that make only synchronous calls, and few of them compared with the largest thread.
    pub side_calls: u64,
    /// The recording is an imported fio iolog, which contains no calls.
    pub imported: bool,
}

/// Submissions and reaped completions of a ring, matched in order.
#[derive(Debug, Clone, Default)]
pub struct InOrder {
    submitted: VecDeque<u64>,
    reaped: u64,
}

impl InOrder {
    #[inline]
    pub fn submit(&mut self, at: u64) {
        self.submitted.push_back(at);
    }

    /// `reaped`: the total so far.
    #[inline]
    pub fn reap_to(&mut self, reaped: u64, mut each: impl FnMut(u64)) {
        while self.reaped < reaped {
            // Completions of requests from before the recording have no recorded submission.
            let Some(at) = self.submitted.pop_front() else { break };
            self.reaped += 1;
            each(at);
        }
        self.reaped = self.reaped.max(reaped);
    }
}
