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
    /// Time watched; by windows, the sum of `choosing_ns` and `finishing_ns`.
    pub elapsed_ns: u64,
    /// Windows in which the probes were attached; null: all the time. Counts, rates and findings are of the windows alone then. `cpu`,
    /// `active_ns` and what /proc tells of helper threads are null.
    #[serde(default)]
    pub windows: Option<Windows>,
    /// Completions.
    pub ios: u64,
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
    pub vehicles: Vec<VehicleCount>,
    /// Counts per completion.
    pub per_io: PerIo,
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
    /// Windows in which a busy program's system calls and device interrupts were looked at. The stages of block I/O too. `per_io`,
    /// `mode_switches`' `syscall`, `stray_calls`, `pread_pwrite_calls` and `interrupts[].credited` are estimated from them. Null:
    /// everything was looked at all the time.
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
    /// What each program of the probes took, the dearest first; null without `--cost`.
    #[serde(default)]
    pub probe_costs: Option<Vec<ProbeCost>>,
    /// The machine.
    pub host: Host,
    /// What puts the numbers in doubt. `nothing_asynchronous` and `idle_rings` say that no request and no completion was seen: of
    /// processes without rings, and of those that had some open.
    pub warnings: Vec<Warning>,
}

/// How long completions lay in the completion queue: from *posted* until the program had taken them out (*reaped*). Each is known by two
/// bounds, and so is each quantile. Of some of the followed completions: each ring's first ones, then one in eight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reaping {
    /// Completions that were looked at until they were taken out. Each ring's first ones, then one in eight of the followed.
    pub completions: u64,
    /// How many these stand for.
    pub estimated: u64,
    /// Until the last look that found it in the queue. Each true quantile lies between this one and that of `at_most_ns`.
    pub at_least_ns: Delay,
    /// Until the first look that did not find it.
    pub at_most_ns: Delay,
    /// Part of `at_least_ns` in which no thread waited for more completions than there were. The thread that used the ring last had a
    /// CPU or slept.
    pub left_ns: Delay,
    /// Completions of which that part is 10 ms or longer, those never taken out included.
    pub left_long: u64,
    /// How many these stand for.
    pub left_long_estimated: u64,
    /// Completions in the queue when one was posted, itself included.
    pub depth: Depth,
    /// The most that were seen in it at a time.
    pub deepest: u32,
    /// Not taken out before the ring, the watch or its window ended; in no quantile.
    pub unreaped: u64,
    /// How many these stand for.
    pub unreaped_estimated: u64,
    /// How long the oldest of these lay there, at least; null: there are none.
    pub unreaped_at_least_ns: Option<u64>,
}

/// Quantiles of a number of completions; null where too few tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Depth {
    /// Median.
    pub p50: Option<u64>,
    /// 99 % were no more.
    pub p99: Option<u64>,
    /// The most.
    pub max: Option<u64>,
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

/// What followed requests did with one file, whoever opened it; of what has no inode of its own (sockets, pipes, eventfds), with one
/// descriptor of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    /// What kind of file it is.
    pub kind: Kind,
    /// Its path; null: it has none, or none is known.
    pub path: Option<String>,
    /// False: the last part alone, as the kernel had it.
    pub path_is_whole: bool,
    /// It had no name any more.
    pub deleted: bool,
    /// Major and minor number: as stat(2) shows them where the path is whole. Else as the kernel has them.
    pub device: Option<String>,
    /// Inode number; null: not known.
    pub inode: Option<u64>,
    /// The process; null: several.
    pub tgid: Option<u32>,
    /// How many processes, 256 at most.
    pub processes: u64,
    /// What it was named by, 8 at most: `fd 7`, or `fixed 7` (index of a registered file).
    pub descriptors: Vec<String>,
    /// How many more there were.
    pub more_descriptors: u64,
    /// Followed requests.
    pub followed: u64,
    /// Reads, estimated for all requests; null: none was followed.
    pub reads: Option<FileRequests>,
    /// Writes, estimated for all requests; null: none was followed.
    pub writes: Option<FileRequests>,
    /// Other requests, estimated; null: none was followed.
    pub others: Option<FileRequests>,
    /// Latency of these requests, waits included.
    pub latency_ns: Latency,
}

/// Requests of one sort to one file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FileRequests {
    /// Followed requests.
    pub followed: u64,
    /// How many requests.
    pub requests: Estimate,
    /// Sum of their results; null: they move none.
    pub bytes: Option<Estimate>,
}

