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
    pub schema: String,
    /// iotrail's version that made it.
    pub version: String,
    /// Wall-clock start, seconds since the epoch (UTC).
    pub started_unix_s: u64,
    pub load: LoadRecord,
    /// Wall time from the first submission to the last completion seen, warm-up not included.
    pub elapsed_ns: u64,
    /// I/Os that completed, errors and short ones included.
    pub ios: u64,
    pub bytes: u64,
    /// I/Os that completed with an error.
    pub errors: u64,
    /// Of these errors, how many were which; null in measurements of versions that did not tell.
    #[serde(default)]
    pub errors_by: Option<Vec<ErrorCount>>,
    /// I/Os that completed with fewer bytes than were asked for.
    pub short_ios: u64,
    pub iops: f64,
    pub latency_ns: Latency,
    pub phases: Phases,
    pub cpu: Cpu,
    /// Sums to `probe.completions_seen`, `unknown` included; empty where nothing was watched.
    pub vehicles: Vec<VehicleCount>,
    pub per_io: PerIo,
    pub mode_switches: Vec<ModeSwitch>,
    /// Task-work runs by how many items each ran, in powers of two.
    pub task_work_batches: Vec<TaskWorkBatch>,
    pub interrupts: Vec<Interrupt>,
    pub ipis: Vec<Ipi>,
    /// Completion order; null where it could not be followed.
    pub order: Option<Order>,
    /// The parts of the mean latency, of the followed requests; null where none were followed.
    #[serde(default)]
    pub stages: Option<StageRecord>,
    /// How many requests were followed; null: none were to be.
    #[serde(default)]
    pub followed: Option<Followed>,
    /// Requests handed to io-wq, of all; null where requests were not followed.
    #[serde(default)]
    pub punts: Option<Punts>,
    pub probe: Probe,
    /// Where the CPU went, by samples; null where none were taken. Every place is there; their samples sum to
    /// `cpu_samples.taken`.
    #[serde(default)]
    pub cpu_shares: Option<Vec<CpuShare>>,
    #[serde(default)]
    pub cpu_samples: Option<CpuSamples>,
    /// What else happened around the measured span; null in measurements of versions that did not look.
    #[serde(default)]
    pub circumstances: Option<Circumstances>,
    /// Both sides of a network load; null for storage.
    #[serde(default)]
    pub net: Option<NetRecord>,
    /// A program of the user's as the load; null: a load of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramRecord>,
    pub host: Host,
    pub warnings: Vec<Warning>,
    /// How often it was measured before and thrown away, since others disturbed it.
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
    pub engine: String,
    pub ring: Ring,
    pub sq_cpu: Option<u32>,
    pub sq_idle_ms: Option<u32>,
    pub register: Vec<String>,
    pub force_async: bool,
    pub rw: String,
    /// Block size.
    pub bs: u64,
    pub depth: u32,
    pub batch: u32,
    pub jobs: u32,
    /// `irq`, `non-irq` or the list, as asked for; null: not pinned.
    pub cpus_requested: Option<String>,
    /// The CPU of each job, in order; empty: not pinned.
    pub cpus: Vec<u32>,
    pub wait: String,
    pub reaper: String,
    pub think_ns: u64,
    pub scratch: String,
    pub neighbour: String,
    pub file: Option<String>,
    pub size: Option<u64>,
    pub direct: bool,
    /// Set when the run ends by time.
    pub runtime_ns: Option<u64>,
    /// Set when the run ends by number of I/Os.
    pub count: Option<u64>,
    pub warmup_ns: u64,
    /// I/Os per second over all jobs; null: closed loop.
    pub rate: Option<f64>,
    pub verify: bool,
    /// Of everything random in the load: the same seed gives the same I/Os in the same order. Null: measured before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    pub trace: String,
}

/// Errors of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// An errno's name (`EIO`), or what the drive said: `Unrecovered Read Error (NVMe status 2/0x81)`.
    pub error: String,
    pub count: u64,
}

/// Ring setup flags asked for and, as the kernel's answer says, granted. Empty for other engines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ring {
    pub requested: Vec<String>,
    pub granted: Vec<String>,
}

