//! What the probes counted, in the measurement's words.

use std::collections::BTreeMap;

use super::carrier::{carrier, fired_name, handler, vector};
use super::counted::{Counted, OTHERS, RawRing};
use super::files;
use super::opcode;
use super::raw;
use super::rings::{
    Batches, Chosen, ContextCounts, ContextKind, FollowLoss, OpcodeCounts, OpenCounts, OtherCounts, Process,
    RingCounts, ThreadCounts,
};
use super::sampled_events::{SampledEvents, Sums};
use super::skel::types;
use super::support::{Facts, Plan};
use super::symbols::Symbols;
use super::trails;
use crate::subject::{Interface, Subject};
use iotrail_host::clock::{monotonic_ns, tick_hz};
use iotrail_host::irq::Interrupts;
use iotrail_path::delivery::Carrier;
use iotrail_path::entry::{self, Entry, Fired};
use iotrail_path::loss::Full;
use iotrail_schema::measurement::{Interrupt, Ipi, Missed, VehicleCount};
use iotrail_schema::opcode::counts_bytes;
use iotrail_schema::waker::Line;

/// What was counted over one watched span.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Sums to `seen`.
    pub vehicles: Vec<VehicleCount>,
    pub seen: u64,
    /// Losses that completions rest on.
    pub lost: u64,
    /// Events that single programs missed, by program; those of `lost` among them.
    pub missed: Vec<Missed>,
    /// `None`: the program for it is not there, or symbols can't be read.
    pub kicks: Option<u64>,
    pub resched_ipis: Option<u64>,
    /// Those in which I/O of a watched process ended (`credit.h`).
    pub device_irqs: Option<u64>,
    /// Interrupts of any device, whoever's.
    pub any_device_irqs: u64,
    /// Returns to user mode by cause, system calls not among them.
    pub returns: Option<BTreeMap<&'static str, u64>>,
    pub context_switches: u64,
    /// `None` where the interface has no task work.
    pub task_work_runs: Option<u64>,
    /// Task-work runs by the number of items they ran: (at least, runs).
    pub run_batches: Vec<(u64, u64)>,
    /// Counted only where the interface makes its system calls out of the load's sight.
    pub syscalls: Option<u64>,
    pub interrupts: Vec<Interrupt>,
    pub ipis: Vec<Ipi>,
    pub programs: Vec<String>,
    /// Page faults from user mode; `None`: the program for it is not there.
    pub page_faults: Option<u64>,
    /// System calls other than io_uring_enter, of threads that submit; `None`: not counted.
    pub stray_calls: Option<u64>,
    /// pread64 and pwrite64 calls; `None`: not counted.
    pub pread_pwrite_calls: Option<u64>,
    /// Requests of native aio whose submission's beginning was not seen.
    pub aio_unseen: u64,
    /// By ring and opcode; empty unless the subject asked to follow.
    pub rings: Vec<RingCounts>,
    /// The same of native and POSIX AIO.
    pub contexts: Vec<ContextCounts>,
    pub follow_loss: FollowLoss,
    /// Different io-wq worker threads that ran.
    pub iowq_workers: u64,
    /// Most of them alive at one time, of those that ran.
    pub iowq_most: u64,
    /// Processes that were watched.
    pub processes: Vec<Process>,
    /// And so many more, whose names are not kept.
    pub more_processes: u64,
    /// What there was of more rings and contexts than `rings` and `contexts` tell of.
    pub others: Vec<OtherCounts>,
    /// What system calls and device interrupts are estimated from; `None`: they were counted all the time.
    pub sampled_events: Option<SampledEvents>,
    /// Followed requests that were in flight at the end, the oldest first.
    pub open: Vec<OpenCounts>,
    /// What was lost for want of room, and how much of it.
    pub full: Vec<(Full, u64)>,
}

/// The counters as they were read.
#[derive(Default)]
pub(super) struct Raw {
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
    /// Io-wq workers: made, and most at one time.
    pub workers: (u64, u64),
    /// Followed requests without a completion at the end: those that ask for none, and the others.
    pub skipped: u64,
    pub unfinished: u64,
    pub unreaped: u64,
    pub overflowed: u64,
}

