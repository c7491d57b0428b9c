//! Waking a sleeping SQPOLL thread against keeping it awake, and against having none.

use super::against::{compared, every_other, ratio};
use super::{at, find};
use crate::compare::Metric;
use crate::group::{Group, Row};
use crate::per_io;
use crate::spread::{Spread, over_repeats};
use crate::unit::Unit;
use crate::verdicts::{figures, parts, row_by_row};
use iotrail_base::words::{percent, span, three_digits};
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CellRecord, RunRecord};

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
    out.extend(row_by_row(run, rows, group));
    out.extend(break_even(run, rows, group));
    out.extend(against_none(run, rows, group));
    out
}

fn mean_latency(cell: &CellRecord) -> Option<f64> {
    over_repeats(cell, |m| m.latency_ns.mean)
}

/// The share of a CPU that the thread took.
fn of_a_cpu(m: &Measurement) -> Option<f64> {
    m.cpu.sqpoll_ns.filter(|_| m.elapsed_ns > 0).map(|ns| ns as f64 / m.elapsed_ns as f64)
}

fn one(cell: &CellRecord) -> Option<String> {
    let mut parts = vec![format!("mean {}", span(mean_latency(cell)?))];
    if let Some(thread) = over_repeats(cell, of_a_cpu) {
        parts.push(format!("the thread at {} of a CPU", percent(thread)));
    }
    parts.extend(over_repeats(cell, per_io::wakeups).map(|n| format!("woken for {} of I/Os", percent(n.min(1.0)))));
    parts
        .extend(over_repeats(cell, |m| Metric::CpuPerIo.of(m)).map(|ns| format!("{} of CPU per I/O in all", span(ns))));
    Some(format!("{} {}", cell.arm(), parts.join(", ")))
}

/// Where the thread sleeps and where it is awake, at the same rate.
fn awake_and_asleep<'a>(run: &RunRecord, row: &Row<'a>) -> (Option<&'a CellRecord>, Vec<&'a CellRecord>) {
    let cells = || run.arms.iter().filter_map(|arm| find(row, arm));
    let wakeups = |c: &CellRecord| over_repeats(c, per_io::wakeups);
    let awake = cells().find(|c| wakeups(c).is_some_and(|n| n <= AWAKE));
    (awake, cells().filter(|c| wakeups(c).is_some_and(|n| n >= ASLEEP)).collect())
}

/// The most rate at which sleeping saves CPU time, and what a wake-up costs in latency.
fn break_even(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = Vec::new();
    let (mut longer, mut cpu) = (Vec::new(), Vec::new());
    for row in &group.rows {
        let (Some(awake), asleep) = awake_and_asleep(run, row) else { continue };
        // The one that sleeps soonest shows the wake-up best.
        let Some(asleep) = asleep.last() else { continue };
        longer.extend(mean_latency(asleep).zip(mean_latency(awake)).map(|(a, b)| a - b));
        cpu.push((row.value.clone(), compared(Metric::CpuPerIo, awake, asleep)));
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
    let cpu: Vec<(String, &Comparison)> = cpu.iter().map(|(value, c)| (value.clone(), c)).collect();
    if let parts @ [_, ..] = &parts(Metric::CpuPerIo, &cpu, rows)[..] {
        out.push(format!(
            "{} where it is let sleep against where it is kept awake: {}.",
            Metric::CpuPerIo.words(Unit::of_run(run)),
            parts.join("; ")
        ));
    }
    let never: Vec<String> = group
        .rows
        .iter()
        .filter(|r| awake_and_asleep(run, r).1.is_empty())
        .filter(|r| r.cells.iter().any(|c| over_repeats(c, per_io::wakeups).is_some()))
        .map(|r| r.value.clone())
        .collect();
    if !never.is_empty() {
        out.push(format!(
            "It hardly ever had to be woken, with any idle time that was measured,{}: the next I/O came sooner.",
            at(rows, &never)
        ));
    }
    out
}

/// The best of the arms with a thread against the one that has none.
fn against_none(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let mut dearer = Vec::new();
    for row in &group.rows {
        let cells = || run.arms.iter().filter_map(|arm| find(row, arm)).filter(|c| !c.measurements.is_empty());
        let Some(none) = cells().find(|c| !c.measurements.iter().any(per_io::has_sqpoll)) else { continue };
        let with = cells().filter(|c| c.measurements.iter().all(per_io::has_sqpoll));
        let best = with
            .filter_map(|c| Some((mean_latency(&every_other(c, 0))?, c)))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, best)| (every_other(best, 1), every_other(none, 1)));
        let Some((best, none)) = best else { continue };
        if let (Some(latency), Some(without)) = (mean_latency(&best), mean_latency(&none)) {
            let cpu = ratio(Metric::CpuPerIo, &none, &best);
            let c = compared(Metric::LatencyMean, &none, &best);
            let (told, figures) = match c.verdict {
                Verdict::NotComparable => (c.verdict.words(), format!("; {}", c.reasons.join("; "))),
                told => (told.words(), format!(", {}", figures(&c))),
            };
            dearer.push(format!(
                "{told}{} ({}: {} against {}{figures}{})",
                at(rows, std::slice::from_ref(&row.value)),
                best.arm(),
                span(latency),
                span(without),
                cpu.map_or(String::new(), |r| format!("; CPU time ×{}", three_digits(r)))
            ));
        }
    }
    (!dearer.is_empty()).then(|| {
        let told = dearer.join("; ");
        format!(
            "The fastest of the SQPOLL arms, by mean latency in every other block, against having no thread, in the other blocks: {told}."
        )
    })
}
