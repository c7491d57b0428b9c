//! Counts at two moments, and what was followed between them → rates. Pure.
//!
//! A ring keeps its number, which no other one gets, and a new one begins at zero. One that is no more is there for the last time in
//! one of the looks after its end. Counts only grow: where a look caught less than the one before (`Watch::look` reads while programs
//! write), it is the next look that tells what was counted in between. The totals are sums of what is told of rings and contexts.

use std::collections::{BTreeMap, HashMap};

use super::processes::SqThread;
use super::rings;
use super::summary::Part;
use iotrail_path::times::Times;
use iotrail_probe::choice::Choice;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::{OpcodeCounts, RingCounts};
use iotrail_schema::measurement::VehicleCount;
use iotrail_schema::setup_flag;
use iotrail_schema::top_record::{
    OpcodeRates, OtherRates, ProcessRates, Rates, RingRates, SCHEMA, TopRecord, TotalRates, VehicleShare,
};
use iotrail_schema::vehicle::Vehicle;
use iotrail_stats::durations::Durations;

/// Rings that are told one by one, the busiest; those of which there is nothing to tell are among them while there is room.
const TOLD: usize = 512;

/// What /proc tells of a ring.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The process's name, where it could be told; the probes know that of the thread which made the ring.
    pub comm: Option<String>,
    pub fds: Vec<u32>,
    /// Its submission-queue thread, from the beginning.
    pub sq_thread: Option<SqThread>,
    /// Its process has ended.
    pub gone: bool,
}

/// The end of an interval.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub elapsed_ns: u64,
    pub unix_s: u64,
}

/// Turns counts that grow into rates, interval by interval.
#[derive(Debug)]
pub struct Meter {
    choice: Choice,
    interval: u64,
    /// At the last interval's end; `None`: all counts were zero.
    before: Option<Observed>,
    sq_before: HashMap<u32, SqThread>,
}

impl Meter {
    pub fn new(choice: Choice) -> Self {
        Meter { choice, interval: 0, before: None, sq_before: HashMap::new() }
    }