const DEVICE: types::vector = types::vector::VEC_MAX;

fn cause(entry: &Entry) -> &'static str {
    match entry {
        Entry::TimerTick => "timer_tick",
        Entry::ReschedIpi => "resched_ipi",
        Entry::DeviceIrq => "device_irq",
        Entry::PageFault | Entry::Other(_) => "other",
    }
}

/// Programs that only count beside the completions, or see stages of followed requests: what they miss makes that count low, or a
/// stage unknown, and no vehicle wrong.
fn counts_only(program: &str) -> bool {
    ["interrupt_", "mode_page", "block_", "queue_", "credit_"].iter().any(|beginning| program.starts_with(beginning))
}

/// Programs without which it is not known whose I/O a device's interrupt ended.
const CREDITS: [&str; 6] = [
    "interrupt_handler_entry",
    "interrupt_handler_exit",
    "interrupt_softirq_raise",
    "interrupt_softirq_entry",
    "interrupt_softirq_exit",
    "credit_block",
];

/// Losses that completions rest on.
pub(super) fn lost(raw: &Raw, subject: &Subject) -> u64 {
    // Where contexts are counted and there is none, the ends of direct I/O were nobody's who is watched.
    let idle = |program: &str| subject.follow.is_some() && !raw.native_aio && program.starts_with("aio_");
    let rests_on = |program: &str| !counts_only(program) && !idle(program);
    let missed = raw.misses.iter().filter(|(program, _)| rests_on(program)).map(|(_, events)| events);
    let full = full(raw).into_iter().filter(|(what, _)| matches!(what, Full::Threads | Full::Counts | Full::Calls));
    full.map(|(_, n)| n).sum::<u64>() + missed.sum::<u64>()
}

/// What found no room.
fn full(raw: &Raw) -> Vec<(Full, u64)> {
    use types::loss as l;
    let all = [
        (l::LOSS_THREAD, Full::Threads),
        (l::LOSS_COUNT, Full::Counts),
        (l::LOSS_CALL, Full::Calls),
        (l::LOSS_CHILD, Full::Children),
        (l::LOSS_ERRNO, Full::Errnos),
        (l::LOSS_INTERRUPT, Full::Interrupts),
        (l::LOSS_IPI, Full::Ipis),
        (l::LOSS_WORKER, Full::Workers),
        (l::LOSS_WAIT, Full::Waits),
    ];
    let sum = |loss: types::loss| raw.slots.iter().map(|s| s.losses[loss.0 as usize]).sum::<u64>();
    all.into_iter().map(|(loss, what)| (what, sum(loss))).filter(|(_, n)| *n > 0).collect()
}

