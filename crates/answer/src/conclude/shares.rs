//! What a way of submitting saves, and where: CPU time of each I/O, by place.

use super::{at, find};
use crate::group::{Group, Row};
use crate::per_io::{self, Sampled};
use crate::spread::Spread;
use crate::verdicts::row_by_row;
use iotrail_base::words::{list, percent, span};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::place::Place;
use iotrail_schema::run_record::{CellRecord, RunRecord};

/// Standard errors by which two sampled figures have to differ.
const SURE: f64 = 2.0;

pub fn conclude(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = row_by_row(run, rows, group);
    let Some((base, others)) = run.arms.split_first() else { return out };
    for row in &group.rows {
        for other in others {
            out.extend(where_it_differs(base, other, rows, row));
        }
    }
    out.extend(copying(run, rows, group));
    out
}

/// Places named of one cell, at most.
const NAMED: usize = 5;

/// Places whose CPU time per I/O differs by more than sampling explains, and in all repeats.
fn where_it_differs(base: &str, other: &str, rows: Option<&str>, row: &Row<'_>) -> Option<String> {
    let (a, b) = (find(row, base)?, find(row, other)?);
    let mut parts: Vec<(f64, String)> = Vec::new();
    for place in Place::ALL.into_iter().filter(|p| *p != Place::Idle) {
        let of = |c: &CellRecord| per_io::place(&c.measurements, |p| p == place);
        let (before, after) = (of(a)?, of(b)?);
        let change = after.ns - before.ns;
        if change.abs() >= SURE * before.error_ns.hypot(after.error_ns) && apart(a, b, place) {
            let sign = if change < 0.0 { "−" } else { "+" };
            parts.push((change.abs(), format!("{place} {sign}{}", span(change.abs().round()))));
        }
    }
    parts.sort_by(|x, y| y.0.total_cmp(&x.0));
    let all = |c: &CellRecord| per_io::place(&c.measurements, |p| p != Place::Idle);
    let (before, after) = (all(a)?, all(b)?);
    let place = at(rows, std::slice::from_ref(&row.value));
    let parts: Vec<String> = parts.into_iter().take(NAMED).map(|(_, text)| text).collect();
    Some(if parts.is_empty() {
        format!(
            "Where the CPU time of an I/O goes does not differ between {other} and {base}{place} by more than samples and repeats do."
        )
    } else {
        format!(
            "CPU time per I/O of {other} against {base}{place}, by samples: {} → {}; {}.",
            span(before.ns.round()),
            span(after.ns.round()),
            list(&parts)
        )
    })
}

/// All repeats of one above all of the other's. One repeat has no range, and is as the samples say.
fn apart(a: &CellRecord, b: &CellRecord, place: Place) -> bool {
    let each = |c: &CellRecord| {
        let one = |m: &Measurement| per_io::place(std::slice::from_ref(m), |p| p == place).map(|s| s.ns);
        Spread::over(c, one)
    };
    each(a).zip(each(b)).is_some_and(|(a, b)| a.max < b.min || b.max < a.min)
}

/// Native aio copies its iocbs in, one by one; io_uring has no such copy. Beside the same I/Os of io_uring, the difference in
/// copying is that.
fn copying(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let of_engine = |row: &Row<'_>, name: &str| {
        let is = |c: &&CellRecord| c.measurements.first().is_some_and(|m| m.load.engine == name);
        run.arms.iter().filter_map(|arm| find(row, arm)).find(is).cloned()
    };
    let mut out = Vec::new();
    for row in &group.rows {
        let (Some(aio), Some(ring)) = (of_engine(row, "libaio"), of_engine(row, "io_uring")) else { continue };
        let (Some(theirs), Some(ours)) = (copied(&aio), copied(&ring)) else { continue };
        let (difference, error) = (theirs.ns - ours.ns, SURE * theirs.error_ns.hypot(ours.error_ns));
        let place = at(rows, std::slice::from_ref(&row.value));
        let share = theirs.share.map(|s| format!(" ({} of its CPU time)", percent(s))).unwrap_or_default();
        let told = if difference >= error {
            format!("an iocb costs {} ± {} to copy in", span(difference.round()), span(error.round()))
        } else {
            format!("the samples don't tell the iocb's copy from chance (± {})", span(error.round()))
        };
        out.push(format!(
            "Copying takes {} {} per I/O{share}{place}, and {} {}: {told}.{}",
            aio.arm(),
            span(theirs.ns.round()),
            ring.arm(),
            span(ours.ns.round()),
            of_a_call(&aio).unwrap_or_default()
        ));
    }
    out
}

/// What the system call itself takes; `None`: too few samples fell there to say.
fn of_a_call(cell: &CellRecord) -> Option<String> {
    const FEWEST: u64 = 5;
    let way = per_io::place(&cell.measurements, |p| p == Place::SyscallEntry).filter(|s| s.samples >= FEWEST)?;
    let batch = cell.measurements.first()?.load.batch;
    let each = match batch {
        0 | 1 => String::new(),
        n => format!(", {} a call", span((way.ns * f64::from(n)).round())),
    };
    Some(format!(" Into system calls and out of them: {} per I/O{each}.", span(way.ns.round())))
}

/// With the share of the CPU time that it is.
struct Copied {
    ns: f64,
    error_ns: f64,
    share: Option<f64>,
}

fn copied(cell: &CellRecord) -> Option<Copied> {
    let Sampled { ns, error_ns, .. } = per_io::place(&cell.measurements, |p| p == Place::Copy)?;
    let all = per_io::place(&cell.measurements, |p| p != Place::Idle)?;
    Some(Copied { ns, error_ns, share: (all.ns > 0.0).then(|| ns / all.ns) })
}
