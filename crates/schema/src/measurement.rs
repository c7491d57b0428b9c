//! The central noun: what one load, watched, yields. These types *are* the JSON schema `iotrail.measurement/1`
//! (`docs/formats.md`): a change of meaning raises the number.
//!
//! Unknown is `None` (JSON `null`), never 0. Units are in the names.

use serde::{Deserialize, Serialize};

pub use crate::host::{Host, Target, TargetInterrupt};
pub use crate::latency::{Delay, Latency};
use crate::net_record::NetRecord;
use crate::place::Place;
use crate::program_record::ProgramRecord;
use crate::runnable::Runnable;
use crate::vehicle::Vehicle;
pub use crate::warning::Warning;

pub const SCHEMA: &str = "iotrail.measurement/1";

/// One load, watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `iotrail.measurement/1`.
    pub schema: String,
    /// Version of the iotrail that measured.
    pub version: String,
    /// Wall-clock start.
    pub started_unix_s: u64,
    /// The options of `bench`, as resolved.
    pub load: LoadRecord,
    /// From the first submission to the last completion seen; the warm-up is not included.
    pub elapsed_ns: u64,
    /// I/Os that completed, failed and short ones included. Of a network load: responses.
    pub ios: u64,
    /// Bytes moved. Of a network load: those that the sender sent and received.
    pub bytes: u64,
    /// I/Os that completed with an error.
    pub errors: u64,
    /// The errors by kind, the most frequent first. They sum to `errors`. Null in measurements of versions that did not tell.
    #[serde(default)]
    pub errors_by: Option<Vec<ErrorCount>>,
    /// I/Os that completed with fewer bytes than were asked for.
    pub short_ios: u64,
    /// `ios` over `elapsed_ns`, per second.
    pub iops: f64,
    /// Latency of single I/Os. Of a network load: the sender's.
    pub latency_ns: Latency,
    /// Where the jobs' wall time went.
    pub phases: Phases,
    /// CPU time of the load. Of a network load: the server's.
    pub cpu: Cpu,
    /// What delivered the completions. They sum to `probe.completions_seen`, `unknown` included. Empty where nothing was watched, and
    /// of an epoll server, which has no completions.
    pub vehicles: Vec<VehicleCount>,
    /// Counts per I/O.
    pub per_io: PerIo,
    /// Returns from kernel to user mode of the watched threads, by cause.
    pub mode_switches: Vec<ModeSwitch>,
    /// Runs of task work by the number of items they ran, in powers of two.
    pub task_work_batches: Vec<TaskWorkBatch>,
    /// Interrupts by vector and CPU.
    pub interrupts: Vec<Interrupt>,
    /// Interprocessor interrupts that kicked or woke a watched thread, or that one sent.
    pub ipis: Vec<Ipi>,
    /// Order of completions, submitted to posted; null where requests were not followed.
    pub order: Option<Order>,
    /// The parts of the mean latency of the followed requests; null without `--follow`.
    #[serde(default)]
    pub stages: Option<StageRecord>,
    /// How many requests were followed; null without `--follow`.
    #[serde(default)]
    pub followed: Option<Followed>,
    /// Requests handed to io-wq, of all; null without `--follow`.
    #[serde(default)]
    pub punts: Option<Punts>,
    /// What the probes saw and lost.
    pub probe: Probe,
    /// Where the CPU went, by samples, every place once; null without `--profile`. The samples sum to `cpu_samples.taken`.
    #[serde(default)]
    pub cpu_shares: Option<Vec<CpuShare>>,
    /// How the CPUs were sampled; null without `--profile`.
    #[serde(default)]
    pub cpu_samples: Option<CpuSamples>,
    /// What else happened around the measured span. It is read before and after, with nothing of the load in flight. Null in
    /// measurements of versions that did not look. `docs/comparability.md` says what follows from it.
    #[serde(default)]
    pub circumstances: Option<Circumstances>,
    /// Both sides of a network load; null for storage.
    #[serde(default)]
    pub net: Option<NetRecord>,
    /// A program of the user's as the load; null: a load of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramRecord>,
    /// The machine. Of a network load: the server's.
    pub host: Host,
    /// What puts the numbers in doubt.
    pub warnings: Vec<Warning>,
    /// How often it was measured before and thrown away, since other work disturbed it.
    #[serde(default)]
    pub thrown_away: u32,
}

