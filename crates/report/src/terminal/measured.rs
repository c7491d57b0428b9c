//! Parts of measurement screens, shared by iotrail's loads and traced programs.

use std::collections::BTreeMap;

use super::bars::bar;
use super::layout::{Column, Screen};
use iotrail_answer::callsites;
use iotrail_answer::compare::Metric;
pub use iotrail_answer::traced::estimate;
use iotrail_answer::warnings::doubt::NOT_SEEN;
use iotrail_base::words::{UNKNOWN, count, known_span, numbers, percent, plural, span, three_digits};
use iotrail_schema::account::CallRecord;
use iotrail_schema::finding::Finding;
use iotrail_schema::measurement::{
    CpuSamples, CpuShare, Delay, Delivery, DeliveryPathCount, Followed, Host, Interrupt, Ipi, Latency, Measurement,
    ModeSwitch, Order, PerIo, Probe, StageRecord, TaskWorkBatch, Warning,
};
use iotrail_schema::runnable::Runnable;
use iotrail_schema::trace_record::CountIntervals;
use iotrail_stats::expansion::is_narrow;

/// `sampled`: some completions were not traced, so a mean without an interval is not printed.
pub fn latency(l: &Latency, sampled: bool) -> Vec<String> {
    let whole = |name: &str, ns: Option<u64>| format!("{name} {}", known_span(ns));
    let mean = l.mean.filter(|_| !sampled || l.mean_ci95.is_some());
    vec![
        format!("mean {}{}", mean.map_or(UNKNOWN.into(), span), interval(l.mean_ci95)),
        whole("min", l.min),
        whole("p50", l.p50),
        whole("p90", l.p90),
        whole("p95", l.p95),
        whole("p99", l.p99),
        whole("p99.9", l.p99_9),
        whole("p99.99", l.p99_99),
        whole(if sampled { "max seen" } else { "max" }, l.max),
    ]
}

/// Printed first if the probes' counts are invalid.
pub fn not_seen(out: &mut Screen, warnings: &[Warning]) {
    if let Some(w) = warnings.iter().find(|w| w.code == NOT_SEEN) {
        out.field("not seen", std::slice::from_ref(&w.text));
    }
}

/// Below this CPU time there are too few timer ticks to split it into user and system time: 20 ticks have an error of
/// 22 %.
pub const SPLIT_NS: u64 = 200_000_000;

/// Printed in place of user and system time.
pub const TOO_SHORT: &str = "too short to separate user from system";

/// Maximum number of rows in the delivery path table: each waker has a row, and a large machine has many.
pub const VEHICLES: usize = 10;

/// Width of the share bar in a table without delays.
const BAR: usize = 12;

/// The same for a total of traced requests or a count of calls; without an interval, it is exact.
pub fn total(text: String, total: f64, ci95: Option<[f64; 2]>) -> String {
    match ci95 {
        Some([lo, hi]) if lo < hi && is_narrow(total, (lo, hi)) => format!("~{text}"),
        Some([lo, hi]) if lo < hi => UNKNOWN.into(),
        _ => text,
    }
}

/// The same for a system call, whose count may be an estimate without an interval.
pub fn calls(call: &CallRecord) -> String {
    match (call.seen, call.count_ci95) {
        (Some(_), None) => UNKNOWN.into(),
        (_, ci95) => total(count(call.count as f64), call.count as f64, ci95),
    }
}

/// The same for a share of `all`.
pub fn estimated_share(n: u64, all: u64, name: &str, intervals: &CountIntervals) -> String {
    let of = |n: f64| n / all.max(1) as f64;
    let text = percent(of(n as f64));
    match intervals.get(name) {
        None => text,
        Some(Some([lo, hi])) if is_narrow(of(n as f64), (of(*lo), of(*hi))) => format!("~{text}"),
        Some(_) => UNKNOWN.into(),
    }
}

/// Name of a delivery path's count in the intervals.
pub fn path_name(v: &DeliveryPathCount) -> String {
    let detail = v.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("vehicles.{}{detail}", v.vehicle.name())
}

