//! Counts by ring or context and opcode, as plain data.

use std::collections::BTreeMap;

use super::choice::Choice;
use super::function;
use super::skel::types;
use iotrail_path::division::ReapedStamps;
use iotrail_path::times::Times;
use iotrail_schema::file::{Descriptor, FileSeen};
use iotrail_schema::measurement::{DeliveryPathCount, Followed};
use iotrail_schema::trace_record::{BufferGroup, EndedRequest, OpcodeRecord};
use iotrail_schema::trail::Course;
use iotrail_stats::estimate::{Stratum, Total};

/// One io_uring instance of a traced process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RingCounts {
    /// Number within the trace, from 0, as in `Trail::ring`.
    pub ring: u32,
    /// The process that created the ring or used it first; for a use, the process that uses it.
    pub tgid: u32,
    pub comm: String,
    /// Setup flags in the kernel (IORING_SETUP_…).
    pub setup_flags: u32,
    pub sq_entries: u32,
    pub cq_entries: u32,
    /// The ring existed before the trace.
    pub found: bool,
    /// The kernel has torn the ring down.
    pub closed: bool,
    /// Number of the ring that another process uses, if these counts are that use; `None` for a ring itself.
    pub of: Option<u32>,
    /// Time from the first to the last counted event, in full kernel ticks; `None` if nothing was counted or the tick
    /// rate is unknown.
    pub active_ns: Option<u64>,
    /// Completions that found the CQ full.
    pub overflows: u64,
    pub waits: WaitCounts,
    /// io_uring_register calls by operation.
    pub registered: Vec<RegisterCounts>,
    /// Provided buffers, by group.
    pub buffers: Vec<BufferGroup>,
    /// Requests that ended although the program did not cancel them, and were not submitted again.
    pub ended: Vec<EndedRequest>,
    pub batches: Batches,
    /// Threads that submitted traced requests or waited, by TID.
    pub threads: Vec<ThreadCounts>,
    pub opcodes: Vec<OpcodeCounts>,
    /// The counts add up to the completions in `opcodes`, including `unknown`.
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
    /// Waits with a sleep in a BPF-driven ring.
    pub bpf_loop: u64,
}

/// io_uring_register calls of one operation.
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
    /// Number of times the thread began to wait in io_uring_enter for this ring's completions.
    pub waits: u64,
}

/// Sums of the least busy rings or contexts, which have no record of their own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherCounts {
    /// `None` for io_uring.
    pub kind: Option<ContextKind>,
    /// `None` for several processes.
    pub tgid: Option<u32>,
    pub comm: String,
    /// Number of rings or contexts.
    pub rings: u64,
    pub overflows: u64,
    pub batches: Batches,
    pub opcodes: Vec<OpcodeCounts>,
    pub vehicles: Vec<DeliveryPathCount>,
}

/// An asynchronous interface without submission rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextKind {
    /// One native aio context.
    Libaio,
    /// All uses of glibc's POSIX AIO by one process.
    PosixAio,
}

impl ContextKind {
    /// Name of the engine with the same interface.
    pub fn name(self) -> &'static str {
        match self {
            ContextKind::Libaio => "libaio",
            ContextKind::PosixAio => "posix_aio",
        }
    }
}

/// One native aio context, or one process's POSIX AIO.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextCounts {
    /// Number within the trace; rings and contexts share the numbering.
    pub context: u32,
    pub kind: ContextKind,
    pub tgid: u32,
    pub comm: String,
    /// Size of its event ring; `None` if it has none.
    pub entries: Option<u32>,
    /// It existed before the trace.
    pub found: bool,
    /// As [`RingCounts::active_ns`].
    pub active_ns: Option<u64>,
    /// Completions are results whose reaping was observed.
    pub opcodes: Vec<OpcodeCounts>,
    /// Includes only completions whose end or reaping was observed.
    pub vehicles: Vec<DeliveryPathCount>,
}

/// Timestamps of a traced aio request. CLOCK_MONOTONIC.
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

macro_rules! opcode_counts {
    ($($number:ident)*; $($own:ident)*) => {
        /// Exact counts of one opcode, with the meanings of [`OpcodeRecord`].
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct OpcodeCounts {
            pub opcode: String,
            $(pub $number: u64,)*
            $(pub $own: u64,)*
            /// Number of observed results, among which `errors`, `shorts`, `denied` and `errnos` were found; `None` if all were
            /// observed.
            pub seen: Option<u64>,
            /// (positive errno, count)
            pub errnos: Vec<(i32, u64)>,
        }

        impl OpcodeCounts {
            pub(super) fn of(opcode: String, of: &types::op_count) -> Self {
                let (seen, errnos) = (None, Vec::new());
                OpcodeCounts { opcode, $($number: of.$number,)* $($own: of.$own,)* seen, errnos }
            }

            /// The numbers that a record has unchanged.
            pub fn record(&self) -> OpcodeRecord {
                OpcodeRecord {
                    opcode: self.opcode.clone(),
                    $($number: self.$number,)*
                    seen: self.seen,
                    ..OpcodeRecord::default()
                }
            }

            fn combine_numbers(&mut self, other: &OpcodeCounts, of: fn(u64, u64) -> u64) {
                $(self.$number = of(self.$number, other.$number);)*
                $(self.$own = of(self.$own, other.$own);)*
            }
        }
    };
}

