//! Where the time of jobs and CPUs went.

use serde::{Deserialize, Serialize};

use crate::place::Place;

/// Fractions of the jobs' wall time; they sum to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    pub submit: f64,
    pub poll: f64,
    pub clear: f64,
    pub other: f64,
    /// Wall time of all jobs together.
    pub total_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Of the load's own threads, helpers of the interface (SQPOLL, io-wq, glibc's) not included; null where they are not known: a
    /// server's that is none of ours, or whose kernel keeps no CPU time of single threads.
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
    /// CPU time of the SQPOLL threads; null without them.
    pub sqpoll_ns: Option<u64>,
    /// Times that the load had to wake an SQPOLL thread which had gone to sleep (io_uring_enter with IORING_ENTER_SQ_WAKEUP); null
    /// without one.
    #[serde(default)]
    pub sqpoll_wakeups: Option<u64>,
    /// CPU time of the process's other helper threads, those that have ended included: io-wq workers, glibc's helpers. What the
    /// process's threads took in all, less the figures above: so to some tens of microseconds a thread.
    #[serde(default)]
    pub helpers_ns: Option<u64>,
}

/// Samples that fell on one place, and their share of all that were taken with its 95 % interval (`stats::share`); null where too few
/// were taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    pub place: Place,
    pub samples: u64,
    pub share: Option<f64>,
    pub lo: Option<f64>,
    pub hi: Option<f64>,
}

/// How the CPUs were sampled. Paced by time, `expected` = `taken` + `elsewhere` + `lost`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSamples {
    /// `time` or `cycles`.
    pub clock: String,
    /// Samples per second and CPU that were asked for.
    pub hz: u32,
    /// Between two samples of a CPU; null: paced by cycles.
    pub period_ns: Option<u64>,
    /// What the shares are of: samples of the watched threads, on any CPU, and of the idle task on `idle_cpus`.
    pub taken: u64,
    /// Other programs' samples, and idle ones of other CPUs.
    pub elsewhere: u64,
    /// Samples that did not come, or found no room to be kept in.
    pub lost: u64,
    /// Samples that the span had periods for, over all CPUs; null: paced by cycles.
    pub expected: Option<u64>,
    /// CPUs whose idle time is in the shares: the load's, or, where it is not pinned, those that it was seen on.
    pub idle_cpus: Vec<u32>,
    /// Innermost functions of samples whose place is `other`, the most frequent first, ten at most.
    pub unplaced: Vec<FunctionSamples>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSamples {
    pub function: String,
    pub samples: u64,
}
