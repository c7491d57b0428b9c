//! What all requests took, and where that time went: medians over the repeats.

use super::delivery::range;
use super::layout::{Cell, Column, Screen};
use iotrail_answer::group::Group;
use iotrail_answer::spread::Spread;
use iotrail_base::words::UNKNOWN;
use iotrail_schema::measurement::{Measurement, Phases};
use iotrail_schema::run_record::CellRecord;

/// What the headings mean.
pub const LEGEND: &str = "Medians over the repeats. total: wall time from the first submission to the last completion; range: of \
     it over the repeats, percent of the median; submit, poll, clear, other: shares of the jobs' time; user, system: CPU time \
     of the load's own threads, without kernel threads and glibc's helpers, split as the kernel accounts it (often by its ticks: \
     coarse in a short measurement). –: not known.";

pub fn of_group(out: &mut Screen, group: &Group<'_>) {
    let number = Column::number;
    let columns = [
        Column::words("arm", 23),
        number("total\nµs", 7),
        number("range\n%", 5),
        number("submit\n%", 6),
        number("poll\n%", 5),
        number("clear\n%", 5),
        number("other\n%", 5),
        number("user\nµs", 7),
        number("system\nµs", 7),
    ];
    let cells = group.rows.iter().flat_map(|r| &r.cells);
    out.table(&columns, cells.map(|c| line(c)).collect());
}

fn line(cell: &CellRecord) -> Vec<Cell> {
    if cell.untestable.is_some() && cell.measurements.is_empty() {
        return vec![Cell::lines([cell.arm(), "(not testable here)"])];
    }
    let over = |f: fn(&Measurement) -> f64| Spread::of(cell.measurements.all().iter().map(f));
    let known = |f: fn(&Measurement) -> Option<u64>| {
        Spread::of(cell.measurements.all().iter().filter_map(f).map(|ns| ns as f64))
    };
    let us = |s: Option<Spread>| s.map_or(UNKNOWN.into(), |s| format!("{:.0}", s.median / 1e3));
    let share = |s: Option<Spread>| s.map_or(UNKNOWN.into(), |s| format!("{:.1}", s.median * 100.0));
    let phase = |of: fn(&Phases) -> f64| Spread::over(cell, |m| m.phases.as_ref().map(of));
    let total = over(|m| m.elapsed_ns as f64);
    [
        cell.arm().to_owned(),
        us(total),
        total.and_then(|s| s.relative_range()).map_or(UNKNOWN.into(), range),
        share(phase(|p| p.submit)),
        share(phase(|p| p.poll)),
        share(phase(|p| p.clear)),
        share(phase(|p| p.other)),
        us(known(|m| m.cpu.user_ns)),
        us(known(|m| m.cpu.system_ns)),
    ]
    .map(Cell::from)
    .into()
}
