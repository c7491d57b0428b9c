//! The counters as they were read.

use std::collections::BTreeMap;

use crate::counted::{Counted, RawRing};
use crate::observed::window_counts::{Known, WindowCounts};
use crate::rings::Process;
use crate::sampled_events::{Sampled, SampledEvents};
use crate::skel::types;

/// The counters as they were read.
#[derive(Default, Clone)]
pub(crate) struct Raw {
    pub slots: Vec<types::cpu_slot>,
    /// Completions whose thread is off the CPU.
    pub parked: u64,
    /// Events dropped by the kernel's recursion guard, by program.
    pub misses: BTreeMap<&'static str, u64>,
    /// Where requests are not followed; else they are the rings'.
    pub deliveries: Vec<(types::delivery_key, u64)>,
    pub irqs: Vec<(u32, u32, types::irq_count)>,
    pub returns: Vec<(types::return_key, u64)>,
    pub ipis: Vec<(types::ipi_key, u64)>,
    /// Where requests are followed: each ring and context in the order of its number, then the others.
    pub rings: Vec<RawRing>,
    /// Of these, what is told among the others and stays in the maps, by number.
    pub among_others: Vec<(u32, Counted)>,
    /// Of those that are in none of `rings`: told before.
    pub forgotten: Counted,
    /// A context of native aio was met.
    pub native_aio: bool,
    pub processes: Vec<Process>,
    pub more_processes: u64,
    /// Followed requests in flight at the end, those that ask for no completion left out.
    pub open: Vec<types::trail>,
    /// Some programs were attached a part of the time.
    pub sampled_events: Option<SampledEvents>,
    /// All programs were, since they cost too much.
    pub light: Option<SampledEvents>,
    /// Counts that were multiplied, and what they were multiplied by.
    pub window_counts: Option<(WindowCounts, Known)>,
    /// Io-wq workers: made, and most at one time.
    pub workers: (u64, u64),
    /// Followed requests without a completion at the end: those that ask for none, and the others.
    pub skipped: u64,
    pub unfinished: u64,
    pub unreaped: u64,
    pub overflowed: u64,
}

impl Raw {
    /// What this number is estimated from; `None`: it was counted all the time.
    pub fn events(&self, sampled: Sampled) -> Option<&SampledEvents> {
        if sampled.is_costly() { self.sampled_events.as_ref() } else { self.light.as_ref() }
    }
}
