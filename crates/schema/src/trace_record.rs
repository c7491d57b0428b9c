//! The result of tracing a program. These types *are* the JSON schema `iotrail.trace/1` (`docs/formats.md`). Answers and reports
//! read only these types.
//!
//! Counts are exact unless their name contains `followed`: those count the requests that were traced end to end (a sample of 1 in
//! `followed.one_in`).

mod distribution;
mod estimates;
mod files;
mod opcode;
mod reaping;
mod ring;
mod threads;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::account::{Account, CallRecord, ThreadAccount};
use crate::finding::Finding;
use crate::measurement::{
    CpuSamples, CpuShare, DeliveryPathCount, Followed, Host, Interrupt, Ipi, Latency, ModeSwitch, Order, PerIo, Probe,
    StageRecord, TaskWorkBatch, Waits, Warning,
};
use crate::stacks::Stacks;
use crate::state::StateRecord;
use crate::trail::Course;
pub use distribution::{LatencyBucket, LatencyHistogram, TimeSlice, Timeline};
pub use estimates::{CountIntervals, CpuPair, EnterBatch, Estimate, RunItems};
pub use files::{FileRecord, FileRequests, OtherFiles};
pub use opcode::{ErrnoCount, OpcodeRecord, operations};
pub use reaping::{Depth, Reaping};
pub use ring::{
    BufferGroup, ContextRecord, EndedRequest, EnterWaits, NapiRecord, OthersRecord, RegisterCalls, RingRecord,
    SqpollRecord,
};
pub use threads::{DeliveryPathShare, Detour, RingThreads, ThreadRecord};

pub const SCHEMA: &str = "iotrail.trace/1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceRecord {
    /// `iotrail.trace/1`.
    pub schema: String,
    /// iotrail version that recorded the trace.
    pub version: String,
    /// Wall-clock start.
    pub started_unix_s: u64,
    /// The traced processes.
    pub subject: Subject,
    /// Why the command did not exit by itself; null: it exited, still runs, or is not known.
    #[serde(default)]
    pub ended_by: Option<EndedBy>,
    /// Totals over the traced processes.
    pub total: Total,
    /// One per ring, in order of creation. If there are more than 512 rings and contexts, the busiest ones.
    pub rings: Vec<RingRecord>,
    /// The same for native aio (one per context) and POSIX AIO (one per process).
    #[serde(default)]
    pub contexts: Vec<ContextRecord>,
    /// Counts for unlisted rings and contexts, by process. The total includes them.
    #[serde(default)]
    pub others: Vec<OthersRecord>,
    /// Time breakdown of threads and requests; null: not measured.
    #[serde(default)]
    pub account: Option<Account>,
    /// System calls that perform I/O; null: not counted.
    #[serde(default)]
    pub calls: Option<Vec<CallRecord>>,
    /// Samples of the kernel state of rings, threads and sockets during the trace; null: not read.
    #[serde(default)]
    pub state: Option<StateRecord>,
    /// Sampled call sites in the program; null: not sampled.
    #[serde(default)]
    pub stacks: Option<Stacks>,
    /// Findings and their remedies.
    pub findings: Vec<Finding>,
}

/// Why a command did not exit by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Its time was over, and iotrail asked it to exit.
    Duration,
    /// iotrail was interrupted.
    Interrupt,
    /// A signal killed it: its exit status − 128.
    Signal,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A command.
    Command {
        /// The command line.
        argv: Vec<String>,
        /// Its exit status, or 128 + the signal that killed it; null: it had not exited.
        exit_status: Option<i32>,
    },
    /// A process.
    Process {
        /// Process ID.
        tgid: u32,
        /// Its name.
        comm: String,
        /// Number of its descendants that were traced from the start.
        #[serde(default)]
        descendants: usize,
    },
    /// Several processes.
    Processes {
        /// Process IDs.
        tgids: Vec<u32>,
        /// Number of their descendants that were traced from the start.
        #[serde(default)]
        descendants: usize,
    },
    /// Every process.
    All,
}

