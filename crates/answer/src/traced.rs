//! The metrics of a trace, in total and by opcode, ring, thread and file, for budgets and comparisons.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::figure::{Metric, Unit};
use iotrail_base::words::UNKNOWN;
use iotrail_schema::account::{Reason, ThreadAccount, ThreadState};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{Cpu, Latency, Measurement};
use iotrail_schema::opcode;
use iotrail_schema::setup_flag;
use iotrail_schema::syscall;
use iotrail_schema::trace_record::{CountIntervals, FileRequests, OpcodeRecord, RingRecord, Total, TraceRecord};
use iotrail_stats::expansion::is_narrow;

/// The part of the trace that a metric describes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    All,
    Opcode(String),
    Ring(u32),
    /// All threads with this name.
    Thread(String),
    File(String),
}

impl Scope {
    /// `opcode.read`; empty for the whole trace.
    pub fn text(&self) -> String {
        match self {
            Scope::All => String::new(),
            Scope::Opcode(name) => format!("opcode.{name}"),
            Scope::Ring(number) => format!("ring.{number}"),
            Scope::Thread(name) => format!("thread.{name}"),
            Scope::File(path) => format!("file.{path}"),
        }
    }
}

/// A count that may include windows: `~1.2 M`, or `–` if its interval is wide or unknown.
pub fn estimate(text: String, n: u64, name: &str, intervals: &CountIntervals) -> String {
    match intervals.get(name) {
        None => text,
        // A count of 0 has no relative width.
        Some(Some([lo, hi])) if n == 0 || is_narrow(n as f64, (*lo, *hi)) => format!("~{text}"),
        Some(_) => UNKNOWN.into(),
    }
}

/// `opcode.read errors`; only the metric if it covers the whole trace.
pub fn label(scope: &str, figure: &str) -> String {
    if scope.is_empty() { figure.to_owned() } else { format!("{scope} {figure}") }
}

/// A value's JSON name, in words.
pub fn in_words(name: &impl Serialize) -> String {
    let value = serde_json::to_value(name).ok();
    value.and_then(|value| value.as_str().map(|name| name.replace('_', " "))).unwrap_or_default()
}

#[derive(Debug, Clone, PartialEq)]
pub struct TraceFigure {
    pub scope: Scope,
    /// `syscalls_per_io`, `delivered.timer_tick`, `calls.fsync`.
    pub name: String,
    pub unit: Unit,
    /// `None` if unknown.
    pub value: Option<f64>,
    /// 95 % interval of an estimate; `None` if exact or unknown.
    pub ci95: Option<[f64; 2]>,
    /// Independent of the machine's load.
    pub is_steady: bool,
}

impl TraceFigure {
    /// `opcode.read errors`.
    pub fn label(&self) -> String {
        label(&self.scope.text(), &self.name)
    }

    pub fn text(&self, x: f64) -> String {
        match self.unit {
            // Budgets compare all digits.
            Unit::Count | Unit::Rare => exact(x),
            unit => unit.text(x),
        }
    }
}

/// Counts in full, ratios with four digits.
fn exact(x: f64) -> String {
    if x.fract() == 0.0 { format!("{x:.0}") } else { format!("{x:.4}") }
}

struct Figures {
    scope: Scope,
    all: Vec<TraceFigure>,
}

impl Figures {
    fn add(&mut self, name: impl Into<String>, unit: Unit, value: Option<f64>, is_steady: bool) {
        let (scope, name) = (self.scope.clone(), name.into());
        self.all.push(TraceFigure { scope, name, unit, value, ci95: None, is_steady });
    }

    fn count(&mut self, name: impl Into<String>, n: Option<u64>) {
        self.add(name, Unit::Count, n.map(|n| n as f64), true);
    }

    fn latency(&mut self, latency: &Latency) {
        let ns = |n: Option<u64>| n.map(|n| n as f64);
        let all = [
            ("latency_mean", latency.mean),
            ("latency_p50", ns(latency.p50)),
            ("latency_p99", ns(latency.p99)),
            ("latency_p99_9", ns(latency.p99_9)),
            ("latency_max", ns(latency.max)),
        ];
        all.into_iter().for_each(|(name, value)| self.add(name, Unit::Time, value, false));
    }

