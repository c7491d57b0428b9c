//! The CPU that takes the interrupts against one that does not, and what COOP_TASKRUN changes on each.

use super::against::ratio;
use super::{at, carried};
use crate::compare::Metric;
use crate::group::{Group, Row};
use crate::per_io;
use crate::spread::{Spread, over_repeats};
use crate::verdicts::row_by_row;
use iotrail_base::words::{list, per_io as text, percent, three_digits};
use iotrail_schema::measurement::{Interrupt, Measurement};
use iotrail_schema::place::Place;
use iotrail_schema::run_record::{CellRecord, RunRecord};

/// Below this share of idle time the CPU sets the pace, and time that is freed on it becomes I/Os.
const BUSY: f64 = 0.05;

/// Fewer are not the I/Os' doing.
const WORTH_NAMING: f64 = 0.01;

pub fn conclude(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = row_by_row(run, rows, group);
    if !run.is_emulated() {
        out.extend(kicks_cost(rows, group));
    }
    for arm in &run.arms {
        out.extend(carried(run, arm, rows, group));
    }
    for arm in &run.arms {
        out.extend(landed(arm, rows, group));
    }
    if !run.is_emulated() {
        out.extend(reasoning(rows, group));
    }
    out
}

/// COOP_TASKRUN against none where the device does not interrupt: what is gained without the kicks.
fn kicks_cost(rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let one = |row: &Row<'_>| {
        let (kicked, not) = (of_kind(row, false, false)?, of_kind(row, false, true)?);
        let gain = three_digits(ratio(Metric::Iops, kicked, not)?);
        let kicks = over_repeats(kicked, |m| m.per_io.kicks)?;
        Some(format!("×{gain}{} ({} kicks per I/O less)", at(rows, std::slice::from_ref(&row.value)), text(kicks)))
    };
    let parts: Vec<String> = group.rows.iter().filter_map(one).collect();
    let names = group.rows.iter().find_map(|r| Some((of_kind(r, false, true)?.arm(), of_kind(r, false, false)?.arm())));
    let (not, kicked) = names?;
    (!parts.is_empty()).then(|| format!("IOPS with {not} against {kicked}, by medians: {}.", list(&parts)))
}

/// The row's cell on a CPU with or without the target's interrupts, with or without COOP_TASKRUN.
fn of_kind<'a>(row: &Row<'a>, irq: bool, coop: bool) -> Option<&'a CellRecord> {
    let is = |m: &Measurement| {
        m.load.cpus_requested.as_deref() == Some(if irq { "irq" } else { "non-irq" })
            && m.load.ring.requested.iter().any(|f| f == "coop_taskrun") == coop
    };
    row.cells.iter().copied().find(|c| c.measurements.first().is_some_and(is))
}

/// Interrupts per I/O by vector and CPU, in the first row and the last.
fn landed(arm: &str, rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let measured = |r: &&Row<'_>| super::find(r, arm).is_some_and(|c| !c.measurements.is_empty());
    let first = group.rows.iter().find(measured)?;
    let last = group.rows.iter().rev().find(measured)?;
    let mut parts = Vec::new();
    for row in if std::ptr::eq(first, last) { vec![first] } else { vec![first, last] } {
        let vectors = vectors(super::find(row, arm)?);
        let place = at(rows, std::slice::from_ref(&row.value));
        parts.push(format!("{}{place}", if vectors.is_empty() { "hardly any".into() } else { vectors.join(", ") }));
    }
    let cell = super::find(first, arm)?;
    let jobs: Vec<String> = cell.measurements.first()?.load.cpus.iter().map(u32::to_string).collect();
    Some(format!("Interrupts per I/O of {arm} (the job on CPU {}): {}.", jobs.join(","), parts.join("; ")))
}

/// `36 virtio1-req.0 on CPU 1 1.00`, the most frequent first.
fn vectors(cell: &CellRecord) -> Vec<String> {
    let mut keys: Vec<(&str, &str, u32)> = Vec::new();
    for i in cell.measurements.iter().flat_map(|m| &m.interrupts) {
        let key = (i.vector.as_str(), i.name.as_str(), i.cpu);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut seen: Vec<(f64, String)> = Vec::new();
    for (vector, name, cpu) in keys {
        let count = |m: &Measurement| {
            let here = |i: &&Interrupt| (i.vector.as_str(), i.cpu) == (vector, cpu);
            m.interrupts.iter().filter(here).map(|i| i.count).sum::<u64>() as f64 / m.ios.max(1) as f64
        };
        let Some(s) = Spread::of(cell.measurements.iter().map(count)) else { continue };
        seen.push((s.median, format!("{vector} {name} on CPU {cpu} {}", text(s.median))));
    }
    seen.retain(|(n, _)| *n >= WORTH_NAMING);
    seen.sort_by(|a, b| b.0.total_cmp(&a.0));
    seen.into_iter().map(|(_, text)| text).collect()
}

/// What is freed of a CPU by interrupts that go elsewhere, against what was gained.
fn reasoning(rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let known = |row: &Row<'_>| {
        let cell = of_kind(row, true, false)?;
        let share = over_repeats(cell, per_io::interrupt_share)?;
        Some((share, per_io::share_of_place(&cell.measurements, Place::Idle)?))
    };
    // The last row, which has the most in flight: there the CPU may be the limit.
    let (row, (share, idle)) = group.rows.iter().rev().find_map(|r| Some((r, known(r)?)))?;
    let irq = of_kind(row, true, false)?;
    // A job that looks leaves no idle time, whether it has something to do or not.
    if irq.measurements.first().is_none_or(|m| m.load.wait != "block") {
        return None;
    }
    let place = at(rows, std::slice::from_ref(&row.value));
    let mut said = format!(
        "Handling the devices' interrupts took {} of the job's CPU where they land{place}, its idle time being {}",
        percent(share),
        percent(idle)
    );
    let gains: Vec<String> = [(false, "without kicks", true), (false, "with kicks", false)]
        .iter()
        .filter_map(|(irq_cpu, name, coop)| {
            let other = of_kind(row, *irq_cpu, *coop)?;
            Some(format!("×{} {name} ({})", three_digits(ratio(Metric::Iops, irq, other)?), other.arm()))
        })
        .collect();
    let measured =
        if gains.is_empty() { String::new() } else { format!("; measured on the other CPU: {}", list(&gains)) };
    if idle < BUSY {
        said += &format!(
            ". If that time became I/Os, moving the job away would give 1/(1 − {share:.3}) = ×{} the IOPS{measured}. What is \
             measured beyond that is not in the handlers: entries and exits of interrupts, with the hypervisor's part in a virtual \
             machine, and caches",
            three_digits(1.0 / (1.0 - share)),
        );
    } else {
        said += &format!(
            ". The CPU had time to spare: the device sets the pace, and 1/(1 − share) is no forecast of IOPS here{measured}"
        );
    }
    Some(said + ".")
}
