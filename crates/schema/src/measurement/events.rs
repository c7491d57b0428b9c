//! Kernel events that belong to the completions: delivery paths, system calls, interrupts.

use serde::{Deserialize, Serialize};

use crate::delivery_path::DeliveryPath;
use crate::detail::Detail;
use crate::latency::Delay;
use crate::name::Name;
use crate::waker::Waker;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryPathCount {
    /// The delivery path.
    pub vehicle: DeliveryPath,
    /// Number of completions that it delivered.
    pub completions: u64,
    /// The system call, interrupt or waker of the path; omitted if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<Name>,
    /// Delivery delay of its traced completions; omitted if none was traced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_ns: Option<Box<Delay>>,
}

impl DeliveryPathCount {
    /// The waker, if the thread slept in io_uring_enter.
    pub fn waker(&self) -> Option<Waker> {
        match Detail::from(self.detail.as_deref().filter(|_| self.vehicle == DeliveryPath::Enter)?) {
            Detail::Slept(waker) => Some(waker),
            _ => None,
        }
    }
}

/// Requests punted to io-wq workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Punts {
    /// Because of IOSQE_ASYNC (`--force-async`).
    pub asked: u64,
    /// Because they would have blocked, or their operation always blocks.
    pub would_block: u64,
}

/// Ratios to `ios`; null: not available.
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
    /// Context switches of the traced threads.
    pub context_switches: Option<f64>,
    /// Task work runs.
    pub task_work_runs: Option<f64>,
}

impl PerIo {
    /// Each ratio with the name of its field.
    pub fn by_name(&mut self) -> [(&'static str, &mut Option<f64>); 7] {
        [
            ("syscalls", &mut self.syscalls),
            ("kicks", &mut self.kicks),
            ("resched_ipis", &mut self.resched_ipis),
            ("device_irqs", &mut self.device_irqs),
            ("mode_switches", &mut self.mode_switches),
            ("context_switches", &mut self.context_switches),
            ("task_work_runs", &mut self.task_work_runs),
        ]
    }
}

/// Returns from kernel to user mode of the traced threads, by cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeSwitch {
    /// `syscall`, `page_fault`, `device_irq`, `timer_tick`, `resched_ipi`, `other`.
    pub cause: Name,
    /// Number of returns.
    pub count: u64,
}

/// Task work runs by number of items, in powers of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWorkBatch {
    /// Items of a run: at least this many, and fewer than twice as many. The largest class starts at 65,536.
    pub at_least: u64,
    /// Number of runs.
    pub runs: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Interrupt number or mnemonic in /proc/interrupts: `36`, or `LOC`, `RES`, `CAL`, `IWI`.
    pub vector: Name,
    /// Name of the handler or vector: `virtio1-req.0`.
    pub name: Name,
    /// The CPU that handled it.
    pub cpu: u32,
    /// Interrupts on that CPU during the interval, as seen by the probes.
    pub count: u64,
    /// Interrupts that arrived while a traced thread was running on that CPU.
    pub on_watched: u64,
    /// Interrupts in which the traced program's I/O completed. The rest of `count` belongs to other programs. Null for
    /// the kernel's own vectors, and if not known.
    #[serde(default)]
    pub credited: Option<u64>,
    /// Its 95 % interval, if it is an estimate; null: exact, or not known.
    #[serde(default)]
    pub credited_ci95: Option<[f64; 2]>,
    /// The same count from /proc/interrupts; null: not readable. If it is more than `count`, the probes missed
    /// interrupts.
    pub proc_count: Option<u64>,
    /// Time in its handler and the softirqs that it raised. The time of the entry code and of the hypervisor is
    /// excluded. Null for other vectors, for threaded interrupts (PREEMPT_RT, `threadirqs`), and without `--profile`.
    #[serde(default)]
    pub spent_ns: Option<u64>,
}

/// Interprocessor interrupts that kicked or woke a traced thread, or were sent by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ipi {
    /// The kernel function that sent it; `task_work_add` makes it a kick.
    pub site: Name,
    /// The sending CPU.
    pub from_cpu: u32,
    /// The receiving CPU.
    pub to_cpu: u32,
    /// Number of interrupts.
    pub count: u64,
}
