//! CPU time per I/O by place: how much a submission mode saves, and where.

use super::part::{Part, find};
use crate::group::Row;
use crate::per_io::{self, Sampled};
use crate::spread::Spread;
use iotrail_base::words::{list, percent, span};
use iotrail_schema::measurement::Engine;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::place::Place;
use iotrail_schema::run_record::CellRecord;

/// Sampled values differ if they are at least this many standard errors apart.
const SURE: f64 = 2.0;

/// Maximum number of places named per cell.
const NAMED: usize = 5;

pub fn conclude(part: &Part<'_>) -> Vec<String> {
    let Some(base) = part.run.arms.first() else { return Vec::new() };
    let against = |arm: &str| {
        let of_row = |row: &Row<'_>, cell: &CellRecord| where_it_differs(find(row, base)?, cell);
        (arm != base).then(|| part.by_row(arm, of_row)).flatten()
    };
    let differs = part.by_arm(&format!("CPU time per I/O against {base}, by samples"), against);
    differs.into_iter().chain(part.group.rows.iter().filter_map(|row| copying(part, row))).collect()
}

fn at(cell: &CellRecord, is: impl Fn(Place) -> bool) -> Option<Sampled> {
    per_io::place(&cell.measurements.all(), is)
}

/// Twice the standard error of the difference.
fn error(a: Sampled, b: Sampled) -> f64 {
    SURE * a.error_ns.hypot(b.error_ns)
}

/// Places whose CPU time per I/O differs by more than the sampling error, in all repeats.
fn where_it_differs(a: &CellRecord, b: &CellRecord) -> Option<String> {
    let mut parts: Vec<(f64, String)> = Vec::new();
    for place in Place::ALL.into_iter().filter(|p| *p != Place::Idle) {
        let (before, after) = (at(a, |p| p == place)?, at(b, |p| p == place)?);
        let change = after.ns - before.ns;
        if change.abs() >= error(before, after) && apart(a, b, place) {
            let sign = if change < 0.0 { "−" } else { "+" };
            parts.push((change.abs(), format!("{place} {sign}{}", span(change.abs().round()))));
        }
    }
    parts.sort_by(|x, y| y.0.total_cmp(&x.0));
    let parts: Vec<String> = parts.into_iter().take(NAMED).map(|(_, text)| text).collect();
    let (before, after) = (at(a, |p| p != Place::Idle)?, at(b, |p| p != Place::Idle)?);
    Some(if parts.is_empty() {
        "no difference beyond the sampling error and the spread of repeats".into()
    } else {
        format!("{} → {} ({})", span(before.ns.round()), span(after.ns.round()), list(&parts))
    })
}

/// Whether all repeats of one side exceed all of the other's. A single repeat has no range; then the samples decide.
fn apart(a: &CellRecord, b: &CellRecord, place: Place) -> bool {
    let one = |m: &Measurement| per_io::place(std::slice::from_ref(m), |p| p == place).map(|s| s.ns);
    Spread::over(a, one).zip(Spread::over(b, one)).is_some_and(|(a, b)| a.max < b.min || b.max < a.min)
}

/// Native AIO copies its iocbs from user memory one by one; io_uring does not. For the same I/Os, the difference in
/// copying is therefore the cost of the iocb copies.
fn copying(part: &Part<'_>, row: &Row<'_>) -> Option<String> {
    let of_engine = |engine: Engine| {
        let is = |c: &&CellRecord| c.measurements.first().is_some_and(|m| m.load.engine == engine);
        part.run.arms.iter().filter_map(|arm| find(row, arm)).find(is)
    };
    let (aio, ring) = (of_engine(Engine::Libaio)?, of_engine(Engine::IoUring)?);
    let copied = |c| at(c, |p| p == Place::Copy);
    let (theirs, ours, whole) = (copied(aio)?, copied(ring)?, at(aio, |p| p != Place::Idle)?);
    let (difference, error) = (theirs.ns - ours.ns, error(theirs, ours));
    let share =
        if whole.ns > 0.0 { format!(" ({} of its CPU time)", percent(theirs.ns / whole.ns)) } else { String::new() };
    let told = if difference >= error {
        format!("an iocb costs {} ± {} to copy in", span(difference.round()), span(error.round()))
    } else {
        format!("the sampling error (± {}) is larger than the iocb's copy", span(error.round()))
    };
    Some(format!(
        "Copying takes {} {} per I/O{share}{}, and {} {}: {told}.",
        aio.arm(),
        span(theirs.ns.round()),
        part.at_row(row),
        ring.arm(),
        span(ours.ns.round()),
    ))
}
