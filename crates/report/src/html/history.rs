//! The page of `track`: the answer, each metric's latest change around 1, and each changed metric run by run.

use serde_json::json;

use super::figure::{Axis, Figure, Head, Kind, Line, Panel, Place, Scale, Unit};
use super::figures::unit;
use super::words::Sentence;
use super::{Answered, safe};
use iotrail_answer::compare::Metric;
use iotrail_answer::history::{Change, History, Series, with};
use iotrail_base::error::Result;
use iotrail_base::words::so_many;

/// Further unchanged metrics appear only in `--json`.
const UNCHANGED: usize = 60;

pub fn page(h: &History) -> Result<String> {
    let page = Answered {
        title: format!("{} over {}", h.experiment, so_many(h.runs.len() as u64, "run")),
        answer: h.answer(),
        name: format!("iotrail-track-{}", safe::file_name(&h.experiment)),
        between_title: "What changed with it",
        between: with_runs(h),
        figures: [changes(h), courses(h, true), courses(h, false)].into_iter().flatten().collect(),
    };
    page.page()
}

/// For each run that begins a latest change, the recorded facts that differ; newest first.
fn with_runs(h: &History) -> Vec<Sentence> {
    let shown = h.shown(false);
    let mut runs: Vec<(i64, &str)> = shown.iter().map(|(_, c)| (c.run, c.started.as_str())).collect();
    runs.sort_unstable();
    runs.dedup();
    let of = |(run, started): &(i64, &str)| {
        let here: Vec<&Change> = shown.iter().filter(|(_, c)| c.run == *run).map(|(_, c)| *c).collect();
        let figures = so_many(here.len() as u64, "figure");
        Sentence::new(format!("Run {run} of {started}, {figures}: {}", with(here)))
    };
    let left_out = (h.left_out > 0).then(|| {
        let n = so_many(h.left_out, "measurement");
        Sentence::new(format!("{n} omitted, because the measured load differs from the requested load"))
    });
    runs.iter().rev().map(of).chain(left_out).chain(h.too_few().map(Sentence::new)).collect()
}

/// `p99, depth 16 · arm coop`.
fn name(h: &History, series: &Series) -> String {
    [series.metric.clone(), h.at(series)].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The latest changes as ratios with intervals.
fn changes(h: &History) -> Option<Figure> {
    let columns = [
        ("metric", Unit::Text),
        ("at", Unit::Text),
        ("run", Unit::Number),
        ("ratio", Unit::Ratio),
        ("lo", Unit::Ratio),
        ("hi", Unit::Ratio),
        ("runs_before", Unit::Number),
        ("runs_since", Unit::Number),
    ];
    let x = Axis::new("new level ÷ old level", Unit::Ratio, Scale::Log);
    let mut panel = Panel::new("", Kind::Ratios, x, Axis::names(""));
    (panel.x_column, panel.lo_column, panel.hi_column) = (Some(3), Some(4), Some(5));
    let mut rows = Vec::new();
    for (at, (series, c)) in h.shown(false).into_iter().enumerate() {
        let (name, says) = (name(h, series), format!("since run {}", c.run));
        panel.lines.push(Line { name, says, across: Vec::new() });
        let (word, class) = if c.is_worse { ("slower", "bad") } else { ("faster", "good") };
        panel.series(word, class).mark(at, at);
        let [lo, hi] = c.ci95;
        rows.push(vec![
            json!(series.metric),
            json!(h.at(series)),
            json!(c.run),
            json!(c.ratio),
            json!(lo),
            json!(hi),
            json!(c.runs_before),
            json!(c.runs_since),
        ]);
    }
    let head = Head {
        id: "changes",
        title: "The latest change of each figure, with 95 % intervals",
        reads: "New level ÷ old level. The interval of the ratio assumes that the run of the change is known.",
        is_of_time: false,
    };
    Figure::plain(head, Place::First, &columns, rows, vec![panel])
}

/// The changed metrics (or the unchanged ones) run by run, with each level's mean.
fn courses(h: &History, changed: bool) -> Option<Figure> {
    let all: Vec<&Series> = h.series.iter().filter(|s| s.changes.is_empty() != changed).collect();
    let most = if changed { all.len() } else { UNCHANGED };
    let (text, number) = (Unit::Text, Unit::Number);
    let columns = [("metric", text), ("at", text), ("level", text), ("run", number), ("value", number)];
    let mut rows = Vec::new();
    let mut panels = Vec::new();
    for series in all.iter().take(most) {
        let unit = series.metric.parse::<Metric>().map_or(Unit::Number, unit);
        let axes = [Axis::new("run", Unit::Number, Scale::Linear), Axis::new(&series.metric, unit, Scale::Auto)];
        let [x, y] = axes;
        let mut panel = Panel::new(name(h, series), Kind::Course, x, y);
        (panel.x_column, panel.y_column) = (Some(3), Some(4));
        for p in &series.points {
            let (level, class) = level(series, p.run);
            panel.series(&level, class).mark(rows.len(), 0);
            rows.push(vec![json!(series.metric), json!(h.at(series)), json!(level), json!(p.run), json!(p.value)]);
        }
        panels.push(panel);
    }
    let (id, title) = match changed {
        true => ("courses", "Run by run: changed metrics".to_owned()),
        false if all.len() > most => ("unchanged", format!("Run by run: {most} of {} unchanged metrics", all.len())),
        false => ("unchanged", "Run by run: unchanged metrics".to_owned()),
    };
    let reads = "Each point is the geometric mean of a run's repeats. Each line is the mean of a level.";
    let place = if changed { Place::Open } else { Place::Folded };
    Figure::plain(Head { id, title: &title, reads, is_of_time: false }, place, &columns, rows, panels)
}

/// The level of a run, and the class of the change that started this level.
fn level(series: &Series, run: i64) -> (String, &'static str) {
    let begun = series.changes.iter().rev().find(|c| c.run <= run);
    begun.map_or_else(
        || ("at first".to_owned(), "base"),
        |c| (format!("since run {}", c.run), if c.is_worse { "bad" } else { "good" }),
    )
}
