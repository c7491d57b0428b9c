//! What the kernel did for the completions: vehicles, system calls, interrupts.

use serde::{Deserialize, Serialize};

use crate::latency::Delay;
use crate::vehicle::Vehicle;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VehicleCount {
    pub vehicle: Vehicle,
    pub completions: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_ns: Option<Delay>,
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
