//! Where the time of jobs and CPUs went.

use serde::{Deserialize, Serialize};

use crate::place::Place;

/// Fractions of the jobs' wall time; they sum to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Share of the time in submission.
    pub submit: f64,
    /// Share of the time waiting or looking for completions.
    pub poll: f64,
    /// Share of the time taking completions out of the queue.
    pub clear: f64,
    /// The rest.
    pub other: f64,
    /// Wall time of all jobs together.
    pub total_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// User time of the load's own threads, without SQPOLL, io-wq and glibc's helpers. The sum with `system_ns` is exact, the split is
    /// by the kernel's ticks, and it is never more than `elapsed_ns` a thread. Null where it is not known: a server of another program,
    /// or a kernel that keeps no CPU time of single threads.
    pub user_ns: Option<u64>,
    /// System time of the same threads.
    pub system_ns: Option<u64>,
    /// CPU time of the SQPOLL threads; null without them.
    pub sqpoll_ns: Option<u64>,
    /// How often the load woke an SQPOLL thread (IORING_ENTER_SQ_WAKEUP); null without one.
    #[serde(default)]
    pub sqpoll_wakeups: Option<u64>,
    /// CPU time of the process's other helper threads: io-wq workers, glibc's helpers. Those that have ended are included. It is what
    /// the process's threads took in all less the figures above: right to some tens of microseconds a thread.
    #[serde(default)]
    pub helpers_ns: Option<u64>,
}

/// Samples that fell on one place, and their share of all that were taken with its 95 % interval (`stats::share`); null where too few
/// were taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// Where the samples fell.
    pub place: Place,
    /// How many.
    pub samples: u64,
    /// Share of `cpu_samples.taken`; null below 100 samples.
    pub share: Option<f64>,
    /// Lower end of its 95 % interval.
    pub lo: Option<f64>,
    /// Upper end of its 95 % interval.
    pub hi: Option<f64>,
}

/// How the CPUs were sampled. Paced by time, `expected` = `taken` + `elsewhere` + `lost`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSamples {
    /// `time` or `cycles`.
    pub clock: String,
    /// Samples per second and CPU that were asked for.
    pub hz: u32,
    /// Time between two samples of a CPU; null: paced by cycles.
    pub period_ns: Option<u64>,
    /// What the shares are of: samples of the watched threads, and idle ones of `idle_cpus`. A child of a traced program is sampled
    /// from when it is first met: within 0.1 s, or when its first followed request has ended.
    pub taken: u64,
    /// Samples of other programs, and of other CPUs' idle time.
    pub elsewhere: u64,
    /// Samples that did not come, or found no room to be kept in.
    pub lost: u64,
    /// Samples that the span had periods for, over all CPUs; null: paced by cycles. One more of a CPU whose timer fired at the very end
    /// may have been taken.
    pub expected: Option<u64>,
    /// CPUs whose idle time is in the shares. They are the load's, or, where it is not pinned, those that it was seen on.
    pub idle_cpus: Vec<u32>,
    /// Innermost functions of samples whose place is `other`, ten at most. The most frequent come first.
    pub unplaced: Vec<FunctionSamples>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSamples {
    /// The kernel function.
    pub function: String,
    /// How many samples fell into it.
    pub samples: u64,
}