/// A measurement without `load` and `phases`, plus fields for traced programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// Time traced; with requested windows: the sum of `choosing_ns` and `finishing_ns`.
    pub elapsed_ns: u64,
    /// Windows in which the probes were attached; null: all the time. With `whole_ns`, counts are estimates for all the
    /// time. Otherwise counts, rates and findings cover only the windows, and `cpu`, `active_ns` and values of helper
    /// threads from /proc are null.
    #[serde(default)]
    pub windows: Option<Windows>,
    /// Number of completions.
    pub ios: u64,
    /// Results that the program received for its requests. They are `ios` without zero-copy send notifications and
    /// IORING_OP_MSG_RING messages, plus requests that succeeded without a completion. Null in older records.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Total bytes in the results seen.
    pub bytes: u64,
    /// Errors in the results seen; a lower bound if `windows.whole_ns` is not null.
    pub errors: u64,
    /// Results with fewer bytes than requested, for the opcodes whose `short` is not null.
    pub short_ios: u64,
    /// Completions per second.
    pub iops: f64,
    /// posted − submitted of traced requests; for native and POSIX AIO reaped − submitted. Its mean excludes `waits`.
    pub latency_ns: Latency,
    /// Requests that wait for an event of unknown time; null: none.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// CPU time of the traced processes.
    pub cpu: TraceCpu,
    /// Completions by delivery path. Their sum is `probe.completions_seen`.
    pub vehicles: Vec<DeliveryPathCount>,
    /// Counts per completion.
    pub per_io: PerIo,
    /// 95 % intervals of the estimates in `per_io`, by name. A number of `per_io` without an interval is exact.
    #[serde(default)]
    pub per_io_intervals: BTreeMap<String, [f64; 2]>,
    /// 95 % intervals of the other estimates. Names: `stray_calls`, `pread_pwrite_calls`, and `mode_switches.syscall`,
    /// the count of that cause.
    #[serde(default)]
    pub intervals: BTreeMap<String, [f64; 2]>,
    /// 95 % intervals of counts that were multiplied; null: fewer than 5 windows. By name: `ios`, `bytes`,
    /// `opcodes.read.requests`, `vehicles.enter`. A count without an entry is exact. Errors are lower bounds; their
    /// interval covers all errors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub count_intervals: BTreeMap<String, Option<[f64; 2]>>,
    /// Returns from kernel to user mode of the traced threads, by cause.
    pub mode_switches: Vec<ModeSwitch>,
    /// Runs of task work by the number of items they ran, in powers of two.
    pub task_work_batches: Vec<TaskWorkBatch>,
    /// Interrupts by vector and CPU.
    pub interrupts: Vec<Interrupt>,
    /// Interprocessor interrupts that kicked or woke a traced thread, or were sent by one.
    pub ipis: Vec<Ipi>,
    /// Order of completions, submitted to posted; null: not known.
    pub order: Option<Order>,
    /// Number of traced requests.
    pub followed: Followed,
    /// Requests by opcode.
    pub opcodes: Vec<OpcodeRecord>,
    /// The parts of the mean latency; null: too few traced requests.
    pub stages: Option<StageRecord>,
    /// Traced requests by the `to_submit` of their io_uring_enter call. Calls with requests that came later
    /// (`followed.came_later`) are excluded.
    pub enter_batches: Vec<EnterBatch>,
    /// All io_uring_enter calls that submitted. With windows: while requests were selected. Null: estimated from fewer
    /// than 50 traced requests.
    #[serde(default)]
    pub enter_calls: Option<Estimate>,
    /// Traced completions by the CPU on which they became ready and the CPU on which they were posted.
    pub cpu_pairs: Vec<CpuPair>,
    /// Traced completions by the number of items in their run of task work. An item of a multishot request may post
    /// several completions: `task_work_batches` counts the runs themselves.
    pub run_items: Vec<RunItems>,
    /// The traced processes, including at most about 4,000 that have exited.
    pub processes: Vec<ProcessRecord>,
    /// Number of unlisted processes.
    #[serde(default)]
    pub more_processes: u64,
    /// The io-wq workers.
    pub iowq: IowqRecord,
    /// Page faults of the traced threads in user mode; null: not counted. Faults during the kernel's own copying for
    /// these threads are not mode switches, and are excluded.
    pub page_faults: Option<u64>,
    /// System calls other than io_uring_enter of threads that submit; null: not counted.
    #[serde(default)]
    pub stray_calls: Option<u64>,
    /// pread64 and pwrite64 calls of the traced threads, including glibc's; null: not counted.
    #[serde(default)]
    pub pread_pwrite_calls: Option<u64>,
    /// Context switches of the traced threads.
    pub context_switches: u64,
    /// Windows in which a busy program's system calls, device interrupts and block stages were traced. Numbers with an
    /// entry in `per_io_intervals`, `intervals` or `interrupts[].credited_ci95` are estimated from them. With fewer
    /// than 5 windows these numbers are null. Null: everything was traced all the time.
    #[serde(default)]
    pub sampled_events: Option<SampledEvents>,
    /// Events that the probes saw and lost.
    pub probe: Probe,
    /// CPU time of the traced threads, including helper threads, by place; null without `--profile`.
    #[serde(default)]
    pub cpu_shares: Option<Vec<CpuShare>>,
    /// How the CPUs were sampled; null without `--profile`.
    #[serde(default)]
    pub cpu_samples: Option<CpuSamples>,
    /// Traced requests in flight at the end, oldest first; empty with windows.
    #[serde(default)]
    pub open: Vec<OpenRecord>,
    /// Memory that in-flight requests shared or outlived; null: none, or not checked.
    #[serde(default)]
    pub memory: Option<MemoryRecord>,
    /// The 20 busiest files of traced requests with a completion. Files without a traced request are missing, as are
    /// requests that were rejected at submission.
    #[serde(default)]
    pub files: Vec<FileRecord>,
    /// Sums over the unlisted files; null: none.
    #[serde(default)]
    pub other_files: Option<OtherFiles>,
    /// Time that completions spent in the completion queue; null: none was checked.
    #[serde(default)]
    pub reaping: Option<Reaping>,
    /// Completions that could not be checked in the queue; null in older records. The causes are more rings than the
    /// map can hold, a resized ring, and a full buffer.
    #[serde(default)]
    pub reaping_lost: Option<u64>,
    /// Latencies of the traced requests in powers of two, by opcode and delivery path.
    #[serde(default)]
    pub latency_histograms: Vec<LatencyHistogram>,
    /// Completions and latencies over time; null: no request was traced.
    #[serde(default)]
    pub timeline: Option<Timeline>,
    /// Overhead of each BPF program, highest first; null without `--cost`.
    #[serde(default)]
    pub probe_costs: Option<Vec<ProbeCost>>,
    /// The machine.
    pub host: Host,
    /// Conditions that make the numbers doubtful. `nothing_asynchronous` and `idle_rings` report that no requests or
    /// completions were seen: the former if there were no rings, the latter if rings were open.
    pub warnings: Vec<Warning>,
}

