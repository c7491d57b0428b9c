//! What was counted by ring or context and opcode, as plain data.

use std::collections::BTreeMap;

use iotrail_path::division::ReapedStamps;
use iotrail_schema::file::{Descriptor, FileSeen};
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::trace_record::BufferGroup;
use iotrail_schema::trail::Course;
use iotrail_stats::estimate::Stratum;

/// One io_uring instance of a watched process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RingCounts {
    /// Number within the watched span, from 0: that of `Trail::ring`.
    pub ring: u32,
    /// The process that made it, or was first seen to use it; or the other one.
    pub tgid: u32,
    pub comm: String,
    /// Setup flags as the kernel has them (IORING_SETUP_…).
    pub setup_flags: u32,
    pub sq_entries: u32,
    pub cq_entries: u32,
    /// It was not seen to be made: it was there before.
    pub found: bool,
    /// The ring of this number is meant, and these are the counts of another process that uses it; `None`: a ring of its own.
    pub of: Option<u32>,
    /// From the first to the last event that was counted of it, to a tick of the kernel; `None`: too few ticks to tell.
    pub active_ns: Option<u64>,
    /// Completions that found the completion queue full.
    pub overflows: u64,
    pub waits: WaitCounts,
    /// Calls of io_uring_register, by operation.
    pub registered: Vec<RegisterCounts>,
    /// Provided buffers, by group.
    pub buffers: Vec<BufferGroup>,
    pub batches: Batches,
    /// Those that submitted followed requests or waited, by their numbers.
    pub threads: Vec<ThreadCounts>,
    pub opcodes: Vec<OpcodeCounts>,
    /// Sums to the completions of `opcodes`, `unknown` included.
    pub vehicles: Vec<DeliveryPathCount>,
}

/// Waits for a ring's completions that began in io_uring_enter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitCounts {
    pub all: u64,
    /// With `min_wait_usec`.
    pub min_wait: u64,
    /// With registered arguments (IORING_ENTER_EXT_ARG_REG).
    pub registered: u64,
    /// With IORING_ENTER_NO_IOWAIT.
    pub no_iowait: u64,
}

/// Calls of io_uring_register with one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegisterCounts {
    pub operation: String,
    pub calls: u64,
    /// (positive errno, count)
    pub errnos: Vec<(i32, u64)>,
}

/// A thread that uses a ring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    pub tid: u32,
    pub comm: String,
    /// Times that io_uring_enter began to wait in it for this ring's completions.
    pub waits: u64,
}

/// What there was of rings or contexts that are not told one by one: too many of them, and these the least busy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherCounts {
    /// `None`: io_uring.
    pub kind: Option<ContextKind>,
    /// `None`: of several processes.
    pub tgid: Option<u32>,
    pub comm: String,
    /// So many.
    pub rings: u64,
    pub overflows: u64,
    pub batches: Batches,
    pub opcodes: Vec<OpcodeCounts>,
    pub vehicles: Vec<DeliveryPathCount>,
}

/// An asynchronous interface without a ring of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextKind {
    /// One context of native aio.
    Libaio,
    /// All that one process does through glibc's POSIX AIO.
    PosixAio,
}

impl ContextKind {
    /// The name of the engine that uses the same.
    pub fn name(self) -> &'static str {
        match self {
            ContextKind::Libaio => "libaio",
            ContextKind::PosixAio => "posix_aio",
        }
    }
}

/// One context of native aio, or one process's POSIX AIO.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextCounts {
    /// Number within the watched span: rings and contexts are numbered together.
    pub context: u32,
    pub kind: ContextKind,
    pub tgid: u32,
    pub comm: String,
    /// Events that its ring holds; `None`: it has none.
    pub entries: Option<u32>,
    /// It was not seen to be made.
    pub found: bool,
    /// As [`RingCounts::active_ns`].
    pub active_ns: Option<u64>,
    /// Their completions are the results that were seen to be reaped.
    pub opcodes: Vec<OpcodeCounts>,
    /// Of the completions that were seen to end or to be reaped.
    pub vehicles: Vec<DeliveryPathCount>,
}

/// The times of a followed request of a context. CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaped {
    pub context: u32,
    pub tgid: u32,
    pub opcode: String,
    pub submitted_ns: u64,
    pub reaped_ns: u64,
    pub seen: ReapedStamps,
    /// As [`iotrail_schema::trail::RequestTrace::weight`].
    pub weight: u32,
    /// That the program named.
    pub fd: i32,
    pub result: i64,
}

/// Exact counts of one opcode. Meanings as in [`iotrail_schema::trace_record::OpcodeRecord`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpcodeCounts {
    pub opcode: String,
    pub requests: u64,
    pub skips: u64,
    pub completions: u64,
    pub bytes: u64,
    pub errors: u64,
    pub short: u64,
    pub more: u64,
    pub notifications: u64,
    pub copied: u64,
    pub reporting: u64,
    pub held: u64,
    pub held_ns: u64,
    pub messages: u64,
    pub denied: u64,
    pub unposted: u64,
    pub punted_asked: u64,
    pub punted_would_block: u64,
    pub punted_drained: u64,
    /// Outcomes that were seen: `errors`, `short`, `denied` and `errnos` are of these. `None`: all were seen.
    pub seen: Option<u64>,
    /// (positive errno, count)
    pub errnos: Vec<(i32, u64)>,
}

