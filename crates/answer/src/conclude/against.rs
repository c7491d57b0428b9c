//! Two cells against each other where the run's comparisons, each of them with the first arm, don't say it.

use crate::compare::{Metric, Side, compare};
use crate::spread::over_repeats;
use iotrail_schema::comparison::Comparison;
use iotrail_schema::run_record::CellRecord;

/// The ratio of the medians, b over a; `None` where one is not known.
pub fn ratio(metric: Metric, a: &CellRecord, b: &CellRecord) -> Option<f64> {
    let of = |cell| over_repeats(cell, |m| metric.of(m));
    let a = of(a)?;
    (a > 0.0).then_some(of(b)? / a)
}

/// b against a, two cells of one row, where neither is the first arm's: by their own pairs, without a control.
pub fn compared(metric: Metric, a: &CellRecord, b: &CellRecord) -> Comparison {
    let side = |cell| Side::of_cell(CellRecord::arm(cell), cell, &|_, _| None, &[metric]);
    compare(metric, &side(a), &side(b), true, None)
}

/// One half of a cell's measurements, by blocks: what chooses a cell must not test it.
pub fn every_other(cell: &CellRecord, first: usize) -> CellRecord {
    let measurements = cell.measurements.iter().skip(first).step_by(2).cloned().collect();
    CellRecord { measurements, ..cell.clone() }
}