pub(super) fn observe(
    raw: &Raw,
    subject: &Subject,
    plan: &Plan,
    symbols: Option<&Symbols>,
    proc_interrupts: Option<&Interrupts>,
) -> Observed {
    let has = |program: &str| plan.attach.contains(&program);
    let sum = |f: fn(&types::cpu_slot) -> u64| raw.slots.iter().map(f).sum::<u64>();
    // Of what the kernel did not take, another CPU may have taken back.
    let of_chosen = |f: fn(&types::cpu_slot) -> u64| raw.slots.iter().fold(0, |sum: u64, s| sum.wrapping_add(f(s)));
    let line = |irq: u32| Line { irq, name: proc_interrupts.and_then(|p| handler(p, irq)) };

    // What is still pending when the load stands still came without a run: inline.
    let counted = || raw.rings.iter().map(|r| &r.counted).chain([&raw.forgotten]);
    let rings = |f: fn(&types::ring_count) -> u64| counted().map(|c| f(&c.ring)).sum::<u64>();
    let mut carriers: Vec<(Carrier, u64)> = vec![
        (Carrier::Inline, sum(|s| s.inlined) + rings(|r| r.inlined) + sum(|s| s.pending) + raw.parked),
        (Carrier::SqpollThread, sum(|s| s.sqpoll) + rings(|r| r.sqpoll)),
        (Carrier::IowqWorker, sum(|s| s.iowq) + rings(|r| r.iowq)),
        (Carrier::DevicePoll, sum(|s| s.iopoll) + rings(|r| r.iopoll)),
        (Carrier::Unseen, rings(|r| r.unseen)),
        (Carrier::Undecided, counted().map(|c| c.undecided).sum()),
    ];
    for (key, n) in counted().flat_map(Counted::deliveries) {
        carriers.push((carrier(&key, symbols, &line), n));
    }
    let contexts = by_context(raw, symbols, &line);
    carriers.extend(counted().flat_map(posix_carriers));
    let calls = sum(|s| s.rw_calls);
    let missed: Vec<Missed> = raw
        .misses
        .iter()
        .filter(|(_, events)| **events > 0)
        .map(|(program, events)| Missed { program: (*program).into(), events: *events })
        .collect();
    match subject.interface {
        Interface::OwnCalls => carriers.push((Carrier::Submitter, calls)),
        Interface::HelperCalls => carriers.push((Carrier::HelperThread, calls)),
        Interface::IoUring { .. } | Interface::Aio | Interface::Any | Interface::Readiness => {}
    }
    for (key, count) in raw.deliveries.iter().filter(|(_, count)| *count > 0) {
        carriers.push((carrier(key, symbols, &line), *count));
    }
    let seen: u64 = carriers.iter().map(|(_, count)| count).sum();
    let vehicles = vehicles(carriers);

    let ipis = ipis(raw, symbols);
    let sent =
        plan.attach.iter().any(|name| name.starts_with("interrupt_ipi") || name.starts_with("interrupt_resched_sent"));
    let kicks = (sent && symbols.is_some())
        .then(|| ipis.iter().filter(|i| entry::is_kick_site(&i.site)).map(|i| i.count).sum());
    // A kick or a wake-up is one of the watched's by its target, whoever sent it.
    let for_watched = types::ipi_flag::IPI_RESCHED.0 | types::ipi_flag::IPI_FOR_WATCHED.0;
    let resched_ipis = sent
        .then(|| raw.ipis.iter().filter(|(key, ..)| key.flags.0 & for_watched == for_watched).map(|(.., n)| n).sum());
    // The devices of Hyper-V's bus interrupt by no line.
    let tells_whose =
        CREDITS.iter().all(|program| has(program)) && symbols.is_some() && !Facts::of_this_kernel().hyper_v;
    let credited: u64 = raw.irqs.iter().map(|(.., n)| n.credited).sum();
    let device_irqs = estimated(raw, tells_whose.then_some(credited), |s| s.credits);
    let is_ring = matches!(subject.interface, Interface::IoUring { .. } | Interface::Any);
    Observed {
        vehicles,
        seen,
        lost: lost(raw, subject),
        missed,
        kicks,
        resched_ipis,
        device_irqs,
        any_device_irqs: raw.irqs.iter().map(|(.., n)| n.count).sum(),
        returns: returns(raw, symbols, has("mode_page_fault").then(|| sum(|s| s.page_faults)), &line),
        context_switches: sum(|s| s.switches),
        task_work_runs: is_ring.then(|| sum(|s| s.runs)),
        run_batches: (0..16)
            .map(|i| (1 << i, raw.slots.iter().map(|s| s.run_batch[i]).sum::<u64>()))
            .filter(|(_, runs)| *runs > 0)
            .collect(),
        syscalls: estimated(raw, has("mode_sys_exit").then(|| sum(|s| s.syscalls)), |s| s.syscalls),
        interrupts: interrupts(raw, subject, device_irqs.map(|n| (n, credited)), proc_interrupts),
        ipis,
        programs: plan.attach.iter().map(|s| s.to_string()).collect(),
        stray_calls: estimated(
            raw,
            (has("mode_sys_exit") && subject.follow.is_some()).then(|| sum(|s| s.stray_calls)),
            |s| s.stray_calls,
        ),
        page_faults: has("mode_page_fault").then(|| sum(|s| s.page_faults)),
        pread_pwrite_calls: estimated(raw, has("mode_sys_exit").then_some(calls), |s| s.rw_calls),
        aio_unseen: sum(|s| s.aio_unseen),
        rings: by_ring(raw, symbols, &line),
        contexts,
        follow_loss: FollowLoss {
            no_room: sum(|s| s.no_room),
            ring_buffer_full: sum(|s| s.trails_lost),
            no_completion: sum(|s| s.no_completion) + raw.overflowed,
            skipped: sum(|s| s.skipped) + raw.skipped,
            unfinished: raw.unfinished,
            unreaped: raw.unreaped + sum(|s| s.unreaped),
            chosen: Chosen { whole: of_chosen(|s| s.chosen_whole), sampled: of_chosen(|s| s.chosen_sampled) },
            shared: sum(|s| s.shared.into()),
            // The place of the next one is drawn already.
            sampled_from: sum(|s| s.gaps.saturating_sub(s.until_next.into())),
            came_later: of_chosen(|s| s.came_later),
        },
        iowq_workers: raw.workers.0,
        iowq_most: raw.workers.1,
        processes: raw.processes.clone(),
        more_processes: raw.more_processes,
        others: others(raw, symbols, &line),
        sampled_events: raw.sampled_events.clone(),
        open: open(&raw.open),
        full: full(raw),
    }
}