impl Measurement {
    /// Ready against posted; `None` where it could not be followed.
    pub fn delivery(&self) -> Option<&Delivery> {
        self.order.as_ref()?.delivery.as_ref()
    }
}

/// The load's options as resolved. Optional values are null where the option was not given and has no default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// The I/O interface. Of a network load the server's: `epoll`, `io_uring`, or `unknown` where it is not measured.
    pub engine: String,
    /// Setup flags of the ring.
    pub ring: Ring,
    /// CPU of the SQPOLL thread.
    pub sq_cpu: Option<u32>,
    /// Idle time after which the SQPOLL thread sleeps.
    pub sq_idle_ms: Option<u32>,
    /// What is registered with the ring: `files`, `buffers`, `ring`.
    pub register: Vec<String>,
    /// Every request goes to io-wq (IOSQE_ASYNC).
    pub force_async: bool,
    /// `randread`, `read`, `randwrite`, `write`, `randrw`, `nop`; `echo` of a network load.
    pub rw: String,
    /// Block size, bytes. Of a network load: the bytes of a request.
    pub bs: u64,
    /// I/Os in flight per job. Of a network load: connections × window.
    pub depth: u32,
    /// I/Os per submission. Of a network load: the burst.
    pub batch: u32,
    /// Threads. Of a network load: the server's.
    pub jobs: u32,
    /// `irq`, `non-irq` or a list, as asked for; null: not pinned.
    pub cpus_requested: Option<String>,
    /// The CPU of each job, in order; empty: not pinned.
    pub cpus: Vec<u32>,
    /// How a job waits: `block` or `peek`.
    pub wait: String,
    /// Who reaps: `same`, `thread` or `thread:CPU`.
    pub reaper: String,
    /// Computing in user mode between reaping and submitting.
    pub think_ns: u64,
    /// Fresh memory touched per I/O: `none`, `lazy`, `prefault`.
    pub scratch: String,
    /// Computing processes on the load's CPUs: `none` or `busy:N`.
    pub neighbour: String,
    /// The target; null: none.
    pub file: Option<String>,
    /// Bytes of the target that are used.
    pub size: Option<u64>,
    /// O_DIRECT; false: the page cache.
    pub direct: bool,
    /// Set where the load ends by time.
    pub runtime_ns: Option<u64>,
    /// Set where the load ends by number of I/Os.
    pub count: Option<u64>,
    /// Time before the measured span, with the same load.
    pub warmup_ns: u64,
    /// I/Os per second over all jobs; null: closed loop.
    pub rate: Option<f64>,
    /// Blocks carry a checksum, and reads check it.
    pub verify: bool,
    /// Seed of the offsets and of the mix of reads and writes. The same seed gives the same I/Os in the same order. Left out in older
    /// records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// `auto`, `on` or `off`, as asked for.
    pub trace: String,
}

/// Errors of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// An errno's name: `EIO`. Of `io_uring_cmd` and `nvme_user` what the drive said: `Unrecovered Read Error (NVMe status 2/0x81)`.
    pub error: String,
    /// How many I/Os ended with it.
    pub count: u64,
}

/// Ring setup flags asked for and, as the kernel's answer says, granted. Empty for other engines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ring {
    /// Flags that were asked for, by the names of `--ring`.
    pub requested: Vec<String>,
    /// Flags that the kernel granted.
    pub granted: Vec<String>,
}

/// Requests that were kept open until something came (`path::waits`): in no mean latency, no stages and no order of submission of the
/// others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Followed ones.
    pub requests: u64,
    /// How many these stand for.
    pub estimated: u64,
    /// 95 % interval of `estimated`. Where not every request was followed, there may be more of which none was.
    #[serde(default)]
    pub estimated_ci95: Option<[f64; 2]>,
    /// Their own mean latency.
    pub mean_ns: f64,
}

