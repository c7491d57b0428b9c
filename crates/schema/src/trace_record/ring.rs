//! Rings, and contexts of the interfaces without rings.

use serde::{Deserialize, Serialize};

use super::estimates::{EnterBatch, Estimate, RunItems};
use super::opcode::OpcodeRecord;
use super::reaping::Reaping;
use super::threads::RingThreads;
use crate::measurement::{Latency, Order, StageRecord, VehicleCount, Waits};

/// One ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RingRecord {
    /// From 0, within this trace.
    pub ring: u32,
    pub tgid: u32,
    pub comm: String,
    /// File descriptors that name it, in that process; empty: not found in /proc.
    pub fds: Vec<u32>,
    /// Setup flags, as the kernel has them, by the names of `--ring`.
    pub flags: Vec<String>,
    pub sq_entries: u32,
    pub cq_entries: u32,
    /// It existed before watching began.
    pub found: bool,
    /// The ring of that number is meant, and this is what another process (`tgid`) does with it; null: the ring itself, as the process
    /// uses it that made it or was met with it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_of: Option<u32>,
    pub requests: u64,
    pub completions: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Completions that found the completion queue full.
    pub overflows: u64,
    /// From the first to the last event that was counted of it: what its rates are taken over. To a tick of the kernel, and so null
    /// where it was shorter than 20 of these; then rates are over `elapsed_ns`.
    #[serde(default)]
    pub active_ns: Option<u64>,
    pub opcodes: Vec<OpcodeRecord>,
    pub vehicles: Vec<VehicleCount>,
    pub latency_ns: Latency,
    /// As an opcode's.
    #[serde(default)]
    pub waits: Option<Waits>,
    pub stages: Option<StageRecord>,
    pub enter_batches: Vec<EnterBatch>,
    #[serde(default)]
    pub enter_calls: Option<Estimate>,
    pub run_items: Vec<RunItems>,
    /// Null where fewer than two of its completions were followed.
    #[serde(default)]
    pub order: Option<Order>,
    /// Null: no completion of it was looked at in the queue.
    #[serde(default)]
    pub reaping: Option<Reaping>,
    pub sqpoll: Option<SqpollRecord>,
    /// Null: none was seen to use it.
    #[serde(default)]
    pub threads: Option<RingThreads>,
}

impl RingRecord {
    /// Which CPU its submission-queue thread is bound to, where the program asked for that; else where it ran last.
    pub fn sq_thread_place(&self) -> Option<String> {
        let cpu = self.sqpoll.as_ref()?.cpu.filter(|cpu| *cpu >= 0)?;
        let bound = self.flags.iter().any(|flag| flag == "sq_aff");
        Some(if bound { format!("bound to CPU {cpu}") } else { format!("last on CPU {cpu}") })
    }
}

/// One context of native aio, or what one process does through glibc's POSIX AIO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextRecord {
    /// Rings and contexts are numbered together.
    pub context: u32,
    /// `libaio` or `posix_aio`.
    pub interface: String,
    pub tgid: u32,
    pub comm: String,
    /// Events that its ring has room for; null: POSIX AIO has none.
    pub entries: Option<u32>,
    /// It existed before watching began.
    pub found: bool,
    pub requests: u64,
    /// Seen to end or to be reaped; the vehicles sum to it.
    pub completions: u64,
    /// Results that were seen to be reaped: what `opcodes`, `bytes` and `errors` are of.
    pub reaped: u64,
    /// null: no result was seen, and not for want of completions; or results of requests of which it was not seen what they are.
    pub bytes: Option<u64>,
    pub errors: Option<u64>,
    /// As a ring's.
    pub active_ns: Option<u64>,
    pub opcodes: Vec<OpcodeRecord>,
    pub vehicles: Vec<VehicleCount>,
    /// Of the followed requests: reaped − submitted.
    pub latency_ns: Latency,
}

/// What there was of rings or contexts that are not told one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OthersRecord {
    /// `io_uring`, `libaio` or `posix_aio`.
    pub interface: String,
    /// null: of several processes, and `comm` is empty.
    pub tgid: Option<u32>,
    pub comm: String,
    /// So many rings or contexts.
    pub rings: u64,
    pub requests: u64,
    pub completions: u64,
    pub bytes: u64,
    pub errors: u64,
    pub overflows: u64,
    pub opcodes: Vec<OpcodeRecord>,
    pub vehicles: Vec<VehicleCount>,
}

/// The submission-queue thread's use of its CPU while watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SqpollRecord {
    pub tid: u32,
    /// Where it ran last; with `sq_aff` the one that it is bound to.
    pub cpu: Option<i32>,
    /// Over which it was looked at, to its end if it ended; null where that is not known.
    pub elapsed_ns: Option<u64>,
    /// CPU time it took then; null where that is not known.
    pub cpu_ns: Option<u64>,
    /// Of that, doing work, by the kernel's own count (fdinfo SqWorkTime against SqTotalTime, 6.9 and later).
    pub work_ns: Option<u64>,
    /// Times the thread was woken because it had gone to sleep.
    pub wakeups: Option<u64>,
    /// Requests that it submitted for this ring.
    pub requests: u64,
    /// Other rings that the same thread serves (IORING_SETUP_ATTACH_WQ): its times are of all of them together.
    #[serde(default)]
    pub shared_with: Vec<u32>,
}
