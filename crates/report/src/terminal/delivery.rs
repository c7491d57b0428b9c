//! How completions were delivered, cell by cell: medians over the repeats, with the range of IOPS beside them.

use super::layout::{Cell, Column, Screen};
use super::measured::ratio;
use iotrail_answer::group::{Group, vehicle_shares};
use iotrail_answer::spread::Spread;
use iotrail_base::words::{UNKNOWN, count, three_digits};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::CellRecord;
use iotrail_schema::vehicle::Vehicle;

/// What the headings mean.
pub const LEGEND: &str = "Medians over the repeats; range: of IOPS over the repeats, percent of the median. Delivered by: \
     paths of 5 % of the completions or more, all repeats together. kicks, dev, resch: kicks, device interrupts and \
     reschedule IPIs per I/O. –: not known, or too few samples.";

/// A vehicle of less is left out of a row.
const SHOWN: f64 = 0.05;

pub fn of_group(out: &mut Screen, group: &Group<'_>, rows: Option<&str>) {
    let columns = [
        Column::named(rows.unwrap_or(""), 5, true),
        Column::words("arm", 12),
        Column::number("IOPS", 6),
        Column::number("range\n%", 5),
        Column::number("mean\nµs", 6),
        Column::number("p99\nµs", 6),
        Column::words("delivered by", 17),
        Column::number("kicks\n/IO", 5),
        Column::number("dev\n/IO", 4),
        Column::number("resch\n/IO", 5),
    ];
    let mut lines = Vec::new();
    for row in &group.rows {
        for (i, cell) in row.cells.iter().enumerate() {
            lines.push(line(if i == 0 { &row.value } else { "" }, cell));
        }
    }
    out.table(&columns, lines);
}

fn line(row: &str, cell: &CellRecord) -> Vec<Cell> {
    let over = |f: &dyn Fn(&Measurement) -> Option<f64>| Spread::over(cell, f);
    let text =
        |spread: Option<Spread>, as_text: &dyn Fn(f64) -> String| spread.map_or(UNKNOWN.into(), |s| as_text(s.median));
    let iops = over(&|m| m.iops);
    let us = |ns: f64| three_digits(ns / 1e3);
    vec![
        row.into(),
        cell.arm().into(),
        text(iops, &|x| count(if x < 1000.0 { x.round() } else { x })).into(),
        iops.and_then(|s| s.relative_range()).map_or(UNKNOWN.into(), range).into(),
        text(over(&|m| m.latency_ns.mean), &us).into(),
        text(over(&|m| m.latency_ns.p99.map(|n| n as f64)), &us).into(),
        carried_by(cell),
        text(over(&|m| m.per_io.kicks), &short_ratio).into(),
        text(over(&|m| m.per_io.device_irqs), &short_ratio).into(),
        text(over(&|m| m.per_io.resched_ipis), &short_ratio).into(),
    ]
}

/// Percent without the sign, as few digits as tell something.
pub fn range(share: f64) -> String {
    let p = share * 100.0;
    if p < 9.95 { format!("{p:.1}") } else { format!("{p:.0}") }
}

fn short_ratio(x: f64) -> String {
    if x > 0.0 && x < 0.005 {
        "0.00".into()
    } else if x == 0.0 || x >= 0.1 {
        format!("{x:.2}")
    } else {
        ratio(x)[..4].to_owned()
    }
}

pub fn carried_by(cell: &CellRecord) -> Cell {
    if cell.untestable.is_some() && cell.measurements.is_empty() {
        return "not testable here".into();
    }
    let shares = vehicle_shares(&cell.measurements.all());
    if shares.is_empty() {
        return UNKNOWN.into();
    }
    // What could not be told is shown however little it is.
    let shown = shares.iter().filter(|(v, share)| *share >= SHOWN || *v == Vehicle::Unknown);
    // Rounded down: 100 % is said of nothing less.
    Cell::lines(shown.map(|(v, share)| format!("{v} {:.0}%", (share * 100.0).floor())))
}