opcode_counts! {
    requests skips completions bytes errors more notifications copied reporting messages denied unposted
    punted_asked punted_would_block punted_drained; shorts held held_ns
}

impl OpcodeCounts {
    /// Requests without a last completion. Those with IOSQE_CQE_SKIP_SUCCESS may have completed.
    pub fn in_flight(&self) -> u64 {
        let ended = self.completions.saturating_sub(self.more + self.messages) + self.unposted + self.skips;
        self.requests.saturating_sub(ended)
    }

    /// Combines each number with its counterpart in `other`; errnos only in `other` are appended.
    pub fn combine(&mut self, other: &OpcodeCounts, of: fn(u64, u64) -> u64) {
        self.seen = self.seen.map(|n| of(n, other.seen.unwrap_or(0))).or(other.seen);
        self.combine_numbers(other, of);
        for (errno, count) in &other.errnos {
            match self.errnos.iter_mut().find(|(e, _)| e == errno) {
                Some((_, n)) => *n = of(*n, *count),
                None => self.errnos.push((*errno, of(0, *count))),
            }
        }
    }

    pub fn add(&mut self, other: &OpcodeCounts) {
        self.combine(other, |own, others| own + others);
    }
}

/// A traced process, as the programs report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub tgid: u32,
    /// Name of its program, or of the thread that created the process or issued its first observed I/O.
    pub comm: String,
    /// Time of its exec, CLOCK_MONOTONIC; 0 if not observed.
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

/// Outcomes of the requests selected for tracing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FollowLoss {
    /// Given up because no memory was left.
    pub no_room: u64,
    /// Complete, but the ring buffer was full.
    pub ring_buffer_full: u64,
    /// The slot was reused before a completion was observed: the completion overflowed or was missed.
    pub no_completion: u64,
    /// Requests with IOSQE_CQE_SKIP_SUCCESS and no observed completion.
    pub skipped: u64,
    /// Other requests that were in flight at the end of the trace.
    pub unfinished: u64,
    /// Completed native aio requests and all POSIX AIO requests whose reaping was not observed.
    pub unreaped: u64,
    /// All requests selected for tracing.
    pub chosen: Chosen,
    /// Multishot completions whose user data another request shares, and native aio completions whose control block
    /// another request shares.
    pub shared: u64,
    /// Requests of which 1 in `one_in` was selected.
    pub sampled_from: u64,
    /// Requests at the ends of windows, where none was selected.
    pub came_later: u64,
}

impl FollowLoss {
    /// The record of the selected requests. `requests`: the number that they represent.
    pub fn followed(
        &self,
        choice: Choice,
        (completions, whole): (u64, u64),
        requests: Option<Total>,
        times: &Times,
        programs: &[String],
    ) -> Followed {
        Followed {
            one_in: choice.one_in,
            adaptive: choice.adaptive,
            completions,
            whole,
            sampled_from: (choice.one_in > 1).then_some(self.sampled_from),
            came_later: None,
            requests_estimated: requests.map(|t| t.total),
            requests_ci95: requests.map(|t| [t.lo, t.hi]),
            with_stages: times.with_stages(),
            with_queued: function::sees_queued(programs).then_some(times.with_queued),
            no_room: self.no_room,
            ring_buffer_full: self.ring_buffer_full,
            skipped: self.skipped,
            no_completion: self.no_completion,
            unfinished: self.unfinished,
            unreaped: self.unreaped,
            shared_user_data: self.shared,
        }
    }
}

/// Selected requests by the power of two below the number that their io_uring_enter was asked to submit; weighted by
/// their share of it.
pub type Batches = BTreeMap<u64, Stratum>;

/// Requests selected for tracing, by weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chosen {
    /// With weight 1.
    pub whole: u64,
    /// With weight `one_in`.
    pub sampled: u64,
}

/// Traced requests of one opcode in flight at the end of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCounts {
    /// `None`: a ring without its own record.
    pub ring: Option<u32>,
    pub tgid: u32,
    pub opcode: String,
    /// The stage in which they wait, as far as observed.
    pub course: Course,
    pub requests: u64,
    /// Sum of the weights.
    pub estimated: u64,
    /// Requests among them that have posted completions (multishot).
    pub multishot: u64,
    /// Requests among them that the kernel cancelled because the program closed their ring.
    pub closed: u64,
    /// Age of the oldest one.
    pub oldest_ns: u64,
    /// User data of the oldest one.
    pub user_data: u64,
    /// File of the oldest one, and the descriptor that the program used.
    pub file: Option<FileSeen>,
    pub descriptor: Option<Descriptor>,
}
