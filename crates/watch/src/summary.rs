//! Counts and followed requests → the record. Pure.
//!
//! Counts are the probes' and exact; times and places are of the followed requests. A request's first completion is its
//! latency. Waits are told apart at the end, ring by ring (`path::waits`). What comes after it (a multishot request's later completions, a zero-copy send's notification) is no latency of
//! anything, and a multishot request's completions that announce more are none either; how late each was delivered counts.

use std::collections::{BTreeMap, HashMap};

use super::files::{self, Names};
use super::processes::{CpuTime, SqThread};
use super::rings::{self, SQPOLL, SeenRing};
use super::threads::{self, Submitters};
use iotrail_answer::doubt::{self, Counts};
use iotrail_base::error::errno_name;
use iotrail_path::files::Files;
use iotrail_path::memory::{Memory, Unregistered};
use iotrail_path::multishot::Multishot;
use iotrail_path::order::{IsWait, Passages, sees_ends};
use iotrail_path::reaped::{Stay, Stays};
use iotrail_path::times::{Delays, Times};
use iotrail_path::waits::{self, Limit};
use iotrail_probe::choice::Choice;
use iotrail_probe::function;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::{
    Batches, ContextCounts, ContextKind, FollowLoss, OpcodeCounts, OpenCounts, OtherCounts, Reaped, RingCounts,
};
use iotrail_probe::sampled_events;
use iotrail_schema::measurement::{Followed, Host, ModeSwitch, PerIo, Probe, TaskWorkBatch, VehicleCount, Warning};
use iotrail_schema::metrics_record::{BOUNDS_NS, Buckets};
use iotrail_schema::opcode::asks_for_a_length;
use iotrail_schema::setup_flag;
use iotrail_schema::trace_record::{
    ContextRecord, CpuPair, EnterBatch, ErrnoCount, Estimate, IowqRecord, MemoryRecord, OpcodeRecord, OpenRecord,
    OthersRecord, OverlapRecord, ProcessRecord, RingRecord, RunItems, SCHEMA, SampledEvents, SqpollRecord, Subject,
    Total, TraceCpu, TraceRecord,
};
use iotrail_schema::trail::Trail;
use iotrail_schema::vehicle::Vehicle;
use iotrail_stats::durations::Durations;
use iotrail_stats::estimate::{self, Taken};

/// Completions carried by runs of one size.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    completions: u64,
    /// What they stand for.
    estimated: u64,
}

/// Completions that were ready on one CPU and posted on another, or the same.
#[derive(Debug, Clone, Default)]
struct Pair {
    completions: u64,
    stands_for: u64,
    /// The same by the thread that submitted them.
    by_thread: HashMap<u32, u64>,
}

impl Pair {
    /// Threads may come and go by the hundred thousand: of so many there are enough.
    const THREADS: usize = 1024;

    fn take(&mut self, trail: &Trail) {
        let weight = u64::from(trail.weight.max(1));
        self.completions += 1;
        self.stands_for += weight;
        if self.by_thread.len() < Self::THREADS || self.by_thread.contains_key(&trail.tid) {
            *self.by_thread.entry(trail.tid).or_default() += weight;
        }
    }

    /// The fewest that submitted nine in ten.
    fn threads(&self) -> u64 {
        let mut each: Vec<u64> = self.by_thread.values().copied().collect();
        each.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        let (mut left, mut threads) = ((self.stands_for * 9).div_ceil(10), 0);
        for n in each {
            if left == 0 {
                break;
            }
            (left, threads) = (left.saturating_sub(n), threads + 1);
        }
        threads
    }
}

/// What was followed of one ring, or of what belongs to no ring.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub by_opcode: BTreeMap<String, Times>,
    pub delays: Delays,
    stays: Stays,
    /// By how many items the run ran.
    run_items: BTreeMap<u32, Run>,
    /// The thread that submitted last.
    pub tid: u32,
    /// By opcode and errno: the first completion that had it.
    errors: BTreeMap<(String, i32), FirstError>,
    threads: Submitters,
}

