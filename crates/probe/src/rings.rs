//! Counts by ring or context and opcode, as plain data.

use std::collections::BTreeMap;

use iotrail_path::division::ReapedStamps;
use iotrail_schema::file::{Descriptor, FileSeen};
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::trace_record::BufferGroup;
use iotrail_schema::trail::Course;
use iotrail_stats::estimate::Stratum;

/// One io_uring instance of a traced process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RingCounts {
    /// Number in the traced span, from 0: that of `Trail::ring`.
    pub ring: u32,
    /// The process that created it or used it first; or the process of this use.
    pub tgid: u32,
    pub comm: String,
    /// Setup flags of the kernel (IORING_SETUP_…).
    pub setup_flags: u32,
    pub sq_entries: u32,
    pub cq_entries: u32,
    /// Its creation was not observed: it existed before.
    pub found: bool,
    /// Number of the ring whose use by another process these counts are; `None`: a ring.
    pub of: Option<u32>,
    /// From its first to its last counted event, to a tick of the kernel; `None`: too few ticks.
    pub active_ns: Option<u64>,
    /// Completions that found the completion queue full.
    pub overflows: u64,
    pub waits: WaitCounts,
    /// Calls of io_uring_register, by operation.
    pub registered: Vec<RegisterCounts>,
    /// Provided buffers, by group.
    pub buffers: Vec<BufferGroup>,
    pub batches: Batches,
    /// Threads that submitted traced requests or waited, by thread ID.
    pub threads: Vec<ThreadCounts>,
    pub opcodes: Vec<OpcodeCounts>,
    /// Sums to the completions of `opcodes`, `unknown` included.
    pub vehicles: Vec<DeliveryPathCount>,
}

/// Waits for a ring's completions that started in io_uring_enter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitCounts {
    pub all: u64,
    /// With `min_wait_usec`.
    pub min_wait: u64,
    /// With registered arguments (IORING_ENTER_EXT_ARG_REG).
    pub registered: u64,
    /// With IORING_ENTER_NO_IOWAIT.
    pub no_iowait: u64,
    /// By a BPF program that drives the ring, with a sleep.
    pub bpf_loop: u64,
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
    /// Number of times that io_uring_enter started to wait in it for this ring's completions.
    pub waits: u64,
}

/// Sums of the rings or contexts without their own record: the least busy beyond a maximum number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherCounts {
    /// `None`: io_uring.
    pub kind: Option<ContextKind>,
    /// `None`: of several processes.
    pub tgid: Option<u32>,
    pub comm: String,
    /// The number of them.
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
    /// All of one process's use of glibc's POSIX AIO.
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
    /// Number in the traced span: rings and contexts share their numbering.
    pub context: u32,
    pub kind: ContextKind,
    pub tgid: u32,
    pub comm: String,
    /// Capacity of its event ring; `None`: it has none.
    pub entries: Option<u32>,
    /// Its creation was not observed.
    pub found: bool,
    /// As [`RingCounts::active_ns`].
    pub active_ns: Option<u64>,
    /// Their completions are the results that were observed to be reaped.
    pub opcodes: Vec<OpcodeCounts>,
    /// Of the completions that were observed to end or to be reaped.
    pub vehicles: Vec<DeliveryPathCount>,
}

/// The stamps of a traced request of a context. CLOCK_MONOTONIC.
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
    /// The user data that the program set.
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
    /// Observed results: `errors`, `short`, `denied` and `errnos` are among these. `None`: all were observed.
    pub seen: Option<u64>,
    /// (positive errno, count)
    pub errnos: Vec<(i32, u64)>,
}

impl OpcodeCounts {
    /// Requests that have not ended. A request without a completion on success may have ended.
    pub fn in_flight(&self) -> u64 {
        let ended = self.completions.saturating_sub(self.more + self.messages) + self.unposted + self.skips;
        self.requests.saturating_sub(ended)
    }

    /// Combines each number with that of `other`; errnos that only `other` has are appended.
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

/// A traced process in the programs' data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub tgid: u32,
    /// Its program's name, or that of the thread that created it or issued the I/O at which it was found.
    pub comm: String,
    /// Time of its exec, CLOCK_MONOTONIC; 0: not observed.
    pub executed_ns: u64,
}

/// An exited SQPOLL thread of a traced process. Times are CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedSqThread {
    pub tgid: u32,
    pub tid: u32,
    pub started_ns: u64,
    pub ended_ns: u64,
    /// CPU time, from its start to its exit.
    pub ran_ns: u64,
    /// Voluntary context switches.
    pub sleeps: u64,
}

/// Outcome of the requests selected for tracing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FollowLoss {
    /// Given up: no memory to keep them.
    pub no_room: u64,
    /// Complete, but the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Their slot was reused before a completion was observed: it overflowed, or was missed.
    pub no_completion: u64,
    /// They requested no completion on success (IOSQE_CQE_SKIP_SUCCESS), and none was observed.
    pub skipped: u64,
    /// Of the others, not complete at the end of the trace.
    pub unfinished: u64,
    /// Complete ones of native aio, and all of POSIX AIO, whose result was not observed to be reaped.
    pub unreaped: u64,
    /// All requests selected for tracing.
    pub chosen: Chosen,
    /// Completions of multishot requests whose user data another request shares, and of native aio whose
    /// control block another request shares.
    pub shared: u64,
    /// Requests of which only 1 in `one_in` was selected.
    pub sampled_from: u64,
    /// Requests at the ends of windows: none of them was selected.
    pub came_later: u64,
}

/// Selected requests by the power of two below the number that their io_uring_enter was asked to submit, each with its share of it as weight.
pub type Batches = BTreeMap<u64, Stratum>;

/// Requests selected for tracing, by weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chosen {
    /// With weight 1.
    pub whole: u64,
    /// `one_in` each.
    pub sampled: u64,
}

/// Traced requests of one opcode that were in flight at the end of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCounts {
    /// `None`: one without its own record.
    pub ring: Option<u32>,
    pub tgid: u32,
    pub opcode: String,
    /// The stage in which they waited, as far as observed.
    pub course: Course,
    pub requests: u64,
    /// The sum of their weights.
    pub estimated: u64,
    /// Of them, requests with earlier completions (multishot).
    pub multishot: u64,
    /// Since the submission of the oldest.
    pub oldest_ns: u64,
    /// Its user data.
    pub user_data: u64,
    /// The file that it waited for, and the program's name for it.
    pub file: Option<FileSeen>,
    pub descriptor: Option<Descriptor>,
}
