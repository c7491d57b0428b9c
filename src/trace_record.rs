//! What watching a program yields: these types *are* the JSON schema `iotrail.trace/1` (`docs/formats.md`). Answers and
//! reports take this and never what made it.
//!
//! Counts are exact unless their name says `followed`: those are of the requests that were followed whole (a sample of
//! `followed.one_in`).

use serde::{Deserialize, Serialize};

use crate::measurement::{
    CpuSamples, CpuShare, Followed, Host, Interrupt, Ipi, Latency, ModeSwitch, Order, PerIo, Probe, StageRecord,
    TaskWorkBatch, VehicleCount, Warning,
};

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
    /// Watched: where it was by windows, their sum.
    pub elapsed_ns: u64,
    /// Null: all the time. Otherwise counts, rates and findings are of the windows alone, and CPU times are not told.
    #[serde(default)]
    pub windows: Option<Windows>,
    /// Completions.
    pub ios: u64,
    pub bytes: u64,
    pub errors: u64,
    pub short_ios: u64,
    pub iops: f64,
    /// Of the followed requests: posted − submitted; of native and POSIX AIO, reaped − submitted.
    pub latency_ns: Latency,
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
    pub probe: Probe,
    /// Where the watched threads' CPU time went, helper threads included; null: not sampled.
    #[serde(default)]
    pub cpu_shares: Option<Vec<CpuShare>>,
    #[serde(default)]
    pub cpu_samples: Option<CpuSamples>,
    pub host: Host,
    pub warnings: Vec<Warning>,
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
    /// Of plain reads and writes: fewer bytes than asked for. What is read into a provided buffer is as much as there is.
    pub short: u64,
    pub more: u64,
    pub notifications: u64,
    /// Handed to io-wq because the program asked for it.
    pub punted_asked: u64,
    /// Handed to io-wq because it would have blocked.
    pub punted_would_block: u64,
    /// Handed to io-wq after the ring was drained (IOSQE_IO_DRAIN): those that asked for it, and those that came while it went on.
    #[serde(default)]
    pub punted_drained: u64,
    /// By errno's name: `EAGAIN`.
    pub errnos: Vec<ErrnoCount>,
    pub latency_ns: Latency,
    pub stages: Option<StageRecord>,
}

/// Operations whose result is a number of bytes.
pub fn counts_bytes(opcode: &str) -> bool {
    let verbs = ["read", "write", "send", "recv", "splice", "tee", "pread", "pwrite", "aio_read", "aio_write"];
    verbs.iter().any(|verb| opcode.starts_with(verb))
}

impl OpcodeRecord {
    /// What succeeded without a completion moved bytes, and how many is not known.
    pub fn bytes_unknown(&self) -> bool {
        counts_bytes(&self.opcode) && self.silent() > 0
    }

    /// Requests that succeeded without a completion, as they asked (IOSQE_CQE_SKIP_SUCCESS). What they moved is not known.
    /// Those still in flight when watching ended are among them: nothing tells the two apart.
    pub fn silent(&self) -> u64 {
        let ended = self.completions.saturating_sub(self.more);
        self.skips.min(self.requests.saturating_sub(ended))
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
    pub stages: Option<StageRecord>,
    pub enter_batches: Vec<EnterBatch>,
    #[serde(default)]
    pub enter_calls: Option<Estimate>,
    pub run_items: Vec<RunItems>,
    /// Null where fewer than two of its completions were followed.
    #[serde(default)]
    pub order: Option<Order>,
    pub sqpoll: Option<SqpollRecord>,
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
    pub cpu: Option<i32>,
    /// Over which it was looked at; null where /proc did not say.
    pub elapsed_ns: Option<u64>,
    /// CPU time it took; null where /proc did not say.
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

/// A diagnosis, with its evidence and what would change it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub code: String,
    /// `note` or `warning`.
    pub severity: String,
    pub text: String,
    /// Units are in the names.
    pub evidence: std::collections::BTreeMap<String, f64>,
    pub remedy: String,
    /// The ring it is about; null: the whole program.
    pub ring: Option<u32>,
}

impl Finding {
    /// It costs something that could be had back, or puts the numbers in doubt; a note only explains.
    pub fn warns(&self) -> bool {
        self.severity == "warning"
    }
}