/// A followed completion that failed.
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

    fn add(&mut self, other: &Part) {
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

    /// Trails come by their CPUs: not quite in the order of their posting.
    fn failed(&mut self, opcode: &str, errno: i32, first: FirstError) {
        let known = self.errors.entry((opcode.to_owned(), errno)).or_insert(first);
        if first.posted_ns < known.posted_ns {
            *known = first;
        }
    }

    /// The exact counts, with the delays of those that were followed.
    pub fn vehicles(&self, counts: &[VehicleCount]) -> Vec<VehicleCount> {
        self.delays.beside(counts)
    }

    fn run_items(&self) -> Vec<RunItems> {
        let record = |(items, run): (&u32, &Run)| RunItems {
            items: *items,
            completions: run.completions,
            estimated: Some(run.estimated),
        };
        self.run_items.iter().map(record).collect()
    }

    /// `one_in`: as of [`Durations::latency`].
    fn opcode(&self, counts: &OpcodeCounts, one_in: u32) -> OpcodeRecord {
        let none = Times::default();
        let times = self.by_opcode.get(&counts.opcode).unwrap_or(&none);
        OpcodeRecord {
            opcode: counts.opcode.clone(),
            requests: counts.requests,
            skips: counts.skips,
            completions: counts.completions,
            bytes: counts.bytes,
            errors: counts.errors,
            short: asks_for_a_length(&counts.opcode).then_some(counts.short),
            more: counts.more,
            notifications: counts.notifications,
            unposted: counts.unposted,
            punted_asked: counts.punted_asked,
            punted_would_block: counts.punted_would_block,
            punted_drained: counts.punted_drained,
            errnos: self.errnos(counts),
            latency_ns: times.latency(one_in),
            waits: times.waits(one_in),
            stages: times.stages(one_in),
            punted_requests: estimated([times.handed_over].into_iter(), one_in),
        }
    }

    /// By name, the most frequent first.
    fn errnos(&self, of: &OpcodeCounts) -> Vec<ErrnoCount> {
        let first = |errno| self.errors.get(&(of.opcode.clone(), errno));
        let named = of.errnos.iter().map(|&(errno, count)| ErrnoCount {
            errno: errno_name(errno),
            count,
            user_data: first(errno).map(|first| format!("{:#x}", first.user_data)),
        });
        let mut named: Vec<ErrnoCount> = named.collect();
        named.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.errno.cmp(&b.errno)));
        named
    }

    /// Tells the waits from the other requests, of one ring.
    fn settle(&mut self) -> BTreeMap<String, Limit> {
        let limits = waits::limits(self.by_opcode.iter().map(|(opcode, times)| (opcode, times.spans())));
        for (opcode, times) in &mut self.by_opcode {
            times.settle(limits[opcode]);
        }
        limits
    }
}

fn enter_batches(batches: &Batches, one_in: u32) -> Vec<EnterBatch> {
    let record = |(at_least, taken): (&u64, &Taken)| EnterBatch {
        at_least: *at_least,
        requests: taken.items(),
        estimated: Some(taken.stands_for(one_in)),
        calls: taken.total(one_in),
        calls_ci95: estimate::interval(&[*taken], one_in).map(|t| [t.lo, t.hi]),
    };
    batches.iter().map(record).collect()
}

fn enter_calls(batches: &Batches, one_in: u32) -> Option<Estimate> {
    estimated(batches.values().copied(), one_in)
}

fn estimated(taken: impl Iterator<Item = Taken>, one_in: u32) -> Option<Estimate> {
    let t = estimate::total(&taken.collect::<Vec<_>>(), one_in)?;
    Some(Estimate { total: t.total, ci95: [t.lo, t.hi] })
}

/// Followed requests as they come.
#[derive(Debug)]
pub struct Summary {
    choice: Choice,
    completions: u64,
    /// Of them, of requests that stand for themselves alone.
    whole: u64,
    parts: BTreeMap<Option<u32>, Part>,
    cpu_pairs: BTreeMap<(u32, u32), Pair>,
    multishot: Multishot,
    passages: Passages,
    memory: Memory,
    files: Files,
}

/// What is known of the watched span beside the probes.
#[derive(Debug)]
pub struct Span {
    pub started_unix_s: u64,
    pub elapsed_ns: u64,
    pub subject: Subject,
    pub host: Host,
    pub cpu: Option<CpuTime>,
    pub processes: Vec<ProcessRecord>,
    pub most_workers: Option<u64>,
    pub workers_cpu_ns: Option<u64>,
    pub warnings: Vec<Warning>,
}

