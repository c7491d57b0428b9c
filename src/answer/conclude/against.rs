//! Two cells against each other where the run's comparisons, each of them with the first arm, don't say it: by medians.

use crate::answer::compare::{Metric, Side, compare, place};
use crate::answer::group::Row;
use crate::answer::spread::Spread;
use crate::comparison::{Comparison, Verdict};
use crate::run_record::{CellRecord, RunRecord};

/// The ratio of the medians, b over a; `None` where one is not known.
pub fn ratio(metric: Metric, a: &CellRecord, b: &CellRecord) -> Option<f64> {
    let median = |c: &CellRecord| Spread::of_known(c.measurements.iter().map(|m| metric.of(m))).map(|s| s.median);
    let a = median(a)?;
    (a > 0.0).then_some(median(b)? / a)
}

/// The run's comparison of an arm with the first one, in this row.
pub fn compared<'a>(run: &'a RunRecord, metric: Metric, arm: &str, row: &Row<'_>) -> Option<&'a Comparison> {
    let at = place(row.cells.first()?);
    run.comparisons.iter().find(|c| c.metric == metric.name() && c.b == arm && c.at == at)
}

/// Of b against a, two cells of one row, where neither is the first arm's: by their own pairs, without a control.
pub fn verdict(metric: Metric, a: &CellRecord, b: &CellRecord) -> Verdict {
    let side = |cell| Side::of_cell(CellRecord::arm(cell), cell, &|_, _| None, &[metric]);
    compare(metric, &side(a), &side(b), true, None).verdict
}