/// Delivery paths, most frequent first; rows after `most` are summed.
pub fn vehicles(out: &mut Screen, vehicles: &[DeliveryPathCount], intervals: &CountIntervals, most: usize) {
    let seen: u64 = vehicles.iter().map(|v| v.completions).sum();
    if seen == 0 {
        return;
    }
    let mut sorted: Vec<_> = vehicles.iter().filter(|v| v.completions > 0).collect();
    sorted.sort_by_key(|v| std::cmp::Reverse(v.completions));
    let delays = sorted.iter().any(|v| v.delay_ns.is_some());
    let lines = out.style().lines;
    let row = |vehicle: String, detail: String, completions: u64, name: &str, delay: Option<&Delay>| {
        let share = completions as f64 / seen as f64;
        let counted = estimate(completions.to_string(), completions, name, intervals);
        let mut row = vec![vehicle, detail, counted, estimated_share(completions, seen, name, intervals)];
        match delays {
            true => row.extend([known_span(delay.and_then(|d| d.p50)), known_span(delay.and_then(|d| d.p99))]),
            false => row.push(bar(share, BAR, lines)),
        }
        row
    };
    // A row that sums a single path would take the same space but show less.
    let shown = if sorted.len().saturating_sub(1) > most { most } else { sorted.len() };
    let one = |v: &&DeliveryPathCount| {
        let detail = v.detail.clone().unwrap_or_default().into();
        row(v.vehicle.to_string(), detail, v.completions, &path_name(v), v.delay_ns.as_deref())
    };
    let mut rows: Vec<Vec<String>> = sorted[..shown].iter().map(one).collect();
    if let rest @ [_, ..] = &sorted[shown..] {
        let completions = rest.iter().map(|v| v.completions).sum();
        // Estimates of rare delivery paths are the least accurate.
        let name = rest.last().map(|v| path_name(v)).unwrap_or_default();
        rows.push(row("others".into(), format!("{} more rows", rest.len()), completions, &name, None));
    }
    let mut columns = vec![
        Column::words("delivered by", 12),
        Column::words("detail", if delays { 26 } else { 41 - BAR as u16 }),
        Column::number("completions", 11),
        Column::number("share", 8),
    ];
    match delays {
        true => columns.extend([Column::number("delay p50", 9), Column::number("p99", 8)]),
        false => columns.push(Column::words("", BAR as u16)),
    }
    out.table(&columns, rows);
    out.blank();
}

/// Minimum number of completions for shares, which equals the minimum for a median.
pub const FEW: u64 = 10;

/// Whether the stages come from a sample of traced requests.
pub fn is_sample(m: &Measurement) -> bool {
    m.followed.as_deref().is_some_and(Followed::is_sample)
}

/// Empty if the interval is a single value.
fn interval(ci95: Option<[f64; 2]>) -> String {
    let some = ci95.filter(|[lo, hi]| lo < hi);
    some.map(|[lo, hi]| format!(" (95 % CI {} to {})", span(lo), span(hi))).unwrap_or_default()
}

/// Part of the traced requests: as a share of the requests that they represent, or as a count if there are few.
pub fn part(these: u64, followed: u64, share: f64) -> String {
    if followed < FEW { format!("{these} of {followed}") } else { percent(share) }
}

/// The parts of the mean latency. `sampled`: some completions were not traced.
pub fn stages(stages: Option<&StageRecord>, sampled: bool) -> Vec<String> {
    let Some(s) = stages.filter(|s| s.total_ns > 0.0) else { return Vec::new() };
    let too_few = sampled && s.total_ci95.is_none();
    if s.completions < FEW || too_few {
        let all = plural(s.completions as usize, if too_few { "sampled completion" } else { "completion" });
        return vec![format!("{UNKNOWN}: only {all} with all stages, too few")];
    }
    let part = |name: &str, ns: f64| format!("{name} {} ({})", percent(ns / s.total_ns), span(ns));
    let mut items = vec![
        part("issue", s.issue_ns),
        part("wait", s.wait_ns),
        part("delivery", s.delivery_ns),
        format!("mean total {}{}, of {}", span(s.total_ns), interval(s.total_ci95), count(s.completions as f64)),
    ];
    let worker = |share| format!("{} of delivery in a kernel worker of the file system", percent(share));
    items.extend(s.file_system_share().map(worker));
    let queued = s.queued_ns.filter(|_| s.queued_completions >= FEW);
    let queued = queued.zip(s.queued_delivery_ns.filter(|ns| *ns > 0.0));
    items.extend(queued.map(|(until, of)| {
        let few = match s.queued_completions {
            n if n < s.completions => format!(" (of {})", plural(n as usize, "completion")),
            _ => String::new(),
        };
        format!("{} of delivery until task work was added{few}", percent(until / of))
    }));
    items.extend(s.runnable.as_deref().filter(|r| r.completions >= FEW).and_then(runnable));
    items
}

/// The part of delivery in which the submitter waited for a CPU; empty if negligible.
fn runnable(r: &Runnable) -> Option<String> {
    let share = r.share().filter(|share| *share >= 0.01)?;
    let quantile = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} {}", span(ns as f64)));
    let known: Vec<String> =
        [quantile("p50", r.delay_ns.p50), quantile("p99", r.delay_ns.p99)].into_iter().flatten().collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    Some(format!("{} of delivery waiting for a CPU{known}", percent(share)))
}

