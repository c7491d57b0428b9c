//! The metric families of a scrape and their samples.

use std::collections::BTreeMap;

use super::{Answered, INTERRUPTS, OPCODES, RINGS, SITES};
use iotrail_schema::measurement::{Interrupt, Ipi};
use iotrail_schema::metric_family::{Family, Kind, Labels, Value};
use iotrail_schema::metrics_record::{MetricsRecord, OpcodeMetrics, RingMetrics};

const OTHERS: &str = "others";

/// Families without a known value are omitted.
pub fn families(r: &MetricsRecord) -> Vec<Family> {
    let mut all = vec![];
    let mut family = |name, kind, samples: Vec<(Labels, Value)>, help| {
        if !samples.is_empty() {
            all.push(Family { name, help, kind, samples });
        }
    };
    use Kind::{Counter, Gauge, Histogram};
    let one = |value| vec![(vec![], value)];
    let counted = |n: Option<u64>| n.map_or(vec![], |n| one(Value::Count(n)));
    family(
        "build_info",
        Gauge,
        vec![(vec![("version", env!("CARGO_PKG_VERSION").into())], Value::Now(1.0))],
        "Version of iotrail that serves this endpoint.",
    );
    family("watched_seconds", Gauge, one(Value::Now(r.elapsed_ns as f64 / 1e9)), "Time since tracing began.");
    family(
        "followed_one_in",
        Gauge,
        one(Value::Now(f64::from(r.one_in))),
        "One in this many requests is traced end to end, for latencies and delays.",
    );
    family(
        "followed_adaptive",
        Gauge,
        one(Value::Now(f64::from(u8::from(r.adaptive)))),
        "1: all requests are traced at up to 20,000 per second per CPU, and one in followed_one_in above.",
    );

    let rings = rings(&r.rings);
    let each = |value: &dyn Fn(&LabelledRing) -> Option<u64>| -> Vec<(Labels, Value)> {
        rings.iter().filter_map(|t| Some((t.labels(), Value::Count(value(t)?)))).collect()
    };
    let mut completions: Vec<(Labels, Value)> = vec![];
    for told in &rings {
        for (vehicle, n) in &told.vehicles {
            completions.push((with(told.labels(), "vehicle", vehicle), Value::Count(*n)));
        }
    }
    for (vehicle, n) in &r.apart {
        let labels = vec![("ring", "none".into()), ("interface", String::new()), ("tgid", String::new())];
        completions.push((with(with(labels, "comm", ""), "vehicle", vehicle.name()), Value::Count(*n)));
    }
    family("completions", Counter, completions, "Completions by delivery path.");
    let mut requests = vec![];
    for told in &rings {
        for (opcode, o) in &told.opcodes {
            requests.push((with(told.labels(), "opcode", opcode), Value::Count(o.requests)));
        }
    }
    family("requests", Counter, requests, "Requests submitted, by opcode.");
    let sum = |of: fn(&OpcodeMetrics) -> u64| move |t: &LabelledRing| Some(t.opcodes.values().map(of).sum());
    family("transferred_bytes", Counter, each(&sum(|o| o.bytes)), "Results of reads, writes, sends and receives.");
    family("errors", Counter, each(&sum(|o| o.errors)), "Completions with an error.");
    family("cq_overflows", Counter, each(&|t| t.overflows), "Completions that overflowed the completion queue.");
    let mut punts = vec![];
    for told in rings.iter().filter(|t| t.overflows.is_some()) {
        for (cause, of) in [
            ("asked", (|o| o.punted_asked) as fn(&OpcodeMetrics) -> u64),
            ("would_block", |o| o.punted_would_block),
            ("drained", |o| o.punted_drained),
        ] {
            let n = told.opcodes.values().map(of).sum();
            punts.push((with(told.labels(), "cause", cause), Value::Count(n)));
        }
    }
    family("punts", Counter, punts, "Requests punted to io-wq workers.");

    family(
        "kicks",
        Counter,
        counted(r.kicks),
        "Interprocessor interrupts that notified a running task of its task work.",
    );
    family(
        "resched_ipis",
        Counter,
        counted(r.resched_ipis),
        "Reschedule interrupts sent for traced threads: kicks and wake-ups.",
    );
    family(
        "ipis",
        Counter,
        ipis(&r.ipis),
        "Interprocessor interrupts that kicked or woke a traced thread or that it sent, by sender.",
    );
    family(
        "interrupts",
        Counter,
        interrupts(&r.interrupts, |i| i.count),
        "Interrupts that arrived at traced threads, or that may complete their requests, by vector.",
    );
    family(
        "interrupts_on_watched",
        Counter,
        interrupts(&r.interrupts, |i| i.on_watched),
        "The part of interrupts_total that interrupted a traced thread.",
    );
    let switches = r.mode_switches.iter().map(|m| (vec![("cause", m.cause.to_string())], Value::Count(m.count)));
    family(
        "mode_switches",
        Counter,
        switches.collect(),
        "Returns of traced threads from the kernel to user mode, by cause.",
    );
    family("context_switches", Counter, counted(Some(r.context_switches)), "Context switches of traced threads.");
    family("task_work_runs", Counter, counted(r.task_work_runs), "Runs of task work.");
    family("page_faults", Counter, counted(r.page_faults), "Page faults of traced threads in user mode.");

    let delays = r.delays.iter();
    let delays = delays.map(|(vehicle, b)| (with(vec![], "vehicle", vehicle.name()), Value::Buckets(b.clone())));
    family(
        "delivery_delay_seconds",
        Histogram,
        delays.collect(),
        "Time from ready to posted, estimated from the traced completions.",
    );
    let latency = if r.latency.count > 0 { one(Value::Buckets(r.latency.clone())) } else { vec![] };
    family(
        "latency_seconds",
        Histogram,
        latency,
        "Time from submission to posting, estimated from the traced requests.",
    );
    family("followed", Counter, counted(Some(r.followed)), "Completions of traced requests.");
    let lost = r.followed_lost.iter().map(|(cause, n)| (with(vec![], "cause", cause), Value::Count(*n)));
    family("followed_lost", Counter, lost.collect(), "Requests selected for tracing and then dropped.");
    family("lost", Counter, counted(Some(r.lost)), "Missed events, of those from which completions are counted.");
    let missed = r.missed.iter().map(|m| (vec![("program", m.program.clone())], Value::Count(m.events)));
    family("missed_events", Counter, missed.collect(), "Events missed by single probes.");
    family(
        "submissions_unseen",
        Counter,
        counted(Some(r.submissions_unseen)),
        "Native AIO requests without a traced submission.",
    );
    let cpu = [("user", r.observer.user_ns), ("system", r.observer.system_ns)];
    let cpu = cpu.map(|(mode, ns)| (with(vec![], "mode", mode), Value::Nanoseconds(ns)));
    family(
        "observer_cpu_seconds",
        Counter,
        cpu.into(),
        "CPU time of iotrail itself; the CPU time of its probes is part of the traced programs' time.",
    );
    all
}

