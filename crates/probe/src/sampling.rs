//! How the CPUs are sampled.

/// The pace of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// perf's cpu-clock, a timer on each CPU: everywhere, idle included. It cannot fire while interrupts are off: what runs
    /// then is sampled where they come on again.
    Time,
    /// The hardware's cycle counter, by an interrupt that cannot be held off: sees code with interrupts off, but not idle (a
    /// halted CPU counts no cycles), and is not there in most virtual machines.
    Cycles,
}

impl Clock {
    pub fn name(self) -> &'static str {
        match self {
            Clock::Time => "time",
            Clock::Cycles => "cycles",
        }
    }
}

/// How the CPUs are to be sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    pub clock: Clock,
    /// Samples per second and CPU.
    pub hz: u32,
}

pub(crate) fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz)
}
