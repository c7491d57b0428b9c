//! The vehicle of a completion: the kernel entry that carried it from *ready* to *posted*.

use serde::{Deserialize, Serialize};

/// Names are the JSON's and the report's; see `docs/completion-path.md` for how each is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vehicle {
    /// While its request was being submitted; nothing was queued.
    Inline,
    /// By task work run inside `io_uring_enter`. The detail is `ready` or `slept` (with the waker).
    Enter,
    /// By task work on the way out of a system call. The detail names it.
    SyscallExit,
    /// On return from a reschedule interrupt that another CPU sent.
    ReschedIpi,
    /// On return from a device's interrupt on the task's own CPU. The detail names the vector.
    DeviceIrq,
    /// On return from the timer interrupt: nobody came earlier.
    TimerTick,
    /// On return from a page fault.
    PageFault,
    /// On return from another interrupt. The detail names it.
    OtherIrq,
    /// By the submission-queue thread.
    Sqpoll,
    /// By a poll of the device in `io_uring_enter`.
    Iopoll,
    /// By an io-wq worker thread.
    Iowq,
    /// In interrupt context itself (native aio).
    IrqDirect,
    /// By a user-space helper thread (POSIX AIO).
    Thread,
    /// By a kernel worker: native aio writes that a file system finishes in a work queue.
    Kworker,
    /// It could not be told.
    Unknown,
}

impl Vehicle {
    pub const ALL: [Vehicle; 15] = [
        Vehicle::Inline,
        Vehicle::Enter,
        Vehicle::SyscallExit,
        Vehicle::ReschedIpi,
        Vehicle::DeviceIrq,
        Vehicle::TimerTick,
        Vehicle::PageFault,
        Vehicle::OtherIrq,
        Vehicle::Sqpoll,
        Vehicle::Iopoll,
        Vehicle::Iowq,
        Vehicle::IrqDirect,
        Vehicle::Thread,
        Vehicle::Kworker,
        Vehicle::Unknown,
    ];

    /// The stable name, as in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Vehicle::Inline => "inline",
            Vehicle::Enter => "enter",
            Vehicle::SyscallExit => "syscall_exit",
            Vehicle::ReschedIpi => "resched_ipi",
            Vehicle::DeviceIrq => "device_irq",
            Vehicle::TimerTick => "timer_tick",
            Vehicle::PageFault => "page_fault",
            Vehicle::OtherIrq => "other_irq",
            Vehicle::Sqpoll => "sqpoll",
            Vehicle::Iopoll => "iopoll",
            Vehicle::Iowq => "iowq",
            Vehicle::IrqDirect => "irq_direct",
            Vehicle::Thread => "thread",
            Vehicle::Kworker => "kworker",
            Vehicle::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for Vehicle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_name_is_the_displayed_name() {
        for v in Vehicle::ALL {
            assert_eq!(serde_json::to_value(v).unwrap(), v.to_string());
        }
    }
}
