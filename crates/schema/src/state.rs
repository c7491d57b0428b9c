//! The state that the kernel keeps of threads, rings, sockets and the cgroup. iotrail samples it without attaching a probe.

use serde::{Deserialize, Serialize};

use crate::account::Reason;

/// `state` of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// How the state was read.
    pub source: StateSource,
    /// Number of samples while the program was traced.
    pub samples: u64,
    /// Mean time between samples; null: fewer than two.
    pub every_ns: Option<u64>,
    /// CPU time of all samples.
    pub cost_ns: u64,
    /// The rings that the samples found.
    pub rings: Vec<RingState>,
    /// Data delayed by Nagle's algorithm; null: not read.
    pub nagle: Option<NagleState>,
    /// The socket whose data stayed unread longest; omitted: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<UnreadSocket>,
    /// The socket that dropped the most datagrams or connections; omitted: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<SocketDrops>,
    /// The small send buffer that senders waited for most often; omitted: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<SendBuffer>,
    /// Minor page faults of the threads between the first and the last sample; omitted: none.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub faults: u64,
    /// I/O and threads throttled by cgroup limits; null: not read.
    pub cgroup: Option<CgroupState>,
    /// The memory limit of its cgroups that evicted the most file pages; omitted: none was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryLimit>,
    /// The longest wait of at least 1 s for a file lock, pipe, send buffer or futex; omitted: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<StuckWait>,
    /// The longest sleeps (1 s or more) in calls that another thread or process has to end; omitted: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<LongWait>,
    /// Before the probes were loaded; null: the trace started a command, or not read.
    pub start: Option<Moment>,
    /// At the end; null: no process remained, or not read.
    pub end: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateSource {
    /// BPF task iterators.
    Iterators,
    /// /proc/PID/fdinfo: only rings, without shares.
    Fdinfo,
}

/// One ring over all samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RingState {
    /// A process that has it open.
    pub tgid: u32,
    /// Its descriptor in that process; null: none is open.
    pub fd: Option<u32>,
    /// Setup flags, by the names of `--ring`.
    pub flags: Vec<String>,
    /// Number of samples of the ring.
    pub samples: u64,
    /// Samples with completions in the CQ while its threads slept outside io_uring_enter(2).
    pub unreaped: u64,
    /// Samples in which task work was pending while no thread was waiting in io_uring_enter(2).
    pub unrun: u64,
    /// Part of `unrun`: all its threads were sleeping.
    pub unrun_asleep: u64,
    /// Longest time during which each sample showed pending task work and no completion was posted.
    pub unrun_longest_ns: u64,
    /// The thread that must run the task work; null: none was pending.
    pub runner: Option<u32>,
    /// Samples with SQEs that were published but not yet consumed by the kernel.
    pub unsubmitted: u64,
    /// Part of `unsubmitted`: the SQPOLL thread was sleeping and had set IORING_SQ_NEED_WAKEUP.
    pub need_wakeup: u64,
    /// Samples with completions in the overflow list.
    pub overflowed: u64,
    /// Maximum number of completions in the overflow list; null: not counted.
    pub most_overflowed: Option<u64>,
    /// Maximum number of requests whose file is kept open only by requests; null: not counted.
    pub most_held: Option<u64>,
    /// Operation of the first such request; null: there was none.
    pub held_opcode: Option<String>,
    /// Shortest remaining time of a CLOCK_MONOTONIC timeout; negative: expired; null: none was armed.
    pub least_timeout_ns: Option<i64>,
    /// Time that its threads had waited at the last deep sample with no request in flight.
    #[serde(default)]
    pub starved_ns: u64,
    /// Number of completions awaited.
    #[serde(default)]
    pub starved_for: u64,
    /// The wait may have a timeout.
    #[serde(default)]
    pub starved_limited: bool,
}