/// Fractions of the jobs' wall time; they sum to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Share of the time in submission.
    pub submit: f64,
    /// Share of the time waiting or looking for completions.
    pub poll: f64,
    /// Share of the time taking completions out of the queue.
    pub clear: f64,
    /// The rest.
    pub other: f64,
    /// Wall time of all jobs together.
    pub total_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// User time of the load's own threads, without SQPOLL, io-wq and glibc's helpers. The sum with `system_ns` is exact, the split is
    /// by the kernel's ticks, and it is never more than `elapsed_ns` a thread. Null where it is not known: a server of another program,
    /// or a kernel that keeps no CPU time of single threads.
    pub user_ns: Option<u64>,
    /// System time of the same threads.
    pub system_ns: Option<u64>,
    /// CPU time of the SQPOLL threads; null without them.
    pub sqpoll_ns: Option<u64>,
    /// How often the load woke an SQPOLL thread (IORING_ENTER_SQ_WAKEUP); null without one.
    #[serde(default)]
    pub sqpoll_wakeups: Option<u64>,
    /// CPU time of the process's other helper threads: io-wq workers, glibc's helpers. Those that have ended are included. It is what
    /// the process's threads took in all less the figures above: right to some tens of microseconds a thread.
    #[serde(default)]
    pub helpers_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VehicleCount {
    /// The delivery path.
    pub vehicle: Vehicle,
    /// Completions that it delivered.
    pub completions: u64,
    /// The system call, interrupt or waker behind it; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// Delivery delay of its followed completions; left out where none was followed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_ns: Option<Delay>,
}

/// Means over the followed completions with both *issued* and *ready*; `issue_ns`, `wait_ns` and `delivery_ns` sum to `total_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Followed completions that the means are of.
    pub completions: u64,
    /// Submitted to issued.
    pub issue_ns: f64,
    /// Issued to ready.
    pub wait_ns: f64,
    /// Ready to posted.
    pub delivery_ns: f64,
    /// Part of `delivery_ns` until a kernel worker of the file system had finished the I/O. Null where none was seen.
    #[serde(default)]
    pub file_system_ns: Option<f64>,
    /// Part of the delivery until task work was added; null where that was seen of none. A mean over `queued_completions`.
    #[serde(default)]
    pub queued_ns: Option<f64>,
    /// Completions of which `queued` was seen.
    #[serde(default)]
    pub queued_completions: u64,
    /// Mean `delivery_ns` of the same completions.
    #[serde(default)]
    pub queued_delivery_ns: Option<f64>,
    /// How long submitters that could run waited for a CPU; null: known of none. A part of the delivery.
    #[serde(default)]
    pub runnable: Option<Runnable>,
    /// The sum of `issue_ns`, `wait_ns` and `delivery_ns`.
    pub total_ns: f64,
    /// 95 % interval of `total_ns`, as `mean_ci95` of a latency. It and that of `delivery_delay_ns` are of the requests whose stages
    /// could be seen: of block I/O with `sampled_events`, those in its windows alone.
    #[serde(default)]
    pub total_ci95: Option<[f64; 2]>,
    /// Distribution of ready to posted.
    pub delivery_delay_ns: Latency,
}

impl StageRecord {
    /// The part of the delivery delay that was spent in a kernel worker of the file system.
    pub fn file_system_share(&self) -> Option<f64> {
        self.file_system_ns.filter(|_| self.delivery_ns > 0.0).map(|ns| ns / self.delivery_ns)
    }
}

/// How many requests were followed whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Followed {
    /// One request in so many; 1: all.
    pub one_in: u32,
    /// All requests of a CPU while there are few, one in `one_in` of the others. False: one in `one_in` throughout.
    #[serde(default)]
    pub adaptive: bool,
    /// Followed completions.
    pub completions: u64,
    /// Of `completions`: those chosen while all requests were. Each stands for itself, the others for `one_in`.
    #[serde(default)]
    pub whole: u64,
    /// Requests of which one in `one_in` was chosen; 0: nothing was left out. Null with `one_in` 1, and where it was not counted.
    #[serde(default)]
    pub sampled_from: Option<u64>,
    /// Requests that came while windows finished: counted, and followed by none. They are in `requests_estimated`. Null: not watched by
    /// windows.
    #[serde(default)]
    pub came_later: Option<u64>,
    /// How many requests the followed and unfinished ones stand for. Those that came later are in it. It is to be held against
    /// `requests`; those given up, lost, skipped or without a completion are missing.
    #[serde(default)]
    pub requests_estimated: Option<f64>,
    /// 95 % interval of `requests_estimated`.
    #[serde(default)]
    pub requests_ci95: Option<[f64; 2]>,
    /// Of `completions`: those with both issued and ready seen.
    pub with_stages: u64,
    /// Of `completions`: those with queued seen. Null where the kernel lets no probe see it.
    #[serde(default)]
    pub with_queued: Option<u64>,
    /// Chosen, and given up: no room to keep them.
    pub no_room: u64,
    /// Complete, and lost on the way: the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Chosen, and without a completion, as asked for (IOSQE_CQE_SKIP_SUCCESS).
    #[serde(default)]
    pub skipped: u64,
    /// Chosen, and over without a completion that was seen: it overflowed, or was missed.
    #[serde(default)]
    pub no_completion: u64,
    /// Chosen, and not complete at the end of the watch or of their window.
    pub unfinished: u64,
    /// Complete, and their result was not seen to be reaped: native aio and POSIX AIO.
    #[serde(default)]
    pub unreaped: u64,
    /// Completions left out, since another open request had what they name. Of a multishot request that is its user data, of native aio
    /// its iocb.
    #[serde(default)]
    pub shared_user_data: u64,
}

