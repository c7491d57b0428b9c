//! Where an experiment's figures changed, run by run: the answer, then a table for each run that a change begins with.

use super::compare::ratio;
use super::layout::{Column, Screen};
use super::style::Style;
use iotrail_answer::head::of_figure;
use iotrail_answer::history::{Change, FEWEST, History, Series};
use iotrail_base::words::{UNKNOWN, plural, so_many};
use iotrail_schema::run_record::value_text;

const LEGEND: &str = "ratio: the new level over the old one, with its 95 % interval as though the run were known; before, since: runs of the \
     two levels. docs/method.md says what counts as a change.";

pub fn screen(h: &History, full: bool, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let shown: Vec<(&Series, &Change)> = h
        .series
        .iter()
        .flat_map(|s| s.changes.iter().map(move |c| (s, c)))
        .filter(|(_, c)| full || c.is_latest)
        .collect();
    out.heading(&answer(h, &shown));
    if h.left_out > 0 {
        let n = so_many(h.left_out, "measurement");
        out.paragraph("  note  ", &format!("{n} left out, which measured another load than was asked for"));
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
    let all: usize = h.series.iter().map(|s| s.changes.len()).sum();
    if shown.len() < all {
        out.paragraph("", &format!("{} before these: --full", plural(all - shown.len(), "change")));
    }
    out
}

/// The worst of the latest changes; else that there is none, and among how many.
fn answer(h: &History, shown: &[(&Series, &Change)]) -> String {
    let runs = h.runs.len();
    let latest = shown.iter().filter(|(_, c)| c.is_latest);
    let size = |c: &Change| c.ratio.ln().abs();
    let worst = latest.max_by(|(_, a), (_, b)| a.is_worse.cmp(&b.is_worse).then(size(a).total_cmp(&size(b))));
    let over = match (h.runs.first(), h.runs.last()) {
        (Some(first), Some(last)) if runs > 1 => format!("{} ({} to {})", plural(runs, "run"), first.run, last.run),
        _ => plural(runs, "run"),
    };
    let Some((series, change)) = worst else {
        let most = h.series.iter().map(|s| s.points.len()).max().unwrap_or(0);
        return match most < FEWEST {
            true => format!("{}: too few runs to tell a change: {over}, and {FEWEST} are the least", h.experiment),
            false => format!("{}: no change of {} over {over}", h.experiment, plural(h.series.len(), "figure")),
        };
    };
    let by = match series.metric.parse() {
        Ok(metric) => of_figure(metric, h.unit, change.ratio, change.ci95),
        Err(_) => format!("×{} of {}", ratio(change.ratio), series.metric),
    };
    format!("{}: {by} since run {} of {}{}", h.experiment, change.run, day(&change.started), of(h, series))
}

/// Which series it is: `, at depth 16 · arm coop`.
fn of(h: &History, series: &Series) -> String {
    let at = at(h, series);
    if at.is_empty() { at } else { format!(", at {at}") }
}

fn at(h: &History, series: &Series) -> String {
    let several_hosts = h.series.iter().any(|s| s.hostname != series.hostname);
    let host = several_hosts.then(|| format!("host {}", series.hostname));
    let params = series.at.iter().map(|(name, value)| format!("{name} {}", value_text(value)));
    params.chain(host).collect::<Vec<_>>().join(" · ")
}

/// `2026-03-01` of `2026-03-01 12:00:00`.
fn day(started: &str) -> &str {
    started.split(' ').next().unwrap_or(started)
}

fn table(out: &mut Screen, h: &History, run: i64, changes: &[(&Series, &Change)]) {
    let Some((_, first)) = changes.first() else { return };
    out.blank();
    let of = h.series.len();
    out.heading(&format!("run {run} of {}: {} of {} changed", first.started, changes.len(), plural(of, "figure")));
    // What changed with all of them: their runs before may be different ones.
    let mut with: Vec<&String> = changes.iter().flat_map(|(_, c)| &c.with).collect();
    with.sort_unstable();
    with.dedup();
    let with: Vec<&str> = with.into_iter().map(String::as_str).collect();
    match with.is_empty() {
        true => out.paragraph("  with  ", "nothing that a run records: host, kernel, target and options are the same"),
        false => out.paragraph("  with  ", &with.join("; ")),
    }
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
        let at = at(h, series);
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
