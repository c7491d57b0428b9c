//! How the CPUs are sampled.

iotrail_schema::named! {
    /// Event that paces the samples.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Clock {
        /// perf's cpu-clock, a timer per CPU: works everywhere, and samples idle. A section with interrupts disabled is
        /// sampled when they are enabled again.
        Time = "time",
        /// The hardware cycle counter with an NMI: samples sections with interrupts disabled, but not idle (a halted CPU
        /// counts no cycles). Unavailable in most virtual machines.
        Cycles = "cycles",
    }
}

/// How to sample the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    pub clock: Clock,
    /// Samples per second per CPU.
    pub hz: u32,
}

pub(crate) fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz)
}
