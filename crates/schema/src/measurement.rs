//! The result of one load. These types *are* the JSON schema `iotrail.measurement/1` (`docs/formats.md`): a change of
//! meaning raises the number.
//!
//! Unknown is `None` (JSON `null`), never 0. Units are in the names.

mod circumstances;
mod cpu;
mod events;
mod followed;
mod load;
mod order;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::host::{Host, Target, TargetInterrupt};
pub use crate::latency::{Delay, Latency};
pub use crate::load_options::{Commit, Engine, Reaper, Rw, Trace, Wait};
use crate::name::Name;
use crate::net_record::NetRecord;
use crate::program_record::ProgramRecord;
use crate::shared::Shared;
pub use crate::warning::Warning;
pub use circumstances::{BeforeAfter, Circumstances, DeviceBytes, PageCache, Throughput};
pub use cpu::{Cpu, CpuSamples, CpuShare, FunctionSamples, Phases};
pub use events::{DeliveryPathCount, Interrupt, Ipi, ModeSwitch, PerIo, Punts, TaskWorkBatch};
pub use followed::{Followed, StageRecord, Waits};
pub use load::{LoadRecord, Ring};
pub use order::{DeliveredBy, Delivery, Order, OrderBy};

pub const SCHEMA: &str = "iotrail.measurement/1";

/// The result of one load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `iotrail.measurement/1`.
    pub schema: Name,
    /// iotrail version that measured.
    pub version: Name,
    /// Wall-clock start.
    pub started_unix_s: u64,
    /// The options of `bench`, as resolved.
    pub load: Shared<LoadRecord>,
    /// Time from the first submission to the last completion seen, excluding the warm-up.
    pub elapsed_ns: u64,
    /// Completed I/Os, including failed and short ones. Null for a program without probes in this run, like `bytes`,
    /// `errors`, `short_ios` and `iops`. For a network load: responses.
    pub ios: Option<u64>,
    /// Results that a program received for its requests, as in a trace. Null for iotrail's own loads, and if `ios` is
    /// null.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Bytes transferred. For a network load: bytes sent and received by the sender.
    pub bytes: Option<u64>,
    /// I/Os that completed with an error.
    pub errors: Option<u64>,
    /// The errors by kind, most frequent first. They sum to `errors`. Null in records of older versions.
    #[serde(default)]
    pub errors_by: Option<Vec<ErrorCount>>,
    /// I/Os that completed with fewer bytes than requested.
    pub short_ios: Option<u64>,
    /// `ios` divided by `elapsed_ns`, per second.
    pub iops: Option<f64>,
    /// Latency of individual I/Os. For a network load: as measured by the sender.
    pub latency_ns: Latency,
    /// Breakdown of the jobs' wall time. Null if the load is not iotrail's own storage load.
    #[serde(default)]
    pub phases: Option<Phases>,
    /// CPU time of the load. For a network load: of the server.
    pub cpu: Cpu,
    /// Completions by delivery path. They sum to `probe.completions_seen`, including `unknown`. Empty without probes,
    /// and for an epoll
    /// server, which has no completions.
    pub vehicles: Vec<DeliveryPathCount>,
    /// Counts per I/O.
    pub per_io: PerIo,
    /// 95 % intervals of the estimates in `per_io`, by name. A number of `per_io` without an interval is exact.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub per_io_intervals: BTreeMap<String, [f64; 2]>,
    /// Returns from kernel to user mode of the traced threads, by cause.
    pub mode_switches: Vec<ModeSwitch>,
    /// Runs of task work by the number of items they ran, in powers of two.
    pub task_work_batches: Vec<TaskWorkBatch>,
    /// Interrupts by vector and CPU.
    pub interrupts: Vec<Interrupt>,
    /// Interprocessor interrupts that kicked or woke a traced thread, or were sent by one.
    pub ipis: Vec<Ipi>,
    /// Order of completions, submitted to posted; null: requests were not traced end to end.
    pub order: Option<Box<Order>>,
    /// Components of the traced requests' mean latency; null without `--follow`.
    #[serde(default)]
    pub stages: Option<Box<StageRecord>>,
    /// Number of requests traced end to end; null without `--follow`.
    #[serde(default)]
    pub followed: Option<Box<Followed>>,
    /// Requests punted to io-wq, counted over all requests; null without `--follow`.
    #[serde(default)]
    pub punts: Option<Punts>,
    /// Events that the probes saw and lost.
    pub probe: Probe,
    /// CPU samples by place, each place once; null without `--profile`. The samples sum to `cpu_samples.taken`.
    #[serde(default)]
    pub cpu_shares: Option<Vec<CpuShare>>,
    /// How the CPUs were sampled; null without `--profile`.
    #[serde(default)]
    pub cpu_samples: Option<Box<CpuSamples>>,
    /// Other activity around the measured interval. It is read before and after, when none of the load's I/O is in
    /// flight. Null in records of older versions. `docs/method.md` describes how it is used.
    #[serde(default)]
    pub circumstances: Option<Box<Circumstances>>,
    /// Both sides of a network load; null for storage.
    #[serde(default)]
    pub net: Option<Box<NetRecord>>,
    /// The user's program that served as the load; null: the load is iotrail's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<ProgramRecord>>,
    /// The machine. For a network load: the server's machine.
    pub host: Shared<Host>,
    /// Conditions that make the numbers doubtful.
    pub warnings: Vec<Warning>,
    /// Number of earlier attempts that were discarded because other work disturbed them.
    #[serde(default)]
    pub thrown_away: u32,
}

/// Code of the warning of a load that was stopped early.
pub const INTERRUPTED: &str = "interrupted";

impl Measurement {
    /// `n` per I/O; `None`: the number of I/Os is 0 or unknown.
    pub fn per_io(&self, n: u64) -> Option<f64> {
        self.ios.filter(|ios| *ios > 0).map(|ios| n as f64 / ios as f64)
    }

    /// Whether the load was stopped early.
    pub fn interrupted(&self) -> bool {
        self.warnings.iter().any(|w| w.code == INTERRUPTED)
    }

    /// Ready compared with posted; `None`: not known.
    pub fn delivery(&self) -> Option<&Delivery> {
        self.order.as_ref()?.delivery.as_ref()
    }
}

/// Errors of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// Name of an errno: `EIO`. For `io_uring_cmd` and `nvme_user` the drive's status: `Unrecovered Read Error (NVMe
    /// status 2/0x81)`.
    pub error: String,
    /// Number of I/Os that failed with it.
    pub count: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// `off` or `aggregate`.
    pub mode: Name,
    /// Completions that the probes counted; null without probes. For a network load, compare them with
    /// `net.server.total.completions`, not with `ios`.
    pub completions_seen: Option<u64>,
    /// Completions of an interface that has no tracepoints; null for an epoll server.
    pub untracked: Option<u64>,
    /// Lost events on which completions and delivery paths depend: failed map updates and missed events.
    pub lost: Option<u64>,
    /// Events that individual BPF programs missed because they were already running on that CPU.
    pub missed: Vec<Missed>,
    /// Names of the attached programs.
    pub programs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// The program's name.
    pub program: String,
    /// Number of events.
    pub events: u64,
}
