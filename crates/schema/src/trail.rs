//! One I/O followed whole, from its submission to the posting of its completion: stamps, places, and what carried it.
//! Pure data; the probes fill it (`probe::trails`), recordings keep it (`watch::recording`).

use serde::{Deserialize, Serialize};

use crate::opcode;

use super::delivery_path::DeliveryPath;
use super::file::{Descriptor, FileSeen};
use super::waker::Waker;
use crate::stage::Stage;

/// A moment and the CPU that it was seen on. CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// CLOCK_MONOTONIC.
    pub ns: u64,
    /// The CPU that it was seen on.
    pub cpu: u32,
}

/// Where a request's issue went, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Course {
    /// Nothing was waited for, or nothing that the probes follow.
    Direct,
    /// Block I/O. `issued` is the first block request's issue to the driver, `ready` the last one's completion.
    Block,
    /// A poll was armed (sockets, pipes, eventfds). `issued` is the arming, `ready` the wake-up of the poll.
    Poll,
}

/// What the submitting thread was doing when its completion could be delivered: at *ready*, or *ended* where that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meanwhile {
    /// It had a CPU.
    Running {
        /// The CPU.
        cpu: u32,
    },
    /// It waited for a CPU; the one it was last on was given to `tid`.
    Runnable {
        /// The CPU that it was last on.
        cpu: u32,
        /// The thread that had it.
        tid: u32,
        /// That thread's name.
        comm: String,
    },
    /// It slept; what its last CPU ran then (`tid` 0: idle).
    Sleeping {
        /// The CPU that it was last on.
        cpu: u32,
        /// The thread that it ran.
        tid: u32,
        /// That thread's name.
        comm: String,
    },
}

/// The sleep that the submitting thread was in when the completion could be delivered, and its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// When somebody woke it.
    pub woken: Stamp,
    /// Who woke it.
    pub by: Waker,
    /// When it got a CPU.
    pub running: Option<Stamp>,
}

/// One completion of one request. A multishot request yields several; all but the last have `more`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTrace {
    /// Number of its ring; null: it could not be told.
    pub ring: Option<u32>,
    /// The process.
    pub tgid: u32,
    /// The thread that submitted it, an SQPOLL thread where that one did.
    pub tid: u32,
    /// The operation: IORING_OP_… in lower case.
    pub opcode: String,
    /// How many requests it stands for. It is the inverse of its chance to be followed when it was submitted. 0, or left out in older
    /// recordings: as many as the header's `one_in`.
    #[serde(default)]
    pub weight: u32,
    /// Its user data.
    pub user_data: u64,
    /// The file that it went to; left out where it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSeen>,
    /// What the program named that file by; left out where the operation has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<Descriptor>,
    /// Bytes asked for, where the operation has one plain length of its own.
    pub asked_bytes: Option<u64>,
    /// Offset in the file of a read or write; left out where it has none, or uses the file's position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Where a read puts its bytes in the process's memory; left out where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u64>,
    /// The completion's result: bytes, or a negative errno.
    pub result: i32,
    /// More completions of this request follow (IORING_CQE_F_MORE).
    pub more: bool,
    /// A zero-copy send's notification that its buffer is free (IORING_CQE_F_NOTIF).
    pub notification: bool,
    /// Requests that the io_uring_enter call was asked to submit; null: not by that call.
    pub enter_batch: Option<u32>,
    /// Handed to io-wq, and why.
    pub punted: Option<Punt>,

    /// When it was submitted.
    pub submitted: Stamp,
    /// When it was issued; null: not known.
    pub issued: Option<Stamp>,
    /// When the device or peer was done; null: not known.
    pub ready: Option<Stamp>,
    /// When a kernel worker of the file system had finished it; null: none had to, or it was not seen. That is so of direct writes,
    /// mostly.
    #[serde(default)]
    pub ended: Option<Stamp>,
    /// When task work was added; known only where the kernel allows a probe there.
    pub queued: Option<Stamp>,
    /// When its completion was in the queue.
    pub posted: Stamp,
    /// Stamps between *submitted* and *issued*.
    #[serde(default, skip_serializing_if = "Before::is_empty")]
    pub before: Before,
    /// Where its issue went.
    pub course: Course,
    /// Block requests that it was split into, all of which had to be ready.
    pub block_requests: u32,

    /// What delivered it.
    pub vehicle: DeliveryPath,
    /// The system call, interrupt or waker behind it; null: none.
    pub detail: Option<String>,
    /// Items of the task-work run that carried it; null: none did.
    pub run_items: Option<u32>,
    /// What the submitting thread was doing when it could be delivered; null: not known.
    pub meanwhile: Option<Meanwhile>,
    /// The sleep that the submitting thread was in then, and its end; null: it did not sleep, or not known.
    pub wake: Option<Wake>,
    /// When the submitting thread got the CPU on which it posted it; null: not seen. That may be before `ready` or after. Null too
    /// where something else posted it.
    #[serde(default)]
    pub on_cpu: Option<Stamp>,
    /// Context switches of that thread's last CPU until it was posted; null: not known.
    pub switches_meanwhile: Option<u32>,
}

/// Stamps between *submitted* and *issued*. CLOCK_MONOTONIC; left out if they were not seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Before {
    /// Its place in a chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// It was handed to io-wq.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub punted_ns: Option<u64>,
    /// An io-wq worker began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_ns: Option<u64>,
    /// Its first bio was queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bio_ns: Option<u64>,
    /// A limit of the cgroup had held that back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub throttled: bool,
    /// The block layer had a request for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// Other requests are linked to it.
    Head,
    /// It is linked to the request before it.
    Linked,
}

impl Before {
    pub fn is_empty(&self) -> bool {
        *self == Before::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Punt {
    /// The program asked for it: IOSQE_ASYNC.
    Asked,
    /// Its operation always blocks, or it would have blocked when it was tried.
    WouldBlock,
    /// The ring was drained: it asked for that (IOSQE_IO_DRAIN), or came while it went on.
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

impl RequestTrace {
    /// posted − submitted. Of a multishot request's later completions, this is not a latency of anything.
    pub fn latency_ns(&self) -> u64 {
        self.posted.ns.saturating_sub(self.submitted.ns)
    }

    /// It moved fewer bytes than it asked for, without an error.
    pub fn is_short(&self) -> bool {
        self.result >= 0 && self.asked_bytes.is_some_and(|asked| u64::from(self.result.unsigned_abs()) < asked)
    }

    /// Its result announces nothing but its notification: `more` is set, and no other result comes.
    pub fn is_zero_copy_send(&self) -> bool {
        opcode::is(&self.opcode, opcode::ZERO_COPY)
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