/// By ring, opcode and what they wait in.
fn open(trails: &[types::trail]) -> Vec<OpenCounts> {
    let now = monotonic_ns();
    let mut all: BTreeMap<_, OpenCounts> = BTreeMap::new();
    for t in trails {
        let open = all.entry((t.ring, t.tgid, t.opcode, t.course.0)).or_insert_with(|| OpenCounts {
            ring: (t.ring != OTHERS).then_some(t.ring),
            tgid: t.tgid,
            opcode: opcode::opcode(t.opcode.into()),
            course: trails::course(t.course),
            requests: 0,
            estimated: 0,
            multishot: 0,
            oldest_ns: 0,
            user_data: 0,
            file: None,
            descriptor: None,
        });
        open.requests += 1;
        open.estimated += u64::from(t.weight.max(1));
        open.multishot += u64::from(t.shots > 0);
        // Of those that went with their ring, until then.
        let until_ns = if t.posted_ns != 0 { t.posted_ns } else { now };
        let age_ns = until_ns.saturating_sub(t.submitted_ns);
        if age_ns >= open.oldest_ns {
            (open.oldest_ns, open.user_data) = (age_ns, t.user_data);
            (open.file, open.descriptor) = (files::seen(t), files::descriptor(t, &open.opcode));
        }
    }
    let mut all: Vec<OpenCounts> = all.into_values().collect();
    all.sort_by_key(|open| std::cmp::Reverse(open.oldest_ns));
    all
}

/// What was counted; or, where it was not all the time, what there was by the windows' account.
fn estimated(raw: &Raw, counted: Option<u64>, of: fn(&Sums) -> u64) -> Option<u64> {
    match &raw.sampled_events {
        None => counted,
        Some(events) => counted.and(events.total(of)).map(|t| t.total.round() as u64),
    }
}

/// Carriers in the measurement's words, the most frequent vehicle first.
fn vehicles(carriers: Vec<(Carrier, u64)>) -> Vec<VehicleCount> {
    let mut by_vehicle = BTreeMap::new();
    for (carrier, count) in carriers.into_iter().filter(|(_, count)| *count > 0) {
        *by_vehicle.entry(carrier.vehicle()).or_insert(0) += count;
    }
    let mut vehicles: Vec<VehicleCount> = by_vehicle
        .into_iter()
        .map(|((vehicle, detail), completions)| VehicleCount { vehicle, completions, detail, delay_ns: None })
        .collect();
    vehicles.sort_by(|a, b| b.completions.cmp(&a.completions).then(a.vehicle.cmp(&b.vehicle)));
    vehicles
}

/// A span of fewer ticks is not told: this many are right within 5 %.
const TICKS: u32 = 20;

/// From the first to the last use of a ring; 0 is none. The kernel's clock of ticks goes round (of 32 bits, in 50 days or more).
fn active_ns(first: u32, last: u32, tick_hz: Option<u32>) -> Option<u64> {
    let ticks = last.wrapping_sub(first);
    (first != 0 && ticks >= TICKS).then_some(u64::from(ticks) * 1_000_000_000 / u64::from(tick_hz?))
}

