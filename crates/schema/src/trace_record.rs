//! What watching a program yields: these types *are* the JSON schema `iotrail.trace/1` (`docs/formats.md`). Answers and
//! reports take this and never what made it.
//!
//! Counts are exact unless their name says `followed`: those are of the requests that were followed whole (a sample of
//! `followed.one_in`).

mod threads;

use serde::{Deserialize, Serialize};

use crate::file::Kind;
use crate::trail::Course;

use crate::finding::Finding;
use crate::measurement::{
    CpuSamples, CpuShare, Delay, Followed, Host, Interrupt, Ipi, Latency, ModeSwitch, Order, PerIo, Probe, StageRecord,
    TaskWorkBatch, VehicleCount, Waits, Warning,
};
use crate::opcode::counts_bytes;

pub use threads::{Detour, RingThreads, ThreadRecord, VehicleShare};

pub const SCHEMA: &str = "iotrail.trace/1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceRecord {
    pub schema: String,
    pub version: String,
    pub started_unix_s: u64,
    /// What was asked to be watched: the command, the process, or all.
    pub subject: Subject,
    pub total: Total,
    /// In the order of their creation, as far as it was seen.
    pub rings: Vec<RingRecord>,
    /// The same of the interfaces without rings of requests.
    #[serde(default)]
    pub contexts: Vec<ContextRecord>,
    /// Of more rings and contexts than those two lists tell of: the least busy, by process. They are in the total.
    #[serde(default)]
    pub others: Vec<OthersRecord>,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Command {
        argv: Vec<String>,
        exit_status: Option<i32>,
    },
    Process {
        tgid: u32,
        comm: String,
        /// Watched with it from the beginning.
        #[serde(default)]
        descendants: usize,
    },
    /// Several that were named.
    Processes {
        tgids: Vec<u32>,
        #[serde(default)]
        descendants: usize,
    },
    All,
}

/// A measurement without `load` and `phases` (there is no load of ours), and what a program of others' adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// Watched: where it was by windows, `choosing_ns` and `finishing_ns` of these.
    pub elapsed_ns: u64,
    /// Null: all the time. Otherwise counts, rates and findings are of the windows alone, and CPU times are not told.
    #[serde(default)]
    pub windows: Option<Windows>,
    /// Completions.
    pub ios: u64,
    pub bytes: u64,
    pub errors: u64,
    /// Of the opcodes that have `short`.
    pub short_ios: u64,
    pub iops: f64,
    /// Of the followed requests: posted − submitted; of native and POSIX AIO, reaped − submitted.
    pub latency_ns: Latency,
    /// As an opcode's.
    #[serde(default)]
    pub waits: Option<Waits>,
    pub cpu: TraceCpu,
    pub vehicles: Vec<VehicleCount>,
    pub per_io: PerIo,
    pub mode_switches: Vec<ModeSwitch>,
    pub task_work_batches: Vec<TaskWorkBatch>,
    pub interrupts: Vec<Interrupt>,
    pub ipis: Vec<Ipi>,
    pub order: Option<Order>,
    pub followed: Followed,
    pub opcodes: Vec<OpcodeRecord>,
    pub stages: Option<StageRecord>,
    /// Requests by how many the io_uring_enter call that brought them was asked to submit, of the followed ones.
    pub enter_batches: Vec<EnterBatch>,
    /// All io_uring_enter calls that submitted; null: none was followed, or too few to tell.
    #[serde(default)]
    pub enter_calls: Option<Estimate>,
    /// Followed completions by the CPU on which they were ready and the one on which they were posted.
    pub cpu_pairs: Vec<CpuPair>,
    /// Followed completions by how many items the task-work run that carried them ran.
    pub run_items: Vec<RunItems>,
    pub processes: Vec<ProcessRecord>,
    /// Processes beyond those: their names were not kept.
    #[serde(default)]
    pub more_processes: u64,
    pub iowq: IowqRecord,
    /// Page faults that the watched threads took in user mode; those that the kernel takes while it copies for them are no
    /// mode switches and not among them. Null where not counted.
    pub page_faults: Option<u64>,
    /// System calls other than io_uring_enter, of threads that submit; null where not counted.
    #[serde(default)]
    pub stray_calls: Option<u64>,
    /// pread64 and pwrite64 calls of the watched threads, glibc's helpers included; null where not counted.
    #[serde(default)]
    pub pread_pwrite_calls: Option<u64>,
    pub context_switches: u64,
    /// System calls and device interrupts, and the block layer's stages, were looked at in windows alone, since the program is busy; null:
    /// all the time.
    #[serde(default)]
    pub sampled_events: Option<SampledEvents>,
    pub probe: Probe,
    /// Where the watched threads' CPU time went, helper threads included; null: not sampled.
    #[serde(default)]
    pub cpu_shares: Option<Vec<CpuShare>>,
    #[serde(default)]
    pub cpu_samples: Option<CpuSamples>,
    /// Followed requests that were in flight when watching ended, the oldest first; empty by windows, which cut through what is in flight.
    #[serde(default)]
    pub open: Vec<OpenRecord>,
    /// Memory that requests in flight shared, or outlived; null: none did, or it was not looked at.
    #[serde(default)]
    pub memory: Option<MemoryRecord>,
    /// Where followed requests went, the busiest first: 20 at most.
    #[serde(default)]
    pub files: Vec<FileRecord>,
    /// What there was of others; null: there were none.
    #[serde(default)]
    pub other_files: Option<OtherFiles>,
    /// As a ring's, of all of them.
    #[serde(default)]
    pub reaping: Option<Reaping>,
    /// Completions that were to be looked at in the queue, and could not be; null in traces of versions that did not look.
    #[serde(default)]
    pub reaping_lost: Option<u64>,
    /// What each program of the probes took, the dearest first; null: not asked for (`--cost`).
    #[serde(default)]
    pub probe_costs: Option<Vec<ProbeCost>>,
    pub host: Host,
    pub warnings: Vec<Warning>,
}

