//! What else happened around a measured span.

use serde::{Deserialize, Serialize};

use crate::host::TargetInterrupt;

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
