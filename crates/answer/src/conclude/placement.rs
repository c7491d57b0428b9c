//! Compares the CPU that handles the device's interrupts with a CPU that does not, and the effect of COOP_TASKRUN on
//! each.

use super::part::{Part, find, ratio};
use crate::compare::Metric;
use crate::group::Row;
use crate::per_io;
use crate::spread::over_repeats;
use iotrail_base::words::{list, numbers, per_io as text, percent, three_digits};
use iotrail_schema::measurement::Wait;
use iotrail_schema::measurement::{Interrupt, Measurement};
use iotrail_schema::place::Place;
use iotrail_schema::run_record::CellRecord;
use iotrail_schema::setup_flag;

/// With less idle time the CPU is the bottleneck, and CPU time saved turns into I/Os.
const BUSY: f64 = 0.05;

/// Rarer interrupts are not caused by the I/Os.
const WORTH_NAMING: f64 = 0.01;

pub fn conclude(part: &Part<'_>) -> Vec<String> {
    let landed = part.run.arms.iter().filter_map(|arm| landed(part, arm));
    if part.run.is_emulated() {
        return landed.collect();
    }
    kicks_cost(part).into_iter().chain(landed).chain(forecast(part)).collect()
}

/// Gain from COOP_TASKRUN on a CPU without device interrupts, where it saves the kicks.
fn kicks_cost(part: &Part<'_>) -> Option<String> {
    let pairs =
        || part.group.rows.iter().filter_map(|r| Some((r, of_kind(r, false, false)?, of_kind(r, false, true)?)));
    let one = |(row, kicked, not)| {
        let gain = three_digits(ratio(Metric::Iops, kicked, not)?);
        let kicks = over_repeats(kicked, |m| m.per_io.kicks)?;
        Some(format!("×{gain}{} ({} fewer kicks per I/O)", part.at_row(row), text(kicks)))
    };
    let (_, kicked, not) = pairs().next()?;
    let gains: Vec<String> = pairs().filter_map(one).collect();
    let arms = format!("{} against {}", not.arm(), kicked.arm());
    (!gains.is_empty()).then(|| format!("IOPS with {arms}, by medians: {}.", list(&gains)))
}

/// The row's cell on a CPU with or without the target's interrupts, and with or without COOP_TASKRUN.
fn of_kind<'a>(row: &Row<'a>, irq: bool, coop: bool) -> Option<&'a CellRecord> {
    let is = |m: &Measurement| {
        m.load.cpus_requested.as_deref() == Some(if irq { "irq" } else { "non-irq" })
            && setup_flag::is_set(&m.load.ring.requested, "coop_taskrun") == coop
    };
    row.cells.iter().copied().find(|c| c.measurements.first().is_some_and(is))
}

/// Interrupts by vector and CPU, in the first and the last row.
fn landed(part: &Part<'_>, arm: &str) -> Option<String> {
    let cells = part.group.rows.iter().filter_map(|r| Some((r, find(r, arm)?)));
    let measured: Vec<_> = cells.filter(|(_, c)| !c.measurements.is_empty()).collect();
    let (first, last) = (measured.first()?, measured.last()?);
    let in_row = |(row, cell): &(&Row<'_>, &CellRecord)| {
        let vectors = vectors(cell);
        format!("{}{}", if vectors.is_empty() { "hardly any".into() } else { vectors.join(", ") }, part.at_row(row))
    };
    let rows = if measured.len() > 1 { vec![in_row(first), in_row(last)] } else { vec![in_row(first)] };
    let jobs = numbers(&first.1.measurements.first()?.load.cpus);
    Some(format!("Interrupts per I/O of {arm} (the job on CPU {}): {}.", jobs, rows.join("; ")))
}

/// `36 virtio1-req.0 on CPU 1 1.00`, the most frequent first.
fn vectors(cell: &CellRecord) -> Vec<String> {
    let all = cell.measurements.all();
    let mut vectors: Vec<&Interrupt> = Vec::new();
    for i in all.iter().flat_map(|m| &m.interrupts) {
        if !vectors.iter().any(|v| (&v.vector, &v.name, v.cpu) == (&i.vector, &i.name, i.cpu)) {
            vectors.push(i);
        }
    }
    let per_io = |v: &Interrupt| {
        over_repeats(cell, |m| {
            let here = m.interrupts.iter().filter(|i| (&i.vector, i.cpu) == (&v.vector, v.cpu));
            m.per_io(here.map(|i| i.count).sum())
        })
    };
    let mut seen: Vec<_> = vectors.into_iter().filter_map(|v| Some((v, per_io(v)?))).collect();
    seen.retain(|(_, n)| *n >= WORTH_NAMING);
    seen.sort_by(|a, b| b.1.total_cmp(&a.1));
    seen.into_iter().map(|(v, n)| format!("{} {} on CPU {} {}", v.vector, v.name, v.cpu, text(n))).collect()
}

/// CPU time saved by moving the interrupts elsewhere, compared with the measured gain.
fn forecast(part: &Part<'_>) -> Option<String> {
    let known = |row| {
        let irq = of_kind(row, true, false)?;
        let share = over_repeats(irq, per_io::interrupt_share)?;
        Some((row, irq, share, per_io::share_of_place(&irq.measurements.all(), Place::Idle)?))
    };
    // The last row has the most requests in flight, so there the CPU may be the limit.
    let (row, irq, share, idle) = part.group.rows.iter().rev().find_map(known)?;
    // A polling job leaves no idle time, whether or not it has work.
    if irq.measurements.first().is_none_or(|m| m.load.wait != Wait::Block) {
        return None;
    }
    let gain = |(name, coop)| {
        let other = of_kind(row, false, coop)?;
        Some(format!("×{} {name} ({})", three_digits(ratio(Metric::Iops, irq, other)?), other.arm()))
    };
    let gains: Vec<String> = [("without kicks", true), ("with kicks", false)].into_iter().filter_map(gain).collect();
    let measured =
        if gains.is_empty() { String::new() } else { format!("; measured on the other CPU: {}", list(&gains)) };
    let took = format!(
        "Handling device interrupts took {} of the job's CPU that receives them{}, with an idle time of {}",
        percent(share),
        part.at_row(row),
        percent(idle)
    );
    Some(if idle < BUSY {
        format!(
            "{took}. If that time became I/Os, moving the job away would give 1/(1 − {share:.3}) = ×{} the IOPS{measured}. A larger \
             gain is outside the handlers: in interrupt entries and exits, with the hypervisor's part in a virtual machine, and in \
             caches.",
            three_digits(1.0 / (1.0 - share)),
        )
    } else {
        format!(
            "{took}. The CPU was partly idle, so the device limits the rate: 1/(1 − share) does not predict IOPS here{measured}."
        )
    })
}
