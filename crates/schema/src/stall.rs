//! Stalls that `iotrail monitor` captured: these types are the JSON schemas `iotrail.stalls/1` and `iotrail.capture/1`.

use serde::{Deserialize, Serialize};

use crate::account::Reason;
use crate::state::Moment;
use crate::trace_record::TraceRecord;

pub const SCHEMA: &str = "iotrail.stalls/1";
pub const CAPTURE: &str = "iotrail.capture/1";

/// `iotrail stalls --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallList {
    /// `iotrail.stalls/1`.
    pub schema: String,
    /// Stalls, newest first.
    pub stalls: Vec<Stall>,
}

crate::named! {
    /// The condition that identifies a stall.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Trigger {
        /// Requests are in flight, but the ring posts no completions.
        SlowRequest = "slow_request",
        /// A thread is sleeping in io_uring_enter(2) although its CQ contains the completions that it awaits.
        AsleepWithCompletions = "asleep_with_completions",
        /// A thread sleeps in io_uring_enter(2) with too few completions in the CQ, and none arrives.
        WaitsForMore = "waits_for_more",
        /// Completions stay in the CQ while no thread waits for them.
        Unreaped = "unreaped",
        /// Task work is pending, but its thread does not run it.
        TaskWorkWaits = "task_work_waits",
        /// The timeout of a request or a wait has expired, but the request or wait has not ended.
        LateTimer = "late_timer",
        /// Completions are in the overflow list.
        Overflow = "overflow",
        /// SQEs are published, but no thread submits them.
        Unsubmitted = "unsubmitted",
        /// The SQPOLL thread is sleeping although SQEs are published.
        SqpollAsleep = "sqpoll_asleep",
        /// The SQPOLL thread does not sleep although it finds nothing to submit.
        SqpollSpins = "sqpoll_spins",
        /// A thread is sleeping in a system call that submits.
        BlockedSubmission = "blocked_submission",
        /// A thread is sleeping in a system call that syncs a file.
        SlowSync = "slow_sync",
        /// The cgroup's io.max throttles bios.
        ThrottledIo = "throttled_io",
        /// The cgroup's CPU quota throttles threads.
        ThrottledCpu = "throttled_cpu",
        /// A thread with work to do for a ring is ready to run, but no CPU runs it.
        WaitsForCpu = "waits_for_cpu",
        /// Writes or syncs failed during a window of the counting probes.
        WriteErrors = "write_errors",
        /// More requests per second than allowed were punted to io-wq, during a window of the counting probes.
        Punts = "punts",
        /// A --when expression is true.
        When = "when",
    }
}

/// One stall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// The condition that identified it.
    pub trigger: Trigger,
    /// Wall-clock time of the first sample that showed it.
    pub began_unix_ns: u64,
    /// Time from the first sample that showed it to the last.
    pub lasted_ns: u64,
    /// Whether it was over when the monitor wrote this.
    pub is_over: bool,
    /// The stalled process.
    pub process: StalledProcess,
    /// The ring's file descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<u32>,
    /// Thread ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// The cause in a few words.
    pub cause: String,
    /// A sentence that explains it.
    pub text: String,
    /// Path of the capture file.
    pub capture: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StalledProcess {
    /// Process ID; 0: the stall does not belong to a single process.
    pub tgid: u32,
    /// Name.
    pub comm: String,
    /// Path of its cgroup; null: not known.
    pub cgroup: Option<String>,
}

/// A file in the capture directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    /// `iotrail.capture/1`.
    pub schema: String,
    /// The stall.
    pub stall: Stall,
    /// Mean time between the samples below; null: fewer than two.
    pub sample_ns: Option<u64>,
    /// Samples of the ring before and after the trigger; times are relative to the trigger.
    pub rings: Vec<RingSample>,
    /// The process's threads in the same samples.
    pub threads: Vec<ThreadSample>,
    /// The process's threads and rings when the trigger fired; null: the process had exited.
    pub moment: Option<Moment>,
    /// Kernel stacks of its sleeping threads when the trigger fired.
    pub stacks: Vec<SleepStack>,
    /// Threads that ran between the trigger and the end of the capture, longest first.
    pub ran: Vec<Ran>,
    /// Time between the trigger and the end of the capture; null: not known.
    #[serde(default)]
    pub ran_during_ns: Option<u64>,
    /// The trace of the process after the trigger; null: not traced.
    pub trace: Option<Box<TraceRecord>>,
    /// Why it was not traced; null if it was.
    pub not_traced: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingSample {
    /// Time since the trigger; negative: before it.
    pub at_ns: i64,
    /// Descriptor; null: none is open.
    pub fd: Option<u32>,
    /// SQEs consumed by the kernel, mod 2³².
    pub taken: u32,
    /// Completions posted by the kernel, mod 2³².
    pub posted: u32,
    /// Completions in the CQ.
    pub unreaped: u32,
    /// SQEs that are published but not yet consumed.
    pub unsubmitted: u32,
    /// Whether task work is pending.
    pub has_task_work: bool,
    /// Whether completions are in the overflow list.
    pub has_overflowed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSample {
    /// Time since the trigger; negative: before it.
    pub at_ns: i64,
    /// Thread ID.
    pub tid: u32,
    /// False: it was running or runnable.
    pub asleep: bool,
    /// The system call that it was in; null: none.
    pub syscall: Option<String>,
    /// Why it was sleeping; null: it was not sleeping, or its stack was not read.
    pub reason: Option<Reason>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SleepStack {
    /// Thread ID.
    pub tid: u32,
    /// Name.
    pub comm: String,
    /// Functions, innermost first.
    pub functions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// Thread ID.
    pub tid: u32,
    /// Process ID.
    pub tgid: u32,
    /// Name.
    pub comm: String,
    /// The CPU on which it last ran.
    pub cpu: u32,
    /// Time on a CPU.
    pub ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_name_of_a_trigger_is_its_displayed_name() {
        for trigger in Trigger::ALL {
            assert_eq!(serde_json::to_value(trigger).unwrap(), trigger.name());
        }
    }
}