/// Requests with the same ring and opcode that have not completed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenRecord {
    /// Its ring; null: a ring that is not listed.
    pub ring: Option<u32>,
    /// Its process.
    pub tgid: u32,
    /// Its operation.
    pub opcode: String,
    /// How they were waiting.
    pub course: Course,
    /// Number of traced requests.
    pub requests: u64,
    /// Estimated number among all requests.
    pub estimated: u64,
    /// Part of `requests`: those that posted earlier completions.
    pub multishot: u64,
    /// Part of `requests`: those cancelled by the close of their ring. Their completions are not counted, because no
    /// thread can reap them.
    #[serde(default)]
    pub closed: u64,
    /// Time since the oldest one was submitted.
    pub oldest_ns: u64,
    /// User data of the oldest one, in hexadecimal.
    pub user_data: String,
    /// Descriptor of the oldest one: `fd 7` or `fixed 7`; null: it has none.
    #[serde(default)]
    pub descriptor: Option<String>,
    /// That file's path, last path component, or type; null: not known.
    #[serde(default)]
    pub file: Option<String>,
}

/// In-flight requests whose memory another request or owner also used; known if all requests were traced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Reads whose memory overlapped that of another in-flight read.
    pub overlapping: u64,
    /// The first overlapping pair.
    pub overlap: Option<OverlapRecord>,
    /// Requests with registered buffers that completed after the buffers were unregistered.
    pub outlived: u64,
    /// User data of the first such request, in hexadecimal.
    pub outlived_user_data: Option<String>,
    /// The ring of the first such request or pair.
    pub ring: Option<u32>,
}

/// Two concurrent reads of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverlapRecord {
    /// The operation.
    pub opcode: String,
    /// Number of bytes written by both.
    pub bytes: u64,
    /// User data of both, in hexadecimal.
    pub user_data: [String; 2],
}