    /// The interval that ends with `now`. `followed`: by ring, what completed in it.
    pub(super) fn turn(
        &mut self,
        mut now: Observed,
        followed: &BTreeMap<Option<u32>, Part>,
        known: &HashMap<u32, Known>,
        end: Moment,
    ) -> TopRecord {
        self.interval += 1;
        let one_in = self.one_in(&now);
        let seconds = end.elapsed_ns as f64 / 1e9;
        let per_s = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let nothing = Part::default();
        let part = |ring: u32| followed.get(&Some(ring)).unwrap_or(&nothing);
        let before: HashMap<u32, &RingCounts> =
            self.before.iter().flat_map(|b| &b.rings).map(|ring| (ring.ring, ring)).collect();
        for ring in &mut now.rings {
            if let Some(before) = before.get(&ring.ring) {
                ring.overflows = ring.overflows.max(before.overflows);
                not_below(&mut ring.opcodes, &mut ring.vehicles, &before.opcodes, &before.vehicles);
            }
        }
        let ring_before = |ring: u32| before.get(&ring).copied();

        let mut rings = vec![];
        // With the CPUs that each submission-queue thread took, by its tid: several rings may share one.
        type Threads = BTreeMap<Option<u32>, Option<f64>>;
        let mut by_process: BTreeMap<u32, (ProcessRates, Sum, Threads)> = BTreeMap::new();
        let mut all = Sum::default();
        let mut sq_now = HashMap::new();
        for ring in &now.rings {
            let known = known.get(&ring.ring).cloned().unwrap_or_default();
            let mut grown = grown_ring(ring, ring_before(ring.ring));
            grown.comm = known.comm.unwrap_or(grown.comm);
            let mut sum = Sum::default();
            sum.take(&grown, part(ring.ring));
            all.add(&sum);
            let sqpoll_cpu = known.sq_thread.and_then(|now| used(now, self.sq_before.get(&ring.ring)));
            sq_now.extend(known.sq_thread.map(|thread| (ring.ring, thread)));
            // What carried completions that were told before may come later.
            if known.gone && sum.requests + sum.completions == 0 && sum.vehicles.is_empty() {
                continue;
            }
            let (process, of_process, threads) = by_process.entry(ring.tgid).or_default();
            (process.tgid, process.comm) = (ring.tgid, grown.comm.clone());
            process.rings += 1;
            if ring.setup_flags & rings::SQPOLL != 0 {
                threads.insert(known.sq_thread.map(|thread| thread.tid), sqpoll_cpu);
            }
            of_process.add(&sum);
            let rates = ring_rates(&grown, &sum, part(ring.ring), known.fds, sqpoll_cpu, &per_s, one_in);
            rings.push((rates, sum));
        }
        // These were not told before: all that is counted of them is of this interval.
        let mut others = (0, Sum::default());
        for other in now.others.iter().filter(|other| other.kind.is_none()) {
            let mut sum = Sum::default();
            sum.counted(&other.opcodes, other.overflows, &other.vehicles);
            all.add(&sum);
            (others.0, others.1) = (others.0 + other.rings, others.1.and(&sum));
            if let Some(tgid) = other.tgid {
                let (process, of_process, _) = by_process.entry(tgid).or_default();
                if process.tgid == 0 {
                    (process.tgid, process.comm) = (tgid, other.comm.clone());
                }
                process.rings += other.rings as usize;
                of_process.add(&sum);
            }
        }
        let mut processes: Vec<ProcessRates> = by_process
            .into_values()
            .map(|(process, sum, threads)| ProcessRates {
                rates: sum.rates(&per_s, one_in),
                sqpoll_cpu: if threads.is_empty() { None } else { threads.into_values().sum() },
                ..process
            })
            .collect();
        rings.sort_by(|a, b| busier(&a.0.rates, &b.0.rates).then(a.0.ring.cmp(&b.0.ring)));
        for (_, sum) in rings.iter().skip(TOLD) {
            (others.0, others.1) = (others.0 + 1, others.1.and(sum));
        }
        rings.truncate(TOLD);
        processes.sort_by(|a, b| busier(&a.rates, &b.rates).then(a.tgid.cmp(&b.tgid)));

        let mut of_no_ring = Sum::default();
        for other in now.others.iter().filter(|other| other.kind.is_some()) {
            of_no_ring.of_context(&other.opcodes, &other.vehicles);
        }
        for context in &mut now.contexts {
            let before = self.before.iter().flat_map(|b| &b.contexts).find(|b| b.context == context.context);
            let (opcodes, vehicles) = before.map_or((&[][..], &[][..]), |b| (&b.opcodes, &b.vehicles));
            not_below(&mut context.opcodes, &mut context.vehicles, opcodes, vehicles);
            let grown = (grown_opcodes(&context.opcodes, opcodes), grown_vehicles(&context.vehicles, vehicles));
            of_no_ring.of_context(&grown.0, &grown.1);
            of_no_ring.followed(part(context.context));
        }
        all.add(&of_no_ring);
        let total = self.total(&now, all, of_no_ring.completions, followed.get(&None), &per_s);
        self.before = Some(now);
        self.sq_before = sq_now;
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

    /// What each of those that were sampled stands for; 1 where none had to be left out.
    fn one_in(&self, now: &Observed) -> u32 {
        let sampled = now.follow_loss.sampled_from;
        let grew = sampled > self.before.as_ref().map_or(0, |b| b.follow_loss.sampled_from);
        if self.choice.adaptive && !grew { 1 } else { self.choice.one_in }
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

/// `None`: not counted at one of the two ends.
fn grown_kicks(now: &Observed, before: Option<&Observed>) -> Option<u64> {
    let was = before.map_or(Some(0), |b| b.kicks)?;
    Some(now.kicks?.saturating_sub(was))
}

fn busier(a: &Rates, b: &Rates) -> std::cmp::Ordering {
    let key = |r: &Rates| (r.completions_per_s, r.requests_per_s);
    key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal)
}

/// CPUs that the thread took; `None`: not told, or it was not looked at since.
fn used(now: SqThread, before: Option<&SqThread>) -> Option<f64> {
    let (elapsed, cpu) = match before {
        Some(b) => (now.elapsed_ns.checked_sub(b.elapsed_ns)?, now.cpu_ns?.checked_sub(b.cpu_ns?)?),
        None => (now.elapsed_ns, now.cpu_ns?),
    };
    (elapsed > 0).then(|| cpu as f64 / elapsed as f64)
}

/// Counts and followed requests of one interval.
#[derive(Debug, Default)]
struct Sum {
    requests: u64,
    completions: u64,
    bytes: u64,
    errors: u64,
    punts: u64,
    overflows: u64,
    vehicles: BTreeMap<Vehicle, u64>,
    times: Times,
    delays: Durations,
}

impl Sum {
    fn take(&mut self, ring: &RingCounts, part: &Part) {
        self.counted(&ring.opcodes, ring.overflows, &ring.vehicles);
        self.followed(part);
    }

    /// This and another one's.
    fn and(mut self, other: &Sum) -> Sum {
        self.add(other);
        self
    }

    fn counted(&mut self, opcodes: &[OpcodeCounts], overflows: u64, vehicles: &[VehicleCount]) {
        for o in opcodes {
            self.requests += o.requests;
            self.completions += o.completions;
            self.bytes += o.bytes;
            self.errors += o.errors;
            self.punts += punts(o);
        }
        self.overflows += overflows;
        self.carried(vehicles);
    }

    /// Their completions are those of which it was seen what carried them.
    fn of_context(&mut self, opcodes: &[OpcodeCounts], vehicles: &[VehicleCount]) {
        for o in opcodes {
            self.requests += o.requests;
            self.bytes += o.bytes;
            self.errors += o.errors;
        }
        self.completions += vehicles.iter().map(|v| v.completions).sum::<u64>();
        self.carried(vehicles);
    }

    fn carried(&mut self, vehicles: &[VehicleCount]) {
        for v in vehicles {
            *self.vehicles.entry(v.vehicle).or_default() += v.completions;
        }
    }

    fn followed(&mut self, part: &Part) {
        self.times.add(&part.times());
        self.delays.add(&part.delays.all());
    }

    fn add(&mut self, other: &Sum) {
        self.requests += other.requests;
        self.completions += other.completions;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.punts += other.punts;
        self.overflows += other.overflows;
        for (vehicle, n) in &other.vehicles {
            *self.vehicles.entry(*vehicle).or_default() += n;
        }
        self.times.add(&other.times);
        self.delays.add(&other.delays);
    }

    /// `one_in`: as of [`Durations::latency`].
    fn rates(&self, per_s: &dyn Fn(u64) -> f64, one_in: u32) -> Rates {
        let carried: u64 = self.vehicles.values().sum();
        let mut vehicles: Vec<VehicleShare> = self
            .vehicles
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(&vehicle, &completions)| VehicleShare {
                vehicle,
                completions,
                share: completions as f64 / carried as f64,
            })
            .collect();
        vehicles.sort_by_key(|v| std::cmp::Reverse(v.completions));
        Rates {
            requests_per_s: per_s(self.requests),
            completions_per_s: per_s(self.completions),
            bytes_per_s: per_s(self.bytes),
            errors_per_s: per_s(self.errors),
            punts_per_s: per_s(self.punts),
            overflows: self.overflows,
            latency_ns: self.times.latency(one_in),
            waits: self.times.waits(one_in),
            delivery_delay_ns: self.delays.latency(one_in),
            vehicles,
        }
    }
}

fn punts(o: &OpcodeCounts) -> u64 {
    o.punted_asked + o.punted_would_block + o.punted_drained
}

fn ring_rates(
    grown: &RingCounts,
    sum: &Sum,
    part: &Part,
    fds: Vec<u32>,
    sqpoll_cpu: Option<f64>,
    per_s: &dyn Fn(u64) -> f64,
    one_in: u32,
) -> RingRates {
    let opcode = |o: &OpcodeCounts| OpcodeRates {
        opcode: o.opcode.clone(),
        requests_per_s: per_s(o.requests),
        completions_per_s: per_s(o.completions),
        bytes_per_s: per_s(o.bytes),
        errors_per_s: per_s(o.errors),
        punts_per_s: per_s(punts(o)),
        latency_ns: part.by_opcode.get(&o.opcode).map(|times| times.latency(one_in)).unwrap_or_default(),
        waits: part.by_opcode.get(&o.opcode).and_then(|times| times.waits(one_in)),
    };
    let mut opcodes: Vec<&OpcodeCounts> = grown.opcodes.iter().filter(|o| o.requests + o.completions > 0).collect();
    opcodes.sort_by_key(|o| std::cmp::Reverse((o.completions, o.requests)));
    let mut carried = part.vehicles(&grown.vehicles);
    carried.sort_by_key(|v| std::cmp::Reverse(v.completions));
    RingRates {
        ring: grown.ring,
        tgid: grown.tgid,
        comm: grown.comm.clone(),
        use_of: grown.of,
        fds,
        flags: setup_flag::names(grown.setup_flags, Some(grown.cq_entries)),
        sq_entries: grown.sq_entries,
        cq_entries: grown.cq_entries,
        rates: sum.rates(per_s, one_in),
        sqpoll_cpu,
        opcodes: opcodes.into_iter().map(opcode).collect(),
        carried,
        stages: sum.times.stages(one_in),
    }
}

/// What a ring did since `before`.
fn grown_ring(now: &RingCounts, before: Option<&RingCounts>) -> RingCounts {
    let Some(before) = before else { return now.clone() };
    RingCounts {
        overflows: now.overflows.saturating_sub(before.overflows),
        opcodes: grown_opcodes(&now.opcodes, &before.opcodes),
        vehicles: grown_vehicles(&now.vehicles, &before.vehicles),
        ..now.clone()
    }
}

/// Raises what is lower than it was before.
fn not_below(
    opcodes: &mut Vec<OpcodeCounts>,
    vehicles: &mut Vec<VehicleCount>,
    opcodes_before: &[OpcodeCounts],
    vehicles_before: &[VehicleCount],
) {
    for before in opcodes_before {
        let Some(now) = opcodes.iter_mut().find(|now| now.opcode == before.opcode) else {
            opcodes.push(before.clone());
            continue;
        };
        now.requests = now.requests.max(before.requests);
        now.completions = now.completions.max(before.completions);
        now.bytes = now.bytes.max(before.bytes);
        now.errors = now.errors.max(before.errors);
        now.punted_asked = now.punted_asked.max(before.punted_asked);
        now.punted_would_block = now.punted_would_block.max(before.punted_would_block);
        now.punted_drained = now.punted_drained.max(before.punted_drained);
    }
    for before in vehicles_before {
        match vehicles.iter_mut().find(|now| (now.vehicle, &now.detail) == (before.vehicle, &before.detail)) {
            Some(now) => now.completions = now.completions.max(before.completions),
            None => vehicles.push(before.clone()),
        }
    }
}

fn grown_opcodes(now: &[OpcodeCounts], before: &[OpcodeCounts]) -> Vec<OpcodeCounts> {
    let opcode = |o: &OpcodeCounts| {
        let none = OpcodeCounts::default();
        let b = before.iter().find(|b| b.opcode == o.opcode).unwrap_or(&none);
        let errno = |(errno, n): &(i32, u64)| {
            let b = b.errnos.iter().find(|(e, _)| e == errno).map_or(0, |(_, n)| *n);
            (*errno, n.saturating_sub(b))
        };
        OpcodeCounts {
            opcode: o.opcode.clone(),
            requests: o.requests.saturating_sub(b.requests),
            skips: o.skips.saturating_sub(b.skips),
            completions: o.completions.saturating_sub(b.completions),
            bytes: o.bytes.saturating_sub(b.bytes),
            errors: o.errors.saturating_sub(b.errors),
            short: o.short.saturating_sub(b.short),
            more: o.more.saturating_sub(b.more),
            notifications: o.notifications.saturating_sub(b.notifications),
            unposted: o.unposted.saturating_sub(b.unposted),
            punted_asked: o.punted_asked.saturating_sub(b.punted_asked),
            punted_would_block: o.punted_would_block.saturating_sub(b.punted_would_block),
            punted_drained: o.punted_drained.saturating_sub(b.punted_drained),
            errnos: o.errnos.iter().map(errno).filter(|(_, n)| *n > 0).collect(),
        }
    };
    now.iter().map(opcode).collect()
}

fn grown_vehicles(now: &[VehicleCount], before: &[VehicleCount]) -> Vec<VehicleCount> {
    let was = |v: &VehicleCount| {
        before.iter().find(|b| (b.vehicle, &b.detail) == (v.vehicle, &v.detail)).map_or(0, |b| b.completions)
    };
    now.iter()
        .map(|v| VehicleCount { completions: v.completions.saturating_sub(was(v)), ..v.clone() })
        .filter(|v| v.completions > 0)
        .collect()
}

#[cfg(test)]
#[path = "rates_tests.rs"]
mod tests;