/// TCP sockets over all samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NagleState {
    /// Maximum number of concurrent TCP sockets.
    pub sockets: u64,
    /// Samples in which a short segment waited for an acknowledgement without TCP_NODELAY, or was `corked`.
    pub held: u64,
    /// Part of `held`: all threads of the process were sleeping.
    pub held_asleep: u64,
    /// Part of `held`: nothing was to be acknowledged, so MSG_MORE or TCP_CORK delayed the segment.
    #[serde(default)]
    pub corked: u64,
    /// Process of the socket that was delayed most often; null: none was.
    pub tgid: Option<u32>,
    /// That socket's descriptor.
    pub fd: Option<u32>,
    /// Samples in which that socket was delayed.
    pub fd_held: u64,
    /// Maximum number of bytes waiting in it.
    pub unsent_bytes: u64,
}

/// A socket with unread data or connections, while a thread waits for events or completions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadSocket {
    /// Why they stay unread.
    #[serde(default)]
    pub because: Unread,
    /// Its process.
    pub tgid: u32,
    /// Its descriptor.
    pub fd: u32,
    /// Unread bytes; for a listening socket, connections.
    pub bytes: u64,
    /// Backlog of a listening socket; omitted: it does not listen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// Time for which the number of bytes did not change, or connections waited.
    pub for_ns: u64,
    /// Whether they were still unread in the last sample.
    pub at_end: bool,
    /// The thread that sleeps.
    pub tid: u32,
    /// Its name.
    pub comm: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unread {
    /// A read consumed a part of the data, and EPOLLET does not report the rest.
    #[default]
    Partly,
    /// EPOLLET does not report the connections that remain in the accept queue.
    Unaccepted,
    /// The ring has no request in flight, except timeouts.
    NotArmed,
    /// No accept is in flight, and no epoll watches the socket.
    NotAccepting,
    /// EPOLLONESHOT has disabled the descriptor's events.
    Disarmed,
}

/// A socket that dropped datagrams or connections while the program was traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketDrops {
    /// Its process.
    pub tgid: u32,
    /// Its descriptor.
    pub fd: u32,
    /// Dropped datagrams, or connections if it listens.
    pub dropped: u64,
    /// Whether it listens.
    pub listens: bool,
    /// Bytes of its receive buffer, or the backlog if it listens.
    pub limit: u64,
    /// Whether the program set the size of the buffer.
    pub is_set: bool,
}

/// A TCP send buffer with a size set by the program. Senders waited for space in it while all its bytes were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendBuffer {
    /// The process.
    pub tgid: u32,
    /// The descriptor.
    pub fd: u32,
    /// Size of the buffer in bytes.
    pub bytes: u64,
    /// Samples in which a sender waited.
    pub samples: u64,
    /// Part of `samples`: all threads of the process were sleeping.
    pub asleep: u64,
}

/// A long sleep in a call that only another thread or process can end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongWait {
    /// Thread ID.
    pub tid: u32,
    /// Process ID.
    pub tgid: u32,
    /// Name.
    pub comm: String,
    /// The system call.
    pub syscall: String,
    /// Why it is blocked.
    pub reason: Reason,
    /// The pipe, socket or locked file; null: the call waits for a child or another thread.
    pub fd: Option<u32>,
    /// Time that it had slept in the last deep sample.
    pub for_ns: u64,
    /// Processes that can end the wait: with the other end open, the children, or with the lock.
    pub by: Vec<NamedProcess>,
    /// The thread that owns the lock; null: it waits for something else.
    pub owner: Option<u32>,
    /// None of them can end the wait: their threads wait for each other, or the owner has exited.
    pub cannot_end: bool,
}

/// A process that can end a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedProcess {
    /// Process ID.
    pub tgid: u32,
    /// Name.
    pub comm: String,
    /// System call in which its thread has been asleep longest; null: not traced, or it runs.
    pub syscall: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupState {
    /// Samples with bios throttled by `io.max`.
    pub throttled: u64,
    /// Maximum number of such bios in one sample.
    pub most_bios: u64,
    /// Time that threads were throttled by the CPU quota of the process's own cgroup, summed over CPUs.
    pub quota_ns: u64,
}