/// Requests that were kept open until something came (`path::waits`): in no mean latency, no stages and no order of submission of the
/// others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Followed ones.
    pub requests: u64,
    /// How many these stand for,
    pub estimated: u64,
    /// with its 95 % interval: where not every request was followed, there may be more of which none was.
    #[serde(default)]
    pub estimated_ci95: Option<[f64; 2]>,
    /// Their own mean latency.
    pub mean_ns: f64,
}

/// Fractions of the jobs' wall time; they sum to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    pub submit: f64,
    pub poll: f64,
    pub clear: f64,
    pub other: f64,
    /// Wall time of all jobs together.
    pub total_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Of the load's own threads, helpers of the interface (SQPOLL, io-wq, glibc's) not included; null where they are not known: a
    /// server's that is none of ours, or whose kernel keeps no CPU time of single threads.
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
    /// CPU time of the SQPOLL threads; null without them.
    pub sqpoll_ns: Option<u64>,
    /// Times that the load had to wake an SQPOLL thread which had gone to sleep (io_uring_enter with IORING_ENTER_SQ_WAKEUP); null
    /// without one.
    #[serde(default)]
    pub sqpoll_wakeups: Option<u64>,
    /// CPU time of the process's other helper threads, those that have ended included: io-wq workers, glibc's helpers. What the
    /// process's threads took in all, less the figures above: so to some tens of microseconds a thread.
    #[serde(default)]
    pub helpers_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VehicleCount {
    pub vehicle: Vehicle,
    pub completions: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_ns: Option<Delay>,
}

/// Means over the followed completions with both *issued* and *ready*; `issue_ns`, `wait_ns` and `delivery_ns` sum to `total_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    pub completions: u64,
    pub issue_ns: f64,
    pub wait_ns: f64,
    pub delivery_ns: f64,
    /// Of `delivery_ns`: until a kernel worker of the file system had finished the I/O; null where none was seen.
    #[serde(default)]
    pub file_system_ns: Option<f64>,
    /// Of the delivery: until task work was added for it; null where that was not seen. A mean over the `queued_completions` of
    /// which it was seen.
    #[serde(default)]
    pub queued_ns: Option<f64>,
    #[serde(default)]
    pub queued_completions: u64,
    /// `delivery_ns` of the same: what `queued_ns` is a part of.
    #[serde(default)]
    pub queued_delivery_ns: Option<f64>,
    /// Of the delivery: the submitting thread could run and waited for a CPU; null: not known of any.
    #[serde(default)]
    pub runnable: Option<Runnable>,
    pub total_ns: f64,
    /// As `mean_ci95` of a latency.
    #[serde(default)]
    pub total_ci95: Option<[f64; 2]>,
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
    /// All requests of a CPU were followed while there were few, and one in `one_in` of the others.
    #[serde(default)]
    pub adaptive: bool,
    pub completions: u64,
    /// Of `completions`: of requests that were followed while all were.
    #[serde(default)]
    pub whole: u64,
    /// Requests of which only one in `one_in` was chosen; null where all had to be followed, or it was not counted.
    #[serde(default)]
    pub sampled_from: Option<u64>,
    /// Requests that came while windows finished, which none of the followed ones stands for: counted, and in `requests_estimated`.
    /// Null: not watched by windows.
    #[serde(default)]
    pub came_later: Option<u64>,
    /// How many requests the followed and the unfinished ones stand for (the sum of their weights), with those that came later: to
    /// be held against those counted.
    #[serde(default)]
    pub requests_estimated: Option<f64>,
    /// Its 95 % interval (`stats::estimate`).
    #[serde(default)]
    pub requests_ci95: Option<[f64; 2]>,
    /// Of `completions`: those with both *issued* and *ready* seen.
    pub with_stages: u64,
    /// Of `completions`: those with *queued* seen; null where the kernel lets no probe see it.
    #[serde(default)]
    pub with_queued: Option<u64>,
    /// Chosen, but given up: no room to keep them.
    pub no_room: u64,
    /// Whole, but lost on the way: the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Chosen, and without a completion as far as was seen: the program asked for none if they succeed
    /// (IOSQE_CQE_SKIP_SUCCESS).
    #[serde(default)]
    pub skipped: u64,
    /// Chosen, and over without a completion that was seen: it overflowed, or was missed.
    #[serde(default)]
    pub no_completion: u64,
    /// Chosen, and not complete when watching ended.
    pub unfinished: u64,
    /// Chosen, of native aio and complete, or of POSIX AIO; their results were not seen to be reaped.
    #[serde(default)]
    pub unreaped: u64,
    /// Completions that are not among `completions`, since another open request had what they name: of multishot requests the user
    /// data, of native aio the control block.
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
    /// Because the load asked for it (`--force-async`).
    pub asked: u64,
    /// Because they would have blocked, or their operation always does.
    pub would_block: u64,
}

