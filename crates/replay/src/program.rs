//! A compiled recording: each thread's steps, and the files and rings that they use.

use std::path::PathBuf;

use iotrail_schema::replay_log::ReplayRing;

use crate::observed::Observed;

/// A program to replay.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Indexed by [`Op::file`].
    pub files: Vec<ProgramFile>,
    /// Indexed by [`Step::ring`].
    pub rings: Vec<ReplayRing>,
    /// Threads with at least one request.
    pub threads: Vec<Thread>,
    /// The recorded metrics, and doubts about them.
    pub observed: Observed,
}

/// A file, and the part of it that is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramFile {
    pub path: PathBuf,
    /// open(2) flags that change how I/O runs: O_DIRECT, O_SYNC, O_DSYNC, O_NOATIME.
    pub open_flags: i32,
    /// Size in bytes when the recording began.
    pub size: u64,
    /// End offset of the last read.
    pub read_to: u64,
    /// End offset of the last write; `None` if the file is only read.
    pub written_to: Option<u64>,
    /// Number of requests on the file.
    pub uses: u64,
}

/// A thread's steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    pub tid: u32,
    pub steps: Vec<Step>,
    /// In step order; each step consumes its number of requests.
    pub ops: Vec<Op>,
    /// Merges submissions whose needs are met at the same time: the program submits as many requests as it has reaped.
    pub merges: bool,
    /// Some requests have a linked successor.
    pub has_links: bool,
    /// How the thread waits for completions, by ring.
    pub waits: Vec<Wait>,
    /// Maximum completions outstanding at once, over all rings of the thread.
    pub most_in_flight: u32,
}

/// How a thread waits for a ring's completions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    /// In a call that sleeps.
    #[default]
    Sleep,
    /// In calls that return immediately.
    Ask,
    /// By polling the completion queue, without calls.
    Peek,
}

/// A submission, or a synchronous call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// `None` for a synchronous call.
    pub ring: Option<u16>,
    /// Number of requests from [`Thread::ops`].
    pub ops: u32,
    /// Number of this ring's chain ends that the thread must have reaped.
    pub needs: u32,
    /// Number of completions to wait for at a time, until `needs` is met.
    pub wait_for: u32,
    /// Number of completions for which the submitting call itself waits.
    pub min_complete: u32,
    /// The submitting call uses IORING_ENTER_GETEVENTS.
    pub gets_events: bool,
    /// User time before the wait, and (below) after it.
    pub think_before_ns: u32,
    pub think_ns: u32,
    /// Time off the CPU before a synchronous call.
    pub idle_ns: u32,
    /// Time since the recording began.
    pub at_ns: u64,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    pub kind: OpKind,
    /// IOSQE_… flags, without those for registered files and buffers.
    pub sqe_flags: u8,
    pub file: u16,
    /// RWF_… or IORING_FSYNC_… flags, flags of sync_file_range(2), or the mode of fallocate(2).
    pub flags: u32,
    pub len: u32,
    pub offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    Nop,
    Read,
    Write,
    Fsync,
    SyncFileRange,
    Fallocate,
}

/// Flags that make the next request wait for this one.
pub const LINKED: u8 = 1 << 2 | 1 << 3;

impl Op {
    /// Whether no request is linked to this one.
    #[inline]
    pub fn ends_chain(&self) -> bool {
        self.sqe_flags & LINKED == 0
    }

    pub fn writes(&self) -> bool {
        matches!(self.kind, OpKind::Write | OpKind::Fallocate)
    }
}

impl Thread {
    pub fn is_synchronous(&self) -> bool {
        self.steps.iter().all(|s| s.ring.is_none())
    }

    /// Steps with their requests.
    pub fn each(&self) -> impl Iterator<Item = (&Step, &[Op])> {
        let mut at = 0;
        self.steps.iter().map(move |step| {
            let from = at;
            at += step.ops as usize;
            (step, &self.ops[from..at])
        })
    }
}

impl Program {
    pub fn requests(&self) -> u64 {
        self.threads.iter().map(|t| t.ops.len() as u64).sum()
    }

    /// Whether all requests are synchronous calls.
    pub fn is_synchronous(&self) -> bool {
        self.threads.iter().all(Thread::is_synchronous)
    }

    pub fn longest(&self) -> u32 {
        self.threads.iter().flat_map(|t| &t.ops).map(|op| op.len).max().unwrap_or(0)
    }
}
