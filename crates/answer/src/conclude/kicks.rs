//! Kicks, sleeps and interrupts of each I/O as more are in flight.

use super::{at, carried, find};
use crate::group::Group;
use crate::spread::over_repeats;
use crate::verdicts::row_by_row;
use iotrail_base::words::{list, per_io as text};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::RunRecord;

/// A count of a measurement, as it is in `per_io`.
type PerIo = fn(&Measurement) -> Option<f64>;

const COUNTS: [(&str, PerIo); 5] = [
    ("Kicks", |m| m.per_io.kicks),
    ("Sleeps", |m| m.per_io.context_switches),
    ("Device interrupts", |m| m.per_io.device_irqs),
    ("Reschedule IPIs", |m| m.per_io.resched_ipis),
    ("System calls", |m| m.per_io.syscalls),
];

/// Less of a change is the ordinary spread from cell to cell.
const CHANGE: f64 = 0.02;

pub fn conclude(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for (name, of) in COUNTS {
        let arms: Vec<String> = run.arms.iter().filter_map(|arm| course(arm, of, rows, group)).collect();
        if !arms.is_empty() {
            out.push(format!("{name} per I/O: {}.", arms.join("; ")));
        }
    }
    out.extend(row_by_row(run, rows, group));
    for arm in &run.arms {
        out.extend(carried(run, arm, rows, group));
    }
    out
}

/// From the first row to the last, with the row where it is most or least if that is neither.
fn course(arm: &str, of: PerIo, rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let known: Vec<(&String, f64)> = group
        .rows
        .iter()
        .filter_map(|r| {
            let cell = find(r, arm)?;
            Some((&r.value, over_repeats(cell, of)?))
        })
        .collect();
    let (first, last) = (known.first()?, known.last()?);
    let place = |value: &String| at(rows, std::slice::from_ref(value));
    let most = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let least = known.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    if most.1 - least.1 < CHANGE {
        let (low, high) = (text(least.1), text(most.1));
        let range = if low == high { low } else { format!("{low} to {high}") };
        return Some(format!("{arm} {range} throughout"));
    }
    let mut steps = vec![format!("{}{}", text(first.1), place(first.0))];
    let mut turns: Vec<_> = [most, least].into_iter().filter(|p| p.0 != first.0 && p.0 != last.0).collect();
    turns.retain(|p| (p.1 - first.1).abs().min((p.1 - last.1).abs()) >= CHANGE);
    turns.sort_by_key(|p| known.iter().position(|k| k.0 == p.0));
    steps.extend(turns.iter().map(|p| format!("{}{}", text(p.1), place(p.0))));
    steps.push(format!("{}{}", text(last.1), place(last.0)));
    Some(format!("{arm} {}", list(&steps)))
}