/// Files that are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherFiles {
    /// How many files; of more than 512 at a time, one that was met again counts again.
    pub files: u64,
    /// Followed requests to them.
    pub followed: u64,
    /// How many requests.
    pub requests: Estimate,
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
    /// How many; the beginning, at least 0.1 s long, is one of them.
    pub windows: u64,
    /// Completions in them.
    pub completions: u64,
    /// 95 % interval of `per_io.syscalls`; null: too few windows.
    pub syscalls_ci95: Option<[f64; 2]>,
    /// 95 % interval of `per_io.device_irqs`; null: too few windows.
    pub device_irqs_ci95: Option<[f64; 2]>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// Requests of one opcode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpcodeRecord {
    /// The operation: IORING_OP_… in lower case. Of native aio `pread`, `pwrite`, `preadv`, `pwritev`, `fsync`, `fdsync`, `poll`; of
    /// POSIX AIO `aio_read`, `aio_write`, `aio_fsync`.
    pub opcode: String,
    /// Submissions seen.
    pub requests: u64,
    /// Of these, those that asked for no completion if they succeed (IOSQE_CQE_SKIP_SUCCESS). Those that succeeded so, or were
    /// unfinished at the end, are min(`skips`, `requests` − (`completions` − `more`) − `unposted`).
    #[serde(default)]
    pub skips: u64,
    /// Completions posted, the `more` and `notifications` among them.
    pub completions: u64,
    /// Sum of the results of reads, writes, sends and receives. What moved without a completion is not known, and not in it.
    pub bytes: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Reads, writes and sends with fewer bytes than asked for; null: not looked at. It is not looked at how much vectored ones,
    /// `recv`, `sendmsg`, `recvmsg`, `splice`, `tee` and other operations ask for. Reads into provided buffers, and sends of bundles,
    /// vectors and provided buffers are never short.
    pub short: Option<u64>,
    /// Completions that announce others of the same request.
    pub more: u64,
    /// Notifications of zero-copy sends.
    pub notifications: u64,
    /// Requests cancelled with their chain, without a completion. One before them that asked for none if it succeeds failed.
    #[serde(default)]
    pub unposted: u64,
    /// Times that one was handed to io-wq because of IOSQE_ASYNC. The same request may be handed over more than once, where a worker
    /// found it not to be ready.
    pub punted_asked: u64,
    /// Times that one was handed to io-wq because it would have blocked.
    pub punted_would_block: u64,
    /// Times that one was handed to io-wq because the ring was drained (IOSQE_IO_DRAIN).
    #[serde(default)]
    pub punted_drained: u64,
    /// The errors by name.
    pub errnos: Vec<ErrnoCount>,
    /// Latency of the followed ones.
    pub latency_ns: Latency,
    /// Those that are in no mean latency, no stages and no order; null: there are none. They were kept open until something came.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// The parts of the mean latency; null of other interfaces than io_uring.
    pub stages: Option<StageRecord>,
    /// How many different requests were handed to io-wq; null: none, or too few to tell.
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
    /// Its name: `EAGAIN`.
    pub errno: String,
    /// How many completions ended with it.
    pub count: u64,
    /// User data of the first followed one, in hexadecimal; null: none was followed.
    #[serde(default)]
    pub user_data: Option<String>,
}

/// io_uring_enter calls that asked for so many requests, in powers of two, estimated from the followed requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnterBatch {
    /// Requests that the call was asked to submit: this many, and fewer than twice as many.
    pub at_least: u64,
    /// Followed requests in such calls.
    pub requests: u64,
    /// How many of all requests these stand for.
    #[serde(default)]
    pub estimated: Option<u64>,
    /// How many calls that were, estimated.
    pub calls: f64,
    /// 95 % interval of `calls`; wide where `requests` are few.
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
    /// The estimate.
    pub total: f64,
    /// Its 95 % interval; both ends are the total where nothing was left out.
    pub ci95: [f64; 2],
}

/// Followed completions that were ready on one CPU and posted on another, or the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPair {
    /// The CPU on which they were ready.
    pub ready_cpu: u32,
    /// The CPU on which they were posted.
    pub posted_cpu: u32,
    /// Followed completions.
    pub completions: u64,
    /// How many of all completions these stand for. By windows, of requests that were chosen from.
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
    /// Items of the run.
    pub items: u32,
    /// Followed completions that such runs carried.
    pub completions: u64,
    /// How many of all completions these stand for.
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
    /// From the first to the last event that was counted of it: what rates are over. It is known to a tick of the kernel. Null below 20
    /// ticks, where rates are over `total.elapsed_ns`.
    #[serde(default)]
    pub active_ns: Option<u64>,
    /// Its requests by opcode.
    pub opcodes: Vec<OpcodeRecord>,
    /// What delivered its completions.
    pub vehicles: Vec<VehicleCount>,
    /// Latency of its followed requests.
    pub latency_ns: Latency,
    /// Requests that were kept open until something came; null: none.
    #[serde(default)]
    pub waits: Option<Waits>,
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
    pub vehicles: Vec<VehicleCount>,
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
    pub vehicles: Vec<VehicleCount>,
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