/// How long completions lay in the completion queue: from *posted* until the program had taken them out (*reaped*). Each is known by two
/// bounds, and so is each quantile. Of some of the followed completions: each ring's first ones, then one in eight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reaping {
    /// Those that were looked at until they were taken out.
    pub completions: u64,
    /// How many these stand for.
    pub estimated: u64,
    /// Until the last look that found it in the queue.
    pub at_least_ns: Delay,
    /// Until the first look that did not.
    pub at_most_ns: Delay,
    /// The part of `at_least_ns` in which no thread was waiting in io_uring_enter for more completions than there were, and the one that
    /// used the ring last was not waiting for a CPU.
    pub left_ns: Delay,
    /// Completions of which that part is 10 ms or longer, those that were never taken out included,
    pub left_long: u64,
    /// and how many these stand for.
    pub left_long_estimated: u64,
    /// Completions in the queue when one was posted, itself included.
    pub depth: Depth,
    /// The most that were seen in it at a time.
    pub deepest: u32,
    /// Looked at, and not taken out before the ring, the watch or its window ended.
    pub unreaped: u64,
    /// How many these stand for.
    pub unreaped_estimated: u64,
    /// How long the one lay there that lay there longest, at least; null: there are none.
    pub unreaped_at_least_ns: Option<u64>,
}

/// Quantiles of a number of completions; null where too few tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: Option<u64>,
}

/// Requests of one ring and opcode that had no completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenRecord {
    /// null: one of those that are not told one by one.
    pub ring: Option<u32>,
    pub tgid: u32,
    pub opcode: String,
    /// What they waited in, as a trail's: `poll`, `block`, or neither.
    pub course: Course,
    /// Followed ones.
    pub requests: u64,
    /// How many these stand for.
    pub estimated: u64,
    /// Of the followed ones, those that have had completions (multishot).
    pub multishot: u64,
    /// Since the oldest one's submission.
    pub oldest_ns: u64,
    /// The oldest one's user data, in hexadecimal.
    pub user_data: String,
    /// What the oldest one named its file by: `fd 7` or `fixed 7`; null: its operation has none.
    #[serde(default)]
    pub descriptor: Option<String>,
    /// That file's path, or the last part of it, or its kind; null: not known.
    #[serde(default)]
    pub file: Option<String>,
}

/// What followed requests did with one file, whoever opened it; of what has no inode of its own (sockets, pipes, eventfds), with one
/// descriptor of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    pub kind: Kind,
    /// Null: it has none, or none is known.
    pub path: Option<String>,
    /// As /proc had it; false: the last part alone, as the kernel had it.
    pub path_is_whole: bool,
    /// It had no name any more.
    pub deleted: bool,
    /// Major and minor number; where the path is whole as stat(2) shows them, else as the kernel has them.
    pub device: Option<String>,
    pub inode: Option<u64>,
    /// Null: of several processes.
    pub tgid: Option<u32>,
    /// So many, 256 at most.
    pub processes: u64,
    /// What it was named by, `fd 7` or `fixed 7` (index of a registered file), 8 at most; how many more there were.
    pub descriptors: Vec<String>,
    pub more_descriptors: u64,
    /// Requests that these are of.
    pub followed: u64,
    /// Null: none was followed.
    pub reads: Option<FileRequests>,
    pub writes: Option<FileRequests>,
    pub others: Option<FileRequests>,
    pub latency_ns: Latency,
}

