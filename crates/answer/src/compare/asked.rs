//! Metrics and situations of a run's comparisons.

use std::ops::Deref;

use serde_json::{Map, Value};

use crate::figure::Metric;
use crate::table::{PROGRAM, Table};
use iotrail_base::distinct::distinct;
use iotrail_schema::comparison::Comparison;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::measurements::One;
use iotrail_schema::run_record::{ARM, CellRecord, RunRecord};

/// The metrics of a run's comparisons: its own list, otherwise its table's. Only counts if times are meaningless.
pub fn metrics(record: &RunRecord) -> Vec<Metric> {
    let asked = asked_metrics(record);
    if !record.is_emulated() {
        return asked;
    }
    let counts: Vec<Metric> = asked.into_iter().filter(|m| !m.is_of_time()).collect();
    if counts.is_empty() { Metric::COUNTS.to_vec() } else { counts }
}

fn asked_metrics(record: &RunRecord) -> Vec<Metric> {
    let own = of_program(measured(record));
    match record.metrics.is_empty() {
        true if record.table == PROGRAM => own,
        true => Table::of(record).metrics(),
        // The iotrail version that planned the run validated names that this version may not know.
        false => record.metrics.iter().filter_map(|m| m.parse().ok()).collect(),
    }
}

fn measured(record: &RunRecord) -> impl Iterator<Item = One<'_>> {
    let is_program = |c: &&CellRecord| c.measurements.first().is_some_and(|m| m.program.is_some());
    record.cells.iter().filter(is_program).flat_map(|c| c.measurements.each())
}

/// The metrics on which a program's measurements are compared: its own in their order, wall time, and CPU time. CPU
/// time is per unit of work if the work is known, because a program that runs for a fixed time does more work with a
/// better arm. Registers the program's own metrics.
pub fn of_program<M: Deref<Target = Measurement>>(all: impl Iterator<Item = M>) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    let mut is_traced = true;
    for m in all {
        is_traced &= Metric::CpuPerIo.of(&m).is_some();
        for figure in m.program.iter().flat_map(|p| &p.figures) {
            let metric = Metric::own(&figure.name, figure.less_is_better);
            if !found.contains(&metric) {
                found.push(metric);
            }
        }
    }
    let per_unit = found.iter().filter(|m| m.higher_is_better()).find_map(|m| match m {
        Metric::Own(own) => Some(Metric::CpuPerUnit(own)),
        _ => None,
    });
    let otherwise = if is_traced { Metric::CpuPerIo } else { Metric::CpuTime };
    found.extend([Metric::Elapsed, per_unit.unwrap_or(otherwise)]);
    found
}

/// The comparisons' metrics, in order of appearance.
pub fn compared_on(list: &[Comparison]) -> Vec<Metric> {
    distinct(list.iter().filter_map(|c| c.metric.parse().ok()))
}

/// A cell's parameters without the arm.
pub fn place(cell: &CellRecord) -> Map<String, Value> {
    cell.params.iter().filter(|(name, _)| *name != ARM).map(|(name, value)| (name.clone(), value.clone())).collect()
}