impl OpcodeCounts {
    /// Requests that have not ended. One that asked for no completion of a success may have ended.
    pub fn in_flight(&self) -> u64 {
        let ended = self.completions.saturating_sub(self.more + self.messages) + self.unposted + self.skips;
        self.requests.saturating_sub(ended)
    }

    /// Each number made of its own and the same of `other`; those of errnos that only `other` has come behind.
    pub fn combine(&mut self, other: &OpcodeCounts, of: fn(u64, u64) -> u64) {
        let OpcodeCounts {
            opcode: _,
            requests,
            skips,
            completions,
            bytes,
            errors,
            short,
            more,
            notifications,
            copied,
            reporting,
            held,
            held_ns,
            messages,
            denied,
            unposted,
            punted_asked,
            punted_would_block,
            punted_drained,
            seen,
            errnos,
        } = self;
        *seen = seen.map(|n| of(n, other.seen.unwrap_or(0))).or(other.seen);
        for (own, others) in [
            (requests, other.requests),
            (skips, other.skips),
            (completions, other.completions),
            (bytes, other.bytes),
            (errors, other.errors),
            (short, other.short),
            (more, other.more),
            (notifications, other.notifications),
            (copied, other.copied),
            (reporting, other.reporting),
            (held, other.held),
            (held_ns, other.held_ns),
            (messages, other.messages),
            (denied, other.denied),
            (unposted, other.unposted),
            (punted_asked, other.punted_asked),
            (punted_would_block, other.punted_would_block),
            (punted_drained, other.punted_drained),
        ] {
            *own = of(*own, others);
        }
        for (errno, count) in &other.errnos {
            match errnos.iter_mut().find(|(e, _)| e == errno) {
                Some((_, n)) => *n = of(*n, *count),
                None => errnos.push((*errno, of(0, *count))),
            }
        }
    }

    pub fn add(&mut self, other: &OpcodeCounts) {
        self.combine(other, |own, others| own + others);
    }
}

/// A watched process as the programs know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub tgid: u32,
    /// Its program's name, or that of the thread that made it or was met at its I/O.
    pub comm: String,
    /// When it was seen to become that program, CLOCK_MONOTONIC; 0: it was not.
    pub executed_ns: u64,
}

/// A submission-queue thread of a watched process that has ended. Times are of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedSqThread {
    pub tgid: u32,
    pub tid: u32,
    pub started_ns: u64,
    pub ended_ns: u64,
    /// On a CPU, from its beginning to its end.
    pub ran_ns: u64,
    /// Times that it gave its CPU away to wait.
    pub sleeps: u64,
}

/// What became of the requests that were chosen to be followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FollowLoss {
    /// Given up: no room to keep them.
    pub no_room: u64,
    /// Whole, but the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Their place was used again before a completion was seen: it overflowed, or was missed.
    pub no_completion: u64,
    /// They asked for no completion if they succeed (IOSQE_CQE_SKIP_SUCCESS), and none was seen.
    pub skipped: u64,
    /// Of the others, not complete when watching ended.
    pub unfinished: u64,
    /// Native aio's that were complete, and POSIX AIO's, whose result was not seen to be reaped.
    pub unreaped: u64,
    /// All requests that were chosen to be followed.
    pub chosen: Chosen,
    /// Completions of multishot requests that another one shares its user data with, and of native aio's that another one shares its
    /// control block with.
    pub shared: u64,
    /// Requests of which only one in `one_in` was chosen.
    pub sampled_from: u64,
    /// Requests that came while windows finished: none of them was chosen.
    pub came_later: u64,
}

/// Chosen requests by the power of two below the number that their io_uring_enter was asked to submit: each worth its share of it.
pub type Batches = BTreeMap<u64, Stratum>;

/// Requests that were chosen to be followed, by what they stand for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Themselves alone.
    pub whole: u64,
    /// `one_in` each.
    pub sampled: u64,
}

/// Followed requests of one opcode that were in flight when watching ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCounts {
    /// `None`: one of the others.
    pub ring: Option<u32>,
    pub tgid: u32,
    pub opcode: String,
    /// What they waited in, as far as it was seen.
    pub course: Course,
    pub requests: u64,
    /// What they stand for.
    pub estimated: u64,
    /// Of them, those that had completions already (multishot).
    pub multishot: u64,
    /// Since the submission of the oldest.
    pub oldest_ns: u64,
    /// Its user data.
    pub user_data: u64,
    /// The file that it waited for, and what the program named that by.
    pub file: Option<FileSeen>,
    pub descriptor: Option<Descriptor>,
}
