//! The delivery path of a completion: the kernel entry that brought it from *ready* to *posted*.

use serde::{Deserialize, Serialize};

/// Names are those of the JSON and of the report. `docs/accuracy.md` describes how each is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryPath {
    /// While its request was being submitted; nothing was queued.
    Inline,
    /// By task work run inside `io_uring_enter`. The detail is `ready` or `slept` (with the waker).
    Enter,
    /// By task work on return from a system call. The detail names the call.
    SyscallExit,
    /// On return from a reschedule interrupt that another CPU sent.
    ReschedIpi,
    /// On return from a device interrupt on the submitting thread's own CPU. The detail names the vector.
    DeviceIrq,
    /// On return from the timer interrupt: no other kernel entry came earlier.
    TimerTick,
    /// On return from a page fault.
    PageFault,
    /// On return from another interrupt. The detail names the interrupt.
    OtherIrq,
    /// By the SQPOLL thread.
    Sqpoll,
    /// By polling the device in `io_uring_enter`.
    Iopoll,
    /// By an io-wq worker thread.
    Iowq,
    /// In interrupt context itself (native aio).
    IrqDirect,
    /// By a user-space helper thread (POSIX AIO).
    Thread,
    /// By a kernel worker: native aio writes that a file system finishes in a work queue.
    Kworker,
    /// Could not be determined.
    Unknown,
}

impl DeliveryPath {
    pub const ALL: [DeliveryPath; 15] = [
        DeliveryPath::Inline,
        DeliveryPath::Enter,
        DeliveryPath::SyscallExit,
        DeliveryPath::ReschedIpi,
        DeliveryPath::DeviceIrq,
        DeliveryPath::TimerTick,
        DeliveryPath::PageFault,
        DeliveryPath::OtherIrq,
        DeliveryPath::Sqpoll,
        DeliveryPath::Iopoll,
        DeliveryPath::Iowq,
        DeliveryPath::IrqDirect,
        DeliveryPath::Thread,
        DeliveryPath::Kworker,
        DeliveryPath::Unknown,
    ];

    /// The stable name, as in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            DeliveryPath::Inline => "inline",
            DeliveryPath::Enter => "enter",
            DeliveryPath::SyscallExit => "syscall_exit",
            DeliveryPath::ReschedIpi => "resched_ipi",
            DeliveryPath::DeviceIrq => "device_irq",
            DeliveryPath::TimerTick => "timer_tick",
            DeliveryPath::PageFault => "page_fault",
            DeliveryPath::OtherIrq => "other_irq",
            DeliveryPath::Sqpoll => "sqpoll",
            DeliveryPath::Iopoll => "iopoll",
            DeliveryPath::Iowq => "iowq",
            DeliveryPath::IrqDirect => "irq_direct",
            DeliveryPath::Thread => "thread",
            DeliveryPath::Kworker => "kworker",
            DeliveryPath::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for DeliveryPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_name_is_the_displayed_name() {
        for v in DeliveryPath::ALL {
            assert_eq!(serde_json::to_value(v).unwrap(), v.to_string());
        }
    }
}
