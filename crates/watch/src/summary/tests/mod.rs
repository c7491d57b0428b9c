//! Synthetic counts and traced requests with known results.

use super::total::total;
use super::*;
use crate::files::Names;
use crate::namespace::Numbers;
use crate::processes::{CpuTime, SqThread};
use crate::rings::{SQPOLL, SeenRing};
use crate::summary::contexts::context;
use iotrail_path::multishot::Multishot;
use iotrail_probe::choice::Choice;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::{Chosen, ContextCounts, ContextKind, FollowLoss, OpcodeCounts, Reaped, RingCounts};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{Delay, DeliveryPathCount, Host, Order, OrderBy, Waits};
use iotrail_schema::trace_record::{
    ErrnoCount, Estimate, IowqRecord, OpcodeRecord, SqpollRecord, Subject, Total, TraceRecord,
};
use iotrail_schema::trail::{Course, RequestTrace, Stamp};
use iotrail_schema::trail_example;

mod counts;
mod estimates;
mod times;

fn at(ns: u64, cpu: u32) -> Stamp {
    Stamp { ns, cpu }
}

/// A read on ring 0, posted by the timer tick 100 ns after its submission; the stages in between are unknown.
fn trail(submitted: u64) -> RequestTrace {
    RequestTrace {
        tgid: 7,
        tid: 8,
        opcode: "read".into(),
        user_data: submitted,
        enter_batch: None,
        submitted: at(submitted, 0),
        issued: None,
        ready: None,
        posted: at(submitted + 100, 0),
        course: Course::Direct,
        run_items: None,
        ..trail_example::trail()
    }
}

/// The same with stages: issued after 10 ns, ready on CPU 1 after another 50 ns, posted after another 40 ns.
fn staged(submitted: u64) -> RequestTrace {
    RequestTrace {
        issued: Some(at(submitted + 10, 0)),
        ready: Some(at(submitted + 60, 1)),
        course: Course::Block,
        ..trail(submitted)
    }
}

fn vehicle(vehicle: DeliveryPath, detail: Option<&str>, completions: u64) -> DeliveryPathCount {
    DeliveryPathCount { vehicle, completions, detail: detail.map(Into::into), delay_ns: None }
}

fn opcode(name: &str, requests: u64, completions: u64) -> OpcodeCounts {
    OpcodeCounts { opcode: name.into(), requests, completions, ..OpcodeCounts::default() }
}

fn counted(ring: u32, opcodes: Vec<OpcodeCounts>, vehicles: Vec<DeliveryPathCount>) -> RingCounts {
    RingCounts {
        ring,
        tgid: 7,
        comm: "db".into(),
        sq_entries: 8,
        cq_entries: 16,
        opcodes,
        vehicles,
        ..RingCounts::default()
    }
}

fn observed(rings: Vec<RingCounts>, vehicles: Vec<DeliveryPathCount>) -> Observed {
    Observed {
        seen: vehicles.iter().map(|v| v.completions).sum(),
        vehicles,
        kicks: Some(3),
        device_irqs: Some(6),
        returns: Some([("timer_tick", 9)].into()),
        context_switches: 12,
        task_work_runs: Some(2),
        run_batches: vec![(4, 2)],
        programs: vec!["ring_complete".into()],
        page_faults: Some(5),
        stray_calls: Some(7),
        pread_pwrite_calls: None,
        aio_unseen: 0,
        rings,
        contexts: vec![],
        follow_loss: FollowLoss { unfinished: 4, ..FollowLoss::default() },
        iowq_workers: 3,
        iowq_most: 3,
        ..Observed::default()
    }
}

/// Each trail has weight `one_in`.
fn record(
    one_in: u32,
    trails: impl IntoIterator<Item = RequestTrace>,
    observed: Observed,
    seen: &[SeenRing],
) -> TraceRecord {
    let trails = trails.into_iter().map(|t| RequestTrace { weight: one_in, ..t });
    recorded(Choice::fixed(one_in), trails, observed, seen)
}

/// Counted when it was selected.
fn submitted(trail: &RequestTrace, observed: &mut Observed) {
    let chosen = &mut observed.follow_loss.chosen;
    *(if trail.weight <= 1 { &mut chosen.whole } else { &mut chosen.sampled }) += 1;
    let ring = observed.rings.iter_mut().find(|ring| Some(ring.ring) == trail.ring);
    if let (Some(ring), Some(batch @ 1..)) = (ring, trail.enter_batch) {
        ring.batches.entry(1 << batch.ilog2()).or_default().take(trail.weight, 1.0 / f64::from(batch));
    }
}

fn recorded(
    choice: Choice,
    trails: impl IntoIterator<Item = RequestTrace>,
    observed: Observed,
    seen: &[SeenRing],
) -> TraceRecord {
    let mut summary = Summary::new(choice);
    let mut observed = observed;
    let mut multishot = Multishot::default();
    for trail in trails {
        if !multishot.is_later(&trail) {
            submitted(&trail, &mut observed);
        }
        summary.take(trail);
    }
    let span = Span {
        started_unix_s: 1,
        elapsed_ns: 2_000_000_000,
        subject: Subject::All,
        host: Host::default(),
        cpu: Some(CpuTime { user_ns: 21, system_ns: 22 }),
        processes: vec![],
        most_workers: Some(2),
        workers_cpu_ns: None,
        warnings: vec![],
    };
    let thread = |_, tid| (tid == 8).then_some(SqThread { tid, elapsed_ns: 1000, cpu_ns: Some(900), sleeps: Some(5) });
    let files = Names::new(std::rc::Rc::new(Numbers::SAME));
    summary.record(observed, &ProcView { rings: seen.iter().collect(), sq_thread: &thread, files: &files }, span)
}

/// Totals based only on traced requests, without counts.
fn followed(one_in: u32, trails: impl IntoIterator<Item = RequestTrace>) -> Total {
    record(one_in, trails, observed(vec![], vec![]), &[]).total
}
