//! What watching a program yields: these types *are* the JSON schema `iotrail.trace/1` (`docs/formats.md`). Answers and
//! reports take this and never what made it.
//!
//! Counts are exact unless their name says `followed`: those are of the requests that were followed whole (a sample of
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
use crate::state::StateRecord;
use crate::trail::Course;
pub use distribution::{LatencyBucket, LatencyHistogram, TimeSlice, Timeline};
pub use estimates::{CpuPair, EnterBatch, Estimate, RunItems};
pub use files::{FileRecord, FileRequests, OtherFiles};
pub use opcode::{ErrnoCount, OpcodeRecord, operations};
pub use reaping::{Depth, Reaping};
pub use ring::{ContextRecord, EnterWaits, OthersRecord, RegisterCalls, RingRecord, SqpollRecord};
pub use threads::{DeliveryPathShare, Detour, RingThreads, ThreadRecord};

pub const SCHEMA: &str = "iotrail.trace/1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceRecord {
    /// `iotrail.trace/1`.
    pub schema: String,
    /// Version of the iotrail that watched.
    pub version: String,
    /// Wall-clock start.
    pub started_unix_s: u64,
    /// What was asked to be watched.
    pub subject: Subject,
    /// Everything that was watched.
    pub total: Total,
    /// One for each ring, in the order in which they were made. Of more than 512 rings and contexts the busiest.
    pub rings: Vec<RingRecord>,
    /// The same of native aio (one for each context) and POSIX AIO (one for each process).
    #[serde(default)]
    pub contexts: Vec<ContextRecord>,
    /// What further rings and contexts did, by process. They are in the total.
    #[serde(default)]
    pub others: Vec<OthersRecord>,
    /// Where the time of threads and requests went; null: not measured.
    #[serde(default)]
    pub account: Option<Account>,
    /// The system calls of I/O; null: not counted.
    #[serde(default)]
    pub calls: Option<Vec<CallRecord>>,
    /// What the kernel kept of rings, threads and sockets meanwhile, in samples; null: not read.
    #[serde(default)]
    pub state: Option<StateRecord>,
    /// What stands out, and what would change it.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A command.
    Command {
        /// The command line.
        argv: Vec<String>,
        /// Its exit status, 128 + the signal that killed it; null: it had not ended.
        exit_status: Option<i32>,
    },
    /// A process.
    Process {
        /// Its number.
        tgid: u32,
        /// Its name.
        comm: String,
        /// How many that descend from it are watched from the beginning.
        #[serde(default)]
        descendants: usize,
    },
    /// Several processes.
    Processes {
        /// Their numbers.
        tgids: Vec<u32>,
        /// How many that descend from them are watched from the beginning.
        #[serde(default)]
        descendants: usize,
    },
    /// Every process.
    All,
}