impl Followed {
    /// Which requests were followed, in words.
    pub fn sampling(&self) -> String {
        match (self.one_in, self.adaptive) {
            (0 | 1, _) => "all requests".into(),
            (_, true) if self.sampled_from == Some(0) => "all requests".into(),
            (n, true) => format!("all requests of a CPU up to 20 k a second, 1 in {n} beyond"),
            (n, false) => format!("1 in {n} requests"),
        }
    }

    /// Some requests were left out, and the followed ones stand for them: what is said of these is an estimate.
    pub fn is_sample(&self) -> bool {
        self.one_in > 1 && self.sampled_from != Some(0)
    }

    /// What is said of the followed ones is no count: some were left out, or lost.
    pub fn is_estimate(&self) -> bool {
        self.is_sample() || self.came_later.is_some_and(|n| n > 0) || self.no_room + self.ring_buffer_full > 0
    }

    /// All requests for each that the followed ones tell of: more than one where some came while windows finished, and are taken to be
    /// like the others.
    pub fn of_all(&self) -> f64 {
        let later = self.came_later.unwrap_or(0) as f64;
        self.requests_estimated.filter(|all| *all > later).map_or(1.0, |all| all / (all - later))
    }
}

/// Requests handed to io-wq workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Punts {
    /// Because of IOSQE_ASYNC (`--force-async`).
    pub asked: u64,
    /// Because they would have blocked, or their operation always does.
    pub would_block: u64,
}

/// Ratios to `ios`; null where it could not be had.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PerIo {
    /// System calls.
    pub syscalls: Option<f64>,
    /// Reschedule IPIs that task_work_add sent to a running thread.
    pub kicks: Option<f64>,
    /// Reschedule IPIs.
    pub resched_ipis: Option<f64>,
    /// Device interrupts.
    pub device_irqs: Option<f64>,
    /// Returns from kernel to user mode.
    pub mode_switches: Option<f64>,
    /// Context switches of the watched threads.
    pub context_switches: Option<f64>,
    /// Runs of task work.
    pub task_work_runs: Option<f64>,
}

/// Returns from kernel to user mode of the watched threads, by cause: `syscall`, `page_fault`, `device_irq`,
/// `timer_tick`, `resched_ipi`, `other`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeSwitch {
    /// `syscall`, `page_fault`, `device_irq`, `timer_tick`, `resched_ipi`, `other`.
    pub cause: String,
    /// How many returns.
    pub count: u64,
}

/// Runs of task work that ran at least this many items, and fewer than twice as many (65,536 at most are told apart).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWorkBatch {
    /// Items of a run: this many, and fewer than twice as many. 65,536 at most are told apart.
    pub at_least: u64,
    /// How many runs.
    pub runs: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// A device's interrupt by its number, else the mnemonic of /proc/interrupts. `36`, or `LOC`, `RES`, `CAL`, `IWI`.
    pub vector: String,
    /// The handler's or the vector's name: `virtio1-req.0`.
    pub name: String,
    /// The CPU that took it.
    pub cpu: u32,
    /// All that arrived on that CPU in the span, as the probes saw them.
    pub count: u64,
    /// Those that arrived while a watched thread was current there.
    pub on_watched: u64,
    /// Those in which I/O of the watched program ended. The rest of `count` is other programs'. Null for the kernel's own vectors, and
    /// where it cannot be told.
    #[serde(default)]
    pub credited: Option<u64>,
    /// The same span from /proc/interrupts; null where it could not be read. More than `count`: the probes were blind at times.
    pub proc_count: Option<u64>,
    /// Time in its handler and the softirqs that it raised. The entry's own and the hypervisor's time are not in it. Null for other
    /// vectors than a device's, and without `--profile`.
    #[serde(default)]
    pub spent_ns: Option<u64>,
}