/// Ratios to `ios`; null where it could not be had.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PerIo {
    pub syscalls: Option<f64>,
    pub kicks: Option<f64>,
    pub resched_ipis: Option<f64>,
    pub device_irqs: Option<f64>,
    pub mode_switches: Option<f64>,
    pub context_switches: Option<f64>,
    pub task_work_runs: Option<f64>,
}

/// Returns from kernel to user mode of the watched threads, by cause: `syscall`, `page_fault`, `device_irq`,
/// `timer_tick`, `resched_ipi`, `other`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeSwitch {
    pub cause: String,
    pub count: u64,
}

/// Runs of task work that ran at least this many items, and fewer than twice as many (65,536 at most are told apart).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWorkBatch {
    pub at_least: u64,
    pub runs: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// `36` for a device's interrupt line, else the mnemonic of /proc/interrupts: `LOC`, `RES`, `CAL`, `IWI`.
    pub vector: String,
    /// The handler's or the vector's name: `virtio1-req.0`.
    pub name: String,
    pub cpu: u32,
    /// All that arrived on that CPU during the measurement, as the probes saw them.
    pub count: u64,
    /// Those that arrived while a watched thread was current there.
    pub on_watched: u64,
    /// Those in which I/O of the watched ended; null for other vectors than a device's, and where it could not be told.
    #[serde(default)]
    pub credited: Option<u64>,
    /// The same span from /proc/interrupts; null where it could not be read. More than `count`: the probes were blind.
    pub proc_count: Option<u64>,
    /// Time that the CPU spent in its handler and in the softirqs that it raised, without the entry's own and the hypervisor's; null
    /// for other vectors than a device's, and where the CPU was not sampled.
    #[serde(default)]
    pub spent_ns: Option<u64>,
}

/// Interprocessor interrupts that kicked or woke a watched thread, or that one sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ipi {
    /// The kernel function that sent it; `task_work_add` makes it a kick.
    pub site: String,
    pub from_cpu: u32,
    pub to_cpu: u32,
    pub count: u64,
}

/// Of the followed requests (`path::order`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Each request once: submitted → posted. No waits.
    pub completions: u64,
    /// Those that overtook another one, and
    pub inversions: u64,
    /// those that were overtaken by another one: one that takes long is, by all. Null in older records.
    #[serde(default)]
    pub overtaken: Option<u64>,
    pub max_displacement: u64,
    pub by: OrderBy,
    /// Requests that were left out of this, since they are waits; `delivery` has them.
    #[serde(default)]
    pub waits: u64,
    /// Ready → posted; null where no completion was seen to become ready.
    #[serde(default)]
    pub delivery: Option<Delivery>,
}

/// Whether completions were posted in the order in which they were ready, whatever the order of their submissions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Those that were seen to become ready; of a multishot request, each that was.
    pub completions: u64,
    /// Followed, and not seen to: done while they were submitted, or further ones of one wake-up of a multishot request.
    pub without_ready: u64,
    /// Posted before one that was ready earlier.
    pub inversions: u64,
    pub max_displacement: u64,
    pub by: DeliveredBy,
}

/// Where a later one overtook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveredBy {
    /// As in [`OrderBy`].
    pub file_system: Option<u64>,
    pub task_work: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderBy {
    pub block: u64,
    pub device: u64,
    /// In kernel workers of a file system; null where the end of direct I/O is not seen (before Linux 6.6): then under
    /// `task_work`.
    #[serde(default)]
    pub file_system: Option<u64>,
    pub task_work: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// `off` or `aggregate`.
    pub mode: String,
    /// Null when nothing was watched.
    pub completions_seen: Option<u64>,
    /// Completions that the load had and the probes can't follow (an interface without tracepoints).
    pub untracked: Option<u64>,
    /// Losses that completions and vehicles rest on: failed map updates, events missed by the programs that follow them.
    pub lost: Option<u64>,
    /// Events that single programs missed because they were already running on that CPU, by program.
    pub missed: Vec<Missed>,
    /// Names of the attached programs.
    pub programs: Vec<String>,
}