/// What /proc showed of the rings and their threads.
pub struct Seen<'a> {
    pub rings: Vec<&'a SeenRing>,
    /// By process and thread.
    pub sq_thread: &'a dyn Fn(u32, u32) -> Option<SqThread>,
    pub files: &'a Names,
}

impl Summary {
    pub fn new(choice: Choice) -> Self {
        Summary {
            choice,
            completions: 0,
            whole: 0,
            parts: BTreeMap::new(),
            cpu_pairs: BTreeMap::new(),
            multishot: Multishot::default(),
            passages: Passages::default(),
            memory: Memory::default(),
            files: Files::default(),
        }
    }

    pub(super) fn choice(&self) -> Choice {
        self.choice
    }

    /// What each of those that were sampled stands for; 1 where none had to be left out.
    fn one_in(&self, loss: &FollowLoss) -> u32 {
        if self.choice.adaptive && loss.sampled_from == 0 { 1 } else { self.choice.one_in }
    }

    /// All requests that there were, as far as those chosen and those that came later tell; a refused one is among them.
    fn requests(&self, loss: &FollowLoss) -> Option<estimate::Total> {
        let one_in = self.one_in(loss);
        let ones = |n: u64| (n, n as f64);
        let chosen = Taken { whole: ones(loss.chosen.whole), sampled: ones(loss.chosen.sampled) };
        let later = loss.came_later as f64;
        // Where all are chosen, none chosen are none.
        let none = estimate::Total { total: 0.0, lo: 0.0, hi: 0.0 };
        let none = (one_in <= 1 && loss.came_later > 0).then_some(none);
        estimate::interval(&[chosen], one_in).or(none).map(|t| t.and(later))
    }

    /// Latencies and, by vehicle, delivery delays of what was followed so far.
    pub(super) fn buckets(&self) -> (Buckets, Vec<(Vehicle, Buckets)>) {
        let mut latency = Durations::default();
        let mut delays = Delays::default();
        for part in self.parts.values() {
            part.by_opcode.values().for_each(|times| latency.add(times.durations()));
            delays.add(&part.delays);
        }
        let delays = delays.by_vehicle().iter().map(|(vehicle, d)| (*vehicle, d.buckets(&BOUNDS_NS))).collect();
        (latency.buckets(&BOUNDS_NS), delays)
    }

    /// Followed completions so far.
    pub fn completions(&self) -> u64 {
        self.completions
    }

    pub fn take(&mut self, trail: Trail) {
        self.completions += 1;
        self.whole += u64::from(trail.weight <= 1);
        let is_first = !self.multishot.is_later(&trail);
        let is_whole = is_first && trail.is_last_result();
        let part = self.parts.entry(trail.ring).or_default();
        if is_first && trail.punted.is_some() {
            part.by_opcode.entry(trail.opcode.clone()).or_default().handed_over.take(trail.weight, 1.0);
        }
        part.tid = trail.tid;
        self.files.take(&trail, is_first);
        part.threads.take(&trail, is_first);
        if trail.result < 0 {
            let first = FirstError { posted_ns: trail.posted.ns, user_data: trail.user_data };
            part.failed(&trail.opcode, trail.result.saturating_neg(), first);
        }
        self.passages.take(&trail, is_whole);
        if is_whole {
            self.memory.take(&trail);
            part.by_opcode.entry(trail.opcode.clone()).or_default().take(&trail);
        }
        if let Some(items) = trail.run_items {
            let run = part.run_items.entry(items).or_default();
            run.completions += 1;
            run.estimated += u64::from(trail.weight.max(1));
        }
        if let Some(ready) = trail.ready {
            self.cpu_pairs.entry((ready.cpu, trail.posted.cpu)).or_default().take(&trail);
        }
        part.delays.take(trail);
    }

    /// Its completion found the queue full: it is in no latency and by no vehicle.
    pub fn take_overflowed(&mut self, trail: &Trail) {
        self.files.take_overflowed(trail);
        if trail.result < 0 {
            let first = FirstError { posted_ns: trail.posted.ns, user_data: trail.user_data };
            let part = self.parts.entry(trail.ring).or_default();
            part.failed(&trail.opcode, trail.result.saturating_neg(), first);
        }
    }

    pub fn unregistered(&mut self, at: Unregistered) {
        self.memory.unregistered(at);
    }

