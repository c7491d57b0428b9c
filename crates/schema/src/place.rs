//! The part of the kernel to which a CPU sample is assigned.

use serde::{Deserialize, Serialize};

/// The names are those of the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// User mode.
    User,
    /// Accepting and starting requests; io-wq workers' own work around a request.
    Submit,
    /// Copying between the application's memory and the kernel's.
    Copy,
    /// File systems, the page cache, and the calls that lead to them.
    FileSystem,
    /// The block layer.
    BlockLayer,
    /// Device drivers, and the mapping of memory for their devices.
    Driver,
    /// Sockets and protocols.
    Network,
    /// Page faults, and pinning the pages of a buffer.
    Memory,
    /// Polling for work: the SQPOLL thread's loop, polls of a device, epoll.
    Poll,
    /// Queueing task work and running it.
    TaskWork,
    /// Waking threads and scheduling.
    WakeUpAndScheduling,
    /// Entry to and exit from system calls.
    SyscallEntry,
    /// Entry to and exit from interrupts and softirqs, and the kernel's timers.
    Interrupt,
    /// Sending interrupts to other CPUs, and the functions that they run there.
    Ipi,
    /// Active tracepoints and the BPF programs on them: the cost of iotrail and of other tracers.
    Tracing,
    /// The CPU was idle.
    Idle,
    /// Code whose functions are in no table.
    Other,
}

impl Place {
    pub const ALL: [Place; 17] = [
        Place::User,
        Place::Submit,
        Place::Copy,
        Place::FileSystem,
        Place::BlockLayer,
        Place::Driver,
        Place::Network,
        Place::Memory,
        Place::Poll,
        Place::TaskWork,
        Place::WakeUpAndScheduling,
        Place::SyscallEntry,
        Place::Interrupt,
        Place::Ipi,
        Place::Tracing,
        Place::Idle,
        Place::Other,
    ];

    /// The stable name, as in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Place::User => "user",
            Place::Submit => "submit",
            Place::Copy => "copy",
            Place::FileSystem => "file_system",
            Place::BlockLayer => "block_layer",
            Place::Driver => "driver",
            Place::Network => "network",
            Place::Memory => "memory",
            Place::Poll => "poll",
            Place::TaskWork => "task_work",
            Place::WakeUpAndScheduling => "wake_up_and_scheduling",
            Place::SyscallEntry => "syscall_entry",
            Place::Interrupt => "interrupt",
            Place::Ipi => "ipi",
            Place::Tracing => "tracing",
            Place::Idle => "idle",
            Place::Other => "other",
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