/// Interprocessor interrupts that kicked or woke a watched thread, or that one sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ipi {
    /// The kernel function that sent it; `task_work_add` makes it a kick.
    pub site: String,
    /// The sending CPU.
    pub from_cpu: u32,
    /// The receiving CPU.
    pub to_cpu: u32,
    /// How many.
    pub count: u64,
}

/// Of the followed requests (`path::order`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Followed completions, each request once; no waits.
    pub completions: u64,
    /// Completions that overtook one submitted before.
    pub inversions: u64,
    /// Completions that were overtaken; null in older records. One that takes long is overtaken by all.
    #[serde(default)]
    pub overtaken: Option<u64>,
    /// The most places that one was posted ahead of its turn.
    pub max_displacement: u64,
    /// Between which stages they overtook.
    pub by: OrderBy,
    /// Requests that are left out of this, since they are waits; `delivery` has them.
    #[serde(default)]
    pub waits: u64,
    /// The same of ready to posted; null where no completion was seen to become ready.
    #[serde(default)]
    pub delivery: Option<Delivery>,
}

/// Whether completions were posted in the order in which they were ready, whatever the order of their submissions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Followed completions that were seen to become ready. Of a multishot request, each that was.
    pub completions: u64,
    /// Followed completions that were not seen to become ready. They were done at their submission, or are further ones of one wake-up
    /// of a multishot request.
    pub without_ready: u64,
    /// Posted before one that was ready earlier.
    pub inversions: u64,
    /// The most places that one was posted ahead of its turn.
    pub max_displacement: u64,
    /// Where a later one overtook.
    pub by: DeliveredBy,
}

/// Where a later one overtook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveredBy {
    /// In kernel workers of a file system. Null where the end of direct I/O is not seen (before Linux 6.6): then under `task_work`.
    pub file_system: Option<u64>,
    /// In task work.
    pub task_work: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderBy {
    /// In the block layer.
    pub block: u64,
    /// In the device.
    pub device: u64,
    /// In kernel workers of a file system. Null where the end of direct I/O is not seen (before Linux 6.6): then under `task_work`.
    #[serde(default)]
    pub file_system: Option<u64>,
    /// In task work.
    pub task_work: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// `off` or `aggregate`.
    pub mode: String,
    /// Completions that the probes counted; null where nothing was watched. Of a network load they compare with
    /// `net.server.total.completions`, not with `ios`.
    pub completions_seen: Option<u64>,
    /// Completions of an interface that has no tracepoints; null of an epoll server.
    pub untracked: Option<u64>,
    /// Losses that completions and delivery paths rest on. They are failed map updates, and events that the programs missed.
    pub lost: Option<u64>,
    /// Events that single programs missed, since they were already running on that CPU.
    pub missed: Vec<Missed>,
    /// Names of the attached programs.
    pub programs: Vec<String>,
}

/// Samples that fell on one place, and their share of all that were taken with its 95 % interval (`stats::share`); null where too few
/// were taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// Where the samples fell.
    pub place: Place,
    /// How many.
    pub samples: u64,
    /// Share of `cpu_samples.taken`; null below 100 samples.
    pub share: Option<f64>,
    /// Lower end of its 95 % interval.
    pub lo: Option<f64>,
    /// Upper end of its 95 % interval.
    pub hi: Option<f64>,
}

