//! One I/O traced end to end, from its submission to the posting of its completion: stamps, places, and its delivery path. Pure
//! data; the probes produce it (`probe::trails`), recordings store it (`watch::recording`).

use serde::{Deserialize, Serialize};

use crate::opcode;

use super::delivery_path::DeliveryPath;
use super::file::{Descriptor, FileSeen};
use super::waker::Waker;
use crate::stage::Stage;

/// A timestamp (CLOCK_MONOTONIC) and the CPU on which the event was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// CLOCK_MONOTONIC.
    pub ns: u64,
    /// The CPU on which it was seen.
    pub cpu: u32,
}

/// What a request waited for after it was issued, as far as observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Course {
    /// It did not wait, or only for something that the probes do not observe.
    Direct,
    /// Block I/O. `issued` is when the first block request was issued to the driver, `ready` when the last one completed.
    Block,
    /// A poll was armed (sockets, pipes, eventfds). `issued` is when it was armed, `ready` when it was woken.
    Poll,
}

/// State of the submitting thread when its completion could be delivered: at *ready*, or at *ended* if known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meanwhile {
    /// It was running.
    Running {
        /// The CPU.
        cpu: u32,
    },
    /// It was waiting for a CPU; its last CPU was running `tid`.
    Runnable {
        /// Its last CPU.
        cpu: u32,
        /// The thread that was running on that CPU.
        tid: u32,
        /// That thread's name.
        comm: String,
    },
    /// It was sleeping; `tid` is the thread on its last CPU (0: idle).
    Sleeping {
        /// Its last CPU.
        cpu: u32,
        /// The thread that ran on that CPU.
        tid: u32,
        /// That thread's name.
        comm: String,
    },
}

/// The submitting thread's sleep when the completion could be delivered, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// When it was woken.
    pub woken: Stamp,
    /// The waker.
    pub by: Waker,
    /// When it got a CPU.
    pub running: Option<Stamp>,
}

/// One completion of one request. A multishot request yields several; all but the last have `more`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTrace {
    /// Ring number; null: not known.
    pub ring: Option<u32>,
    /// The process.
    pub tgid: u32,
    /// The submitting thread, or the SQPOLL thread.
    pub tid: u32,
    /// The operation: IORING_OP_… in lower case.
    pub opcode: String,
    /// Number of requests that it represents: the inverse of its selection probability. 0, or omitted in
    /// older recordings: the header's `one_in`.
    #[serde(default)]
    pub weight: u32,
    /// Its user data.
    pub user_data: u64,
    /// Its file; omitted if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSeen>,
    /// That file's descriptor or index; omitted if the operation has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<Descriptor>,
    /// Requested bytes, if the operation has a single length.
    pub asked_bytes: Option<u64>,
    /// File offset of a read or write; omitted if there is none, or if it uses the file position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Address of a read's buffer in the process's memory; omitted if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u64>,
    /// The completion's result: bytes, or a negative errno.
    pub result: i32,
    /// The request will post more completions (IORING_CQE_F_MORE).
    pub more: bool,
    /// A zero-copy send's notification that its buffer is free (IORING_CQE_F_NOTIF).
    pub notification: bool,
    /// The `to_submit` of its io_uring_enter call; null: it was not submitted by such a call.
    pub enter_batch: Option<u32>,
    /// Why it was punted to io-wq.
    pub punted: Option<Punt>,

    /// When it was submitted.
    pub submitted: Stamp,
    /// When it was issued; null: not known.
    pub issued: Option<Stamp>,
    /// When the device or peer was done; null: not known.
    pub ready: Option<Stamp>,
    /// When a file system kernel worker finished it; null: not needed, or not seen. It is set mostly for direct writes.
    #[serde(default)]
    pub ended: Option<Stamp>,
    /// When task work was added; known only if the kernel allows a probe at that point.
    pub queued: Option<Stamp>,
    /// When its completion was posted.
    pub posted: Stamp,
    /// Timestamps between *submitted* and *issued*.
    #[serde(default, skip_serializing_if = "Before::is_empty")]
    pub before: Before,
    /// Block I/O was observed during only part of the request's lifetime; omitted if during all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partly_observed: bool,
    /// What it waited for after it was issued.
    pub course: Course,
    /// Number of block requests into which it was split; all of them had to become ready.
    pub block_requests: u32,

    /// The delivery path.
    pub vehicle: DeliveryPath,
    /// The system call, interrupt or waker of the path; null: none.
    pub detail: Option<String>,
    /// Number of items in the task work run that posted it; null: not posted by task work.
    pub run_items: Option<u32>,
    /// The submitting thread's state when the completion could be delivered; null: not known.
    pub meanwhile: Option<Meanwhile>,
    /// The submitting thread's sleep at that time; null: it was not asleep, or not known.
    pub wake: Option<Wake>,
    /// When the submitting thread got the CPU on which it posted it; null: not seen. This may be before or after `ready`. Also null
    /// if the submitting thread did not post it.
    #[serde(default)]
    pub on_cpu: Option<Stamp>,
    /// Context switches on that thread's last CPU until the completion was posted; null: not known.
    pub switches_meanwhile: Option<u32>,
}