/// Sampled locations, most frequent first, and the sampling method.
pub fn where_the_cpu_went(out: &mut Screen, shares: Option<&[CpuShare]>, how: Option<&CpuSamples>) {
    let (Some(shares), Some(how)) = (shares, how) else { return };
    let mut sorted: Vec<_> = shares.iter().filter(|s| s.samples > 0).collect();
    sorted.sort_by_key(|s| std::cmp::Reverse(s.samples));
    let part = |x: Option<f64>| x.map_or(UNKNOWN.into(), percent);
    let row = |s: &&CpuShare| vec![s.place.to_string(), s.samples.to_string(), part(s.share), part(s.lo), part(s.hi)];
    let columns = [
        Column::words("CPU time went to", 22),
        Column::number("samples", 9),
        Column::number("share", 8),
        Column::number("95 %: from", 10),
        Column::number("to", 8),
    ];
    out.blank();
    out.table(&columns, sorted.iter().map(row).collect());
    let mut items = vec![
        format!("{} taken at {} Hz by {}", how.taken, how.hz, how.clock),
        format!("{} elsewhere", how.elsewhere),
        format!("{} lost", how.lost),
        match &how.idle_cpus[..] {
            [] => "no idle CPU counted".into(),
            cpus => format!("idle is of CPU {}", numbers(cpus)),
        },
    ];
    if !how.unplaced.is_empty() {
        let functions: Vec<String> = how.unplaced.iter().map(|f| format!("{} {}", f.function, f.samples)).collect();
        items.push(format!("other: {}", functions.join(", ")));
    }
    out.field("samples", &items);
    out.blank();
}

/// Empty if the order was not traced.
pub fn order(order: Option<&Order>) -> Vec<String> {
    let Some(order) = order else { return Vec::new() };
    let mut items = vec![];
    if order.completions > 0 {
        let (inversions, all) = (count(order.inversions as f64), count(order.completions as f64));
        items.push(format!("{inversions} of {all} completions overtook another"));
        items.push(format!("by at most {} positions", order.max_displacement));
    }
    let by = [
        ("block layer", order.by.block),
        ("device", order.by.device),
        ("file system", order.by.file_system.unwrap_or(0)),
        ("task work", order.by.task_work),
    ];
    items.extend(by.iter().filter(|(_, n)| *n > 0).map(|(place, n)| format!("{place} {}", count(*n as f64))));
    items.extend(order.delivery.as_ref().map(delivery));
    items
}

fn delivery(d: &Delivery) -> String {
    let all = count(d.completions as f64);
    match d.inversions {
        0 => format!("all {all} with a known ready time were posted in ready order"),
        n => format!(
            "of {all} with a known ready time, {} were posted out of ready order, by at most {} positions",
            count(n as f64),
            d.max_displacement
        ),
    }
}

/// 95 % intervals of estimates, by name. Numbers without an interval are exact.
type Intervals = BTreeMap<String, [f64; 2]>;

/// An exact number, an estimate (`~16.2`), or a placeholder if the interval is too wide.
pub fn exact_or_estimate(x: Option<f64>, interval: Option<&[f64; 2]>, text: impl Fn(f64) -> String) -> String {
    match (x, interval) {
        (None, _) => UNKNOWN.into(),
        (Some(x), None) => text(x),
        (Some(x), Some([lo, hi])) if is_narrow(x, (*lo, *hi)) => format!("~{}", text(x)),
        _ => UNKNOWN.into(),
    }
}

pub fn per_io(p: &PerIo, intervals: &Intervals) -> Vec<String> {
    counted(&Metric::PER_IO, p, intervals)
}

/// These counts, if known.
pub fn counted(these: &[Metric], p: &PerIo, intervals: &Intervals) -> Vec<String> {
    let m = Measurement { per_io: p.clone(), ..Measurement::default() };
    let one = |metric: &Metric| {
        let interval = intervals.get(metric.field());
        format!("{} {}", metric.counted(), exact_or_estimate(metric.of(&m), interval, ratio))
    };
    these.iter().map(one).collect()
}

/// Two significant decimals; per I/O, values below 0.001 do not matter.
pub fn ratio(x: f64) -> String {
    match x {
        0.0 => "0".into(),
        x if x < 0.001 => "<0.001".into(),
        x if x < 0.1 => format!("{x:.3}"),
        x if x < 100.0 => format!("{x:.2}"),
        x => three_digits(x),
    }
}

