//! Rates, from counts at two times and the requests traced in between. Pure.
//!
//! Ring numbers are unique, and a new ring starts at zero. A closed ring appears for the last time in a reading after
//! it was closed. Counts only grow: if a reading is lower than the previous one (`Watch::look` reads while programs
//! run), the next one includes the difference. The totals are sums over rings and contexts.

mod growth;
mod sum;
mod threads;

use std::collections::{BTreeMap, HashMap};

use super::processes::SqThread;
use super::rings;
use super::summary::Part;
use iotrail_probe::choice::Choice;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::RingCounts;
use iotrail_schema::top_record::{OtherRates, ProcessRates, Rates, RingRates, SCHEMA, TopRecord, TotalRates};
use sum::{Sum, ring_rates};
pub use threads::ThreadMeter;

/// Maximum number of rings with their own record: the busiest, then idle ones.
const TOLD: usize = 512;

/// Data from /proc about a ring.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The process's name, if known. The probes only know the name of the thread that created the ring.
    pub comm: Option<String>,
    pub fds: Vec<u32>,
    /// Its SQPOLL thread, since the start of the trace.
    pub sq_thread: Option<SqThread>,
    /// Its process has exited.
    pub gone: bool,
}

/// The end of an interval.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub elapsed_ns: u64,
    pub unix_s: u64,
}

/// Converts increasing counts to rates, one interval after another.
#[derive(Debug)]
pub struct Meter {
    choice: Choice,
    interval: u64,
    /// Counts at the end of the last interval; `None` if all were zero.
    before: Option<Observed>,
    sq_before: HashMap<u32, SqThread>,
}

impl Meter {
    pub fn new(choice: Choice) -> Self {
        Meter { choice, interval: 0, before: None, sq_before: HashMap::new() }
    }

    /// Rates of the interval that ends at `now`. `followed`: completions traced in the interval, by ring.
    pub(super) fn turn(
        &mut self,
        mut now: Observed,
        followed: &BTreeMap<Option<u32>, Part>,
        known: &HashMap<u32, Known>,
        end: Moment,
    ) -> TopRecord {
        self.interval += 1;
        growth::raise(&mut now, self.before.as_ref());
        let seconds = end.elapsed_ns as f64 / 1e9;
        let per_s = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let one_in = self.one_in(&now);
        let mut interval =
            Interval { one_in, per_s: &per_s, followed, all: Sum::default(), by_process: BTreeMap::new() };

        let mut rings = self.rings(&now, known, &mut interval);
        let mut others = interval.other_rings(&now);
        rings.sort_by(|a, b| busier(&a.0.rates, &b.0.rates).then(a.0.ring.cmp(&b.0.ring)));
        for (_, sum) in rings.iter().skip(TOLD) {
            (others.0, others.1) = (others.0 + 1, others.1.and(sum));
        }
        rings.truncate(TOLD);
        let of_no_ring = interval.of_no_ring(&now, self.before.as_ref());
        interval.all.add(&of_no_ring);
        let mut processes = interval.processes();
        processes.sort_by(|a, b| busier(&a.rates, &b.rates).then(a.tgid.cmp(&b.tgid)));

        let total = self.total(&now, interval.all, of_no_ring.completions, followed.get(&None), &per_s);
        self.before = Some(now);
        self.sq_before = known.iter().filter_map(|(ring, known)| Some((*ring, known.sq_thread?))).collect();
        TopRecord {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            interval: self.interval,
            ended_unix_s: end.unix_s,
            elapsed_ns: end.elapsed_ns,
            one_in: self.choice.one_in,
            adaptive: self.choice.adaptive,
            total,
            processes,
            rings: rings.into_iter().map(|(rates, _)| rates).collect(),
            other_rings: (others.0 > 0).then(|| OtherRates { rings: others.0, rates: others.1.rates(&per_s, one_in) }),
        }
    }

    /// Active rings with the sums behind their rates.
    fn rings(&self, now: &Observed, known: &HashMap<u32, Known>, interval: &mut Interval<'_>) -> Vec<(RingRates, Sum)> {
        let before: HashMap<u32, &RingCounts> =
            self.before.iter().flat_map(|b| &b.rings).map(|ring| (ring.ring, ring)).collect();
        let nothing = Part::default();
        let mut rings = vec![];
        for ring in &now.rings {
            let part = interval.followed.get(&Some(ring.ring)).unwrap_or(&nothing);
            let known = known.get(&ring.ring).cloned().unwrap_or_default();
            let mut grown = growth::grown_ring(ring, before.get(&ring.ring).copied());
            grown.comm = known.comm.unwrap_or(grown.comm);
            let mut sum = Sum::default();
            sum.take(&grown, part);
            interval.all.add(&sum);
            // Delivery paths may arrive later than the counts of their completions.
            if (known.gone || ring.closed) && sum.requests + sum.completions == 0 && sum.vehicles.is_empty() {
                continue;
            }
            let sqpoll_cpu = known.sq_thread.and_then(|now| used(now, self.sq_before.get(&ring.ring)));
            let process = interval.by_process.entry(ring.tgid).or_default();
            process.comm = grown.comm.clone();
            process.rings += 1;
            if ring.setup_flags & rings::SQPOLL != 0 {
                process.sq_threads.insert(known.sq_thread.map(|thread| thread.tid), sqpoll_cpu);
            }
            process.sum.add(&sum);
            let rates = ring_rates(&grown, &sum, part, known.fds, sqpoll_cpu, interval.per_s, interval.one_in);
            rings.push((rates, sum));
        }
        rings
    }

