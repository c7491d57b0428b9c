//! What else happened around a measured span.

use serde::{Deserialize, Serialize};

use crate::host::TargetInterrupt;

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