    /// A request of native or POSIX AIO.
    pub fn take_reaped(&mut self, reaped: Reaped) {
        self.completions += 1;
        self.whole += u64::from(reaped.weight <= 1);
        let part = self.parts.entry(Some(reaped.context)).or_default();
        let latency_ns = reaped.reaped_ns.saturating_sub(reaped.submitted_ns);
        let (tgid, fd, weight) = (reaped.tgid, reaped.fd, reaped.weight);
        self.files.take_reaped(tgid, fd, &reaped.opcode, weight, reaped.result, latency_ns);
        part.by_opcode.entry(reaped.opcode).or_default().take_reaped(latency_ns, weight);
    }

    /// A completion that was looked at in the completion queue.
    pub fn take_stay(&mut self, stay: &Stay) {
        self.parts.entry(stay.ring).or_default().stays.take(stay);
    }

    /// What was followed since the last turn, by ring; only what later completions rest on is kept.
    pub(super) fn turn(&mut self) -> BTreeMap<Option<u32>, Part> {
        self.cpu_pairs.clear();
        self.passages.clear();
        self.files.clear();
        let mut parts = std::mem::take(&mut self.parts);
        parts.values_mut().for_each(|part| drop(part.settle()));
        parts
    }

    /// These rings are told among others from now on, and so is what was followed of them.
    pub(super) fn fold(&mut self, rings: &[u32]) {
        for ring in rings {
            if let Some(part) = self.parts.remove(&Some(*ring)) {
                self.parts.entry(None).or_default().add(&part);
            }
        }
    }

    pub fn record(mut self, observed: Observed, seen: &Seen<'_>, span: Span) -> TraceRecord {
        let none = Part::default();
        let limits: BTreeMap<Option<u32>, BTreeMap<String, Limit>> =
            self.parts.iter_mut().map(|(ring, part)| (*ring, part.settle())).collect();
        let is_wait = |ring: u32, opcode: &str, armed: Option<u8>| {
            let limit = limits.get(&Some(ring)).and_then(|of_ring| of_ring.get(opcode));
            limit.is_some_and(|limit| limit.is_wait(armed))
        };
        let mut orders = self.passages.by_ring(sees_ends(&observed.programs), &is_wait);
        let part = |ring: u32| self.parts.get(&Some(ring)).unwrap_or(&none);
        let one_in = self.one_in(&observed.follow_loss);
        let sq_tids = sq_tids(&observed.rings, &self.parts);
        let matched = rings::matched(&observed.rings, &seen.rings, &sq_tids, &rings::partly_told(&observed.others));
        let threads = threads::of_rings(&observed.rings, |ring| self.parts.get(&Some(ring)).map(|part| &part.threads));
        let mut rings: Vec<RingRecord> = observed
            .rings
            .iter()
            .zip(matched)
            .zip(threads)
            .map(|((counts, found), threads)| {
                let sqpoll = sqpoll(counts, found, sq_tids.get(&counts.ring).copied(), seen);
                let order = orders.remove(&counts.ring);
                RingRecord { order, threads, ..ring(counts, found, part(counts.ring), one_in, sqpoll) }
            })
            .collect();
        share_threads(&mut rings);
        let contexts = observed.contexts.iter().map(|counts| context(counts, part(counts.context), one_in)).collect();
        let others = observed.others.iter().map(|counts| others(counts, &none, one_in)).collect();
        let mut all = Part::default();
        self.parts.values().for_each(|part| all.add(part));
        let open = observed.open.iter().filter_map(|counts| open(counts, &observed.rings, seen.files)).collect();
        let (files, other_files) = files::records(&self.files, &|key| seen.files.name(key), one_in);
        let total = total(observed, &all, &self, span.elapsed_ns, &seen.rings, &is_wait);
        TraceRecord {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_unix_s: span.started_unix_s,
            subject: span.subject,
            total: Total {
                cpu: TraceCpu {
                    user_ns: span.cpu.map(|cpu| cpu.user_ns),
                    system_ns: span.cpu.map(|cpu| cpu.system_ns),
                },
                processes: span.processes,
                // A look at /proc finds those too that were asleep throughout.
                iowq: IowqRecord {
                    most_at_once: span.most_workers.max(total.iowq.most_at_once),
                    cpu_ns: span.workers_cpu_ns,
                    ..total.iowq
                },
                host: span.host,
                open,
                files,
                other_files,
                warnings: [span.warnings, total.warnings].concat(),
                ..total
            },
            rings,
            contexts,
            others,
            findings: vec![],
        }
    }
}

