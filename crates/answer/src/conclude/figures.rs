//! Counts, times and shares that answer a table's question, by arm over the rows. Each table declares its metrics.

use super::part::{Part, range};
use crate::compare::Metric;
use crate::figure::{self, Figure};
use crate::spread::Spread;
use crate::table::Table;
use crate::unit::Unit;
use iotrail_base::words::{list, percent};
use iotrail_schema::run_record::{CellRecord, VARIANT};

/// Only counts and shares if times are meaningless.
pub fn of(part: &Part<'_>) -> Vec<String> {
    let unit = Unit::of_run(part.run);
    let means_something = |metric: &Metric| !part.run.is_emulated() || !metric.is_of_time();
    let metrics = Table::of(part.run).figures().into_iter().filter(means_something);
    let figures = metrics.filter_map(|metric| Some((metric, metric.figure()?)));
    let said =
        |(metric, f): (Metric, Figure)| part.by_arm(&metric.words(unit), |arm| course(part, arm, metric, f.unit));
    figures.filter_map(said).collect()
}

/// Up to this many steps are all described; beyond it, only the first, last, highest and lowest.
const STEPS: usize = 4;

/// A metric's course from the first row to the last.
fn course(part: &Part<'_>, arm: &str, metric: Metric, kind: figure::Unit) -> Option<String> {
    let of = |cell: &CellRecord| metric.over(&cell.measurements.all());
    let Some(_) = part.rows else { return of_one_row(part, arm, metric, kind) };
    let in_order = part.rows != Some(VARIANT);
    let same = |a: &f64, b: &f64| if in_order { !kind.differ(*a, *b) } else { kind.text(*a) == kind.text(*b) };
    let mut steps = part.in_groups(arm, |_, cell| of(cell), same, in_order);
    if let [(values, names)] = &steps[..]
        && names.len() > 1
    {
        return Some(format!("{} throughout", range(values.iter().copied(), |x| kind.text(x))));
    }
    if in_order && steps.len() > STEPS {
        let value = |i: &usize| steps[*i].0[0];
        let (last, by) = (steps.len() - 1, |a: &usize, b: &usize| value(a).total_cmp(&value(b)));
        let kept = [Some(0), (0..=last).max_by(by), (0..=last).min_by(by), Some(last)];
        let mut i = 0..;
        steps.retain(|_| kept.contains(&i.next()));
    }
    let said = steps
        .iter()
        .map(|(values, names)| format!("{}{}", range(values.iter().copied(), |x| kind.text(x)), part.at(names)));
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| list(&said))
}

/// A single row leaves space for the spread over the repeats.
fn of_one_row(part: &Part<'_>, arm: &str, metric: Metric, kind: figure::Unit) -> Option<String> {
    let cell = super::part::find(part.group.rows.first()?, arm)?;
    let middle = kind.text(metric.over(&cell.measurements.all())?);
    let is_spread = matches!(kind, figure::Unit::Time | figure::Unit::Rate);
    let spread = Spread::over(cell, |m| metric.of(m)).filter(|_| is_spread && metric.is_of_each());
    let reach = spread.and_then(|s| Some((s, s.relative_range()?))).map(|(s, share)| {
        let (low, high) = (kind.text(s.min), kind.text(s.max));
        format!(" ({low} to {high} in {} runs, a spread of {} of the median)", s.repeats, percent(share))
    });
    Some(middle + &reach.unwrap_or_default())
}