    /// Adds counts of requests with these opcodes.
    fn requests(&mut self, opcodes: &[OpcodeRecord]) {
        let sum = |of: fn(&OpcodeRecord) -> u64| Some(opcodes.iter().map(of).sum());
        self.count("requests", sum(|o| o.requests));
        self.count("completions", sum(|o| o.completions));
        self.count("bytes", sum(|o| o.bytes).filter(|_| !opcodes.iter().any(OpcodeRecord::bytes_unknown)));
        let all_seen = |_: &u64| opcodes.iter().all(|o| o.seen.is_none());
        self.count("errors", sum(|o| o.errors).filter(all_seen));
        self.count(
            "short",
            sum(|o| o.short.unwrap_or(0))
                .filter(all_seen)
                .filter(|_| !opcodes.iter().any(OpcodeRecord::short_not_told)),
        );
        self.count("punted", sum(|o| o.punted_asked + o.punted_would_block + o.punted_drained));
        let syncs = opcodes.iter().filter(|o| opcode::is(&o.opcode, opcode::SYNCS)).map(|o| o.requests).sum();
        self.count("syncs", Some(syncs));
    }

    fn delivered(&mut self, counts: &BTreeMap<DeliveryPath, u64>) {
        let all: u64 = counts.values().sum();
        for path in DeliveryPath::ALL {
            let share = counts.get(&path).copied().unwrap_or(0) as f64 / all.max(1) as f64;
            self.add(format!("delivered.{}", path.name()), Unit::Share, (all > 0).then_some(share), false);
        }
    }

    /// Adds shares of these threads' wall time.
    fn threads(&mut self, threads: &[&ThreadAccount]) {
        let wall: u64 = threads.iter().map(|thread| thread.wall_ns).sum();
        let rows = || threads.iter().flat_map(|thread| &thread.rows);
        let share = |ns: u64| (wall > 0).then(|| ns as f64 / wall as f64);
        let state = |state| share(rows().filter(|row| row.state == state).map(|row| row.ns).sum());
        for (name, of) in
            [("running", ThreadState::Running), ("runnable", ThreadState::Runnable), ("blocked", ThreadState::Blocked)]
        {
            self.add(name, Unit::ShareOfTime, state(of), false);
        }
        let submits = |row: &&iotrail_schema::account::ThreadRow| {
            row.state == ThreadState::Blocked
                && matches!(row.syscall.as_deref(), Some("io_uring_enter" | "io_submit"))
                && row.reason != Some(Reason::UringCompletions)
        };
        self.add("blocked_in_submit", Unit::ShareOfTime, share(rows().filter(submits).map(|row| row.ns).sum()), false);
    }
}

fn by_path(counts: &[iotrail_schema::measurement::DeliveryPathCount]) -> BTreeMap<DeliveryPath, u64> {
    let mut sums = BTreeMap::new();
    counts.iter().for_each(|c| *sums.entry(c.vehicle).or_default() += c.completions);
    sums
}

/// The counts of an opcode that the program never used: 0, if the trace has the opcode of every request.
pub fn unused(t: &TraceRecord, opcode: &str) -> Vec<TraceFigure> {
    let mut figures = Figures { scope: Scope::Opcode(opcode.to_owned()), all: Vec::new() };
    let all_named = t.total.opcodes.iter().all(|o| o.seen.is_none() && opcode::exists(&o.opcode));
    if all_named && opcode::exists(opcode) && t.total.opcodes.iter().all(|o| o.opcode != opcode) {
        figures.requests(&[]);
    }
    figures.all
}