/// The submission-queue threads that were seen to submit, by ring.
pub(super) fn sq_tids(rings: &[RingCounts], followed: &BTreeMap<Option<u32>, Part>) -> HashMap<u32, u32> {
    let polled = rings.iter().filter(|c| c.setup_flags & SQPOLL != 0);
    polled.filter_map(|c| Some((c.ring, followed.get(&Some(c.ring)).filter(|part| part.tid != 0)?.tid))).collect()
}

/// `None`: no memory was shared.
fn memory(of: &Memory) -> Option<MemoryRecord> {
    let ring = of.overlap.as_ref().map(|o| o.ring).or(of.outlived_first.as_ref().map(|first| first.ring))?;
    Some(MemoryRecord {
        overlapping: of.overlapping,
        overlap: of.overlap.as_ref().map(|o| OverlapRecord {
            opcode: o.opcode.clone(),
            bytes: o.bytes,
            user_data: o.user_data.map(|data| format!("{data:#x}")),
        }),
        outlived: of.outlived,
        outlived_user_data: of.outlived_first.as_ref().map(|first| format!("{:#x}", first.user_data)),
        ring,
    })
}

/// What the probes say of all; what only /proc says is left to the caller.
fn total(
    observed: Observed,
    all: &Part,
    summary: &Summary,
    elapsed_ns: u64,
    seen: &[&SeenRing],
    is_wait: IsWait<'_>,
) -> Total {
    let of_rings = observed.rings.iter().flat_map(|ring| &ring.opcodes);
    let of_rings = of_rings.chain(observed.others.iter().flat_map(|others| &others.opcodes));
    let mut batches = Batches::new();
    let of_others = observed.others.iter().map(|others| &others.batches);
    for (at_least, taken) in observed.rings.iter().map(|ring| &ring.batches).chain(of_others).flatten() {
        batches.entry(*at_least).or_default().add(taken);
    }
    let opcodes = merged(of_rings.chain(observed.contexts.iter().flat_map(|context| &context.opcodes)));
    let sum = |f: fn(&OpcodeCounts) -> u64| opcodes.iter().map(f).sum::<u64>();
    let ios = observed.seen;
    let ratio = |n: Option<u64>| n.filter(|_| ios > 0).map(|n| n as f64 / ios as f64);
    let mode_switches = mode_switches(&observed);
    // Without system calls the sum is of no use.
    let switches = observed.syscalls.zip(observed.returns.as_ref()).map(|(calls, r)| calls + r.values().sum::<u64>());
    let times = all.times();
    let probe = Probe {
        mode: "aggregate".into(),
        completions_seen: Some(observed.seen),
        untracked: None,
        lost: Some(observed.lost),
        missed: observed.missed,
        programs: observed.programs,
    };
    let mut warnings = doubt::doubts(Counts {
        completions: ios,
        probe: &probe,
        vehicles: &observed.vehicles,
        interrupts: &observed.interrupts,
    });
    let requests = sum(|o| o.requests);
    if ios + requests == 0 {
        let open: Vec<(u32, Vec<u32>)> =
            seen.iter().filter(|ring| ring.found).map(|ring| (ring.tgid, ring.fds.iter().copied().collect())).collect();
        warnings.push(match open.is_empty() {
            true => doubt::nothing_asynchronous(observed.syscalls, observed.pread_pwrite_calls),
            false => doubt::nothing_of_rings(&open),
        });
    }
    warnings.extend(doubt::no_room(&observed.full));
    let other_contexts = || observed.others.iter().filter(|o| o.kind.is_some());
    let ended = observed.contexts.iter().flat_map(|c| &c.vehicles);
    let ended: u64 = ended.chain(other_contexts().flat_map(|o| &o.vehicles)).map(|v| v.completions).sum();
    let reaped = observed.contexts.iter().flat_map(|c| &c.opcodes);
    let reaped = reaped.chain(other_contexts().flat_map(|o| &o.opcodes)).map(|o| o.completions).sum();
    warnings.extend(doubt::results_unseen(ended, reaped));
    let posix = || observed.contexts.iter().filter(|c| c.kind == ContextKind::PosixAio).flat_map(|c| &c.opcodes);
    let of_posix = |f: fn(&OpcodeCounts) -> u64| posix().map(f).sum();
    warnings.extend(doubt::results_unreturned(of_posix(|o| o.requests), of_posix(|o| o.completions)));
    warnings.extend(doubt::submissions_unseen(observed.aio_unseen));
    let loss = observed.follow_loss;
    let one_in = summary.one_in(&loss);
    let requests = summary.requests(&loss);
    let followed = Followed {
        one_in: summary.choice.one_in,
        adaptive: summary.choice.adaptive,
        completions: summary.completions,
        whole: summary.whole,
        sampled_from: (summary.choice.one_in > 1).then_some(loss.sampled_from),
        came_later: None,
        requests_estimated: requests.map(|t| t.total),
        requests_ci95: requests.map(|t| [t.lo, t.hi]),
        with_stages: times.with_stages(),
        with_queued: function::sees_queued(&probe.programs).then_some(times.with_queued),
        no_room: loss.no_room,
        ring_buffer_full: loss.ring_buffer_full,
        skipped: loss.skipped,
        no_completion: loss.no_completion,
        unfinished: loss.unfinished,
        unreaped: loss.unreaped,
        shared_user_data: loss.shared,
    };
    warnings.extend(doubt::followed_lost(&followed, "--one-in"));
    let ends_seen = sees_ends(&probe.programs);
    Total {
        elapsed_ns,
        windows: None,
        ios,
        bytes: sum(|o| o.bytes),
        errors: sum(|o| o.errors),
        short_ios: sum(|o| o.short),
        iops: if elapsed_ns > 0 { ios as f64 * 1e9 / elapsed_ns as f64 } else { 0.0 },
        latency_ns: times.latency(one_in),
        waits: times.waits(one_in),
        cpu: TraceCpu::default(),
        vehicles: all.vehicles(&observed.vehicles),
        per_io: PerIo {
            syscalls: ratio(observed.syscalls),
            kicks: ratio(observed.kicks),
            resched_ipis: ratio(observed.resched_ipis),
            device_irqs: ratio(observed.device_irqs),
            mode_switches: ratio(switches),
            context_switches: ratio(Some(observed.context_switches)),
            task_work_runs: ratio(observed.task_work_runs),
        },
        mode_switches,
        task_work_batches: observed
            .run_batches
            .iter()
            .map(|&(at_least, runs)| TaskWorkBatch { at_least, runs })
            .collect(),
        interrupts: observed.interrupts,
        ipis: observed.ipis,
        order: summary.passages.order(ends_seen, is_wait),
        followed,
        opcodes: opcodes.iter().map(|o| all.opcode(o, one_in)).collect(),
        stages: times.stages(one_in),
        enter_batches: enter_batches(&batches, one_in),
        enter_calls: enter_calls(&batches, one_in),
        cpu_pairs: summary
            .cpu_pairs
            .iter()
            .map(|(&(ready_cpu, posted_cpu), pair)| CpuPair {
                ready_cpu,
                posted_cpu,
                completions: pair.completions,
                estimated: Some(pair.stands_for),
                threads: Some(pair.threads()),
            })
            .collect(),
        run_items: all.run_items(),
        processes: vec![],
        more_processes: observed.more_processes,
        iowq: IowqRecord {
            workers: observed.iowq_workers,
            most_at_once: Some(observed.iowq_most),
            completions: observed.vehicles.iter().filter(|v| v.vehicle == Vehicle::Iowq).map(|v| v.completions).sum(),
            ..IowqRecord::default()
        },
        page_faults: observed.page_faults,
        stray_calls: observed.stray_calls,
        pread_pwrite_calls: observed.pread_pwrite_calls,
        context_switches: observed.context_switches,
        sampled_events: observed.sampled_events.as_ref().map(|e| sampled_events(e, observed.any_device_irqs)),
        probe,
        cpu_shares: None,
        cpu_samples: None,
        open: vec![],
        memory: memory(&summary.memory),
        files: vec![],
        other_files: None,
        reaping: all.stays.record(),
        reaping_lost: None,
        probe_costs: None,
        host: Host::default(),
        warnings,
    }
}

