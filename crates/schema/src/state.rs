//! The state that the kernel keeps of threads, rings, sockets and the cgroup, read in samples: no probe is attached for it.

use serde::{Deserialize, Serialize};

use crate::account::Reason;

/// `state` of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Where it was read.
    pub source: StateSource,
    /// How often it was read while the program was traced.
    pub samples: u64,
    /// Mean time from one sample to the next; null: fewer than two.
    pub every_ns: Option<u64>,
    /// CPU time of all samples.
    pub cost_ns: u64,
    /// The rings that were met.
    pub rings: Vec<RingState>,
    /// What Nagle's algorithm held back; null: not read.
    pub nagle: Option<NagleState>,
    /// What limits of the cgroup held back; null: not read.
    pub cgroup: Option<CgroupState>,
    /// Before the probes were loaded; null: a command, or not read.
    pub start: Option<Moment>,
    /// At the end; null: no process was left, or not read.
    pub end: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateSource {
    /// Task iterators of BPF.
    Iterators,
    /// /proc/PID/fdinfo: rings only, without shares.
    Fdinfo,
}

/// One ring over all samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RingState {
    /// The process that was met with it.
    pub tgid: u32,
    /// Its descriptor there; null: none is open.
    pub fd: Option<u32>,
    /// Setup flags, by the names of `--ring`.
    pub flags: Vec<String>,
    /// Samples of the ring.
    pub samples: u64,
    /// Of them, with completions in the CQ while its threads slept, none of them in io_uring_enter(2).
    pub unreaped: u64,
    /// Of them, with task work pending while no thread was in io_uring_enter(2) for completions.
    pub unrun: u64,
    /// Of `unrun`, while all its threads slept.
    pub unrun_asleep: u64,
    /// The longest time in which task work was pending in each sample and nothing was posted.
    pub unrun_longest_ns: u64,
    /// The thread that has to run the task work; null: none was pending.
    pub runner: Option<u32>,
    /// Of them, with SQEs that the program had published and the kernel had not taken.
    pub unsubmitted: u64,
    /// Of `unsubmitted`, while the SQPOLL thread slept and had set IORING_SQ_NEED_WAKEUP.
    pub need_wakeup: u64,
    /// Of them, with completions in the overflow list.
    pub overflowed: u64,
    /// The most completions in the overflow list; null: not counted.
    pub most_overflowed: Option<u64>,
    /// The most requests at one time whose file only requests kept open; null: not counted.
    pub most_held: Option<u64>,
    /// The operation of the first of them; null: there was none.
    pub held_opcode: Option<String>,
    /// The least time left of a timeout on CLOCK_MONOTONIC; negative: it had passed; null: none was armed.
    pub least_timeout_ns: Option<i64>,
}

/// TCP sockets over all samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NagleState {
    /// The most TCP sockets at one time.
    pub sockets: u64,
    /// Samples with a short segment that waited for an acknowledgement, without TCP_NODELAY.
    pub held: u64,
    /// Of them, while all threads of the process slept.
    pub held_asleep: u64,
    /// The process of the socket that was held most often; null: none was.
    pub tgid: Option<u32>,
    /// That socket's descriptor.
    pub fd: Option<u32>,
    /// Samples in which it was held.
    pub fd_held: u64,
    /// The most bytes that waited in it.
    pub unsent_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupState {
    /// Samples with bios that `io.max` held back.
    pub throttled: u64,
    /// The most such bios at one time.
    pub most_bios: u64,
    /// Time that the CPU quota held threads back, summed over CPUs, by the process's own cgroup.
    pub quota_ns: u64,
}

/// Threads and rings at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// For this time at least no ring took a request or posted a completion; null: not read twice.
    pub still_ns: Option<u64>,
    /// Threads of the processes, those in io_uring_enter(2) first.
    pub threads: Vec<ThreadNow>,
    /// Threads that are not listed.
    pub more_threads: u64,
    /// Rings of the processes.
    pub rings: Vec<RingNow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadNow {
    /// Thread ID.
    pub tid: u32,
    /// Process ID.
    pub tgid: u32,
    /// Name.
    pub comm: String,
    /// The system call that it is in; null: none.
    pub syscall: Option<String>,
    /// What it waits for; null: it runs, or its stack was not read.
    pub reason: Option<Reason>,
    /// How long it has slept; null: it runs, or not known.
    pub asleep_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RingNow {
    /// The process that was met with it.
    pub tgid: u32,
    /// Its descriptor there; null: none is open.
    pub fd: Option<u32>,
    /// Setup flags, by the names of `--ring`; null: not known.
    pub flags: Option<Vec<String>>,
    /// Requests in flight; null: this kernel does not count them, or the ring is busy.
    pub in_flight: Option<u64>,
    /// Completions in the CQ.
    pub unreaped: u64,
    /// SQEs that are published and not taken.
    pub unsubmitted: u64,
    /// The SQPOLL thread sleeps, and has set IORING_SQ_NEED_WAKEUP.
    pub need_wakeup: bool,
    /// Task work is pending; null: not known.
    pub unrun: Option<bool>,
    /// The thread that has to run it; null: none is pending.
    pub runner: Option<u32>,
    /// Completions in the overflow list; null: not counted.
    pub overflowed: Option<u64>,
    /// Requests that wait for their file to become ready, by opcode.
    pub armed: Vec<ArmedRequests>,
    /// Timeouts that are armed; null: not counted.
    pub timeouts: Option<u64>,
    /// Time until the first timeout on CLOCK_MONOTONIC; negative: it has passed; null: none.
    pub soonest_timeout_ns: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmedRequests {
    /// The operation; `any`: not known by operation.
    pub opcode: String,
    /// Requests.
    pub requests: u64,
    /// Of them, those whose file only requests keep open; null: not known.
    pub held: Option<u64>,
    /// Descriptor of the first of them; null: a registered file, or not known.
    pub fd: Option<i32>,
    /// User data of the first of them, in hexadecimal; null: not known.
    pub user_data: Option<String>,
    /// They have been in flight for this time at least; null: not known.
    pub at_least_ns: Option<u64>,
}
