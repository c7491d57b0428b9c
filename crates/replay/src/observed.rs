//! The recorded program's own figures, for the comparison with its replay, and what the recording lacks.

use std::collections::VecDeque;

use crate::batches::Batches;
use iotrail_stats::durations::Durations;

/// Figures of the recorded program.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// From the first submission to the last return of a call.
    pub elapsed_ns: u64,
    /// The sums over the threads that are replayed.
    pub sums: Sums,
    pub batches: Batches,
    pub doubts: Doubts,
    pub registered_files: bool,
    pub registered_buffers: bool,
    /// The recording continues after the replayed part.
    pub is_part: bool,
}

/// Figures that add up over threads.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// Requests and synchronous calls that are replayed.
    pub ios: u64,
    /// Calls that submit, wait, read, write or sync.
    pub calls: u64,
    /// From the submission to the first call that shows the completion reaped, matched in order: the n-th reaped with the n-th
    /// submitted. A synchronous call counts with its time.
    pub latencies: Durations,
    /// User time between calls.
    pub think_ns: u64,
    /// Time between calls in which the threads were off the CPU.
    pub idle_ns: u64,
    /// Time of the threads, from their first event to their last.
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

/// Gaps of the recording, and requests that the replay leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doubts {
    pub lost_events: u64,
    /// Requests of other kinds.
    pub other_requests: u64,
    /// Requests on sockets, pipes and other files that are neither regular nor block devices.
    pub other_files: u64,
    /// Requests whose ring, file or call is not in the recording.
    pub unexplained: u64,
    pub sqpoll_rings: u64,
    /// Rings that several threads use.
    pub shared_rings: u64,
    pub posix_aio: bool,
    /// Requests that ask for no completion if they succeed.
    pub skipped_completions: u64,
    /// Requests at the file's position.
    pub at_position: u64,
    /// Calls of threads that only make synchronous ones, and few of them next to the largest thread.
    pub side_calls: u64,
    /// The calls are not in the recording: it is fio's iolog.
    pub imported: bool,
}

/// Submissions and reaped completions of one ring, matched in order.
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

    /// `reaped`: all so far.
    #[inline]
    pub fn reap_to(&mut self, reaped: u64, mut each: impl FnMut(u64)) {
        while self.reaped < reaped {
            // Completions of requests from before the recording have no submission.
            let Some(at) = self.submitted.pop_front() else { break };
            self.reaped += 1;
            each(at);
        }
        self.reaped = self.reaped.max(reaped);
    }
}
