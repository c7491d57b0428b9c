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

use serde::{Deserialize, Serialize};

pub use crate::host::{Host, Target, TargetInterrupt};
pub use crate::latency::{Delay, Latency};
use crate::net_record::NetRecord;
pub use crate::warning::Warning;
pub use circumstances::{BeforeAfter, Circumstances, DeviceBytes, PageCache, Throughput};
pub use cpu::{Cpu, CpuSamples, CpuShare, FunctionSamples, Phases};
pub use events::{Interrupt, Ipi, ModeSwitch, PerIo, Punts, TaskWorkBatch, VehicleCount};
pub use followed::{Followed, StageRecord, Waits};
pub use load::{LoadRecord, Ring};
pub use order::{DeliveredBy, Delivery, Order, OrderBy};

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

/// Errors of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// An errno's name (`EIO`), or what the drive said: `Unrecovered Read Error (NVMe status 2/0x81)`.
    pub error: String,
    pub count: u64,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    pub program: String,
    pub events: u64,
}