/// All metrics defined for a trace, known or unknown.
pub fn figures(t: &TraceRecord) -> Vec<TraceFigure> {
    let mut figures = Figures { scope: Scope::All, all: Vec::new() };
    whole(&mut figures, t);
    for opcode in &t.total.opcodes {
        figures.scope = Scope::Opcode(opcode.opcode.clone());
        figures.requests(std::slice::from_ref(opcode));
        figures.latency(&opcode.latency_ns);
    }
    for ring in &t.rings {
        figures.scope = Scope::Ring(ring.ring);
        figures.requests(&ring.opcodes);
        figures.count("overflows", Some(ring.overflows));
        figures.delivered(&by_path(&ring.vehicles));
        figures.latency(&ring.latency_ns);
    }
    let mut threads: BTreeMap<&str, Vec<&ThreadAccount>> = BTreeMap::new();
    let all = t.account.iter().flat_map(|account| &account.threads);
    all.for_each(|thread| threads.entry(&thread.comm).or_default().push(thread));
    for (name, threads) in threads {
        figures.scope = Scope::Thread(name.to_owned());
        figures.threads(&threads);
    }
    for file in &t.total.files {
        let Some(path) = &file.path else { continue };
        figures.scope = Scope::File(path.clone());
        for (name, requests) in [("reads", file.reads), ("writes", file.writes), ("others", file.others)] {
            of_file(&mut figures, name, requests);
        }
        figures.latency(&file.latency_ns);
    }
    figures.all
}

fn of_file(figures: &mut Figures, name: &str, requests: Option<FileRequests>) {
    let estimate = requests.map(|r| r.requests);
    figures.add(name, Unit::Count, estimate.map_or(Some(0.0), |e| Some(e.total)), true);
    if let (Some(e), Some(last)) = (estimate, figures.all.last_mut()) {
        last.ci95 = Some(e.ci95).filter(|[lo, hi]| lo != hi);
    }
}

fn whole(figures: &mut Figures, t: &TraceRecord) {
    let total = &t.total;
    figures.requests(&total.opcodes);
    // Completions through all interfaces, whether or not their request is known.
    figures.all.iter_mut().filter(|f| f.name == "completions").for_each(|f| f.value = Some(total.ios as f64));
    figures.count("operations", total.operations);
    figures.count("overflows", Some(t.rings.iter().map(|ring| ring.overflows).sum()));
    figures.count("rings", Some(t.rings.iter().filter(|ring| ring.use_of.is_none()).count() as u64));
    for flag in setup_flag::ALL.map(|flag| flag.name) {
        let has = |ring: &&RingRecord| ring.use_of.is_none() && setup_flag::is_set(&ring.flags, flag);
        figures.count(format!("rings.{flag}"), Some(t.rings.iter().filter(has).count() as u64));
    }
    figures.add("context_switches", Unit::Count, Some(total.context_switches as f64), false);
    figures.delivered(&by_path(&total.vehicles));
    for call in t.calls.iter().flatten() {
        // Whether a lock is taken, and how a wait ends, depends on other threads.
        let takes_locks = call.syscall.starts_with("futex");
        let waits = takes_locks || syscall::find(&call.syscall).is_some_and(|of| of.wait.is_some());
        let number = Some(call.count as f64).filter(|_| call.seen.is_none() || call.count_ci95.is_some());
        figures.add(format!("calls.{}", call.syscall), Unit::Count, number, !takes_locks);
        if let (Some(ci95), Some(last)) = (call.count_ci95, figures.all.last_mut()) {
            last.ci95 = Some(ci95);
        }
        let errors = call.seen.is_none().then(|| call.failed() as f64);
        figures.add(format!("calls.{}.errors", call.syscall), Unit::Count, errors, !waits);
    }
    let own: Vec<&ThreadAccount> = t.own_threads().collect();
    figures.threads(&own);
    let measurement = measurement(t);
    for metric in Metric::ALL.iter().copied() {
        let Some(figure) = metric.figure() else { continue };
        let is_of_calls = metric == Metric::SyscallsPerIo;
        figures.add(figure.id, figure.unit, metric.of(&measurement), is_of_calls);
        if let (Some(ci95), Some(last)) = (total.per_io_intervals.get(metric.field()), figures.all.last_mut())
            && Metric::PER_IO.contains(&metric)
        {
            last.ci95 = Some(*ci95);
        }
    }
    figures.add("latency_max", Unit::Time, total.latency_ns.max.map(|ns| ns as f64), false);
}

