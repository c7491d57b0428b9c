//! SQPOLL threads and io-wq workers.

use super::counter::Span;
use crate::recorder::now;
use iotrail_host::procfs::{self, Status};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    SubmissionQueue,
    Worker,
}

/// Kind of an io_uring kernel thread, from its name (io_uring/sqpoll.c, io_uring/io-wq.c).
pub(super) fn kind(comm: &str) -> Option<Kind> {
    match comm {
        _ if comm.starts_with("iou-sqp-") => Some(Kind::SubmissionQueue),
        _ if comm.starts_with("iou-wrk-") => Some(Kind::Worker),
        _ => None,
    }
}

/// An io_uring kernel thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Helper {
    pub kind: Kind,
    pub on_cpu_ns: Span,
    pub voluntary_switches: Span,
    /// CLOCK_MONOTONIC.
    pub since_ns: u64,
    pub until_ns: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Thread {
    /// No check has found an io_uring thread's name yet; an io_uring thread sets its name when it first runs.
    Nameless(u8),
    OfProgram,
    Helper(Helper),
}

/// Number of checks after which a thread counts as the program's own.
const NAMELESS: u8 = 5;

impl Thread {
    pub fn helper(&self) -> Option<&Helper> {
        match self {
            Thread::Helper(helper) => Some(helper),
            _ => None,
        }
    }

    /// Recognises an io_uring thread by its name, as long as the thread may not have set the name yet.
    pub fn recognize(&mut self, tgid: u32, tid: u32, found: bool) {
        if let Thread::Nameless(looks) = *self {
            *self = match Helper::of(tgid, tid, found) {
                Some(helper) => Thread::Helper(helper),
                None if looks + 1 < NAMELESS => Thread::Nameless(looks + 1),
                None => Thread::OfProgram,
            };
        }
    }
}

/// An SQPOLL thread in one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqThread {
    pub tid: u32,
    pub elapsed_ns: u64,
    pub cpu_ns: Option<u64>,
    /// Voluntary context switches, which are the thread's only sleeps.
    pub sleeps: Option<u64>,
}

impl Helper {
    /// `None` if the thread is the program's own.
    fn of(tgid: u32, tid: u32, found: bool) -> Option<Self> {
        let kind = kind(&procfs::comm(tgid, tid)?)?;
        let now_ns = now().monotonic_ns;
        let first = |value| Span { first: if found { value } else { Some(0) }, last: None };
        Some(Helper {
            kind,
            on_cpu_ns: first(procfs::on_cpu_ns(tgid, tid)),
            voluntary_switches: first(Status::of(tid).and_then(|s| s.voluntary_switches)),
            since_ns: now_ns,
            until_ns: now_ns,
        })
    }

    pub fn look(&mut self, tgid: u32, tid: u32) {
        self.on_cpu_ns.take(procfs::on_cpu_ns(tgid, tid));
        if self.kind == Kind::SubmissionQueue {
            self.voluntary_switches.take(Status::of(tid).and_then(|s| s.voluntary_switches));
        }
        self.until_ns = now().monotonic_ns;
    }

    /// State at the last check.
    pub fn so_far(&self, tid: u32) -> SqThread {
        let (looked_at, cpu_ns) = (self.until_ns.saturating_sub(self.since_ns), self.on_cpu_ns.grown());
        SqThread {
            tid,
            // A thread created during the trace has run before its first check.
            elapsed_ns: cpu_ns.map_or(looked_at, |cpu| cpu.max(looked_at)),
            cpu_ns,
            sleeps: self.voluntary_switches.grown(),
        }
    }
}