/// Requests of one sort to one file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FileRequests {
    pub followed: u64,
    pub requests: Estimate,
    /// Sum of their results; null: they move none.
    pub bytes: Option<Estimate>,
}

/// Files that are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherFiles {
    /// So many; where there were more than 512 at a time, one that was met again counts again.
    pub files: u64,
    pub followed: u64,
    pub requests: Estimate,
}

/// Requests in flight whose memory was not theirs alone; of those that were followed without sampling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Reads that wrote where another read did that was in flight with them.
    pub overlapping: u64,
    /// The first two of them.
    pub overlap: Option<OverlapRecord>,
    /// Requests with registered buffers (read_fixed, write_fixed) that ended after their ring's buffers were unregistered.
    pub outlived: u64,
    /// The first of them: its user data, in hexadecimal.
    pub outlived_user_data: Option<String>,
    /// The ring of either.
    pub ring: Option<u32>,
}

/// Two reads of one process in flight at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverlapRecord {
    pub opcode: String,
    /// That both wrote.
    pub bytes: u64,
    /// Of both, in hexadecimal.
    pub user_data: [String; 2],
}

/// From what they are estimated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampledEvents {
    /// The beginning, at least 0.1 s long, is one of them.
    pub windows: u64,
    /// Completions in them.
    pub completions: u64,
    /// 95 % intervals of what `per_io` tells; null: too few windows to tell one.
    pub syscalls_ci95: Option<[f64; 2]>,
    pub device_irqs_ci95: Option<[f64; 2]>,
}

/// One program of the probes, on all CPUs, whoever's event it was: by the kernel's account, which leaves out what it takes to call it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCost {
    pub program: String,
    /// The tracepoint that it is attached to.
    pub event: String,
    pub runs: u64,
    pub spent_ns: u64,
}

/// Spans of time in which the probes were attached: one in each period, at a random moment of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows {
    /// Requests are chosen for so long; until the last of them is done, for as long again at most, the rest goes on.
    pub open_ns: u64,
    pub period_ns: u64,
    pub opened: u64,
    /// From the first period's beginning to the end of the watch.
    pub span_ns: u64,
    /// How long requests were chosen, in all of them; on a busy machine a window ends late. Null in traces of versions that did
    /// not tell.
    #[serde(default)]
    pub choosing_ns: Option<u64>,
    /// How long they finished after that: none was chosen, and counting went on.
    #[serde(default)]
    pub finishing_ns: Option<u64>,
}

impl Windows {
    /// How long the probes counted.
    pub fn open_for_ns(&self) -> Option<u64> {
        Some(self.choosing_ns? + self.finishing_ns?)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceCpu {
    /// Of the watched processes while they were watched, helper threads included; null where /proc could not be read.
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
}

/// Requests of one opcode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpcodeRecord {
    pub opcode: String,
    /// Submissions seen.
    pub requests: u64,
    /// Of these, those that asked for no completion if they succeed (IOSQE_CQE_SKIP_SUCCESS).
    #[serde(default)]
    pub skips: u64,
    /// Completions posted, the `more` and `notifications` among them.
    pub completions: u64,
    /// Sum of the results of reads, writes, sends and receives. What requests that succeeded without a completion moved is
    /// not known, and not in it.
    pub bytes: u64,
    pub errors: u64,
    /// Of plain reads, writes and sends: fewer bytes than asked for. What is read into a provided buffer is as much as there is.
    /// `None`: of others (vectored ones, receives, splices, …) it is not looked at how much was asked for.
    pub short: Option<u64>,
    pub more: u64,
    pub notifications: u64,
    /// Requests that were cancelled with their chain and have no completion, since one before them that asked for none if it succeeds
    /// failed.
    #[serde(default)]
    pub unposted: u64,
    /// Times that one was handed to io-wq because the program asked for it. The same request may be so more than once: what a worker
    /// finds not to be ready is handed over again when it is.
    pub punted_asked: u64,
    /// Handed to io-wq because it would have blocked.
    pub punted_would_block: u64,
    /// Handed to io-wq after the ring was drained (IOSQE_IO_DRAIN): those that asked for it, and those that came while it went on.
    #[serde(default)]
    pub punted_drained: u64,
    /// By errno's name: `EAGAIN`.
    pub errnos: Vec<ErrnoCount>,
    pub latency_ns: Latency,
    /// Those that are left out of the mean latency and the stages, unless there are no others; null: there are none.
    #[serde(default)]
    pub waits: Option<Waits>,
    pub stages: Option<StageRecord>,
    /// Requests that were handed to io-wq, each once however often it was; null: none that was followed, or too few to tell.
    #[serde(default)]
    pub punted_requests: Option<Estimate>,
}

impl OpcodeRecord {
    /// It moved data, and how much was asked for is not looked at. A multishot read or zero-copy receive asks for no length.
    pub fn short_not_told(&self) -> bool {
        let asks_for_none = ["read_multishot", "recv_zc"].contains(&self.opcode.as_str());
        self.short.is_none() && !asks_for_none && counts_bytes(&self.opcode) && self.outcomes() > self.errors
    }