/// Connections to this endpoint by outcome.
pub fn scrapes(answered: Answered) -> Family {
    let scrapes = [("served", answered.served), ("refused", answered.refused), ("dropped", answered.dropped)];
    let samples = scrapes.map(|(outcome, n)| (with(vec![], "outcome", outcome), Value::Count(n))).into();
    let help = "Connections to this endpoint, by outcome, including this one.";
    Family { name: "scrapes", help, kind: Kind::Counter, samples }
}

fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.to_owned()));
    labels
}

/// A ring or context with series of its own, or the sum of the remaining ones.
struct LabelledRing {
    ring: String,
    interface: &'static str,
    tgid: String,
    comm: String,
    vehicles: BTreeMap<&'static str, u64>,
    opcodes: BTreeMap<String, OpcodeMetrics>,
    overflows: Option<u64>,
}

impl LabelledRing {
    fn labels(&self) -> Labels {
        vec![
            ("ring", self.ring.clone()),
            ("interface", self.interface.into()),
            ("tgid", self.tgid.clone()),
            ("comm", self.comm.clone()),
        ]
    }

    fn add(&mut self, ring: &RingMetrics) {
        for (vehicle, n) in &ring.vehicles {
            *self.vehicles.entry(vehicle.name()).or_default() += n;
        }
        for o in &ring.opcodes {
            let is_told = self.opcodes.contains_key(&o.opcode) || self.opcodes.len() < OPCODES;
            let sum = self.opcodes.entry(if is_told { o.opcode.clone() } else { OTHERS.into() }).or_default();
            sum.requests += o.requests;
            sum.bytes += o.bytes;
            sum.errors += o.errors;
            sum.punted_asked += o.punted_asked;
            sum.punted_would_block += o.punted_would_block;
            sum.punted_drained += o.punted_drained;
        }
        self.overflows = match (self.overflows, ring.overflows) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

/// The first rings keep their series when more rings appear, even after they are closed.
fn rings(rings: &[RingMetrics]) -> Vec<LabelledRing> {
    let told = |ring: String, interface, tgid, comm| LabelledRing {
        ring,
        interface,
        tgid,
        comm,
        vehicles: BTreeMap::new(),
        opcodes: BTreeMap::new(),
        overflows: None,
    };
    let mut all: Vec<LabelledRing> = vec![];
    for ring in rings {
        let is_first = (ring.ring as usize) < RINGS;
        if is_first {
            all.push(told(ring.ring.to_string(), ring.interface, ring.tgid.to_string(), ring.comm.clone()));
        } else if all.last().is_none_or(|last| last.ring != OTHERS) {
            all.push(told(OTHERS.into(), "", String::new(), String::new()));
        }
        if let Some(last) = all.last_mut() {
            last.add(ring);
        }
    }
    all
}

fn ipis(ipis: &[Ipi]) -> Vec<(Labels, Value)> {
    let mut by_site: BTreeMap<&str, u64> = BTreeMap::new();
    for ipi in ipis {
        let is_told = by_site.contains_key(ipi.site.as_str()) || by_site.len() < SITES;
        *by_site.entry(if is_told { &ipi.site } else { OTHERS }).or_default() += ipi.count;
    }
    by_site.into_iter().map(|(site, n)| (with(vec![], "site", site), Value::Count(n))).collect()
}

fn interrupts(rows: &[Interrupt], of: fn(&Interrupt) -> u64) -> Vec<(Labels, Value)> {
    let by_cpu = rows.len() <= INTERRUPTS;
    let mut sums: BTreeMap<(&str, &str, String), u64> = BTreeMap::new();
    for row in rows {
        let cpu = if by_cpu { row.cpu.to_string() } else { "all".into() };
        let key = (row.vector.as_str(), row.name.as_str(), cpu);
        let key = if sums.contains_key(&key) || sums.len() < INTERRUPTS { key } else { (OTHERS, "", "all".into()) };
        *sums.entry(key).or_default() += of(row);
    }
    let told = |((vector, name, cpu), n): ((&str, &str, String), u64)| {
        (vec![("vector", vector.to_owned()), ("name", name.to_owned()), ("cpu", cpu)], Value::Count(n))
    };
    sums.into_iter().map(told).collect()
}
