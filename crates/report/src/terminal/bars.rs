//! A run's first metric as bars, below the table of numbers.

use textwrap::core::display_width;

use super::layout::{Cell, Column, Screen};
use iotrail_answer::compare::{Metric, metrics};
use iotrail_answer::figure;
use iotrail_answer::group::Group;
use iotrail_answer::spread::over_repeats;
use iotrail_answer::unit::Unit;
use iotrail_base::words::{count, percent, span};
use iotrail_schema::run_record::RunRecord;

/// Length of the longest bar in characters.
const LONGEST: u16 = 40;

/// Shows each cell's median; empty with fewer than two cells.
pub fn of_group(out: &mut Screen, run: &RunRecord, group: &Group<'_>, rows: Option<&str>) {
    let Some(metric) = metrics(run).into_iter().next() else { return };
    let cells = group.rows.iter().flat_map(|row| row.cells.iter().enumerate().map(move |(i, cell)| (row, i, cell)));
    let known: Vec<_> = cells
        .filter_map(|(row, i, cell)| {
            let value = over_repeats(cell, |m| metric.of(m)).filter(|x| x.is_finite() && *x >= 0.0)?;
            Some((if i == 0 { row.value.as_str() } else { "" }, cell.arm(), value))
        })
        .collect();
    let most = known.iter().map(|(.., value)| *value).fold(0.0, f64::max);
    if known.len() < 2 || most <= 0.0 {
        return;
    }
    let lines = out.style().lines;
    let line = |(row, arm, value): &(&str, &str, f64)| {
        let bar = bar(value / most, LONGEST.into(), lines);
        vec![Cell::from(row), Cell::from(arm), Cell::from(bar), Cell::from(text(metric, *value))]
    };
    let rows = rows.unwrap_or("");
    let widest = |texts: Vec<&str>, most| texts.into_iter().map(display_width).max().unwrap_or(0).min(most) as u16;
    let columns = [
        Column::named(rows, widest(known.iter().map(|(row, ..)| *row).chain([rows]).collect(), 11), true),
        Column::named("arm", widest(known.iter().map(|(_, arm, _)| *arm).chain(["arm"]).collect(), 16), false),
        Column::named(&metric.words(Unit::of_run(run)), LONGEST, false),
        Column::number("", 9),
    ];
    out.blank();
    out.table(&columns, known.iter().map(line).collect());
}

fn text(metric: Metric, value: f64) -> String {
    match metric.figure().map(|f| f.unit) {
        _ if matches!(metric, Metric::Own(_) | Metric::Cpus) => count(value),
        None | Some(figure::Unit::Time) => span(value),
        Some(figure::Unit::Share | figure::Unit::ShareOfTime) => percent(value),
        Some(figure::Unit::Rate) if value < 1000.0 => count(value.round()),
        Some(_) => count(value),
    }
}

/// `share` of `width` characters, rounded to half characters if box drawing is available, otherwise to full characters.
/// Positive shares are always visible.
pub fn bar(share: f64, width: usize, lines: bool) -> String {
    let parts = if lines { 2 } else { 1 };
    let all = width * parts;
    let length = match (share.clamp(0.0, 1.0) * all as f64).round() as usize {
        0 if share > 0.0 => 1,
        n => n.min(all),
    };
    // Bars of full blocks would touch adjacent lines.
    match lines {
        true => "━".repeat(length / 2) + if length % 2 == 1 { "╸" } else { "" },
        false => "#".repeat(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_lengths_are_proportional_to_shares() {
        let lines = |share| bar(share, 4, true);
        assert_eq!([0.0, 0.001, 0.5, 0.6, 1.0, 7.0].map(lines), ["", "╸", "━━", "━━╸", "━━━━", "━━━━"]);
        let letters = |share| bar(share, 4, false);
        assert_eq!([0.0, 0.001, 0.5, 0.7, 1.0].map(letters), ["", "#", "##", "###", "####"]);
        assert_eq!(bar(f64::NAN, 4, true), "");
    }
}