fn by_ring(raw: &Raw, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Vec<RingCounts> {
    let ring = |r: &RawRing| RingCounts {
        ring: r.number,
        tgid: r.info.tgid,
        comm: raw::text(&r.info.comm),
        setup_flags: r.info.setup_flags,
        sq_entries: r.info.sq_entries,
        cq_entries: r.info.cq_entries,
        found: r.info.found != 0,
        of: r.info.of.checked_sub(1),
        active_ns: active_ns(r.info.first_jiffy, r.info.last_jiffy, tick_hz()),
        overflows: r.counted.ring.overflows,
        batches: batches(&r.counted),
        threads: threads(&r.counted),
        opcodes: opcodes(&r.counted),
        vehicles: carried(r, symbols, line),
    };
    told(raw).filter(|r| kind(r).is_none()).map(ring).collect()
}

fn by_context(raw: &Raw, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Vec<ContextCounts> {
    let context = |r: &RawRing| {
        Some(ContextCounts {
            context: r.number,
            kind: kind(r)?,
            tgid: r.info.tgid,
            comm: raw::text(&r.info.comm),
            entries: (r.info.cq_entries != 0).then_some(r.info.cq_entries),
            found: r.info.found != 0,
            active_ns: active_ns(r.info.first_jiffy, r.info.last_jiffy, tick_hz()),
            opcodes: opcodes(&r.counted),
            vehicles: carried(r, symbols, line),
        })
    };
    told(raw).filter_map(context).collect()
}

fn others(raw: &Raw, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Vec<OtherCounts> {
    let others = |r: &RawRing| OtherCounts {
        kind: kind(r),
        tgid: (r.info.tgid != 0).then_some(r.info.tgid),
        comm: raw::text(&r.info.comm),
        rings: r.info.others.into(),
        overflows: r.counted.ring.overflows,
        batches: batches(&r.counted),
        opcodes: opcodes(&r.counted),
        vehicles: carried(r, symbols, line),
    };
    let all = raw.rings.iter().filter(|r| r.is_others()).map(others);
    all.filter(|o| o.rings > 0 || !o.opcodes.is_empty() || !o.vehicles.is_empty()).collect()
}

/// Those that are told one by one, in the order of their numbers.
fn told(raw: &Raw) -> impl Iterator<Item = &RawRing> {
    raw.rings.iter().filter(|r| !r.is_others())
}

/// `None`: a ring of io_uring.
fn kind(ring: &RawRing) -> Option<ContextKind> {
    match ring.info.interface {
        types::interface::INTERFACE_AIO => Some(ContextKind::Libaio),
        types::interface::INTERFACE_POSIX_AIO => Some(ContextKind::PosixAio),
        _ => None,
    }
}

/// By vehicle: what task work carried, what others did, and (native aio) what ended outside of both.
fn carried(ring: &RawRing, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Vec<VehicleCount> {
    let of = &ring.counted.ring;
    let mut carriers = vec![
        (Carrier::Inline, of.inlined),
        (Carrier::SqpollThread, of.sqpoll),
        (Carrier::IowqWorker, of.iowq),
        (Carrier::DevicePoll, of.iopoll),
        (Carrier::Unseen, of.unseen),
        (Carrier::Undecided, ring.counted.undecided),
    ];
    if kind(ring) == Some(ContextKind::PosixAio) {
        carriers.extend(posix_carriers(&ring.counted));
    }
    carriers.extend(ring.counted.deliveries().map(|(key, n)| (carrier(&key, symbols, line), n)));
    vehicles(carriers)
}

/// POSIX AIO is glibc's threads', but what aio_cancel takes out of their queue: it ends at once, with ECANCELED, which no
/// system call of theirs returns.
fn posix_carriers(counted: &Counted) -> [(Carrier, u64); 2] {
    let opcodes = opcode::POSIX_AIO_OPCODES..opcode::INVALID_OPCODE;
    let all: u64 = counted.ops.range(opcodes.clone()).map(|(_, op)| op.completions).sum();
    let errnos = counted.errnos.range((opcodes.start, 0)..(opcodes.end, 0));
    let cancelled: u64 = errnos.filter(|((_, e), _)| *e == libc::ECANCELED as u32).map(|(_, n)| n).sum();
    [(Carrier::HelperThread, all.saturating_sub(cancelled)), (Carrier::Cancelled, cancelled)]
}

fn batches(counted: &Counted) -> Batches {
    let mut by_power = Batches::new();
    for (&(batch, sampled), &n) in counted.batches.iter().filter(|(of, n)| of.0 > 0 && **n > 0) {
        let taken = by_power.entry(1 << batch.ilog2()).or_default();
        let part = if sampled { &mut taken.sampled } else { &mut taken.whole };
        *part = (part.0 + n, part.1 + n as f64 / f64::from(batch));
    }
    by_power
}

fn threads(counted: &Counted) -> Vec<ThreadCounts> {
    let of =
        |(tid, n): (&u32, &types::ring_thread)| ThreadCounts { tid: *tid, comm: raw::text(&n.comm), waits: n.waits };
    counted.threads.iter().map(of).collect()
}

fn opcodes(counted: &Counted) -> Vec<OpcodeCounts> {
    let used = counted.ops.iter().filter(|(_, op)| op.requests + op.completions + op.errors > 0);
    used.map(|(&number, op)| {
        let errnos = counted.errnos.range((number, 0)..=(number, u32::MAX));
        let opcode = opcode::opcode(number);
        let always = iotrail_schema::opcode::may_force_a_worker(&opcode);
        OpcodeCounts {
            requests: op.requests,
            skips: op.skips,
            completions: op.completions,
            bytes: if counts_bytes(&opcode) { op.bytes } else { 0 },
            errors: op.errors,
            short: op.shorts,
            more: op.more,
            notifications: op.notifications,
            unposted: op.unposted,
            punted_asked: if always { 0 } else { op.punted_asked },
            punted_would_block: op.punted_would_block + if always { op.punted_asked + op.punted_drained } else { 0 },
            punted_drained: if always { 0 } else { op.punted_drained },
            errnos: errnos.filter(|(_, n)| **n > 0).map(|((_, errno), n)| (*errno as i32, *n)).collect(),
            opcode,
        }
    })
    .collect()
}

fn ipis(raw: &Raw, symbols: Option<&Symbols>) -> Vec<Ipi> {
    let mut by_site = BTreeMap::new();
    for (key, count) in raw.ipis.iter().filter(|(_, count)| *count > 0) {
        let site = symbols.and_then(|s| s.caller(key.site)).map_or(format!("{:#x}", key.site), str::to_owned);
        *by_site.entry((site, key.from_cpu, key.to_cpu)).or_insert(0) += count;
    }
    by_site.into_iter().map(|((site, from_cpu, to_cpu), count)| Ipi { site, from_cpu, to_cpu, count }).collect()
}

fn returns(
    raw: &Raw,
    symbols: Option<&Symbols>,
    page_faults: Option<u64>,
    line: &dyn Fn(u32) -> Line,
) -> Option<BTreeMap<&'static str, u64>> {
    let symbols = symbols?;
    let mut by_cause = BTreeMap::from([("page_fault", page_faults?)]);
    for (key, count) in raw.returns.iter().filter(|(_, count)| *count > 0) {
        let fired = match key.vector {
            DEVICE => Fired::Line,
            types::vector::VEC_UNTRACED_TIMER => Fired::Timer,
            vector => Fired::Vector(fired_name(vector).into()),
        };
        let line = key.line.checked_sub(1).map(line).and_then(|l| l.name);
        let entry = entry::of(symbols.caller(key.entry), Some(&fired), line.as_deref());
        // An interrupt that arrived inside another one's softirq, or inside a page fault, has that one's entry there.
        let own = entry::of(None, Some(&fired), line.as_deref());
        if let Some(entry) = entry.filter(|e| Some(e) == own.as_ref()) {
            *by_cause.entry(cause(&entry)).or_insert(0) += count;
        }
    }
    Some(by_cause)
}

/// The target's lines, those of the program's I/O, and what hit a watched thread. `credits`: how many there were, and how many of these
/// were counted; `None`: it is not known whose they were.
fn interrupts(
    raw: &Raw,
    subject: &Subject,
    credits: Option<(u64, u64)>,
    proc_interrupts: Option<&Interrupts>,
) -> Vec<Interrupt> {
    let all = |counted: u64, count: u64| {
        let (all, seen) = credits?;
        if all == seen || seen == 0 {
            return Some(counted);
        }
        Some(((counted as f64 * all as f64 / seen as f64).round() as u64).min(count))
    };
    let mut rows: BTreeMap<(String, u32), (String, types::irq_count)> = BTreeMap::new();
    for (irq, cpu, n) in &raw.irqs {
        let name = proc_interrupts.and_then(|p| handler(p, *irq)).unwrap_or_default();
        let (_, row) = rows.entry((irq.to_string(), *cpu)).or_insert((name, types::irq_count::default()));
        row.count += n.count;
        row.on_watched += n.on_watched;
        row.credited += n.credited;
        row.spent_ns += n.spent_ns;
    }
    let of_target = |line: &str| subject.target_irqs.iter().any(|irq| irq.to_string() == line);
    rows.retain(|(line, _), (_, n)| n.on_watched + n.credited > 0 || (n.count > 0 && of_target(line)));
    for (cpu, slot) in raw.slots.iter().enumerate() {
        for (i, n) in slot.vectors.iter().enumerate().filter(|(_, n)| n.on_watched > 0) {
            let (mnemonic, name) = vector(types::vector(i as u32));
            let key = (mnemonic.into(), cpu as u32);
            let (_, row) = rows.entry(key).or_insert((name.into(), types::irq_count::default()));
            row.count += n.count;
            row.on_watched += n.on_watched;
        }
    }
    rows.into_iter()
        .map(|((vector, cpu), (name, types::irq_count { count, on_watched, credited, spent_ns }))| Interrupt {
            // Only the handlers of lines are timed, and end I/O.
            spent_ns: Some(spent_ns).filter(|_| subject.spans_timed && vector.parse::<u32>().is_ok()),
            credited: all(credited, count).filter(|_| vector.parse::<u32>().is_ok()),
            proc_count: proc_interrupts.and_then(|p| p.count(&vector, cpu)),
            vector,
            name,
            cpu,
            count,
            on_watched,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Choice;
    use crate::subject::{Follow, Who};

    #[test]
    fn the_time_of_use_is_told_where_the_tick_can_tell_it() {
        assert_eq!(active_ns(1000, 1025, Some(250)), Some(100_000_000));
        assert_eq!(active_ns(u32::MAX - 9, 10, Some(1000)), Some(20_000_000), "the clock went round");
        assert_eq!(active_ns(1000, 1019, Some(250)), None);
        assert_eq!([active_ns(0, 0, Some(100)), active_ns(1000, 2000, None)], [None, None]);
    }

    #[test]
    fn what_aio_cancel_finished_no_thread_of_glibc_did() {
        let mut counted = Counted::default();
        let read = opcode::POSIX_AIO_OPCODES;
        counted.op(read, &types::op_count { completions: 64, ..types::op_count::default() });
        counted.errnos.insert((read, libc::ECANCELED as u32), 60);
        assert_eq!(posix_carriers(&counted), [(Carrier::HelperThread, 4), (Carrier::Cancelled, 60)]);
    }

    #[test]
    fn a_miss_is_a_loss_where_completions_rest_on_it() {
        let subject = |follow| Subject {
            who: Who::Followed,
            interface: Interface::Any,
            target_irqs: vec![],
            follow,
            aio_awaited: false,
            spans_timed: false,
        };
        let traced = subject(Some(Follow { choice: Choice::fixed(1), ring_bytes: 4096 }));
        let mut raw = Raw {
            misses: BTreeMap::from([("aio_iomap_complete", 1), ("block_ended", 2), ("interrupt_ipi_send", 4)]),
            ..Raw::default()
        };
        assert_eq!(lost(&raw, &traced), 0, "nobody who is watched uses native aio");
        assert_eq!(lost(&raw, &subject(None)), 1, "a load of our own is native aio where this program is there");
        raw.native_aio = true;
        assert_eq!(lost(&raw, &traced), 1);
        raw.misses.insert("follow_complete", 8);
        assert_eq!(lost(&raw, &traced), 9);
    }
}