/// A memory limit of a cgroup, and its effects while the program was traced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// Directory of the cgroup.
    pub cgroup: String,
    /// `memory.max`, or `memory.limit_in_bytes` of version 1.
    pub limit_bytes: u64,
    /// Number of times that the cgroup reached the limit.
    pub reached: u64,
    /// Bytes of files that were read again after the cgroup had evicted them.
    pub refaulted_bytes: u64,
}

/// A thread that is blocked by a file lock, a full pipe or a full send buffer, or in futex(2) like all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StuckWait {
    /// Thread ID.
    pub tid: u32,
    /// Process ID.
    pub tgid: u32,
    /// Name.
    pub comm: String,
    /// Its system call.
    pub syscall: String,
    /// The descriptor of the call; null: none.
    pub fd: Option<u32>,
    /// `file_lock`, `pipe_full`, `socket_space` or `futex`.
    pub reason: Reason,
    /// Time since it went to sleep.
    pub for_ns: u64,
    /// Number of threads blocked for this reason for at least 1 s each; with `futex`, all threads.
    pub threads: u64,
    /// The process that holds the lock or can read the pipe; null: not found.
    pub by: Option<NamedProcess>,
}

/// Threads and rings at one point in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Lower bound of the time without a submission or completion on any ring; null: not read twice.
    pub still_ns: Option<u64>,
    /// Threads of the processes, threads in io_uring_enter(2) first.
    pub threads: Vec<ThreadNow>,
    /// Number of unlisted threads.
    pub more_threads: u64,
    /// Rings of the processes.
    pub rings: Vec<RingNow>,
    /// Sockets with unread data that no event reports; omitted: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadSocket>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadNow {
    /// Thread ID.
    pub tid: u32,
    /// Process ID.
    pub tgid: u32,
    /// Name.
    pub comm: String,
    /// Its current system call; null: none.
    pub syscall: Option<String>,
    /// Why it is blocked; null: it is running, or its stack was not read.
    pub reason: Option<Reason>,
    /// Time since it went to sleep; null: it is running, or not known.
    pub asleep_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RingNow {
    /// A process that has it open.
    pub tgid: u32,
    /// Its descriptor in that process; null: none is open.
    pub fd: Option<u32>,
    /// Setup flags, by the names of `--ring`; null: not known.
    pub flags: Option<Vec<String>>,
    /// Requests in flight; null: this kernel does not count them, or the ring was busy.
    pub in_flight: Option<u64>,
    /// Completions in the CQ.
    pub unreaped: u64,
    /// SQEs that are published but not yet consumed.
    pub unsubmitted: u64,
    /// Whether the SQPOLL thread is sleeping and has set IORING_SQ_NEED_WAKEUP.
    pub need_wakeup: bool,
    /// Whether task work is pending; null: not known.
    pub unrun: Option<bool>,
    /// The thread that must run it; null: none is pending.
    pub runner: Option<u32>,
    /// Completions in the overflow list; null: not counted.
    pub overflowed: Option<u64>,
    /// Requests that wait for their file to become ready, by opcode.
    pub armed: Vec<ArmedRequests>,
    /// Number of armed timeouts; null: not counted.
    pub timeouts: Option<u64>,
    /// Time until the first timeout on CLOCK_MONOTONIC; negative: it has passed; null: none.
    pub soonest_timeout_ns: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmedRequests {
    /// The operation; `any`: not known per operation.
    pub opcode: String,
    /// Number of requests.
    pub requests: u64,
    /// Requests whose file is kept open only by requests; null: not known.
    pub held: Option<u64>,
    /// Descriptor of the first request; null: a registered file, or not known.
    pub fd: Option<i32>,
    /// User data of the first request, in hexadecimal; null: not known.
    pub user_data: Option<String>,
    /// Lower bound of the time that they have been in flight; null: not known.
    pub at_least_ns: Option<u64>,
}