/// Windows on which estimates are based.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampledEvents {
    /// Number of windows.
    pub windows: u64,
    /// Completions while everything was traced: in the windows, and before and after them.
    pub completions: u64,
    /// Time during which everything was traced; null in older records.
    #[serde(default)]
    pub traced_ns: Option<u64>,
}

/// One BPF program on all CPUs, for the events of all processes, by the kernel's run-time statistics. They exclude
/// calling the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCost {
    /// The BPF program.
    pub program: String,
    /// The tracepoint to which it is attached.
    pub event: String,
    /// Number of its runs on all CPUs, for the events of all processes.
    pub runs: u64,
    /// Its time, by the kernel's BPF run-time statistics. They exclude calling the program (about 20 to 40 ns), and
    /// themselves cost about 20 ns per run.
    pub spent_ns: u64,
}

/// Windows during which the probes were attached: one per period, at a random point within it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Windows {
    /// Time in which a window selects requests. Then the window finishes: counting continues until these requests have
    /// completed, but no longer than the same time again.
    pub open_ns: u64,
    /// Period that contains one window, at a random point.
    pub period_ns: u64,
    /// Number of windows.
    pub opened: u64,
    /// Time from the start of the first period to the end of the trace.
    pub span_ns: u64,
    /// Time in which all windows selected requests; null in older records. Requests to be traced were selected during
    /// this time. On a busy machine, windows end late.
    #[serde(default)]
    pub choosing_ns: Option<u64>,
    /// Time in which all windows finished; null in older records.
    #[serde(default)]
    pub finishing_ns: Option<u64>,
    /// Time in which everything was traced, mostly the first window. Null: windows were requested. Otherwise iotrail
    /// changed to windows because of the cost.
    #[serde(default)]
    pub whole_ns: Option<u64>,
    /// CPU time used to trace everything, as a share of the traced processes' CPU time. Null: windows were requested.
    #[serde(default)]
    pub cost: Option<f64>,
    /// Completions on the rings of the traced processes in the full span, by the rings' own counters. Each ring counts
    /// once, even if several processes use it. Null: windows were requested, or a ring has `cqe_mixed`, whose counter
    /// counts a large completion twice.
    #[serde(default)]
    pub posted: Option<u64>,
    /// Whether `posted` is complete. False: a ring or process ended after the last read of its counter (once per
    /// second).
    #[serde(default)]
    pub posted_is_all: Option<bool>,
    /// User CPU time of the traced processes over the full span.
    #[serde(default)]
    pub user_ns: Option<u64>,
    /// System CPU time of the traced processes over the full span.
    #[serde(default)]
    pub system_ns: Option<u64>,
}

impl TraceRecord {
    /// The program's own threads that have a time account.
    pub fn own_threads(&self) -> impl Iterator<Item = &ThreadAccount> {
        self.account.iter().flat_map(Account::own_threads)
    }

    /// The system call of this name.
    pub fn call(&self, syscall: &str) -> Option<&CallRecord> {
        self.calls.iter().flatten().find(|call| call.syscall == syscall)
    }
}

impl Windows {
    /// Time during which the probes were counting.
    pub fn open_for_ns(&self) -> Option<u64> {
        Some(self.choosing_ns? + self.finishing_ns?)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceCpu {
    /// User time of the traced processes, helper threads included. Its sum with `system_ns` is exact for processes that
    /// started and ended during the trace. For other processes, up to 100 ms at the end may be missing. The kernel
    /// divides the two by ticks. For processes without a PID in iotrail's PID namespace the sum is exact to 10 ms.
    /// Null: the kernel had not accounted for an ended command.
    pub user_ns: Option<u64>,
    /// System time of the same processes.
    pub system_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Process ID in the initial PID namespace.
    pub tgid: u32,
    /// Process ID in iotrail's PID namespace. Omitted if that is the initial one, or if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<u32>,
    /// Its name.
    pub comm: String,
    /// Whether it existed when the trace started.
    pub found: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IowqRecord {
    /// Number of worker threads seen.
    pub workers: u64,
    /// Maximum concurrent; null if it cannot be counted.
    pub most_at_once: Option<u64>,
    /// Completions that a worker posted itself.
    pub completions: u64,
    /// CPU time of the workers found in /proc; null: not readable.
    pub cpu_ns: Option<u64>,
}
