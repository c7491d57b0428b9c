//! One reading of the counters.

use std::collections::BTreeMap;

use crate::counted::{Counted, RawRing};
use crate::observed::window_counts::{Known, WindowCounts};
use crate::rings::Process;
use crate::sampled_events::{Sampled, SampledEvents};
use crate::skel::types;

/// One reading of the counters.
#[derive(Default, Clone)]
pub(crate) struct Raw {
    pub slots: Vec<types::cpu_slot>,
    /// Completions whose thread is off the CPU.
    pub parked: u64,
    /// Events dropped by the kernel's recursion guard, by program.
    pub misses: BTreeMap<&'static str, u64>,
    /// If requests are not traced; otherwise they are the rings'.
    pub deliveries: Vec<(types::delivery_key, u64)>,
    pub irqs: Vec<(u32, u32, types::irq_count)>,
    pub returns: Vec<(types::return_key, u64)>,
    pub ipis: Vec<(types::ipi_key, u64)>,
    /// If requests are traced: each ring and context in the order of its number, then the sums of the others.
    pub rings: Vec<RawRing>,
    /// Of these, the ones that are reported among the others and stay in the maps, by number.
    pub among_others: Vec<(u32, Counted)>,
    /// Of rings that are not in `rings`: reported before.
    pub forgotten: Counted,
    /// A context of native aio was found.
    pub native_aio: bool,
    pub processes: Vec<Process>,
    pub more_processes: u64,
    /// Traced requests in flight at the end, without those that request no completion.
    pub open: Vec<types::trail>,
    /// Some programs were attached only a part of the time.
    pub sampled_events: Option<SampledEvents>,
    /// All programs were, because they cost too much.
    pub light: Option<SampledEvents>,
    /// Multiplied counts, and their factor.
    pub window_counts: Option<(WindowCounts, Known)>,
    /// Io-wq workers: created, and the maximum at one time.
    pub workers: (u64, u64),
    /// Traced requests without a completion at the end: those that request none, and the others.
    pub skipped: u64,
    pub unfinished: u64,
    pub unreaped: u64,
    pub overflowed: u64,
}

impl Raw {
    /// The windows of an estimated number; `None`: counted all the time.
    pub fn events(&self, sampled: Sampled) -> Option<&SampledEvents> {
        if sampled.is_costly() { self.sampled_events.as_ref() } else { self.light.as_ref() }
    }
}
