//! The first lines of one measurement: the answer, what to do, then throughput, latency, where the time went and what delivered.

use super::layout::{Screen, WIDTH};
use super::measured;
use iotrail_answer::group::shares_of;
use iotrail_answer::head::measured::{Verdict, parts_known};
use iotrail_base::words::{UNKNOWN, count, known_span, list, percent, plural, span};
use iotrail_schema::finding::Finding;
use iotrail_schema::measurement::{Latency, PerIo, StageRecord, VehicleCount, Warning};
use iotrail_schema::vehicle::Vehicle;

/// What limits the figures, at most.
pub const LIMITS: usize = 2;
/// Delivery paths that are named.
const PATHS: usize = 4;
/// Columns of the bar.
const BAR: usize = WIDTH - 13;

pub fn of(out: &mut Screen, v: &Verdict) {
    out.heading(&v.answer);
    if let Some(advice) = &v.advice {
        out.paragraph("  do    ", advice);
    }
    let told: Vec<&Finding> = v.others.iter().filter(|f| f.warns()).collect();
    if let Some(first) = told.first() {
        out.paragraph("  also  ", &brief(&first.text));
    }
    let rest = v.others.len() - usize::from(!told.is_empty());
    if rest > 0 {
        out.paragraph("        ", &format!("{} more below --full", plural(rest, "finding")));
    }
    out.blank();
}

/// Its figures, without the explanation.
fn brief(text: &str) -> String {
    text.split_once(": ")
        .filter(|(head, _)| head.contains(|c: char| c.is_ascii_digit()))
        .map_or(text, |(head, _)| head)
        .to_owned()
}

/// `p50 91.0 µs · p99 210 µs · max 4.00 ms · mean 95.2 µs`.
pub fn latency(l: &Latency, sampled: bool) -> Vec<String> {
    if l.count == 0 {
        return Vec::new();
    }
    let quantile = |name: &str, ns: Option<u64>| format!("{name} {}", known_span(ns));
    vec![
        quantile("p50", l.p50),
        quantile("p99", l.p99),
        quantile("p99.9", l.p99_9),
        quantile(if sampled { "max seen" } else { "max" }, l.max),
    ]
}

/// The parts of the mean latency as a bar.
pub fn time(out: &mut Screen, stages: Option<&StageRecord>, sampled: bool) {
    let Some(s) = parts_known(stages, sampled) else { return };
    let parts = [('░', "issue", s.issue_ns), ('█', "wait", s.wait_ns), ('▒', "delivery", s.delivery_ns)];
    let mut labels: Vec<String> = parts
        .iter()
        .map(|(sign, name, ns)| format!("{sign} {name} {} ({})", percent(ns / s.total_ns), span(*ns)))
        .collect();
    if let Some(last) = labels.last_mut() {
        last.push_str(&format!(" of {} on average", span(s.total_ns)));
    }
    out.field("time", &labels);
    let mut bar = String::new();
    let mut until = 0.0;
    for (sign, _, ns) in parts {
        until += ns / s.total_ns;
        let end = (until * BAR as f64).round() as usize;
        while bar.chars().count() < end.min(BAR) {
            bar.push(sign);
        }
    }
    out.field("", &[bar]);
}

/// `enter 82 % · inline 12 % · …`.
pub fn delivered(vehicles: &[VehicleCount]) -> Vec<String> {
    let shares = shares_of(vehicles);
    let one = |(v, share): &(Vehicle, f64)| format!("{} {}", v.name(), percent(*share));
    let rest = shares.len().saturating_sub(PATHS);
    let more = (rest > 0).then(|| plural(rest, "other"));
    shares.iter().take(PATHS).map(one).chain(more).collect()
}

pub fn per_io(p: &PerIo) -> Vec<String> {
    [
        ("system calls", p.syscalls),
        ("kicks", p.kicks),
        ("device interrupts", p.device_irqs),
        ("context switches", p.context_switches),
    ]
    .map(|(name, x)| format!("{name} {}", x.map_or(UNKNOWN.into(), measured::ratio)))
    .to_vec()
}

/// What limits the figures: the first `most`, and how many more there are.
pub fn limits(out: &mut Screen, warnings: &[Warning], said: &str, most: usize) {
    let all: Vec<&Warning> = warnings.iter().filter(|w| !said.contains(&w.text)).collect();
    if all.is_empty() {
        return;
    }
    out.blank();
    for (i, w) in all.iter().take(most).enumerate() {
        let end = if w.remedy.is_empty() { String::new() } else { format!("; {}", w.remedy) };
        out.note(if i == 0 { "limits  " } else { "        " }, &format!("{}{end}", w.text), true);
    }
    if let rest @ [_, ..] = &all[all.len().min(most)..] {
        let codes: Vec<String> = rest.iter().map(|w| w.code.clone()).collect();
        let (label, more) = if most == 0 { ("limits  ", "") } else { ("        ", " more") };
        out.paragraph(label, &format!("{}{more} (--full): {}", count(rest.len() as f64), list(&codes)));
    }
}