    /// Sampling weight within the interval, as in [`Choice::stands_for`].
    fn one_in(&self, now: &Observed) -> u32 {
        let before = self.before.as_ref().map_or(0, |b| b.follow_loss.sampled_from);
        self.choice.stands_for(now.follow_loss.sampled_from.saturating_sub(before))
    }

    fn total(
        &self,
        now: &Observed,
        mut sum: Sum,
        of_no_ring: u64,
        apart: Option<&Part>,
        per_s: &dyn Fn(u64) -> f64,
    ) -> TotalRates {
        let before = self.before.as_ref();
        let grown = |of: fn(&Observed) -> u64| of(now).saturating_sub(before.map_or(0, of));
        if let Some(part) = apart {
            sum.followed(part);
        }
        TotalRates {
            rates: sum.rates(per_s, self.one_in(now)),
            of_no_ring_per_s: per_s(of_no_ring),
            kicks_per_s: grown_kicks(now, before).map(per_s),
            context_switches_per_s: per_s(grown(|o| o.context_switches)),
            lost: grown(|o| o.lost),
            followed_lost: grown(|o| o.follow_loss.no_room + o.follow_loss.ring_buffer_full),
        }
    }
}

/// An interval under construction.
struct Interval<'a> {
    one_in: u32,
    per_s: &'a dyn Fn(u64) -> f64,
    followed: &'a BTreeMap<Option<u32>, Part>,
    all: Sum,
    by_process: BTreeMap<u32, OfProcess>,
}

/// Activity of one process on its rings.
#[derive(Default)]
struct OfProcess {
    comm: String,
    rings: usize,
    sum: Sum,
    /// CPU use per SQPOLL thread, by TID, because rings may share a thread.
    sq_threads: BTreeMap<Option<u32>, Option<f64>>,
}

impl Interval<'_> {
    /// Number and activity of rings without their own record. They had none before, so all their counts belong to this
    /// interval.
    fn other_rings(&mut self, now: &Observed) -> (u64, Sum) {
        let mut others = (0, Sum::default());
        for other in now.others.iter().filter(|other| other.kind.is_none()) {
            let mut sum = Sum::default();
            sum.counted(&other.opcodes, other.overflows, &other.vehicles);
            self.all.add(&sum);
            (others.0, others.1) = (others.0 + other.rings, others.1.and(&sum));
            if let Some(tgid) = other.tgid {
                let process = self
                    .by_process
                    .entry(tgid)
                    .or_insert_with(|| OfProcess { comm: other.comm.clone(), ..OfProcess::default() });
                process.rings += other.rings as usize;
                process.sum.add(&sum);
            }
        }
        others
    }

    fn of_no_ring(&self, now: &Observed, before: Option<&Observed>) -> Sum {
        let mut sum = Sum::default();
        for other in now.others.iter().filter(|other| other.kind.is_some()) {
            sum.of_context(&other.opcodes, &other.vehicles);
        }
        for context in &now.contexts {
            let (opcodes, vehicles) = growth::of_context(before, context.context);
            let grown =
                (growth::grown_opcodes(&context.opcodes, opcodes), growth::grown_vehicles(&context.vehicles, vehicles));
            sum.of_context(&grown.0, &grown.1);
            if let Some(part) = self.followed.get(&Some(context.context)) {
                sum.followed(part);
            }
        }
        sum
    }

    fn processes(&self) -> Vec<ProcessRates> {
        let rates = |(tgid, of): (&u32, &OfProcess)| ProcessRates {
            tgid: *tgid,
            comm: of.comm.clone(),
            rings: of.rings,
            rates: of.sum.rates(self.per_s, self.one_in),
            sqpoll_cpu: if of.sq_threads.is_empty() { None } else { of.sq_threads.values().copied().sum() },
            threads: None,
        };
        self.by_process.iter().map(rates).collect()
    }
}

/// `None` if kicks were not counted at one of the two times.
fn grown_kicks(now: &Observed, before: Option<&Observed>) -> Option<u64> {
    let was = before.map_or(Some(0), |b| b.kicks)?;
    Some(now.kicks?.saturating_sub(was))
}

fn busier(a: &Rates, b: &Rates) -> std::cmp::Ordering {
    let key = |r: &Rates| (r.completions_per_s, r.requests_per_s);
    key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal)
}

/// CPU use of the thread; `None` if unknown, or not sampled since `before`.
fn used(now: SqThread, before: Option<&SqThread>) -> Option<f64> {
    let (elapsed, cpu) = match before {
        Some(b) => (now.elapsed_ns.checked_sub(b.elapsed_ns)?, now.cpu_ns?.checked_sub(b.cpu_ns?)?),
        None => (now.elapsed_ns, now.cpu_ns?),
    };
    (elapsed > 0).then(|| cpu as f64 / elapsed as f64)
}

#[cfg(test)]
mod tests;