/// How the CPUs were sampled. Paced by time, `expected` = `taken` + `elsewhere` + `lost`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSamples {
    /// `time` or `cycles`.
    pub clock: String,
    /// Samples per second and CPU that were asked for.
    pub hz: u32,
    /// Time between two samples of a CPU; null: paced by cycles.
    pub period_ns: Option<u64>,
    /// What the shares are of: samples of the watched threads, and idle ones of `idle_cpus`. A child of a traced program is sampled
    /// from when it is first met: within 0.1 s, or when its first followed request has ended.
    pub taken: u64,
    /// Samples of other programs, and of other CPUs' idle time.
    pub elsewhere: u64,
    /// Samples that did not come, or found no room to be kept in.
    pub lost: u64,
    /// Samples that the span had periods for, over all CPUs; null: paced by cycles. One more of a CPU whose timer fired at the very end
    /// may have been taken.
    pub expected: Option<u64>,
    /// CPUs whose idle time is in the shares. They are the load's, or, where it is not pinned, those that it was seen on.
    pub idle_cpus: Vec<u32>,
    /// Innermost functions of samples whose place is `other`, ten at most. The most frequent come first.
    pub unplaced: Vec<FunctionSamples>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSamples {
    /// The kernel function.
    pub function: String,
    /// How many samples fell into it.
    pub samples: u64,
}

/// What makes a measurement comparable with another (`answer::comparable`): read before and after the measured span, with
/// nothing of the load in flight. Null where it cannot be had.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// Wall time between the two readings. It is `elapsed_ns`, and what attaching and reading the probes took.
    pub span_ns: u64,
    /// CPUs that `steal_ns`, `thermal_throttles` and `frequency_khz` are of. They are those that the load, its reaper and its SQPOLL
    /// thread are bound to, and those of the target's interrupts; all online ones where the load is not bound.
    pub cpus: Vec<u32>,
    /// What the target's disks moved; null without a disk that counts. Those with 0 in `queue/iostats` do not.
    pub device: Option<DeviceBytes>,
    /// How much of the target is in the page cache. Null without a target, and where the file is another user's and may not be written.
    pub page_cache: Option<PageCache>,
    /// Time that the hypervisor ran something else while those CPUs had work. Summed over them, in ticks of 10 ms.
    pub steal_ns: Option<u64>,
    /// CPUs' worth of time that the control group allows; null: no quota. It is this process's group, or the tightest one around it.
    /// Null too where no CPU controller is to be seen.
    pub cpu_quota: Option<f64>,
    /// Time that the group's threads were kept off their CPUs for the quota, summed over CPUs.
    pub throttled_ns: Option<u64>,
    /// How often those CPUs slowed down to stay cool; null in most virtual machines.
    pub thermal_throttles: Option<u64>,
    /// Mean frequency of those CPUs; null in most virtual machines.
    pub frequency_khz: Option<BeforeAfter<u64>>,
    /// The target's interrupts at the end of the span, as `host.target.interrupts`.
    pub interrupts_after: Vec<TargetInterrupt>,
    /// Tasks of others that ran or could run when the span began. Neighbours that were asked for are among them.
    pub runnable_before: Option<u32>,
    /// Load average of the last minute when the span began.
    pub load_average_before: Option<f64>,
    /// Time that the load's own threads waited for a CPU, summed.
    pub run_queue_wait_ns: Option<u64>,
    /// How often the load's own threads were put off their CPU while they had work.
    pub involuntary_switches: Option<u64>,
    /// Page faults of the load's own threads that needed no I/O.
    pub minor_faults: Option<u64>,
    /// Page faults of the load's own threads that needed I/O.
    pub major_faults: Option<u64>,
    /// Completions over the course of the span; null below two intervals.
    pub throughput: Option<Throughput>,
}

/// What the target's disks moved in the span, whoever asked, beside what the load moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBytes {
    /// Bytes read from the target's disks, whoever asked (`/sys/block/…/stat`).
    pub read_bytes: u64,
    /// Bytes written to them.
    pub written_bytes: u64,
    /// Bytes read and written by the load.
    pub asked_bytes: u64,
}

/// Shares (0 to 1) of the used part of the target. Of more than 1 GiB 64 evenly spread windows are looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageCache {
    /// In the page cache.
    pub resident: BeforeAfter<f64>,
    /// Waiting to be written back, or being so; null before Linux 6.5.
    pub dirty: Option<BeforeAfter<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeforeAfter<T> {
    /// At the first reading.
    pub before: T,
    /// At the second.
    pub after: T,
}

/// Completions of all jobs in consecutive intervals of one length, from the first submission on; what is over at the end is
/// not among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throughput {
    /// Length of an interval: 50 ms, doubled until 100 of them are enough.
    pub interval_ns: u64,
    /// Completions in each interval.
    pub ios: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// The program's name.
    pub program: String,
    /// How many events.
    pub events: u64,
}