/// `intervals` has the keys `mode_switches.CAUSE`.
pub fn mode_switches(switches: &[ModeSwitch], intervals: &Intervals) -> Vec<String> {
    let some = switches.iter().filter(|s| s.count > 0);
    let one = |s: &ModeSwitch| {
        let interval = intervals.get(&format!("mode_switches.{}", s.cause));
        format!("{} {}", s.cause, exact_or_estimate(Some(s.count as f64), interval, count))
    };
    some.map(one).collect()
}

/// Task work runs by number of completions, in powers of two.
pub fn task_work(batches: &[TaskWorkBatch]) -> Vec<String> {
    let some = batches.iter().filter(|b| b.runs > 0);
    some.map(|b| {
        let items = match b.at_least {
            0 | 1 => format!("of {}", b.at_least),
            n => format!("of {n} to {}", n * 2 - 1),
        };
        format!("{} runs {items}", count(b.runs as f64))
    })
    .collect()
}

pub fn interrupts(interrupts: &[Interrupt]) -> Vec<String> {
    let mut some: Vec<_> = interrupts.iter().filter(|i| i.count > 0 || i.proc_count.is_some_and(|n| n > 0)).collect();
    some.sort_by_key(|i| std::cmp::Reverse(i.count));
    let one = |i: &&Interrupt| {
        let differs = i.proc_count.filter(|n| *n != i.count);
        let proc = differs.map(|n| format!(" (/proc/interrupts {})", count(n as f64))).unwrap_or_default();
        format!("{} {} on CPU {}: {}{proc}", i.vector, i.name, i.cpu, count(i.count as f64))
    };
    some.iter().map(one).collect()
}

pub fn ipis(ipis: &[Ipi]) -> Vec<String> {
    let mut some: Vec<_> = ipis.iter().filter(|i| i.count > 0).collect();
    some.sort_by_key(|i| std::cmp::Reverse(i.count));
    let kick = |site: &str| if site == "task_work_add" { " (kicks)" } else { "" };
    some.iter()
        .map(|i| format!("{}{} CPU {} to {}: {}", i.site, kick(&i.site), i.from_cpu, i.to_cpu, count(i.count as f64)))
        .collect()
}

pub fn probes(probe: &Probe) -> Vec<String> {
    let number = |name: &str, n: Option<u64>| format!("{} {name}", n.map_or(UNKNOWN.into(), |n| n.to_string()));
    if probe.mode == "off" {
        return vec!["off: the delivery paths are unknown".into()];
    }
    vec![
        probe.mode.to_string(),
        number("completions seen", probe.completions_seen),
        number("untracked", probe.untracked),
        number("events lost", probe.lost),
    ]
}

pub fn host(h: &Host) -> Vec<String> {
    let mut items = vec![
        format!("{}, Linux {}", h.hostname, h.kernel),
        format!("{}, {}", h.cpu_model, plural(h.cpus as usize, "CPU")),
    ];
    items.extend(h.clock_source.as_ref().map(|c| format!("clock {c}")));
    items.extend(h.lockdown.as_ref().map(|l| format!("lockdown {l}")));
    items.extend(h.virtualisation.as_ref().map(|v| format!("virtualisation {v}")));
    items
}

/// The last part of the screen: findings and warnings, if any.
pub fn remarks(out: &mut Screen, found: &[Finding], warned: &[Warning]) {
    if !(found.is_empty() && warned.is_empty()) {
        out.blank();
        findings(out, found);
        warnings(out, warned);
    }
}

/// The probes' counts per `each`.
pub fn counts(out: &mut Screen, each: &str, m: &Measurement) {
    out.field(each, &per_io(&m.per_io, &m.per_io_intervals));
    out.field("to user mode", &mode_switches(&m.mode_switches, &Intervals::new()));
    out.field("task work", &task_work(&m.task_work_batches));
    out.field("interrupts", &interrupts(&m.interrupts));
    out.field("IPIs", &ipis(&m.ipis));
    out.field("order", &order(m.order.as_deref()));
    out.field("probes", &probes(&m.probe));
}

pub fn findings(out: &mut Screen, findings: &[Finding]) {
    for f in findings {
        let end = if f.remedy.is_empty() { ".".into() } else { format!(". Advice: {}.", f.remedy) };
        let mark = if f.warns() { "warning: " } else { "note: " };
        out.note(mark, &format!("{}{end}", f.text), f.warns());
        if !f.from.is_empty() {
            out.paragraph("  from: ", &callsites::text(&f.from));
        }
    }
}

pub fn warnings(out: &mut Screen, warnings: &[Warning]) {
    for w in warnings {
        let end = if w.remedy.is_empty() { String::new() } else { format!("; {}", w.remedy) };
        out.note("warning: ", &format!("{}{end}", w.text), true);
    }
}