/// The trace as a measurement, for reading measurement metrics.
pub fn measurement(t: &TraceRecord) -> Measurement {
    let cpu = Cpu { user_ns: t.total.cpu.user_ns, system_ns: t.total.cpu.system_ns, ..Cpu::default() };
    let mut m = Measurement { elapsed_ns: t.total.elapsed_ns, cpu, ..Measurement::default() };
    fill(&mut m, t.total.clone());
    m
}

/// Copies a trace's metrics into a measurement.
pub fn fill(m: &mut Measurement, t: Total) {
    m.ios = Some(t.ios);
    m.operations = t.operations;
    m.bytes = Some(t.bytes);
    m.errors = Some(t.errors);
    m.short_ios = Some(t.short_ios);
    m.iops = Some(t.iops);
    m.latency_ns = t.latency_ns;
    m.vehicles = t.vehicles;
    m.per_io = t.per_io;
    m.per_io_intervals = t.per_io_intervals;
    m.mode_switches = t.mode_switches;
    m.task_work_batches = t.task_work_batches;
    m.interrupts = t.interrupts;
    m.ipis = t.ipis;
    m.order = t.order.map(Into::into);
    m.stages = t.stages.map(Into::into);
    m.followed = Some(t.followed.into());
    m.probe = t.probe;
    m.warnings.extend(t.warnings);
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::account::CallRecord;
    use iotrail_testing::trace::{clean, with_ring};

    fn value(t: &TraceRecord, scope: &Scope, name: &str) -> Option<f64> {
        let all = figures(t);
        let found = all.iter().find(|f| f.scope == *scope && f.name == name);
        found.unwrap_or_else(|| panic!("{name}")).value
    }

    #[test]
    fn trace_metrics_are_read_from_their_fields_and_have_unique_labels() {
        let t = clean();
        let all = |name: &str| value(&t, &Scope::All, name);
        assert_eq!((all("requests"), all("errors"), all("delivered.enter")), (Some(80_000.0), Some(0.0), Some(1.0)));
        assert_eq!((all("syscalls_per_io"), all("context_switches_per_io")), (None, Some(0.06)));
        assert_eq!((all("rings.defer_taskrun"), all("rings.sqpoll")), (Some(1.0), Some(0.0)));
        assert_eq!((all("running"), all("latency_max")), (None, Some(1_000_000.0)));
        assert_eq!(value(&t, &Scope::Opcode("read".into()), "latency_p50"), Some(100_000.0));
        let mut names: Vec<String> = figures(&t).iter().map(TraceFigure::label).collect();
        let n = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), n);
    }

    #[test]
    fn counts_of_calls_that_depend_on_other_threads_are_not_steady() {
        let mut t = clean();
        let call = |name: &str| CallRecord { syscall: name.into(), count: 3, ..CallRecord::default() };
        t.calls = Some(["futex", "epoll_wait", "fsync"].map(call).into());
        let steady = |name: &str| figures(&t).iter().find(|f| f.name == name).unwrap().is_steady;
        let of = |name: &str| (steady(&format!("calls.{name}")), steady(&format!("calls.{name}.errors")));
        assert_eq!((of("futex"), of("epoll_wait"), of("fsync")), ((false, false), (true, false), (true, true)));
    }

    #[test]
    fn an_estimated_metric_has_a_confidence_interval() {
        let mut t = with_ring(|_| ());
        t.total.per_io.syscalls = Some(1.5);
        t.total.per_io_intervals.insert("syscalls".into(), [1.4, 1.6]);
        let all = figures(&t);
        let syscalls = all.iter().find(|f| f.name == "syscalls_per_io").unwrap();
        assert_eq!((syscalls.value, syscalls.ci95), (Some(1.5), Some([1.4, 1.6])));
    }
}
