//! The central noun: what one load, watched, yields. These types *are* the JSON schema `iotrail.measurement/1`
//! (`docs/formats.md`): a change of meaning raises the number.
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

/// One load, watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `iotrail.measurement/1`.
    pub schema: Name,
    /// Version of the iotrail that measured.
    pub version: Name,
    /// Wall-clock start.
    pub started_unix_s: u64,
    /// The options of `bench`, as resolved.
    pub load: Shared<LoadRecord>,
    /// From the first submission to the last completion seen; the warm-up is not included.
    pub elapsed_ns: u64,
    /// I/Os that completed, failed and short ones included. Null of a program that was not traced in this run, as are `bytes`, `errors`,
    /// `short_ios` and `iops`. Of a network load: responses.
    pub ios: Option<u64>,
    /// Results that a program had of its requests, as a trace's. Null of a load of ours, whose I/Os they are, and where `ios` is null.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Bytes moved. Of a network load: those that the sender sent and received.
    pub bytes: Option<u64>,
    /// I/Os that completed with an error.
    pub errors: Option<u64>,
    /// The errors by kind, the most frequent first. They sum to `errors`. Null in measurements of versions that did not tell.
    #[serde(default)]
    pub errors_by: Option<Vec<ErrorCount>>,
    /// I/Os that completed with fewer bytes than were asked for.
    pub short_ios: Option<u64>,
    /// `ios` over `elapsed_ns`, per second.
    pub iops: Option<f64>,
    /// Latency of single I/Os. Of a network load: the sender's.
    pub latency_ns: Latency,
    /// Where the jobs' wall time went. Null where they are not jobs of iotrail's own storage load.
    #[serde(default)]
    pub phases: Option<Phases>,
    /// CPU time of the load. Of a network load: the server's.
    pub cpu: Cpu,
    /// What delivered the completions. They sum to `probe.completions_seen`, `unknown` included. Empty where nothing was watched, and
    /// of an epoll server, which has no completions.
    pub vehicles: Vec<DeliveryPathCount>,
    /// Counts per I/O.
    pub per_io: PerIo,
    /// 95 % intervals of the estimates in `per_io`, by their names. A number of `per_io` without one is exact.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub per_io_intervals: BTreeMap<String, [f64; 2]>,
    /// Returns from kernel to user mode of the watched threads, by cause.
    pub mode_switches: Vec<ModeSwitch>,
    /// Runs of task work by the number of items they ran, in powers of two.
    pub task_work_batches: Vec<TaskWorkBatch>,
    /// Interrupts by vector and CPU.
    pub interrupts: Vec<Interrupt>,
    /// Interprocessor interrupts that kicked or woke a watched thread, or that one sent.
    pub ipis: Vec<Ipi>,
    /// Order of completions, submitted to posted; null where requests were not followed.
    pub order: Option<Box<Order>>,
    /// The parts of the mean latency of the followed requests; null without `--follow`.
    #[serde(default)]
    pub stages: Option<Box<StageRecord>>,
    /// How many requests were followed; null without `--follow`.
    #[serde(default)]
    pub followed: Option<Box<Followed>>,
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
    pub cpu_samples: Option<Box<CpuSamples>>,
    /// What else happened around the measured span. It is read before and after, with nothing of the load in flight. Null in
    /// measurements of versions that did not look. `docs/method.md` says what follows from it.
    #[serde(default)]
    pub circumstances: Option<Box<Circumstances>>,
    /// Both sides of a network load; null for storage.
    #[serde(default)]
    pub net: Option<Box<NetRecord>>,
    /// A program of the user's as the load; null: a load of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<ProgramRecord>>,
    /// The machine. Of a network load: the server's.
    pub host: Shared<Host>,
    /// What puts the numbers in doubt.
    pub warnings: Vec<Warning>,
    /// How often it was measured before and thrown away, since other work disturbed it.
    #[serde(default)]
    pub thrown_away: u32,
}

impl Measurement {
    /// So many per I/O; `None`: it had no I/O, or they are not known.
    pub fn per_io(&self, n: u64) -> Option<f64> {
        self.ios.filter(|ios| *ios > 0).map(|ios| n as f64 / ios as f64)
    }

    /// Ready against posted; `None` where it could not be followed.
    pub fn delivery(&self) -> Option<&Delivery> {
        self.order.as_ref()?.delivery.as_ref()
    }
}

/// Errors of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// An errno's name: `EIO`. Of `io_uring_cmd` and `nvme_user` what the drive said: `Unrecovered Read Error (NVMe status 2/0x81)`.
    pub error: String,
    /// How many I/Os ended with it.
    pub count: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// `off` or `aggregate`.
    pub mode: Name,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// The program's name.
    pub program: String,
    /// How many events.
    pub events: u64,
}
