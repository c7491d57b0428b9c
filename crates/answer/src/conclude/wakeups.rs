//! Compares waking a sleeping SQPOLL thread with keeping it awake and with having no SQPOLL thread.

use super::part::{Part, find, ratio};
use crate::compare::{Metric, Side, compare};
use crate::group::Row;
use crate::per_io;
use crate::spread::{Spread, over_repeats};
use crate::verdicts::figures;
use iotrail_base::words::{span, three_digits};
use iotrail_schema::comparison::Verdict;
use iotrail_schema::run_record::CellRecord;

/// Woken for at most this share of the I/Os, a thread counts as awake.
const AWAKE: f64 = 0.05;
const ASLEEP: f64 = 0.5;

pub fn conclude(part: &Part<'_>) -> Vec<String> {
    of_a_wakeup(part).into_iter().chain(against_none(part)).collect()
}

fn mean_latency(cell: &CellRecord) -> Option<f64> {
    over_repeats(cell, |m| m.latency_ns.mean)
}

/// Latency cost of a wake-up, if one arm's SQPOLL thread sleeps and another arm's is awake.
fn of_a_wakeup(part: &Part<'_>) -> Option<String> {
    let longer = |row: &Row<'_>| {
        let cells = || part.run.arms.iter().filter_map(|arm| find(row, arm));
        let woken = |c: &CellRecord| over_repeats(c, per_io::wakeups);
        let awake = cells().find(|c| woken(c).is_some_and(|n| n <= AWAKE))?;
        // The thread that falls asleep soonest shows the wake-up cost best.
        let asleep = cells().rfind(|c| woken(c).is_some_and(|n| n >= ASLEEP))?;
        Some(mean_latency(asleep)? - mean_latency(awake)?)
    };
    let s = Spread::of(part.group.rows.iter().filter_map(longer)).filter(|s| s.median > 0.0)?;
    let range =
        if s.repeats > 1 { format!(" ({} to {} over the rates)", span(s.min), span(s.max)) } else { String::new() };
    Some(format!("An I/O that has to wake the thread takes {} longer on average{range}.", span(s.median)))
}

/// Compares the best arm with an SQPOLL thread to the arm without: selects it by one half of the blocks and tests it on
/// the other half, without a control.
fn against_none(part: &Part<'_>) -> Option<String> {
    let every_other = |cell: &CellRecord, first: usize| {
        let measurements = cell.measurements.all().iter().skip(first).step_by(2).cloned().collect();
        CellRecord { measurements, ..cell.clone() }
    };
    let of_row = |row: &Row<'_>| {
        let cells = || part.run.arms.iter().filter_map(|arm| find(row, arm)).filter(|c| !c.measurements.is_empty());
        let none = cells().find(|c| !c.measurements.all().iter().any(per_io::has_sqpoll))?;
        let with = cells().filter(|c| c.measurements.all().iter().all(per_io::has_sqpoll));
        let chosen = with.filter_map(|c| Some((mean_latency(&every_other(c, 0))?, c)));
        let (_, best) = chosen.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let (best, none) = (every_other(best, 1), every_other(none, 1));
        let metric = Metric::LatencyMean;
        let side = |cell| Side::of_cell(CellRecord::arm(cell), cell, &|_, _| None, &[metric]);
        let c = compare(metric, &side(&none), &side(&best), true, None);
        let told = match c.verdict {
            Verdict::NotComparable => format!("; {}", c.reasons.join("; ")),
            _ => format!(", {}", figures(&c)),
        };
        Some(format!(
            "{}{} ({}: {} against {}{told}{})",
            c.verdict.words(),
            part.at_row(row),
            best.arm(),
            span(mean_latency(&best)?),
            span(mean_latency(&none)?),
            ratio(Metric::CpuPerIo, &none, &best).map_or(String::new(), |r| format!("; CPU time ×{}", three_digits(r)))
        ))
    };
    let said: Vec<String> = part.group.rows.iter().filter_map(of_row).collect();
    (!said.is_empty()).then(|| {
        format!(
            "The fastest SQPOLL arm (by mean latency in every other block) against no thread (in the other blocks): {}.",
            said.join("; ")
        )
    })
}
