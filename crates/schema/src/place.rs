//! The part of the kernel to which a CPU sample is assigned.

use serde::{Deserialize, Serialize};

crate::named! {
    /// The names are those of the JSON.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Place {
        /// User mode.
        User = "user",
        /// Accepting and starting requests; io-wq workers' own work around a request.
        Submit = "submit",
        /// Copying between the application's memory and the kernel's.
        Copy = "copy",
        /// File systems, the page cache, and the calls that lead to them.
        FileSystem = "file_system",
        /// The block layer.
        BlockLayer = "block_layer",
        /// Device drivers, and the mapping of memory for their devices.
        Driver = "driver",
        /// Sockets and protocols.
        Network = "network",
        /// Page faults, and pinning the pages of a buffer.
        Memory = "memory",
        /// Polling for work: the SQPOLL thread's loop, polls of a device, epoll.
        Poll = "poll",
        /// Queueing task work and running it.
        TaskWork = "task_work",
        /// Waking threads and scheduling.
        WakeUpAndScheduling = "wake_up_and_scheduling",
        /// Entry to and exit from system calls.
        SyscallEntry = "syscall_entry",
        /// Entry to and exit from interrupts and softirqs, and the kernel's timers.
        Interrupt = "interrupt",
        /// Sending interrupts to other CPUs, and the functions that they run there.
        Ipi = "ipi",
        /// Active tracepoints and the BPF programs on them: the cost of iotrail and of other tracers.
        Tracing = "tracing",
        /// The CPU was idle.
        Idle = "idle",
        /// Code whose functions are in no table.
        Other = "other",
    }
}
