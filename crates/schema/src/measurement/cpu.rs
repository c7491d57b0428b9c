//! Division of the time of jobs and CPUs.

use serde::{Deserialize, Serialize};

use crate::place::Place;

/// Fractions of the jobs' wall time; they sum to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Share of time spent submitting.
    pub submit: f64,
    /// Share of time spent waiting or polling for completions.
    pub poll: f64,
    /// Share of time spent reaping completions.
    pub clear: f64,
    /// The remaining share.
    pub other: f64,
    /// Wall time of all jobs together.
    pub total_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// User time of the load's own threads, without SQPOLL, io-wq and glibc's helpers. Its sum with `system_ns` is
    /// exact. The kernel divides the two by ticks, at most `elapsed_ns` per thread. Null: unknown, the server is
    /// another program, or the kernel does not account CPU time per thread.
    pub user_ns: Option<u64>,
    /// System time of the same threads.
    pub system_ns: Option<u64>,
    /// CPU time of the SQPOLL threads; null if there are none.
    pub sqpoll_ns: Option<u64>,
    /// Number of times that the load woke an SQPOLL thread (IORING_ENTER_SQ_WAKEUP); null: no such thread.
    #[serde(default)]
    pub sqpoll_wakeups: Option<u64>,
    /// CPU time of the process's other helper threads: io-wq workers, glibc's helpers. Ended threads are included. It
    /// is the process's
    /// CPU time less the values above, exact to some tens of microseconds per thread.
    #[serde(default)]
    pub helpers_ns: Option<u64>,
}

/// Samples in one place, and their share with its 95 % interval (`stats::share`); null: too few samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// Place of the samples.
    pub place: Place,
    /// Number of samples.
    pub samples: u64,
    /// Share of `cpu_samples.taken`; null below 100 samples.
    pub share: Option<f64>,
    /// Lower end of the 95 % interval of `share`.
    pub lo: Option<f64>,
    /// Upper end of the 95 % interval of `share`.
    pub hi: Option<f64>,
}

/// How the CPUs were sampled. If paced by time, `expected` = `taken` + `elsewhere` + `lost`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSamples {
    /// `time` or `cycles`.
    pub clock: String,
    /// Requested samples per second per CPU.
    pub hz: u32,
    /// Time between two samples of a CPU; null: paced by cycles.
    pub period_ns: Option<u64>,
    /// Samples of the traced threads and idle samples of `idle_cpus`: the base of the shares. Sampling of a child of a
    /// traced program starts within 0.1 s, or when its first traced request ends.
    pub taken: u64,
    /// Samples of other programs, and of the idle time of other CPUs.
    pub elsewhere: u64,
    /// Samples that were not delivered, or did not fit into the map.
    pub lost: u64,
    /// Sampling periods in the span, over all CPUs; null: paced by cycles. A CPU whose timer fired at the very end may
    /// have one sample
    /// more.
    pub expected: Option<u64>,
    /// CPUs whose idle time is in the shares: the CPUs of the load, or if not pinned, those it ran on.
    pub idle_cpus: Vec<u32>,
    /// Innermost functions of samples whose place is `other`: at most ten, most frequent first.
    pub unplaced: Vec<FunctionSamples>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSamples {
    /// The kernel function.
    pub function: String,
    /// Number of samples in it.
    pub samples: u64,
}