/// `None`: all of them have completed, and the completion queue was full: then no completion names its request.
fn open(counts: &OpenCounts, rings: &[RingCounts], files: &Names) -> Option<OpenRecord> {
    let of = rings.iter().find(|r| Some(r.ring) == counts.ring);
    let of = of.and_then(|r| r.opcodes.iter().find(|o| o.opcode == counts.opcode));
    // As counted; a ring that was there before has completions of requests that were not.
    let in_flight = of.map(|o| (o.requests + o.more).saturating_sub(o.completions).max(counts.multishot));
    let at_most = in_flight.unwrap_or(u64::MAX);
    (at_most > 0).then(|| OpenRecord {
        ring: counts.ring,
        tgid: counts.tgid,
        opcode: counts.opcode.clone(),
        course: counts.course,
        requests: counts.requests.min(at_most),
        estimated: counts.estimated.min(at_most),
        multishot: counts.multishot,
        oldest_ns: counts.oldest_ns,
        user_data: format!("{:#x}", counts.user_data),
        descriptor: counts.descriptor.map(|d| d.to_string()),
        file: files.of_open(counts.tgid, counts.file, counts.descriptor),
    })
}

/// `any_irqs`: interrupts of any device meanwhile, which were all seen.
fn sampled_events(events: &sampled_events::SampledEvents, any_irqs: u64) -> SampledEvents {
    let all = events.completions as f64;
    let within = |of, most: f64| {
        let (lo, hi) = events.total(of)?.interval.filter(|_| all > 0.0)?;
        Some([lo / all, hi.min(most).max(lo) / all])
    };
    SampledEvents {
        windows: events.windows(),
        completions: events.seen(),
        syscalls_ci95: within(|s| s.syscalls, f64::INFINITY),
        device_irqs_ci95: within(|s| s.credits, any_irqs as f64),
    }
}

