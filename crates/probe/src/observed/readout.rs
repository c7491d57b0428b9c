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
    /// Pending completions of threads that are off the CPU.
    pub parked: u64,
    /// Events dropped by the kernel's recursion guard, per program.
    pub misses: BTreeMap<&'static str, u64>,
    /// Delivery paths if requests are not traced; otherwise each ring has its own.
    pub deliveries: Vec<(types::delivery_key, u64)>,
    pub irqs: Vec<(u32, u32, types::irq_count)>,
    pub returns: Vec<(types::return_key, u64)>,
    pub ipis: Vec<(types::ipi_key, u64)>,
    /// If requests are traced: rings and contexts by number, followed by the sums of the others.
    pub rings: Vec<RawRing>,
    /// Rings reported among the others that stay in the maps, by number.
    pub among_others: Vec<(u32, Counted)>,
    /// Counts of rings that were already reported and removed from `rings`.
    pub forgotten: Counted,
    /// A native aio context was found.
    pub native_aio: bool,
    pub processes: Vec<Process>,
    pub more_processes: u64,
    /// Traced requests in flight at the end, except those with IOSQE_CQE_SKIP_SUCCESS.
    pub open: Vec<types::trail>,
    /// Windows of the costly programs, if these were attached only part of the time.
    pub sampled_events: Option<SampledEvents>,
    /// Windows of all programs, if the trace switched to windows because of its cost.
    pub light: Option<SampledEvents>,
    /// Counts by window, if counts were extrapolated.
    pub window_counts: Option<(WindowCounts, Known)>,
    /// io-wq workers: number created, and maximum at a time.
    pub workers: (u64, u64),
    /// Requests that ended although the program did not cancel them, and were not submitted again.
    pub disarmed: Vec<(types::armed_key, types::disarmed)>,
    /// Traced requests without a completion at the end: those with IOSQE_CQE_SKIP_SUCCESS, and others.
    pub skipped: u64,
    pub unfinished: u64,
    pub unreaped: u64,
    pub overflowed: u64,
}

impl Raw {
    /// Windows from which a number is estimated; `None` if it was counted throughout.
    pub fn events(&self, sampled: Sampled) -> Option<&SampledEvents> {
        if sampled.is_costly() { self.sampled_events.as_ref() } else { self.light.as_ref() }
    }
}
