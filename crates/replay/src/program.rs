//! A compiled recording: the steps of each thread, and the files and rings that they use.

use std::path::PathBuf;

use iotrail_schema::replay_log::ReplayRing;

use crate::observed::Observed;

/// A program to be replayed.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// By the number in [`Op::file`].
    pub files: Vec<ProgramFile>,
    /// By the number in [`Step::ring`].
    pub rings: Vec<ReplayRing>,
    /// Threads that have a request.
    pub threads: Vec<Thread>,
    /// The recorded figures, and the doubts about them.
    pub observed: Observed,
}

/// A file and the part of it that is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramFile {
    pub path: PathBuf,
    /// open(2) flags that change how I/O runs: O_DIRECT, O_SYNC, O_DSYNC, O_NOATIME.
    pub open_flags: i32,
    /// Bytes that it had when the recording began.
    pub size: u64,
    /// Where the last read ends.
    pub read_to: u64,
    /// Where the last write ends; `None`: it is only read.
    pub written_to: Option<u64>,
    /// Requests that name it.
    pub uses: u64,
}

/// The steps of one thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thread {
    pub tid: u32,
    pub steps: Vec<Step>,
    /// In the order of the steps, each of which takes its number of them.
    pub ops: Vec<Op>,
    /// Submissions whose needs are met at the same time are merged: the program submits as many requests as it has reaped.
    pub merges: bool,
    /// How it waits for completions, by ring.
    pub waits: Vec<Wait>,
    /// Most completions outstanding at one time, over all its rings.
    pub most_in_flight: u32,
}

/// How a thread waits for completions of a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    /// In a call that sleeps.
    #[default]
    Sleep,
    /// In calls that return at once.
    Ask,
    /// By reading the completion queue, without calls.
    Peek,
}

/// One submission, or one synchronous call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// `None`: a synchronous call.
    pub ring: Option<u16>,
    /// Requests, of [`Thread::ops`].
    pub ops: u32,
    /// Ends of chains of this ring that the thread has to have reaped.
    pub needs: u32,
    /// Completions to wait for at once, while `needs` is not met.
    pub wait_for: u32,
    /// Completions that the submitting call itself waits for.
    pub min_complete: u32,
    /// The submitting call has IORING_ENTER_GETEVENTS.
    pub gets_events: bool,
    /// User time before the wait, and after it.
    pub think_before_ns: u32,
    pub think_ns: u32,
    /// Since the beginning of the recording.
    pub at_ns: u64,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    pub kind: OpKind,
    /// IOSQE_… without those that name registered files and buffers.
    pub sqe_flags: u8,
    pub file: u16,
    /// RWF_…, IORING_FSYNC_…, or the flags of sync_file_range(2); of fallocate(2) the mode.
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

/// The next request waits for this one.
pub const LINKED: u8 = 1 << 2 | 1 << 3;

impl Op {
    /// Whether no request is linked to it.
    #[inline]
    pub fn ends_chain(&self) -> bool {
        self.sqe_flags & LINKED == 0
    }

    pub fn writes(&self) -> bool {
        matches!(self.kind, OpKind::Write | OpKind::Fallocate)
    }
}

impl Thread {
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
        self.threads.iter().flat_map(|t| &t.steps).all(|s| s.ring.is_none())
    }

    pub fn longest(&self) -> u32 {
        self.threads.iter().flat_map(|t| &t.ops).map(|op| op.len).max().unwrap_or(0)
    }
}