/// A measurement without `load` and `phases` (there is no load of ours), and what a program of others' adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// Time traced; of windows that were asked for, the sum of `choosing_ns` and `finishing_ns`.
    pub elapsed_ns: u64,
    /// Windows in which the probes were attached; null: all the time. With `whole_ns`, counts are estimates for all the time. Otherwise
    /// counts, rates and findings are of the windows only, and `cpu`, `active_ns` and what /proc knows of helper threads are null.
    #[serde(default)]
    pub windows: Option<Windows>,
    /// Completions.
    pub ios: u64,
    /// Results that the program had of its requests. They are `ios` without notifications of zero-copy sends and without messages of
    /// IORING_OP_MSG_RING, and with requests that succeeded without a completion. Null in older records.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Bytes of the results that were seen.
    pub bytes: u64,
    /// Errors of the results that were seen.
    pub errors: u64,
    /// Fewer bytes than asked for, of the opcodes whose `short` is not null.
    pub short_ios: u64,
    /// Completions a second.
    pub iops: f64,
    /// Of the followed requests: posted − submitted; of native and POSIX AIO, reaped − submitted. Its mean is without `waits`.
    pub latency_ns: Latency,
    /// Requests that were kept open until something came; null: none.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// CPU time of the watched processes.
    pub cpu: TraceCpu,
    /// What delivered the completions. They sum to `probe.completions_seen`.
    pub vehicles: Vec<DeliveryPathCount>,
    /// Counts per completion.
    pub per_io: PerIo,
    /// 95 % intervals of the estimates in `per_io`, by their names. A number of `per_io` without one is exact.
    #[serde(default)]
    pub per_io_intervals: BTreeMap<String, [f64; 2]>,
    /// 95 % intervals of the other estimates. By name: `stray_calls`, `pread_pwrite_calls`, and `mode_switches.syscall`, the count of
    /// that cause.
    #[serde(default)]
    pub intervals: BTreeMap<String, [f64; 2]>,
    /// Returns from kernel to user mode of the watched threads, by cause.
    pub mode_switches: Vec<ModeSwitch>,
    /// Runs of task work by the number of items they ran, in powers of two.
    pub task_work_batches: Vec<TaskWorkBatch>,
    /// Interrupts by vector and CPU.
    pub interrupts: Vec<Interrupt>,
    /// Interprocessor interrupts that kicked or woke a watched thread, or that one sent.
    pub ipis: Vec<Ipi>,
    /// Order of completions, submitted to posted; null where it could not be followed.
    pub order: Option<Order>,
    /// How many requests were followed.
    pub followed: Followed,
    /// Requests by opcode.
    pub opcodes: Vec<OpcodeRecord>,
    /// The parts of the mean latency; null where too little was followed.
    pub stages: Option<StageRecord>,
    /// Followed requests by how many their io_uring_enter call was asked to submit. Calls that brought requests which came later
    /// (`followed.came_later`) are in none of these.
    pub enter_batches: Vec<EnterBatch>,
    /// All io_uring_enter calls that submitted. By windows: while requests were chosen. Null where fewer than 50 requests of a sample
    /// tell of them.
    #[serde(default)]
    pub enter_calls: Option<Estimate>,
    /// Followed completions by the CPU on which they were ready and the one on which they were posted.
    pub cpu_pairs: Vec<CpuPair>,
    /// Followed completions by how many items their run of task work ran. An item of a multishot request may post several: the runs
    /// themselves are in `task_work_batches`.
    pub run_items: Vec<RunItems>,
    /// The watched processes; some 4,000 at most that have ended.
    pub processes: Vec<ProcessRecord>,
    /// Processes beyond those.
    #[serde(default)]
    pub more_processes: u64,
    /// The io-wq workers.
    pub iowq: IowqRecord,
    /// Page faults that the watched threads took in user mode; null: not counted. Those that the kernel takes while it copies for them
    /// are no mode switches, and not among them.
    pub page_faults: Option<u64>,
    /// System calls other than io_uring_enter, of threads that submit; null: not counted.
    #[serde(default)]
    pub stray_calls: Option<u64>,
    /// pread64 and pwrite64 calls of the watched threads, glibc's included; null: not counted.
    #[serde(default)]
    pub pread_pwrite_calls: Option<u64>,
    /// Context switches of the watched threads.
    pub context_switches: u64,
    /// The windows in which a busy program's system calls and device interrupts were traced. So were stages of block I/O. Numbers with an
    /// entry in `per_io_intervals`, `intervals` or `interrupts[].credited_ci95` are estimated from them; with fewer than 5 windows these
    /// numbers are null. Null: everything was traced all the time.
    #[serde(default)]
    pub sampled_events: Option<SampledEvents>,
    /// What the probes saw and lost.
    pub probe: Probe,
    /// Where the watched threads' CPU time went, helper threads included; null without `--profile`.
    #[serde(default)]
    pub cpu_shares: Option<Vec<CpuShare>>,
    /// How the CPUs were sampled; null without `--profile`.
    #[serde(default)]
    pub cpu_samples: Option<CpuSamples>,
    /// Followed requests in flight when watching ended, the oldest first; empty by windows.
    #[serde(default)]
    pub open: Vec<OpenRecord>,
    /// Memory that requests in flight shared or outlived; null: none, or it was not looked at.
    #[serde(default)]
    pub memory: Option<MemoryRecord>,
    /// Files that followed requests with a completion went to, the 20 busiest. Files to which no followed request went are missing, and
    /// so are requests that were refused at their submission.
    #[serde(default)]
    pub files: Vec<FileRecord>,
    /// What there was of other files; null: none.
    #[serde(default)]
    pub other_files: Option<OtherFiles>,
    /// How long completions lay in the completion queue; null: none was looked at.
    #[serde(default)]
    pub reaping: Option<Reaping>,
    /// Completions that were to be looked at in the queue and could not be; null in older records. There were more rings than there is
    /// room for, a ring was resized, or a buffer was full.
    #[serde(default)]
    pub reaping_lost: Option<u64>,
    /// Latencies of the traced requests in powers of two, by opcode and delivery path.
    #[serde(default)]
    pub latency_histograms: Vec<LatencyHistogram>,
    /// Completions and latencies over time; null: no request was traced.
    #[serde(default)]
    pub timeline: Option<Timeline>,
    /// What each program of the probes took, the dearest first; null without `--cost`.
    #[serde(default)]
    pub probe_costs: Option<Vec<ProbeCost>>,
    /// The machine.
    pub host: Host,
    /// What puts the numbers in doubt. `nothing_asynchronous` and `idle_rings` say that no request and no completion was seen: of
    /// processes without rings, and of those that had some open.
    pub warnings: Vec<Warning>,
}

/// Requests of one ring and opcode that had no completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenRecord {
    /// Its ring; null: one of those that are not told one by one.
    pub ring: Option<u32>,
    /// Its process.
    pub tgid: u32,
    /// Its operation.
    pub opcode: String,
    /// What they waited in.
    pub course: Course,
    /// Followed requests.
    pub requests: u64,
    /// How many these stand for.
    pub estimated: u64,
    /// Of `requests`: those that have had completions.
    pub multishot: u64,
    /// Time since the oldest one's submission.
    pub oldest_ns: u64,
    /// The oldest one's user data, in hexadecimal.
    pub user_data: String,
    /// What the oldest one named its file by: `fd 7` or `fixed 7`; null: it has none.
    #[serde(default)]
    pub descriptor: Option<String>,
    /// That file's path, its last part, or its kind; null: not known.
    #[serde(default)]
    pub file: Option<String>,
}

