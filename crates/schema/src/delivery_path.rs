//! The delivery path of a completion: the kernel entry that brought it from *ready* to *posted*.

use serde::{Deserialize, Serialize};

crate::named! {
    /// Names are those of the JSON and of the report. `docs/accuracy.md` describes how each is decided.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DeliveryPath {
        /// While its request was being submitted; nothing was queued.
        Inline = "inline",
        /// By task work run inside `io_uring_enter`. The detail is `ready` or `slept` (with the waker).
        Enter = "enter",
        /// By task work on return from a system call. The detail names the call.
        SyscallExit = "syscall_exit",
        /// On return from a reschedule interrupt that another CPU sent.
        ReschedIpi = "resched_ipi",
        /// On return from a device interrupt on the submitting thread's own CPU. The detail names the vector.
        DeviceIrq = "device_irq",
        /// On return from the timer interrupt: no other kernel entry came earlier.
        TimerTick = "timer_tick",
        /// On return from a page fault.
        PageFault = "page_fault",
        /// On return from another interrupt. The detail names the interrupt.
        OtherIrq = "other_irq",
        /// By the SQPOLL thread.
        Sqpoll = "sqpoll",
        /// By polling the device in `io_uring_enter`.
        Iopoll = "iopoll",
        /// By an io-wq worker thread.
        Iowq = "iowq",
        /// In interrupt context itself (native aio).
        IrqDirect = "irq_direct",
        /// By a user-space helper thread (POSIX AIO).
        Thread = "thread",
        /// By a kernel worker: native aio writes that a file system finishes in a work queue.
        Kworker = "kworker",
        /// Could not be determined.
        Unknown = "unknown",
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