/// Samples that fell on one place, and their share of all that were taken with its 95 % interval (`stats::share`); null where too few
/// were taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    pub place: Place,
    pub samples: u64,
    pub share: Option<f64>,
    pub lo: Option<f64>,
    pub hi: Option<f64>,
}

/// How the CPUs were sampled. Paced by time, `expected` = `taken` + `elsewhere` + `lost`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSamples {
    /// `time` or `cycles`.
    pub clock: String,
    /// Samples per second and CPU that were asked for.
    pub hz: u32,
    /// Between two samples of a CPU; null: paced by cycles.
    pub period_ns: Option<u64>,
    /// What the shares are of: samples of the watched threads, on any CPU, and of the idle task on `idle_cpus`.
    pub taken: u64,
    /// Other programs' samples, and idle ones of other CPUs.
    pub elsewhere: u64,
    /// Samples that did not come, or found no room to be kept in.
    pub lost: u64,
    /// Samples that the span had periods for, over all CPUs; null: paced by cycles.
    pub expected: Option<u64>,
    /// CPUs whose idle time is in the shares: the load's, or, where it is not pinned, those that it was seen on.
    pub idle_cpus: Vec<u32>,
    /// Innermost functions of samples whose place is `other`, the most frequent first, ten at most.
    pub unplaced: Vec<FunctionSamples>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSamples {
    pub function: String,
    pub samples: u64,
}

/// What makes a measurement comparable with another (`answer::comparable`): read before and after the measured span, with
/// nothing of the load in flight. Null where it cannot be had.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// Wall time between the two readings: the measured span, and what attaching and reading the probes took.
    pub span_ns: u64,
    /// CPUs that `steal_ns`, `thermal_throttles` and `frequency_khz` are of: those that the load and its helpers are bound
    /// to and those of the target's interrupts, or all online ones where the load is not bound.
    pub cpus: Vec<u32>,
    /// Null without a target on a disk that counts.
    pub device: Option<DeviceBytes>,
    /// Null without a target, and where its owner does not let us see.
    pub page_cache: Option<PageCache>,
    /// Time that the hypervisor ran something else while those CPUs had work, summed over them; in ticks of 10 ms.
    pub steal_ns: Option<u64>,
    /// CPUs' worth of time that this process's cgroup, or the tightest one around it, allows; null: no quota, or not known.
    pub cpu_quota: Option<f64>,
    /// Time that the group was kept off its CPUs for having used up its quota, summed over them.
    pub throttled_ns: Option<u64>,
    /// How often those CPUs slowed down to stay cool.
    pub thermal_throttles: Option<u64>,
    /// Mean over those CPUs.
    pub frequency_khz: Option<BeforeAfter<u64>>,
    /// The target's interrupts at the end of the span; `host.target.interrupts` are those before the load was set up.
    pub interrupts_after: Vec<TargetInterrupt>,
    /// Tasks that ran or could run when the span began, without this program's own threads; asked-for neighbours are among them.
    pub runnable_before: Option<u32>,
    /// Of the last minute, when the span began.
    pub load_average_before: Option<f64>,
    /// Of the load's own threads: time that they could have run and something else had their CPU, summed over them.
    pub run_queue_wait_ns: Option<u64>,
    /// Of the load's own threads: how often they were put off their CPU while they had work.
    pub involuntary_switches: Option<u64>,
    /// Of the load's own threads.
    pub minor_faults: Option<u64>,
    pub major_faults: Option<u64>,
    /// Completions over the course of the span; null where it was too short for two intervals.
    pub throughput: Option<Throughput>,
}

/// What the target's disks moved in the span, whoever asked, beside what the load moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBytes {
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Read and written by the load together.
    pub asked_bytes: u64,
}

/// Shares (0 to 1) of the used part of the target. Of more than 1 GiB 64 evenly spread windows are looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageCache {
    pub resident: BeforeAfter<f64>,
    /// Waiting to be written back, or being so; null before Linux 6.5.
    pub dirty: Option<BeforeAfter<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeforeAfter<T> {
    pub before: T,
    pub after: T,
}

/// Completions of all jobs in consecutive intervals of one length, from the first submission on; what is over at the end is
/// not among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throughput {
    pub interval_ns: u64,
    pub ios: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    pub program: String,
    pub events: u64,
}
