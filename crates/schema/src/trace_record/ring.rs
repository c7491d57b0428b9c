//! Rings, and contexts of interfaces without rings.

use std::collections::BTreeMap;

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
    /// The process that created it.
    pub tgid: u32,
    /// That process's name.
    pub comm: String,
    /// Its file descriptors in that process; empty: not found in /proc.
    pub fds: Vec<u32>,
    /// Setup flags, by the names of `--ring`.
    pub flags: Vec<String>,
    /// Entries of the submission queue.
    pub sq_entries: u32,
    /// Entries of the completion queue.
    pub cq_entries: u32,
    /// Whether it existed when the trace started.
    pub found: bool,
    /// Number of the ring that this second process (`tgid`) also uses. Its descriptor was passed or inherited. Omitted
    /// for a ring itself. Requests submitted by an SQPOLL thread all belong to the process that created the ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_of: Option<u32>,
    /// Submissions seen.
    pub requests: u64,
    /// Completions posted.
    pub completions: u64,
    /// Bytes transferred, from the results.
    pub bytes: u64,
    /// Completions with an error. In a trace that continued in windows it is a lower bound.
    pub errors: u64,
    /// Completions that found the completion queue full. In a trace that continued in windows it is a lower bound.
    pub overflows: u64,
    /// Time from its first to its last counted event, over which rates are computed. It is exact to a kernel tick.
    /// Below 20 ticks, it is an upper bound.
    #[serde(default)]
    pub active_ns: Option<u64>,
    /// Its requests by opcode.
    pub opcodes: Vec<OpcodeRecord>,
    /// Its completions by delivery path.
    pub vehicles: Vec<DeliveryPathCount>,
    /// Latency of its traced requests.
    pub latency_ns: Latency,
    /// Requests that wait for an event of unknown time; null: none.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// Waits for its completions that started in io_uring_enter; null in older records.
    #[serde(default)]
    pub enter_waits: Option<EnterWaits>,
    /// io_uring_register calls on it, by operation; null in older records.
    #[serde(default)]
    pub register_calls: Option<Vec<RegisterCalls>>,
    /// Provided buffers used by its requests, by group; null in older records.
    #[serde(default)]
    pub buffers: Option<Vec<BufferGroup>>,
    /// Requests that ended, and that the program neither cancelled nor submitted again; omitted: none. They were multishot, or had no
    /// provided buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedRequest>,
    /// Components of the mean latency; null: too few traced requests.
    pub stages: Option<StageRecord>,
    /// Its requests by the `to_submit` of their io_uring_enter call.
    pub enter_batches: Vec<EnterBatch>,
    /// Its io_uring_enter calls that submitted.
    #[serde(default)]
    pub enter_calls: Option<Estimate>,
    /// Its completions by the number of items in their task work run.
    pub run_items: Vec<RunItems>,
    /// Order of its completions; null: fewer than two were traced.
    #[serde(default)]
    pub order: Option<Order>,
    /// Its NAPI busy polling; omitted: none, or /proc was not read after its registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi: Option<NapiRecord>,
    /// Time that its completions spent in the queue; null: none was checked.
    #[serde(default)]
    pub reaping: Option<Reaping>,
    /// Its SQPOLL thread; null: it has none.
    pub sqpoll: Option<SqpollRecord>,
    /// Threads that submit to it and threads that wait for its completions; null: none was seen.
    #[serde(default)]
    pub threads: Option<RingThreads>,
    /// As for the total.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub count_intervals: BTreeMap<String, Option<[f64; 2]>>,
}

/// Waits for completions in io_uring_enter. The kernel does not report waits of a ring with IOPOLL. For a ring that a
/// BPF program drives, only waits with a sleep are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnterWaits {
    /// Number of all waits.
    pub waits: u64,
    /// Waits with a minimum time to wait for more completions (`min_wait_usec`, Linux 6.12).
    pub min_wait: u64,
    /// Waits with registered arguments (IORING_ENTER_EXT_ARG_REG, Linux 6.13).
    pub registered: u64,
    /// Waits that do not count as iowait (IORING_ENTER_NO_IOWAIT, Linux 6.15).
    pub no_iowait: u64,
    /// Waits with a sleep in the loop of a BPF program that drives the ring (Linux 7.1).
    #[serde(default)]
    pub bpf_loop: u64,
    /// Time in these waits that counts as iowait while the CPU is idle. Null: a thread waits on several rings, or not
    /// all waiting threads are known.
    #[serde(default)]
    pub iowait_ns: Option<u64>,
}

/// NAPI busy polling in io_uring_enter before a sleep (IORING_REGISTER_NAPI, Linux 6.9). The account counts this time
/// as running, with the reason `busy_poll`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NapiRecord {
    /// Longest polling time before a sleep.
    pub busy_poll_ns: u64,
    /// The program registers the devices' NAPI IDs (Linux 6.13). Otherwise, the kernel uses the IDs of the sockets in
    /// use.
    pub is_static: bool,
}