fn ring(
    counts: &RingCounts,
    seen: Option<&SeenRing>,
    part: &Part,
    one_in: u32,
    sqpoll: Option<SqpollRecord>,
) -> RingRecord {
    let sum = |f: fn(&OpcodeCounts) -> u64| counts.opcodes.iter().map(f).sum::<u64>();
    let times = part.times();
    RingRecord {
        ring: counts.ring,
        tgid: counts.tgid,
        comm: counts.comm.clone(),
        fds: seen.map_or(vec![], |ring| ring.fds.iter().copied().collect()),
        flags: setup_flag::names(counts.setup_flags, Some(counts.cq_entries)),
        // The last look is later than what the probes know, which is of its making or of the last overflow.
        sq_entries: seen.map_or(counts.sq_entries, |ring| ring.sq_entries),
        cq_entries: seen.map_or(counts.cq_entries, |ring| ring.cq_entries),
        found: counts.found,
        use_of: counts.of,
        requests: sum(|o| o.requests),
        completions: sum(|o| o.completions),
        bytes: sum(|o| o.bytes),
        errors: sum(|o| o.errors),
        overflows: counts.overflows,
        active_ns: counts.active_ns,
        opcodes: counts.opcodes.iter().map(|o| part.opcode(o, one_in)).collect(),
        vehicles: part.vehicles(&counts.vehicles),
        latency_ns: times.latency(one_in),
        waits: times.waits(one_in),
        stages: times.stages(one_in),
        enter_batches: enter_batches(&counts.batches, one_in),
        enter_calls: enter_calls(&counts.batches, one_in),
        run_items: part.run_items(),
        order: None,
        reaping: part.stays.record(),
        sqpoll,
        threads: None,
    }
}

fn context(counts: &ContextCounts, part: &Part, one_in: u32) -> ContextRecord {
    let sum = |f: fn(&OpcodeCounts) -> u64| counts.opcodes.iter().map(f).sum::<u64>();
    let completions = counts.vehicles.iter().map(|v| v.completions).sum();
    let reaped = sum(|o| o.completions);
    let of_results = |n| (reaped > 0 || completions == 0).then_some(n);
    // Results of requests whose submission was not seen: whether they are numbers of bytes is not known.
    let of_known = counts.opcodes.iter().all(|o| o.opcode != "unknown" || o.completions == 0);
    ContextRecord {
        context: counts.context,
        interface: counts.kind.name().into(),
        tgid: counts.tgid,
        comm: counts.comm.clone(),
        entries: counts.entries,
        found: counts.found,
        requests: sum(|o| o.requests),
        completions,
        reaped,
        bytes: of_results(sum(|o| o.bytes)).filter(|_| of_known),
        errors: of_results(sum(|o| o.errors)),
        active_ns: counts.active_ns,
        opcodes: counts.opcodes.iter().map(|o| part.opcode(o, one_in)).collect(),
        vehicles: counts.vehicles.clone(),
        latency_ns: part.times().latency(one_in),
    }
}

