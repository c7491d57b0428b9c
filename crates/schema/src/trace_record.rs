//! What watching a program yields: these types *are* the JSON schema `iotrail.trace/1` (`docs/formats.md`). Answers and
//! reports take this and never what made it.
//!
//! Counts are exact unless their name says `followed`: those are of the requests that were followed whole (a sample of
//! `followed.one_in`).

mod estimates;
mod files;
mod opcode;
mod reaping;
mod ring;
mod threads;

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::measurement::{
    CpuSamples, CpuShare, Followed, Host, Interrupt, Ipi, Latency, ModeSwitch, Order, PerIo, Probe, StageRecord,
    TaskWorkBatch, VehicleCount, Waits, Warning,
};
use crate::trail::Course;
pub use estimates::{CpuPair, EnterBatch, Estimate, RunItems};
pub use files::{FileRecord, FileRequests, OtherFiles};
pub use opcode::{ErrnoCount, OpcodeRecord};
pub use reaping::{Depth, Reaping};
pub use ring::{ContextRecord, OthersRecord, RingRecord, SqpollRecord};
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