/// Provided buffers of one group: of a buffer ring, or of IORING_OP_PROVIDE_BUFFERS. They are read at each completion
/// with a buffer, from Linux 6.10 on (of IORING_OP_PROVIDE_BUFFERS: 6.17). The program is assumed to have all its
/// buffers in the group at some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BufferGroup {
    /// Buffer group ID.
    pub group: u32,
    /// Entries of the buffer ring; null: no ring, or unknown.
    pub entries: Option<u32>,
    /// Buffers that the kernel took and consumed completely.
    pub taken: u64,
    /// Completions with ENOBUFS.
    pub enobufs: u64,
    /// Mean number of buffers in the group when the kernel took one.
    pub available_mean: Option<f64>,
    /// Maximum number of buffers in the group when the kernel took one.
    pub available_max: Option<u32>,
    /// Minimum number of buffers in the group after the kernel took one.
    pub available_min: Option<u32>,
    /// Smallest sufficient number of buffers: the most that the program held at once. Null after ENOBUFS.
    pub sufficient: Option<u32>,
    /// Buffers that the program had not returned when the kernel took the last one.
    pub not_returned: Option<u32>,
    /// Completions after that of a later buffer of the ring; null: no ring, or unknown.
    pub out_of_order: Option<u64>,
    /// Completions of an incremental buffer (IOU_PBUF_RING_INC) that overlap the completion before.
    pub repeated_offsets: Option<u64>,
    /// Requests submitted for a file whose last request had failed with ENOBUFS.
    pub rearmed: u64,
    /// Time from ENOBUFS to these requests, summed over files: no receive was armed.
    pub unarmed_ns: u64,
}

/// A request that ended: the completion has no IORING_CQE_F_MORE. No other request for its file followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRequest {
    /// The operation.
    pub opcode: String,
    /// `fd 7` or `fixed 7`.
    pub descriptor: String,
    /// Its error; null: it succeeded.
    pub errno: Option<String>,
    /// Time from its last completion to the end of the trace.
    pub for_ns: u64,
}

/// io_uring_register calls with one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterCalls {
    /// IORING_REGISTER_… in lower case, or `unregister_…`.
    pub operation: String,
    /// Number of calls.
    pub calls: u64,
    /// Failed calls, by error.
    pub errnos: Vec<ErrnoCount>,
}

impl RingRecord {
    /// CPU to which its SQPOLL thread is bound, if requested; otherwise the CPU on which it last ran.
    pub fn sq_thread_place(&self) -> Option<String> {
        let cpu = self.sqpoll.as_ref()?.cpu.filter(|cpu| *cpu >= 0)?;
        let bound = setup_flag::is_set(&self.flags, "sq_aff");
        Some(if bound { format!("bound to CPU {cpu}") } else { format!("last on CPU {cpu}") })
    }
}

/// One context of native aio, or the glibc POSIX AIO of one process.
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
    /// Capacity of its event ring; null: POSIX AIO does not have one.
    pub entries: Option<u32>,
    /// Whether it existed when the trace started.
    pub found: bool,
    /// Submissions seen.
    pub requests: u64,
    /// Completions that were seen to complete or to be reaped; the sum of its `vehicles`.
    pub completions: u64,
    /// Number of results seen; `opcodes`, `bytes` and `errors` are based on these.
    pub reaped: u64,
    /// Bytes of the results; null: no result was seen, though there are completions. Also null if some submissions were
    /// not seen, since the meaning of their results is not known.
    pub bytes: Option<u64>,
    /// Errors in the results; null like `bytes`.
    pub errors: Option<u64>,
    /// As for a ring.
    pub active_ns: Option<u64>,
    /// Its requests by opcode; io-wq does not handle any of them.
    pub opcodes: Vec<OpcodeRecord>,
    /// Its completions by delivery path.
    pub vehicles: Vec<DeliveryPathCount>,
    /// reaped − submitted of the traced requests.
    pub latency_ns: Latency,
}

/// Sums over unlisted rings or contexts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OthersRecord {
    /// `io_uring`, `libaio` or `posix_aio`.
    pub interface: String,
    /// The process; null: several, and `comm` is empty.
    pub tgid: Option<u32>,
    /// That process's name.
    pub comm: String,
    /// Number of rings or contexts.
    pub rings: u64,
    /// Submissions seen.
    pub requests: u64,
    /// Completions.
    pub completions: u64,
    /// Bytes transferred, from the results.
    pub bytes: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Completions that found the completion queue full.
    pub overflows: u64,
    /// Their requests by opcode.
    pub opcodes: Vec<OpcodeRecord>,
    /// Their completions by delivery path.
    pub vehicles: Vec<DeliveryPathCount>,
}

/// CPU use of an SQPOLL thread during the trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SqpollRecord {
    /// Its number.
    pub tid: u32,
    /// The CPU on which it last ran; with `sq_aff` the CPU to which it is bound.
    pub cpu: Option<i32>,
    /// Time over which it was sampled; null: not known.
    pub elapsed_ns: Option<u64>,
    /// CPU time in `elapsed_ns`; null: not known.
    pub cpu_ns: Option<u64>,
    /// Part of `cpu_ns` spent on work, according to the kernel (Linux 6.9 and later).
    pub work_ns: Option<u64>,
    /// Number of times that it was woken from its idle sleep.
    pub wakeups: Option<u64>,
    /// Requests that it submitted for this ring.
    pub requests: u64,
    /// Other rings served by the same thread (IORING_SETUP_ATTACH_WQ). Its times cover all these rings.
    #[serde(default)]
    pub shared_with: Vec<u32>,
}
