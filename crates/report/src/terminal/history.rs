//! Changes of an experiment's metrics over its runs: the answer, then one table per run that begins a change.

use super::compare::ratio;
use super::layout::{Column, Screen};
use super::style::Style;
use iotrail_answer::history::{Change, History, Series, with};
use iotrail_answer::verdicts::factor;
use iotrail_base::words::{UNKNOWN, plural, so_many};

const LEGEND: &str = "ratio: the new level over the old level, with its 95 % interval (assuming that the run of the change is known); before, since: \
     runs at each level. docs/method.md defines what counts as a change.";

pub fn screen(h: &History, full: bool, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let shown = h.shown(full);
    out.heading(&h.answer());
    if h.left_out > 0 {
        let n = so_many(h.left_out, "measurement");
        out.paragraph("  note  ", &format!("{n} omitted, because the measured load differs from the requested load"));
    }
    if let Some(short) = h.too_few() {
        out.paragraph("  note  ", &short);
    }
    let mut runs: Vec<i64> = shown.iter().map(|(_, c)| c.run).collect();
    runs.sort_unstable();
    runs.dedup();
    // The latest first.
    for run in runs.iter().rev() {
        let here: Vec<(&Series, &Change)> = shown.iter().filter(|(_, c)| c.run == *run).copied().collect();
        table(&mut out, h, *run, &here);
    }
    if !runs.is_empty() {
        out.blank();
        out.paragraph("", LEGEND);
    }
    if full {
        series(&mut out, h);
    }
    let all: usize = h.series.iter().map(|s| s.changes.len()).sum();
    if shown.len() < all {
        out.paragraph("", &format!("{} before these: --full", plural(all - shown.len(), "change")));
    }
    out
}

/// All series with their number of runs.
fn series(out: &mut Screen, h: &History) {
    out.blank();
    out.heading(&format!("all {} series", h.series.len()));
    let columns = [
        Column::words("at", 30),
        Column::words("figure", 22),
        Column::number("runs", 4),
        Column::number("changes", 7),
        Column::number("visible", 7),
    ];
    let row = |series: &Series| {
        let at = h.at(series);
        vec![
            if at.is_empty() { UNKNOWN.into() } else { at },
            series.metric.clone(),
            series.points.len().to_string(),
            series.changes.len().to_string(),
            series.smallest_visible.map_or_else(|| UNKNOWN.into(), factor),
        ]
    };
    out.table(&columns, h.series.iter().map(row).collect());
    out.paragraph("", "visible: minimum detectable effect; –: a change was found, or too few runs are stored.");
}

fn table(out: &mut Screen, h: &History, run: i64, changes: &[(&Series, &Change)]) {
    let Some((_, first)) = changes.first() else { return };
    out.blank();
    let of = h.series.len();
    out.heading(&format!("run {run} of {}: {} of {} changed", first.started, changes.len(), plural(of, "figure")));
    out.paragraph("  with  ", &with(changes.iter().map(|(_, c)| *c)));
    let columns = [
        Column::words("at", 24),
        Column::words("figure", 16),
        Column::number("ratio", 6),
        Column::words("95 % interval", 13),
        Column::number("before", 6),
        Column::number("since", 5),
    ];
    let row = |(series, change): &(&Series, &Change)| {
        let [lo, hi] = change.ci95.map(ratio);
        let at = h.at(series);
        vec![
            if at.is_empty() { UNKNOWN.into() } else { at },
            series.metric.clone(),
            ratio(change.ratio),
            format!("{lo}–{hi}"),
            change.runs_before.to_string(),
            change.runs_since.to_string(),
        ]
    };
    out.table(&columns, changes.iter().map(row).collect());
}
