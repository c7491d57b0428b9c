//! Traced requests of one ring or of none.

use std::collections::BTreeMap;

use crate::threads::Submitters;
use iotrail_base::error::errno_name;
use iotrail_path::reaped::Stays;
use iotrail_path::times::{Delays, Times};
use iotrail_path::waits::{self, Limit};
use iotrail_probe::rings::OpcodeCounts;
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::opcode;
use iotrail_schema::trace_record::{ErrnoCount, Estimate, OpcodeRecord, RunItems};
use iotrail_schema::trail::RequestTrace;
use iotrail_stats::estimate::{self, Stratum};

/// Completions posted by runs of one size.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    completions: u64,
    /// Sum of their weights.
    estimated: u64,
}

/// Traced requests of one ring or of none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    pub by_opcode: BTreeMap<String, Times>,
    pub delays: Delays,
    pub stays: Stays,
    /// By the run's number of items.
    run_items: BTreeMap<u32, Run>,
    /// The thread that submitted last.
    pub tid: u32,
    /// The first failed completion by opcode and errno.
    errors: BTreeMap<(String, i32), FirstError>,
    pub threads: Submitters,
}

/// A traced completion that failed.
#[derive(Debug, Clone, Copy)]
struct FirstError {
    posted_ns: u64,
    user_data: u64,
}

impl Part {
    pub fn times(&self) -> Times {
        let mut sum = Times::default();
        self.by_opcode.values().for_each(|times| sum.add(times));
        sum
    }

    pub fn add(&mut self, other: &Part) {
        for (opcode, times) in &other.by_opcode {
            self.by_opcode.entry(opcode.clone()).or_default().add(times);
        }
        self.delays.add(&other.delays);
        self.stays.add(&other.stays);
        for (items, run) in &other.run_items {
            let sum = self.run_items.entry(*items).or_default();
            sum.completions += run.completions;
            sum.estimated += run.estimated;
        }
        for ((opcode, errno), first) in &other.errors {
            self.failed(opcode, *errno, *first);
        }
        self.threads.add(&other.threads);
    }

    /// Adds a completion whose run had this many items.
    pub fn carried_by_run(&mut self, items: u32, weight: u32) {
        let run = self.run_items.entry(items).or_default();
        run.completions += 1;
        run.estimated += u64::from(weight.max(1));
    }

    /// Records a failed completion. Trails arrive per CPU, so not exactly in the order of posting.
    pub fn take_error(&mut self, trail: &RequestTrace) {
        if trail.result < 0 {
            let first = FirstError { posted_ns: trail.posted.ns, user_data: trail.user_data };
            self.failed(&trail.opcode, trail.result.saturating_neg(), first);
        }
    }

    fn failed(&mut self, opcode: &str, errno: i32, first: FirstError) {
        let known = self.errors.entry((opcode.to_owned(), errno)).or_insert(first);
        if first.posted_ns < known.posted_ns {
            *known = first;
        }
    }

    /// The exact counts with the delays of the traced completions.
    pub fn vehicles(&self, counts: &[DeliveryPathCount]) -> Vec<DeliveryPathCount> {
        self.delays.beside(counts)
    }

    pub fn run_items(&self) -> Vec<RunItems> {
        let record = |(items, run): (&u32, &Run)| RunItems {
            items: *items,
            completions: run.completions,
            estimated: Some(run.estimated),
        };
        self.run_items.iter().map(record).collect()
    }

    /// `one_in`: as in [`Durations::latency`].
    pub fn opcode(&self, counts: &OpcodeCounts, one_in: u32) -> OpcodeRecord {
        let none = Times::default();
        let times = self.by_opcode.get(&counts.opcode).unwrap_or(&none);
        OpcodeRecord {
            short: opcode::is(&counts.opcode, opcode::SIZED).then_some(counts.shorts),
            held_mean_ns: (counts.held > 0).then(|| counts.held_ns as f64 / counts.held as f64),
            errnos: self.errnos(counts),
            latency_ns: times.latency(one_in),
            waits: times.waits(one_in),
            stages: times.stages(one_in),
            punted_requests: estimated([times.handed_over].into_iter(), one_in),
            ..counts.record()
        }
    }

    /// Error counts with their names, most frequent first.
    fn errnos(&self, of: &OpcodeCounts) -> Vec<ErrnoCount> {
        let first = |errno| self.errors.get(&(of.opcode.clone(), errno));
        named(&of.errnos, |errno| first(errno).map(|first| format!("{:#x}", first.user_data)))
    }

    /// Separates waits from the ring's other requests.
    pub fn settle(&mut self) -> BTreeMap<String, Limit> {
        let limits = waits::limits(self.by_opcode.iter().map(|(opcode, times)| (opcode, times.spans())));
        for (opcode, times) in &mut self.by_opcode {
            times.settle(limits[opcode]);
        }
        limits
    }
}

/// Error counts with their names, most frequent first.
pub(super) fn named(errnos: &[(i32, u64)], user_data: impl Fn(i32) -> Option<String>) -> Vec<ErrnoCount> {
    let record =
        |&(errno, count): &(i32, u64)| ErrnoCount { errno: errno_name(errno), count, user_data: user_data(errno) };
    let mut named: Vec<ErrnoCount> = errnos.iter().map(record).collect();
    named.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.errno.cmp(&b.errno)));
    named
}

pub(super) fn estimated(taken: impl Iterator<Item = Stratum>, one_in: u32) -> Option<Estimate> {
    let t = estimate::total(&taken.collect::<Vec<_>>(), one_in)?;
    Some(Estimate { total: t.total, ci95: [t.lo, t.hi] })
}
