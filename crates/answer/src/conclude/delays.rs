//! From which computing time on completions come too late, how late, and what brought them.

use super::{at, carried, find};
use crate::compare::Metric;
use crate::group::{Group, Row};
use crate::per_io;
use crate::spread::over_repeats;
use crate::verdicts::{compared, row_by_row};
use iotrail_base::words::{list, percent, span};
use iotrail_schema::comparison::Verdict;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CellRecord, RunRecord};

pub fn conclude(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = row_by_row(run, rows, group);
    for other in run.arms.iter().skip(1) {
        out.extend(threshold(run, other, rows, group));
    }
    out.extend(how_late(run, rows, group));
    for arm in &run.arms {
        out.extend(carried(run, arm, rows, group));
    }
    out
}

/// The row from which on the mean latency is higher in every row.
fn threshold(run: &RunRecord, other: &str, rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let rows_name = rows?;
    let base = run.arms.first()?;
    let verdict = |r: &Row<'_>| compared(run, Metric::LatencyMean, other, r).map(|c| c.verdict);
    let told: Vec<(&String, Verdict)> = group
        .rows
        .iter()
        .filter_map(|r| Some((&r.value, verdict(r)?)))
        .filter(|(_, v)| *v != Verdict::NotComparable)
        .collect();
    let worse = |v: &Verdict| *v == Verdict::Slower;
    let (first, last) = (told.first()?, told.last()?);
    if told.iter().all(|(_, v)| !worse(v)) {
        return Some(format!(
            "{other} is not shown to be slower than {base} in mean latency at any {rows_name} that was compared."
        ));
    }
    if !worse(&last.1) {
        return None;
    }
    Some(match told.iter().rposition(|(_, v)| !worse(v)) {
        None => format!("{other} is slower than {base} at every {rows_name} that was compared, from {} on.", first.0),
        Some(i) if told[i].1 == Verdict::Inconclusive => format!(
            "{other} is slower than {base} from {rows_name} {} on; whether it is at {rows_name} {} cannot be told.",
            told[i + 1].0,
            told[i].0
        ),
        Some(i) => format!(
            "{other} is slower than {base} from {rows_name} {} on; at {rows_name} {} it is {}, so the threshold lies between the two.",
            told[i + 1].0,
            told[i].0,
            told[i].1.words()
        ),
    })
}

fn delay(cell: &CellRecord, of: fn(&iotrail_schema::measurement::Latency) -> Option<u64>) -> Option<f64> {
    let known = |m: &Measurement| of(&m.stages.as_ref()?.delivery_delay_ns).map(|ns| ns as f64);
    over_repeats(cell, known)
}

/// The arms' delays beside each other in the row where they differ most.
fn how_late(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let of = |row: &Row<'_>, arm: &str| find(row, arm).and_then(|c| delay(c, |l| l.p50));
    let longest = |row: &&Row<'_>| run.arms.iter().filter_map(|arm| of(row, arm)).fold(0.0, f64::max);
    let row = group.rows.iter().max_by(|a, b| longest(a).total_cmp(&longest(b)))?;
    let one = |arm: &String| {
        let cell = find(row, arm)?;
        let mut parts = vec![format!("p50 {}", span(delay(cell, |l| l.p50)?))];
        parts.extend(delay(cell, |l| l.p90).map(|ns| format!("p90 {}", span(ns))));
        parts.extend(delay(cell, |l| l.p99).map(|ns| format!("p99 {}", span(ns))));
        parts.extend(per_io::late_share(&cell.measurements).map(|s| format!("{} over 1 ms", percent(s))));
        Some(format!("{arm} {}", parts.join(", ")))
    };
    let arms: Vec<String> = run.arms.iter().filter_map(one).collect();
    let place = at(rows, std::slice::from_ref(&row.value));
    (!arms.is_empty())
        .then(|| format!("Delivered after they were ready{place}: {}.", list(&arms).replace(" and ", "; ")))
}
