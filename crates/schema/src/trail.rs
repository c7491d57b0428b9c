//! One I/O followed whole, from its submission to the posting of its completion: stamps, places, and what carried it.
//! Pure data; the probes fill it (`probe::trails`), recordings keep it (`watch::recording`).

use serde::{Deserialize, Serialize};

use super::file::{Descriptor, FileSeen};
use super::vehicle::Vehicle;
use super::waker::Waker;
use crate::stage::Stage;

/// A moment and the CPU that it was seen on. CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub ns: u64,
    pub cpu: u32,
}

/// Where a request's issue went, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Course {
    /// Nothing was waited for, or nothing that the probes follow.
    Direct,
    /// Block I/O: *issued* is the first block request's issue to the driver, *ready* the last one's completion.
    Block,
    /// A poll was armed (sockets, pipes, eventfds): *issued* is the arming, *ready* the wake-up of the poll.
    Poll,
}

/// What the submitting thread was doing when its completion could be delivered: at *ready*, or *ended* where that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meanwhile {
    /// It had a CPU.
    Running { cpu: u32 },
    /// It waited for a CPU; the one it was last on was given to `tid`.
    Runnable { cpu: u32, tid: u32, comm: String },
    /// It slept; what its last CPU ran then (`tid` 0: idle).
    Sleeping { cpu: u32, tid: u32, comm: String },
}

/// The sleep that the submitting thread was in when the completion could be delivered, and its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// When somebody woke it.
    pub woken: Stamp,
    pub by: Waker,
    /// When it got a CPU.
    pub running: Option<Stamp>,
}

/// One completion of one request. A multishot request yields several; all but the last have `more`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trail {
    /// Number of the ring within the trace (`TraceRecord::rings`); `None`: it could not be told.
    pub ring: Option<u32>,
    pub tgid: u32,
    /// The thread that submitted it (an SQPOLL thread's own id where that one did).
    pub tid: u32,
    /// The operation's name, as IORING_OP_… in lower case: `read_fixed`.
    pub opcode: String,
    /// How many requests it stands for: the inverse of its chance to be followed, as it was when it was submitted. What is told of
    /// all requests is estimated from such (Horvitz and Thompson's estimator). 0 in a file: as many as its header says.
    #[serde(default)]
    pub weight: u32,
    pub user_data: u64,
    /// The file that it went to; `None`: none, or it failed before it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSeen>,
    /// What the program named that by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<Descriptor>,
    /// Bytes asked for, where the operation has one plain length of its own (and takes no provided buffer).
    pub asked_bytes: Option<u64>,
    /// Where a read puts its bytes, in the process's own memory; `None`: it is none, or one of a chain, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u64>,
    /// The completion's result: bytes, or a negative errno.
    pub result: i32,
    /// More completions of this request follow (IORING_CQE_F_MORE).
    pub more: bool,
    /// A zero-copy send's notification that its buffer is free (IORING_CQE_F_NOTIF).
    pub notification: bool,
    /// Requests that the io_uring_enter call was asked to submit; `None`: not submitted by that call.
    pub enter_batch: Option<u32>,
    /// Handed to io-wq, and why.
    pub punted: Option<Punt>,

    pub submitted: Stamp,
    pub issued: Option<Stamp>,
    pub ready: Option<Stamp>,
    /// A kernel worker of the file system had finished it (direct writes, mostly); `None`: none had to, or it was not seen.
    #[serde(default)]
    pub ended: Option<Stamp>,
    /// Task work was added: known only where the kernel allows a probe there.
    pub queued: Option<Stamp>,
    pub posted: Stamp,
    pub course: Course,
    /// Block requests that it was split into, all of which had to be ready.
    pub block_requests: u32,

    pub vehicle: Vehicle,
    pub detail: Option<String>,
    /// Items of the task-work run that carried it; `None`: none did.
    pub run_items: Option<u32>,
    pub meanwhile: Option<Meanwhile>,
    pub wake: Option<Wake>,
    /// When the submitting thread got the CPU on which it posted it, before *ready* or after; `None`: something else posted it, or it was not
    /// seen.
    #[serde(default)]
    pub on_cpu: Option<Stamp>,
    /// Context switches of the submitting thread's last CPU between the moment of `meanwhile` and *posted*.
    pub switches_meanwhile: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Punt {
    /// The program asked for it: IOSQE_ASYNC.
    Asked,
    /// Its operation never runs without blocking, or it would have blocked when it was tried.
    WouldBlock,
    /// The ring was drained: it asked for that (IOSQE_IO_DRAIN), or was submitted while it went on.
    Drained,
}

/// The parts of one latency, in order. They sum to posted − submitted, all of them or none being known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// submitted → issued: io_uring, file system, block layer, in the submitter's time or a worker's.
    pub issue_ns: u64,
    /// issued → ready: the device, or the peer.
    pub wait_ns: u64,
    /// ready → posted: delivery delay.
    pub delivery_ns: u64,
    /// ready → ended, a part of `delivery_ns`: the file system, where a kernel worker of its had to finish it; else 0.
    pub file_system_ns: u64,
    /// ready → queued, a part of `delivery_ns`; `None`: no task work was added for it, or it was not seen.
    pub until_queued_ns: Option<u64>,
    /// The submitter could run and had no CPU, a part of `delivery_ns`; `None`: not known.
    pub runnable_ns: Option<u64>,
}

impl Trail {
    /// posted − submitted. Of a multishot request's later completions, this is not a latency of anything.
    pub fn latency_ns(&self) -> u64 {
        self.posted.ns.saturating_sub(self.submitted.ns)
    }

    /// Its result announces nothing but its notification: `more` is set, and no other result comes.
    pub fn is_zero_copy_send(&self) -> bool {
        matches!(self.opcode.as_str(), "send_zc" | "sendmsg_zc")
    }

    /// No other result of its request follows.
    pub fn is_last_result(&self) -> bool {
        !self.more || self.is_zero_copy_send()
    }

    /// Delivery delay, where *ready* is known.
    pub fn delay_ns(&self) -> Option<u64> {
        self.ready.map(|ready| self.posted.ns.saturating_sub(ready.ns))
    }

    /// When it could be delivered.
    pub fn deliverable(&self) -> Option<Stamp> {
        self.ended.or(self.ready)
    }

    /// `None` where *issued* or *ready* is not known.
    pub fn stages(&self) -> Option<Stages> {
        let (issued, ready) = (self.issued?, self.ready?);
        Some(Stages {
            issue_ns: issued.ns.checked_sub(self.submitted.ns)?,
            wait_ns: ready.ns.checked_sub(issued.ns)?,
            delivery_ns: self.posted.ns.checked_sub(ready.ns)?,
            until_queued_ns: self
                .queued
                .filter(|_| self.in_order(Stage::Queued))
                .and_then(|q| q.ns.checked_sub(ready.ns)),
            runnable_ns: self.runnable_ns(),
            file_system_ns: self.ended.map_or(Some(0), |ended| ended.ns.checked_sub(ready.ns))?,
        })
    }
}
