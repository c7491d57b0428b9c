//! Passes counts from a trace to scrapes. The trace reads its counters only when a scrape requests them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::summary::Summary;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::OpcodeCounts;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::metric_family::Scraped;
use iotrail_schema::metrics_record::{MetricsRecord, Observer, OpcodeMetrics, RingMetrics};

/// The last counts and when they were read.
pub type Look = (Instant, Arc<Scraped>);

/// Exchange between the trace, which answers, and one other thread, which requests.
pub struct MetricsExchange {
    wanted: AtomicBool,
    look: Mutex<Option<Look>>,
    /// Called for each new set of counts.
    tell: Box<dyn Fn() + Send + Sync>,
}

impl MetricsExchange {
    pub fn new(tell: impl Fn() + Send + Sync + 'static) -> Self {
        Self { wanted: AtomicBool::new(false), look: Mutex::new(None), tell: Box::new(tell) }
    }

    pub fn ask(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    pub fn last(&self) -> Option<Look> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a scrape was requested since the last call.
    pub fn is_asked(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }

    pub fn answer(&self, record: Scraped) {
        *self.look.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), Arc::new(record)));
        (self.tell)();
    }
}

impl std::fmt::Debug for MetricsExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

pub(super) fn record(observed: Observed, summary: &Summary, elapsed_ns: u64, observer: Observer) -> MetricsRecord {
    let mut rings: Vec<RingMetrics> = vec![];
    for ring in &observed.rings {
        rings.push(RingMetrics {
            ring: ring.ring,
            interface: "io_uring",
            tgid: ring.tgid,
            comm: ring.comm.clone(),
            vehicles: by_vehicle(&ring.vehicles).into_iter().collect(),
            opcodes: ring.opcodes.iter().map(opcode).collect(),
            overflows: Some(ring.overflows),
        });
    }
    for context in &observed.contexts {
        rings.push(RingMetrics {
            ring: context.context,
            interface: context.kind.name(),
            tgid: context.tgid,
            comm: context.comm.clone(),
            vehicles: by_vehicle(&context.vehicles).into_iter().collect(),
            opcodes: context.opcodes.iter().map(opcode).collect(),
            overflows: None,
        });
    }
    for others in &observed.others {
        rings.push(RingMetrics {
            ring: u32::MAX,
            interface: others.kind.map_or("io_uring", |kind| kind.name()),
            vehicles: by_vehicle(&others.vehicles).into_iter().collect(),
            opcodes: others.opcodes.iter().map(opcode).collect(),
            overflows: others.kind.is_none().then_some(others.overflows),
            ..RingMetrics::default()
        });
    }
    rings.sort_by_key(|r| r.ring);
    let mut apart = by_vehicle(&observed.vehicles);
    for (vehicle, count) in rings.iter().flat_map(|r| &r.vehicles) {
        if let Some(all) = apart.get_mut(vehicle) {
            *all = all.saturating_sub(*count);
        }
    }
    apart.retain(|_, count| *count > 0);
    let loss = observed.follow_loss;
    let (latency, delays) = summary.buckets();
    MetricsRecord {
        elapsed_ns,
        one_in: summary.choice().one_in,
        adaptive: summary.choice().adaptive,
        rings,
        apart: apart.into_iter().collect(),
        followed: summary.completions(),
        followed_lost: vec![
            ("no_room", loss.no_room),
            ("ring_buffer_full", loss.ring_buffer_full),
            ("no_completion", loss.no_completion),
        ],
        latency,
        delays,
        kicks: observed.kicks,
        resched_ipis: observed.resched_ipis,
        task_work_runs: observed.task_work_runs,
        page_faults: observed.page_faults,
        context_switches: observed.context_switches,
        mode_switches: super::summary::mode_switches(&observed),
        interrupts: observed.interrupts,
        ipis: observed.ipis,
        lost: observed.lost,
        missed: observed.missed,
        submissions_unseen: observed.aio_unseen,
        observer,
    }
}

fn by_vehicle(counts: &[DeliveryPathCount]) -> BTreeMap<DeliveryPath, u64> {
    let mut sum = BTreeMap::new();
    for c in counts {
        *sum.entry(c.vehicle).or_insert(0) += c.completions;
    }
    sum
}

fn opcode(o: &OpcodeCounts) -> OpcodeMetrics {
    OpcodeMetrics {
        opcode: o.opcode.clone(),
        requests: o.requests,
        bytes: o.bytes,
        errors: o.errors,
        punted_asked: o.punted_asked,
        punted_would_block: o.punted_would_block,
        punted_drained: o.punted_drained,
    }
}
