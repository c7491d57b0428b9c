//! What a run's arms are compared on, and where.

use serde_json::{Map, Value};

use super::metric::Metric;
use iotrail_schema::comparison::Comparison;
use iotrail_schema::run_record::{ARM, CellRecord, RunRecord, Table};

/// What a run's arms are compared on: what it says, else what its table is about. Where times mean nothing, counts.
pub fn metrics(record: &RunRecord) -> Vec<Metric> {
    let asked = asked_metrics(record);
    if !record.is_emulated() {
        return asked;
    }
    let counts: Vec<Metric> = asked.into_iter().filter(|m| !m.is_of_time()).collect();
    if counts.is_empty() { Metric::COUNTS.to_vec() } else { counts }
}

fn asked_metrics(record: &RunRecord) -> Vec<Metric> {
    match (record.metrics.is_empty(), record.table) {
        (true, Table::Delivery) => vec![Metric::Iops, Metric::LatencyP99],
        (true, Table::Cost) => vec![Metric::Elapsed],
        (true, Table::Placement) => vec![Metric::Iops, Metric::LatencyMean, Metric::LatencyP99],
        (true, Table::ModeSwitches) => vec![Metric::Iops, Metric::LatencyP99_99, Metric::ModeSwitchesPerIo],
        (true, Table::Delays) => vec![Metric::LatencyMean, Metric::LatencyP99, Metric::Iops],
        (true, Table::Timelines) => vec![Metric::Iops, Metric::LatencyMean],
        (true, Table::Shares) => vec![Metric::CpuPerIo, Metric::Iops],
        (true, Table::Wakeups) => vec![Metric::LatencyMean, Metric::CpuPerIo],
        (true, Table::Punts) => vec![Metric::LatencyMean, Metric::CpuPerIo],
        (true, Table::Net) => vec![Metric::Iops, Metric::CpuPerIo, Metric::LatencyP99],
        (true, Table::Order) => vec![Metric::Iops],
        (true, Table::Kicks) => vec![Metric::Iops, Metric::LatencyP99, Metric::KicksPerIo],
        (true, Table::Program) => {
            let own = own_metrics(record);
            let cpu = cpu_metric(record, &own);
            own.into_iter().chain([Metric::Elapsed, cpu]).collect()
        }
        // A name that this version does not know was checked by the one that planned the run.
        (false, _) => {
            own_metrics(record);
            record.metrics.iter().filter_map(|m| m.parse().ok()).collect()
        }
    }
}

/// CPU time of a program, per what it did as far as that is known: a program that runs for a set time does more with a better arm.
fn cpu_metric(record: &RunRecord, own: &[Metric]) -> Metric {
    let per_unit = own.iter().filter(|m| m.higher_is_better()).find_map(|m| match m {
        Metric::Own(own) => Some(Metric::CpuPerUnit(own)),
        _ => None,
    });
    let is_traced = |c: &CellRecord| c.measurements.first().is_none_or(|m| Metric::CpuPerIo.of(m).is_some());
    per_unit.unwrap_or(if record.cells.iter().all(is_traced) { Metric::CpuPerIo } else { Metric::CpuTime })
}

/// Those that comparisons are on, in their order.
pub fn compared_on(list: &[Comparison]) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    for metric in list.iter().filter_map(|c| c.metric.parse().ok()) {
        if !found.contains(&metric) {
            found.push(metric);
        }
    }
    found
}

/// The figures that the run's program prints, in its order.
fn own_metrics(record: &RunRecord) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    let is_program = |c: &&CellRecord| c.measurements.first().is_some_and(|m| m.program.is_some());
    for m in record.cells.iter().filter(is_program).flat_map(|c| c.measurements.each()) {
        for figure in m.program.iter().flat_map(|p| &p.figures) {
            let metric = Metric::own(&figure.name, figure.less_is_better);
            if !found.contains(&metric) {
                found.push(metric);
            }
        }
    }
    found
}

/// A cell's parameters but the arm.
pub fn place(cell: &CellRecord) -> Map<String, Value> {
    cell.params.iter().filter(|(name, _)| *name != ARM).map(|(name, value)| (name.clone(), value.clone())).collect()
}