/// Requests in flight whose memory was not theirs alone; of those that were followed without sampling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Reads that wrote where another read in flight with them did.
    pub overlapping: u64,
    /// The first two of them.
    pub overlap: Option<OverlapRecord>,
    /// Requests with registered buffers that ended after these were unregistered.
    pub outlived: u64,
    /// User data of the first of them, in hexadecimal.
    pub outlived_user_data: Option<String>,
    /// The ring of either.
    pub ring: Option<u32>,
}

/// Two reads of one process in flight at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverlapRecord {
    /// The operation.
    pub opcode: String,
    /// Bytes that both wrote.
    pub bytes: u64,
    /// User data of both, in hexadecimal.
    pub user_data: [String; 2],
}

/// From what they are estimated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampledEvents {
    /// How many windows.
    pub windows: u64,
    /// Completions while everything was traced: in the windows, and before and after them.
    pub completions: u64,
    /// How long everything was traced; null in older records.
    #[serde(default)]
    pub traced_ns: Option<u64>,
}

/// One program of the probes, on all CPUs, whoever's event it was: by the kernel's account, which leaves out what it takes to call it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCost {
    /// The BPF program.
    pub program: String,
    /// The tracepoint that it is attached to.
    pub event: String,
    /// How often it ran, on all CPUs, whoever's event it was.
    pub runs: u64,
    /// Time that it took, by the kernel's BPF run-time statistics. They leave out the call of the program, some 20 to 40 ns, and cost
    /// some 20 ns a run.
    pub spent_ns: u64,
}

/// Spans of time in which the probes were attached: one in each period, at a random moment of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Windows {
    /// How long a window chooses requests to follow. Then it finishes: no more are chosen, and counting goes on until those are done,
    /// as long again at most.
    pub open_ns: u64,
    /// One window in each such period, at a random moment of it.
    pub period_ns: u64,
    /// How many windows.
    pub opened: u64,
    /// From the first period's beginning to the end of the watch.
    pub span_ns: u64,
    /// How long all of them chose requests; null in older records. What is followed is of requests that came in it. A busy machine ends
    /// a window late.
    #[serde(default)]
    pub choosing_ns: Option<u64>,
    /// How long all of them finished; null in older records.
    #[serde(default)]
    pub finishing_ns: Option<u64>,
    /// How long all was watched, in the first window above all. Null: windows were asked for. Else watching went on by windows since it cost
    /// too much.
    #[serde(default)]
    pub whole_ns: Option<u64>,
    /// CPU time that watching all cost, as a share of that of the watched. Null: windows were asked for.
    #[serde(default)]
    pub cost: Option<f64>,
    /// Completions posted to the rings of the watched in all the span, by the rings' own counters. Each ring counts once, whoever uses it.
    /// Null: windows were asked for, or a ring has `cqe_mixed`, whose counter counts two for a large one.
    #[serde(default)]
    pub posted: Option<u64>,
    /// Whether that is all. False: a ring was closed, or a process ended, after its counter was read last (once a second).
    #[serde(default)]
    pub posted_is_all: Option<bool>,
    /// User CPU time of the watched in all the span.
    #[serde(default)]
    pub user_ns: Option<u64>,
    /// System CPU time of the watched in all the span.
    #[serde(default)]
    pub system_ns: Option<u64>,
}

impl TraceRecord {
    /// The program's own threads, as far as their time is accounted for.
    pub fn own_threads(&self) -> impl Iterator<Item = &ThreadAccount> {
        self.account.iter().flat_map(Account::own_threads)
    }

    /// The system call of this name.
    pub fn call(&self, syscall: &str) -> Option<&CallRecord> {
        self.calls.iter().flatten().find(|call| call.syscall == syscall)
    }
}

impl Windows {
    /// How long the probes counted.
    pub fn open_for_ns(&self) -> Option<u64> {
        Some(self.choosing_ns? + self.finishing_ns?)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceCpu {
    /// User time of the watched processes, helper threads included. The sum with `system_ns` is exact for processes that began and
    /// ended while they were watched; what another one did in its last 100 ms may be missing. The split is by the kernel's ticks. A
    /// process without a number in iotrail's PID namespace is known to 10 ms. Null where the kernel had not accounted for a command
    /// that had ended.
    pub user_ns: Option<u64>,
    /// System time of the same.
    pub system_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// The kernel's number, which is the initial PID namespace's.
    pub tgid: u32,
    /// The number in iotrail's PID namespace. Left out where that is the initial one, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<u32>,
    /// Its name.
    pub comm: String,
    /// It was alive when watching began.
    pub found: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IowqRecord {
    /// Different worker threads seen.
    pub workers: u64,
    /// The most at one time; null where it could not be counted.
    pub most_at_once: Option<u64>,
    /// Completions that a worker posted itself.
    pub completions: u64,
    /// CPU time of the workers that were met in /proc; null where it did not say.
    pub cpu_ns: Option<u64>,
}
