//! Other activity around a measured span.

use serde::{Deserialize, Serialize};

use crate::host::TargetInterrupt;

/// Facts that decide whether measurements are comparable (`answer::comparable`), read before and after the
/// measured span, with no I/O of the load in flight. Null: not available.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// Wall time between the two readings. It is `elapsed_ns` plus the time to attach and read the probes.
    pub span_ns: u64,
    /// CPUs to which `steal_ns`, `thermal_throttles` and `frequency_khz` refer. They are the CPUs of the load, its
    /// reaper and its SQPOLL
    /// thread, and those of the target's interrupts. If the load is not pinned, they are all online CPUs.
    pub cpus: Vec<u32>,
    /// Bytes that the target's disks transferred; null: no disk counts. Disks with 0 in `queue/iostats` do not count.
    pub device: Option<DeviceBytes>,
    /// Share of the target in the page cache. Null without a target, or if the file is another user's and not writable.
    pub page_cache: Option<PageCache>,
    /// Time that the hypervisor ran something else while those CPUs had work. Summed over them, in ticks of 10 ms.
    pub steal_ns: Option<u64>,
    /// CPU quota of the control group, in CPUs; null: no quota. It is the tightest quota of this process's group and
    /// its ancestors.
    /// Also null if no CPU controller is visible.
    pub cpu_quota: Option<f64>,
    /// Time for which the quota throttled the group's threads, summed over CPUs.
    pub throttled_ns: Option<u64>,
    /// Thermal throttling events of those CPUs; null in most virtual machines.
    pub thermal_throttles: Option<u64>,
    /// Mean frequency of those CPUs; null in most virtual machines.
    pub frequency_khz: Option<BeforeAfter<u64>>,
    /// The target's interrupts at the end of the span, as `host.target.interrupts`.
    pub interrupts_after: Vec<TargetInterrupt>,
    /// Runnable tasks of other programs when the span began, including requested neighbours.
    pub runnable_before: Option<u32>,
    /// Load average of the last minute when the span began.
    pub load_average_before: Option<f64>,
    /// Time that the load's own threads waited for a CPU, summed. A program's threads are sampled: the time after a
    /// thread's last sample is missing.
    pub run_queue_wait_ns: Option<u64>,
    /// Part of `run_queue_wait_ns` in which a program other than iotrail used their CPU. Kernel threads do not count.
    /// Null: not a program.
    #[serde(default)]
    pub others_had_cpu_ns: Option<u64>,
    /// Involuntary context switches of the load's own threads.
    pub involuntary_switches: Option<u64>,
    /// Page faults of the load's own threads that needed no I/O.
    pub minor_faults: Option<u64>,
    /// Page faults of the load's own threads that needed I/O.
    pub major_faults: Option<u64>,
    /// Completions over the span; null below two intervals.
    pub throughput: Option<Throughput>,
}

/// Bytes that the target's disks transferred during the span for all users, and the load's own bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBytes {
    /// Bytes read from the target's disks by all users (`/sys/block/…/stat`).
    pub read_bytes: u64,
    /// Bytes written to the target's disks by all users.
    pub written_bytes: u64,
    /// Bytes read and written by the load.
    pub asked_bytes: u64,
    /// Write requests that the disks completed for all users. Null in older measurements.
    #[serde(default)]
    pub writes: Option<u64>,
    /// Time of these write requests, summed; the kernel counts milliseconds.
    #[serde(default)]
    pub write_ns: Option<u64>,
    /// Flushes of the disks' volatile caches. Null before Linux 5.5, and in older measurements.
    #[serde(default)]
    pub flushes: Option<u64>,
    /// Time of these flushes, summed; the kernel counts milliseconds.
    #[serde(default)]
    pub flush_ns: Option<u64>,
}

/// Shares (0 to 1) of the used part of the target. Above 1 GiB, 64 evenly spread windows are sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageCache {
    /// In the page cache.
    pub resident: BeforeAfter<f64>,
    /// Dirty or under writeback; null before Linux 6.5.
    pub dirty: Option<BeforeAfter<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeforeAfter<T> {
    /// Value at the first reading.
    pub before: T,
    /// Value at the second reading.
    pub after: T,
}

/// Completions of all jobs in consecutive intervals of equal length, starting at the first submission. The remainder at
/// the end does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throughput {
    /// Length of an interval: 50 ms, doubled until at most 100 intervals are needed.
    pub interval_ns: u64,
    /// Completions in each interval.
    pub ios: Vec<u64>,
}