fn others(counts: &OtherCounts, none: &Part, one_in: u32) -> OthersRecord {
    let sum = |f: fn(&OpcodeCounts) -> u64| counts.opcodes.iter().map(f).sum::<u64>();
    OthersRecord {
        interface: counts.kind.map_or("io_uring", |kind| kind.name()).into(),
        tgid: counts.tgid,
        comm: counts.comm.clone(),
        rings: counts.rings,
        requests: sum(|o| o.requests),
        completions: counts.vehicles.iter().map(|v| v.completions).sum(),
        bytes: sum(|o| o.bytes),
        errors: sum(|o| o.errors),
        overflows: counts.overflows,
        opcodes: counts.opcodes.iter().map(|o| none.opcode(o, one_in)).collect(),
        vehicles: counts.vehicles.clone(),
    }
}

/// `None`: the ring has no thread, or neither /proc nor a followed request told which.
fn sqpoll(
    counts: &RingCounts,
    found: Option<&SeenRing>,
    by_trails: Option<u32>,
    seen: &Seen<'_>,
) -> Option<SqpollRecord> {
    if counts.setup_flags & SQPOLL == 0 {
        return None;
    }
    // Until its thread has started, fdinfo names the one that made the ring: what was seen to submit goes before.
    let tid = by_trails.or(found.and_then(|ring| ring.sq_thread))?;
    let thread = (seen.sq_thread)(counts.tgid, tid);
    Some(SqpollRecord {
        tid,
        cpu: found.and_then(|ring| ring.sq_cpu),
        elapsed_ns: thread.map(|t| t.elapsed_ns).filter(|ns| *ns > 0),
        cpu_ns: thread.and_then(|t| t.cpu_ns),
        work_ns: found.and_then(SeenRing::work_ns),
        wakeups: thread.and_then(|t| t.sleeps),
        requests: counts.opcodes.iter().map(|o| o.requests).sum(),
        shared_with: vec![],
    })
}

/// Rings on one thread (IORING_SETUP_ATTACH_WQ) are told of each other: the thread's times are of all of them.
fn share_threads(rings: &mut [RingRecord]) {
    let on: Vec<(u32, u32)> = rings.iter().filter_map(|r| Some((r.ring, r.sqpoll.as_ref()?.tid))).collect();
    for (ring, s) in rings.iter_mut().filter_map(|r| Some((r.ring, r.sqpoll.as_mut()?))) {
        s.shared_with =
            on.iter().filter(|(other, tid)| *tid == s.tid && *other != ring).map(|(other, _)| *other).collect();
    }
}

/// As far as they are counted.
pub(super) fn mode_switches(observed: &Observed) -> Vec<ModeSwitch> {
    let calls = observed.syscalls.map(|count| ModeSwitch { cause: "syscall".into(), count });
    let returns = observed.returns.iter().flatten().map(|(cause, n)| ModeSwitch { cause: (*cause).into(), count: *n });
    calls.into_iter().chain(returns).collect()
}

/// Every opcode once, over all rings and contexts.
fn merged<'a>(opcodes: impl Iterator<Item = &'a OpcodeCounts>) -> Vec<OpcodeCounts> {
    let mut by_name: BTreeMap<&str, OpcodeCounts> = BTreeMap::new();
    for o in opcodes {
        let sum = by_name
            .entry(&o.opcode)
            .or_insert_with(|| OpcodeCounts { opcode: o.opcode.clone(), ..OpcodeCounts::default() });
        sum.requests += o.requests;
        sum.skips += o.skips;
        sum.completions += o.completions;
        sum.bytes += o.bytes;
        sum.errors += o.errors;
        sum.short += o.short;
        sum.more += o.more;
        sum.notifications += o.notifications;
        sum.unposted += o.unposted;
        sum.punted_asked += o.punted_asked;
        sum.punted_would_block += o.punted_would_block;
        sum.punted_drained += o.punted_drained;
        for (errno, count) in &o.errnos {
            match sum.errnos.iter_mut().find(|(e, _)| e == errno) {
                Some((_, n)) => *n += count,
                None => sum.errnos.push((*errno, *count)),
            }
        }
    }
    let mut merged: Vec<OpcodeCounts> = by_name.into_values().collect();
    merged.sort_by_key(|o| std::cmp::Reverse(o.completions));
    merged
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
