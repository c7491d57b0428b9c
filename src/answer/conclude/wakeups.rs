//! Waking a sleeping SQPOLL thread against keeping it awake, and against having none.

use super::against::{ratio, verdict};
use super::{at, find};
use crate::answer::compare::Metric;
use crate::answer::group::{Group, Row};
use crate::answer::per_io;
use crate::answer::spread::Spread;
use crate::answer::words::{percent, span, three_digits};
use crate::comparison::Verdict;
use crate::measurement::Measurement;
use crate::run_record::{CellRecord, RunRecord};

/// The thread that is woken for fewer I/Os is awake; for more than this it sleeps.
const AWAKE: f64 = 0.05;
const ASLEEP: f64 = 0.5;

pub fn conclude(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for row in &group.rows {
        let each: Vec<String> = run.arms.iter().filter_map(|arm| one(find(row, arm)?)).collect();
        if !each.is_empty() {
            let place = at(rows, std::slice::from_ref(&row.value));
            out.push(format!("{}: {}.", place.trim_start().replacen("at ", "At ", 1), each.join("; ")));
        }
    }
    out.extend(break_even(run, rows, group));
    out
}

fn median(cell: &CellRecord, of: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    Spread::of_known(cell.measurements.iter().map(of)).map(|s| s.median)
}

fn mean_latency(cell: &CellRecord) -> Option<f64> {
    median(cell, |m| m.latency_ns.mean)
}

/// The share of a CPU that the thread took.
fn of_a_cpu(m: &Measurement) -> Option<f64> {
    m.cpu.sqpoll_ns.filter(|_| m.elapsed_ns > 0).map(|ns| ns as f64 / m.elapsed_ns as f64)
}

fn one(cell: &CellRecord) -> Option<String> {
    let mut parts = vec![format!("mean {}", span(mean_latency(cell)?))];
    if let Some(thread) = median(cell, of_a_cpu) {
        parts.push(format!("the thread at {} of a CPU", percent(thread)));
    }
    parts.extend(median(cell, per_io::wakeups).map(|n| format!("woken for {} of I/Os", percent(n.min(1.0)))));
    parts.extend(median(cell, |m| Metric::CpuPerIo.of(m)).map(|ns| format!("{} of CPU per I/O in all", span(ns))));
    Some(format!("{} {}", cell.arm(), parts.join(", ")))
}

/// Where the thread sleeps and where it is awake, at the same rate.
fn awake_and_asleep<'a>(run: &RunRecord, row: &Row<'a>) -> (Option<&'a CellRecord>, Vec<&'a CellRecord>) {
    let cells = || run.arms.iter().filter_map(|arm| find(row, arm));
    let wakeups = |c: &CellRecord| median(c, per_io::wakeups);
    let awake = cells().find(|c| wakeups(c).is_some_and(|n| n <= AWAKE));
    (awake, cells().filter(|c| wakeups(c).is_some_and(|n| n >= ASLEEP)).collect())
}

/// The most rate at which sleeping saves CPU time, and what a wake-up costs in latency.
fn break_even(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = Vec::new();
    let (mut longer, mut saves, mut saves_not) = (Vec::new(), Vec::new(), Vec::new());
    for row in &group.rows {
        let (Some(awake), asleep) = awake_and_asleep(run, row) else { continue };
        // The one that sleeps soonest shows the wake-up best.
        let Some(asleep) = asleep.last() else { continue };
        longer.extend(mean_latency(asleep).zip(mean_latency(awake)).map(|(a, b)| a - b));
        match ratio(Metric::CpuPerIo, awake, asleep) {
            Some(r) if r < 1.0 => saves.push(row.value.clone()),
            Some(_) => saves_not.push(row.value.clone()),
            None => {}
        }
    }
    if let Some(s) = Spread::of(longer.iter().copied()) {
        let range =
            if s.repeats > 1 { format!(" ({} to {} over the rates)", span(s.min), span(s.max)) } else { String::new() };
        if s.median > 0.0 {
            out.push(format!(
                "An I/O for which the thread has to be woken takes {} longer at the mean{range}.",
                span(s.median)
            ));
        }
    }
    if !saves.is_empty() {
        out.push(format!("Letting it sleep takes less CPU time per I/O than keeping it awake{}.", at(rows, &saves)));
    }
    if !saves_not.is_empty() {
        out.push(format!("Letting it sleep saves no CPU time{}.", at(rows, &saves_not)));
    }
    let never: Vec<String> = group
        .rows
        .iter()
        .filter(|r| awake_and_asleep(run, r).1.is_empty())
        .filter(|r| r.cells.iter().any(|c| median(c, per_io::wakeups).is_some()))
        .map(|r| r.value.clone())
        .collect();
    if !never.is_empty() {
        out.push(format!(
            "It hardly ever had to be woken, with any idle time that was measured,{}: the next I/O came sooner.",
            at(rows, &never)
        ));
    }
    // Against none at all.
    let mut dearer = Vec::new();
    for row in &group.rows {
        let cells = || run.arms.iter().filter_map(|arm| find(row, arm)).filter(|c| !c.measurements.is_empty());
        let Some(none) = cells().find(|c| c.measurements.iter().all(|m| m.cpu.sqpoll_ns.is_none())) else { continue };
        let with = cells().filter(|c| c.arm() != none.arm());
        let best = with.filter_map(|c| Some((mean_latency(c)?, c))).min_by(|a, b| a.0.total_cmp(&b.0));
        if let (Some((latency, best)), Some(without)) = (best, mean_latency(none)) {
            let cpu = ratio(Metric::CpuPerIo, none, best);
            dearer.push(format!(
                "{}{} ({}: {} against {}{})",
                match verdict(Metric::LatencyMean, none, best) {
                    Verdict::NoDifference => "no measurable difference",
                    told => told.words(),
                },
                at(rows, std::slice::from_ref(&row.value)),
                best.arm(),
                span(latency),
                span(without),
                cpu.map_or(String::new(), |r| format!(", CPU time ×{}", three_digits(r)))
            ));
        }
    }
    if !dearer.is_empty() {
        out.push(format!(
            "The fastest of the SQPOLL arms, by mean latency, against having no thread: {}.",
            dearer.join("; ")
        ));
    }
    out
}
