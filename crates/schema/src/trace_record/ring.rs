//! Rings, and contexts of the interfaces without rings.

use crate::setup_flag;
use serde::{Deserialize, Serialize};

use super::estimates::{EnterBatch, Estimate, RunItems};
use super::opcode::{ErrnoCount, OpcodeRecord};
use super::reaping::Reaping;
use super::threads::RingThreads;
use crate::measurement::{DeliveryPathCount, Latency, Order, StageRecord, Waits};

/// One ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RingRecord {
    /// Its number within the trace; rings and contexts are numbered together.
    pub ring: u32,
    /// The process that made it.
    pub tgid: u32,
    /// That process's name.
    pub comm: String,
    /// File descriptors that name it, in that process; empty: not found in /proc.
    pub fds: Vec<u32>,
    /// Setup flags, by the names of `--ring`.
    pub flags: Vec<String>,
    /// Entries of the submission queue.
    pub sq_entries: u32,
    /// Entries of the completion queue.
    pub cq_entries: u32,
    /// It was there when watching began.
    pub found: bool,
    /// Another ring's number: this is what a second process (`tgid`) does with that ring. It has a descriptor that it was given or
    /// inherited. Left out for a ring itself. Requests that an SQPOLL thread submits are all the ring's own process's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_of: Option<u32>,
    /// Submissions seen.
    pub requests: u64,
    /// Completions posted.
    pub completions: u64,
    /// Bytes of the results.
    pub bytes: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Completions that found the completion queue full.
    pub overflows: u64,
    /// From the first to the last event that was counted of it: what rates are over. It is known to a tick of the kernel; below 20
    /// ticks it is the longest that it may have been.
    #[serde(default)]
    pub active_ns: Option<u64>,
    /// Its requests by opcode.
    pub opcodes: Vec<OpcodeRecord>,
    /// What delivered its completions.
    pub vehicles: Vec<DeliveryPathCount>,
    /// Latency of its followed requests.
    pub latency_ns: Latency,
    /// Requests that were kept open until something came; null: none.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// Waits for its completions that began in io_uring_enter; null in older records.
    #[serde(default)]
    pub enter_waits: Option<EnterWaits>,
    /// Calls of io_uring_register on it, by operation; null in older records.
    #[serde(default)]
    pub register_calls: Option<Vec<RegisterCalls>>,
    /// The parts of the mean latency; null where too little was followed.
    pub stages: Option<StageRecord>,
    /// Its requests by how many their io_uring_enter call was asked to submit.
    pub enter_batches: Vec<EnterBatch>,
    /// Its io_uring_enter calls that submitted.
    #[serde(default)]
    pub enter_calls: Option<Estimate>,
    /// Its completions by how many items their run of task work ran.
    pub run_items: Vec<RunItems>,
    /// Order of its completions; null where fewer than two were followed.
    #[serde(default)]
    pub order: Option<Order>,
    /// How long its completions lay in the queue; null: none was looked at.
    #[serde(default)]
    pub reaping: Option<Reaping>,
    /// Its submission-queue thread; null: it has none.
    pub sqpoll: Option<SqpollRecord>,
    /// Who submits to it and who waits for its completions; null: nobody was seen.
    #[serde(default)]
    pub threads: Option<RingThreads>,
}

/// Waits for completions in io_uring_enter. A ring with IOPOLL, and one that a BPF program drives, has none that the kernel reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnterWaits {
    /// All waits.
    pub waits: u64,
    /// Waits with a minimum time to wait for more completions (`min_wait_usec`, Linux 6.12).
    pub min_wait: u64,
    /// Waits with registered arguments (IORING_ENTER_EXT_ARG_REG, Linux 6.13).
    pub registered: u64,
    /// Waits that do not count as iowait (IORING_ENTER_NO_IOWAIT, Linux 6.15).
    pub no_iowait: u64,
}

/// Calls of io_uring_register with one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterCalls {
    /// IORING_REGISTER_… in lower case, or `unregister_…`.
    pub operation: String,
    /// Calls.
    pub calls: u64,
    /// Those that failed, by error.
    pub errnos: Vec<ErrnoCount>,
}

impl RingRecord {
    /// Which CPU its submission-queue thread is bound to, where the program asked for that; else where it ran last.
    pub fn sq_thread_place(&self) -> Option<String> {
        let cpu = self.sqpoll.as_ref()?.cpu.filter(|cpu| *cpu >= 0)?;
        let bound = setup_flag::is_set(&self.flags, "sq_aff");
        Some(if bound { format!("bound to CPU {cpu}") } else { format!("last on CPU {cpu}") })
    }
}

/// One context of native aio, or what one process does through glibc's POSIX AIO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextRecord {
    /// Its number; rings and contexts are numbered together.
    pub context: u32,
    /// `libaio` or `posix_aio`.
    pub interface: String,
    /// Its process.
    pub tgid: u32,
    /// That process's name.
    pub comm: String,
    /// Events that its ring has room for; null: POSIX AIO has none.
    pub entries: Option<u32>,
    /// It was there when watching began.
    pub found: bool,
    /// Submissions seen.
    pub requests: u64,
    /// Seen to end, or to be reaped; its `vehicles` sum to them.
    pub completions: u64,
    /// Results that were seen: what `opcodes`, `bytes` and `errors` are of.
    pub reaped: u64,
    /// Bytes of the results; null: no result was seen, though there are completions. Null too where the submission of some was not
    /// seen, so that it is not known what their results are.
    pub bytes: Option<u64>,
    /// Errors of the results; null as `bytes`.
    pub errors: Option<u64>,
    /// As a ring's.
    pub active_ns: Option<u64>,
    /// Its requests by opcode; nothing of them goes to io-wq.
    pub opcodes: Vec<OpcodeRecord>,
    /// What delivered its completions.
    pub vehicles: Vec<DeliveryPathCount>,
    /// Of the followed requests: reaped − submitted.
    pub latency_ns: Latency,
}

/// What there was of rings or contexts that are not told one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OthersRecord {
    /// `io_uring`, `libaio` or `posix_aio`.
    pub interface: String,
    /// The process; null: several, and `comm` is empty.
    pub tgid: Option<u32>,
    /// That process's name.
    pub comm: String,
    /// How many rings or contexts.
    pub rings: u64,
    /// Submissions seen.
    pub requests: u64,
    /// Completions.
    pub completions: u64,
    /// Bytes of the results.
    pub bytes: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Completions that found the completion queue full.
    pub overflows: u64,
    /// Their requests by opcode.
    pub opcodes: Vec<OpcodeRecord>,
    /// What delivered their completions.
    pub vehicles: Vec<DeliveryPathCount>,
}

/// The submission-queue thread's use of its CPU while watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SqpollRecord {
    /// Its number.
    pub tid: u32,
    /// Where it ran last; with `sq_aff` the CPU that it is bound to.
    pub cpu: Option<i32>,
    /// Time over which it was looked at; null: not known.
    pub elapsed_ns: Option<u64>,
    /// CPU time that it took then; null: not known.
    pub cpu_ns: Option<u64>,
    /// Of that, doing work, by the kernel's own count (Linux 6.9 and later).
    pub work_ns: Option<u64>,
    /// Times that it was woken because it had gone to sleep.
    pub wakeups: Option<u64>,
    /// Requests that it submitted for this ring.
    pub requests: u64,
    /// Other rings that the same thread serves (IORING_SETUP_ATTACH_WQ). Its times are of all of them together.
    #[serde(default)]
    pub shared_with: Vec<u32>,
}
