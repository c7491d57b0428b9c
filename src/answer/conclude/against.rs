//! One arm against another on one metric, row by row, in a sentence.

use super::find;
use crate::answer::compare::{Metric, Side, compare, noise_floor, place};
use crate::answer::group::Group;
use crate::answer::spread::Spread;
use crate::answer::verdicts;
use crate::comparison::Comparison;
use crate::run_record::{CONTROL, CellRecord, RunRecord};

/// `b` against `a`, arms of one row. The run has the comparisons with its first arm; of two others the measurements' own numbers
/// are compared. `None`: one of them was not measured.
pub fn against(run: &RunRecord, metric: Metric, a: &CellRecord, b: &CellRecord) -> Option<Comparison> {
    let at = place(a);
    let known = |c: &&Comparison| c.metric == metric.name() && c.a == a.arm() && c.b == b.arm() && c.at == at;
    if let Some(known) = run.comparisons.iter().find(known) {
        return Some(known.clone());
    }
    if a.measurements.is_empty() || b.measurements.is_empty() {
        return None;
    }
    let side = |cell| Side::of_cell(CellRecord::arm(cell), cell, &|_, _| None, &[metric]);
    let here = |arm: &str| run.cells.iter().find(|c| c.arm() == arm && place(c) == at && !c.measurements.is_empty());
    let twins = run.arms.first().and_then(|first| here(first)).zip(here(CONTROL));
    let noise = twins.and_then(|(first, control)| noise_floor(metric, &side(first), &side(control)));
    Some(Comparison { at, ..compare(metric, &side(a), &side(b), true, noise) })
}

/// The ratio of the medians, whatever the interval says.
pub fn ratio(metric: Metric, a: &CellRecord, b: &CellRecord) -> Option<f64> {
    let median = |cell: &CellRecord| Spread::of_known(cell.measurements.iter().map(|m| metric.of(m))).map(|s| s.median);
    let (a, b) = (median(a)?, median(b)?);
    (a > 0.0).then(|| b / a)
}

/// In which rows `other` is higher or lower than `base`, by how much, and in which no difference shows.
pub fn sentence(
    run: &RunRecord,
    metric: Metric,
    base: &str,
    other: &str,
    (rows, group): (Option<&str>, &Group<'_>),
) -> Option<String> {
    let found = group
        .rows
        .iter()
        .filter_map(|row| Some((row.value.clone(), against(run, metric, find(row, base)?, find(row, other)?)?)));
    let found: Vec<(String, Comparison)> = found.collect();
    let refs: Vec<(String, &Comparison)> = found.iter().map(|(name, c)| (name.clone(), c)).collect();
    let parts = verdicts::parts(metric, &refs, rows).join("; ");
    (!parts.is_empty()).then(|| format!("{} with {other} against {base}: {parts}.", metric.words()))
}
