//! A group of cells for conclusions, and helpers that build sentences about its rows and arms.

use crate::compare::Metric;
use crate::group::{Group, Row};
use crate::spread::over_repeats;
use iotrail_base::grouped::grouped;
use iotrail_base::words::list;
use iotrail_schema::run_record::{CONTROL, CellRecord, RunRecord, VARIANT};

/// If more arms are alike, they are not all named.
const NAMED: usize = 3;

pub struct Part<'a> {
    pub run: &'a RunRecord,
    /// The row parameter.
    pub rows: Option<&'a str>,
    pub group: Group<'a>,
}

impl<'a> Part<'a> {
    /// ` at depth 1`, ` for sqpoll` if the rows are variants, or an empty string without a row parameter.
    pub fn at(&self, values: &[String]) -> String {
        match self.rows {
            Some(VARIANT) => format!(" for {}", list(values)),
            Some(axis) => format!(" at {axis} {}", list(values)),
            None => String::new(),
        }
    }

    pub fn at_row(&self, row: &Row<'_>) -> String {
        self.at(std::slice::from_ref(&row.value))
    }

    /// `what: a X; b and c Y.` A fact common to all arms names none; a fact common to many uses `the others`.
    pub fn by_arm(&self, what: &str, say: impl Fn(&str) -> Option<String>) -> Option<String> {
        let mut said = grouped(self.run.arms.iter().filter_map(|arm| Some((say(arm)?, arm.clone()))));
        let of_all = said.iter().map(|(_, arms)| arms.len()).sum::<usize>() == self.run.arms.len();
        let alike = said.len() == 1 && self.run.arms.len() > 1;
        let many = said.iter().position(|(_, arms)| of_all && (alike || arms.len() > NAMED)).map(|i| said.remove(i).0);
        let others = many.map(|text| if alike { text } else { format!("the others {text}") });
        let named = said.into_iter().map(|(text, arms)| format!("{} {text}", list(&arms)));
        let parts: Vec<String> = named.chain(others).collect();
        (!parts.is_empty()).then(|| format!("{what}: {}.", parts.join("; ")))
    }

    /// A fact about an arm's cells, with the rows to which it applies.
    pub fn by_row(&self, arm: &str, say: impl Fn(&Row<'a>, &'a CellRecord) -> Option<String>) -> Option<String> {
        let groups = self.in_groups(arm, say, |a, b| a == b, false);
        let said: Vec<String> = groups.iter().map(|(text, rows)| format!("{}{}", text[0], self.at(rows))).collect();
        (!said.is_empty()).then(|| list(&said))
    }

    /// Groups an arm's values over the rows, each with its row names. `in_order`: only adjacent rows are grouped.
    pub fn in_groups<T>(
        &self,
        arm: &str,
        of: impl Fn(&Row<'a>, &'a CellRecord) -> Option<T>,
        same: impl Fn(&T, &T) -> bool,
        in_order: bool,
    ) -> Vec<(Vec<T>, Vec<String>)> {
        let mut groups: Vec<(Vec<T>, Vec<String>)> = Vec::new();
        for row in &self.group.rows {
            let Some(value) = find(row, arm).and_then(|cell| of(row, cell)) else { continue };
            let from = if in_order { groups.len().saturating_sub(1) } else { 0 };
            match groups[from..].iter_mut().find(|(values, _)| same(&values[0], &value)) {
                Some((values, names)) => {
                    values.push(value);
                    names.push(row.value.clone());
                }
                None => groups.push((vec![value], vec![row.value.clone()])),
            }
        }
        groups
    }
}

/// All cells except the control arm's.
pub fn cells(run: &RunRecord) -> impl Iterator<Item = &CellRecord> {
    run.cells.iter().filter(|c| c.arm() != CONTROL)
}

/// The arm's cell, whether measured or not.
pub fn find<'a>(row: &Row<'a>, arm: &str) -> Option<&'a CellRecord> {
    row.cells.iter().find(|c| c.arm() == arm).copied()
}

/// The ratio of the medians, b over a, for arms other than the first, for which the run has no comparison. `None` if a
/// median is unknown.
pub fn ratio(metric: Metric, a: &CellRecord, b: &CellRecord) -> Option<f64> {
    let of = |cell| over_repeats(cell, |m| metric.of(m));
    let a = of(a)?;
    (a > 0.0).then_some(of(b)? / a)
}

/// `98 to 99.7 %`.
pub fn range(values: impl IntoIterator<Item = f64>, text: impl Fn(f64) -> String) -> String {
    let (low, high) = values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    match (text(low), text(high)) {
        (low, high) if low == high => high,
        (low, high) => format!("{} to {high}", low.trim_end_matches(" %")),
    }
}