/// Timestamps between *submitted* and *issued*. CLOCK_MONOTONIC; omitted if not seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Before {
    /// Its position in a chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// It was punted to io-wq.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub punted_ns: Option<u64>,
    /// An io-wq worker started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_ns: Option<u64>,
    /// Its first bio was queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bio_ns: Option<u64>,
    /// A cgroup limit had throttled that bio.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub throttled: bool,
    /// A buffered read that found its page being read by other I/O.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_page: bool,
    /// The block layer had allocated a request for it.
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
    /// The program requested it: IOSQE_ASYNC.
    Asked,
    /// Its operation always blocks, or it would have blocked on the first attempt.
    WouldBlock,
    /// The ring was drained: the request had IOSQE_IO_DRAIN, or came during a drain.
    Drained,
}

/// The parts of one latency, in order. They sum to posted − submitted; either all or none are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// submitted → issued: io_uring, file system, block layer, on the submitting thread or a worker.
    pub issue_ns: u64,
    /// issued → ready: the device or the peer.
    pub wait_ns: u64,
    /// ready → posted: delivery delay.
    pub delivery_ns: u64,
    /// ready → ended, a part of `delivery_ns`: a kernel worker of the file system finished the I/O; otherwise 0.
    pub file_system_ns: u64,
    /// ready → queued, a part of `delivery_ns`; `None`: no task work was added for it, or not seen.
    pub until_queued_ns: Option<u64>,
    /// The submitter was runnable without a CPU, a part of `delivery_ns`; `None`: not known.
    pub runnable_ns: Option<u64>,
}

impl RequestTrace {
    /// posted − submitted. For later completions of a multishot request this is not a latency.
    pub fn latency_ns(&self) -> u64 {
        self.posted.ns.saturating_sub(self.submitted.ns)
    }

    /// It transferred fewer bytes than requested, without an error.
    pub fn is_short(&self) -> bool {
        self.result >= 0 && self.asked_bytes.is_some_and(|asked| u64::from(self.result.unsigned_abs()) < asked)
    }

    /// Its result announces only its notification: `more` is set, and no other result comes.
    pub fn is_zero_copy_send(&self) -> bool {
        opcode::is(&self.opcode, opcode::ZERO_COPY)
    }

    /// Its request will not have any further results.
    pub fn is_last_result(&self) -> bool {
        !self.more || self.is_zero_copy_send()
    }

    /// Delivery delay, if *ready* is known.
    pub fn delay_ns(&self) -> Option<u64> {
        self.ready.map(|ready| self.posted.ns.saturating_sub(ready.ns))
    }

    /// When it could be delivered.
    pub fn deliverable(&self) -> Option<Stamp> {
        self.ended.or(self.ready)
    }

    /// `None` if *issued* or *ready* is not known.
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