    /// What succeeded without a completion moved bytes, and how many is not known.
    pub fn bytes_unknown(&self) -> bool {
        counts_bytes(&self.opcode) && self.silent() > 0
    }

    /// Requests that succeeded without a completion, as they asked (IOSQE_CQE_SKIP_SUCCESS). What they moved is not known.
    /// Those still in flight when watching ended are among them: nothing tells the two apart.
    pub fn silent(&self) -> u64 {
        let ended = self.completions.saturating_sub(self.more);
        self.skips.min(self.requests.saturating_sub(ended).saturating_sub(self.unposted))
    }

    /// I/Os whose outcome is known: a zero-copy send's notification is none, a silent success is one.
    pub fn outcomes(&self) -> u64 {
        self.completions.saturating_sub(self.notifications) + self.silent()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrnoCount {
    pub errno: String,
    pub count: u64,
    /// Of the first followed request that ended with it, in hexadecimal; null: none was followed.
    #[serde(default)]
    pub user_data: Option<String>,
}

/// io_uring_enter calls that asked for so many requests, in powers of two, estimated from the followed requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnterBatch {
    pub at_least: u64,
    /// Followed requests in such calls.
    pub requests: u64,
    /// As [`CpuPair::estimated`].
    #[serde(default)]
    pub estimated: Option<u64>,
    /// Estimated calls: each request stands for 1/batch of one, times its weight.
    pub calls: f64,
    /// The estimate's 95 % interval (`stats::estimate`); of few requests it says little.
    #[serde(default)]
    pub calls_ci95: Option<[f64; 2]>,
}

impl EnterBatch {
    /// As [`CpuPair::stands_for`].
    pub fn stands_for(&self) -> f64 {
        self.estimated.unwrap_or(self.requests) as f64
    }
}

/// A total that the followed requests tell of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub total: f64,
    /// Its 95 % interval (`stats::estimate`); both ends are the total where nothing was left out.
    pub ci95: [f64; 2],
}

/// Followed completions that were ready on one CPU and posted on another, or the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPair {
    pub ready_cpu: u32,
    pub posted_cpu: u32,
    pub completions: u64,
    /// How many of all completions these stand for (the sum of their weights).
    #[serde(default)]
    pub estimated: Option<u64>,
    /// The fewest threads that submitted nine in ten of them; null in older records.
    #[serde(default)]
    pub threads: Option<u64>,
}

impl CpuPair {
    /// Of one and the same record, to be compared with others.
    pub fn stands_for(&self) -> u64 {
        self.estimated.unwrap_or(self.completions)
    }
}

/// Followed completions carried by runs of exactly so many items. An item of a multishot request may post several: the runs
/// themselves are in `task_work_batches`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunItems {
    pub items: u32,
    pub completions: u64,
    /// As [`CpuPair::estimated`].
    #[serde(default)]
    pub estimated: Option<u64>,
}

impl RunItems {
    /// As [`CpuPair::stands_for`].
    pub fn stands_for(&self) -> u64 {
        self.estimated.unwrap_or(self.completions)
    }
}

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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// The kernel's number, which is the initial PID namespace's.
    pub tgid: u32,
    /// The number in iotrail's PID namespace; null where that is the initial one, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<u32>,
    pub comm: String,
    /// Alive when watching began.
    pub found: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IowqRecord {
    /// Different worker threads seen.
    pub workers: u64,
    /// Most at one time; null where it could not be counted.
    pub most_at_once: Option<u64>,
    /// Completions that a worker posted itself.
    pub completions: u64,
    /// CPU time of the workers that were met in /proc; null where it did not say.
    pub cpu_ns: Option<u64>,
}
