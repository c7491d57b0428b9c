//! The run's answer as a forest plot: one line per situation, with each ratio and its interval around 1.

use serde_json::json;

use crate::html::figure::{Axis, Figure, Head, Kind, Line, Panel, Place, Scale, Unit};
use crate::html::words::verdict_words;
use iotrail_answer::summary::Forest;
use iotrail_answer::unit;
use iotrail_base::words::plural;
use iotrail_schema::comparison::Verdict;

/// CSS classes of a verdict; the mark is hollow if disturbed measurements were included.
pub fn look(verdict: Verdict, disturbed: bool) -> &'static str {
    match (verdict, disturbed) {
        (Verdict::Faster, false) => "good",
        (Verdict::Faster, true) => "good hollow",
        (Verdict::Slower, false) => "bad",
        (Verdict::Slower, true) => "bad hollow",
        (_, false) => "open",
        (_, true) => "open hollow",
    }
}

pub fn series_name(verdict: Verdict, disturbed: bool) -> String {
    format!("{}{}", verdict_words(verdict), if disturbed { ", disturbed" } else { "" })
}

pub fn figure(forest: &Forest, unit: unit::Unit) -> Option<Figure> {
    let columns = [
        ("situation", Unit::Text),
        ("comparisons", Unit::Number),
        ("ratio", Unit::Ratio),
        ("lo", Unit::Ratio),
        ("hi", Unit::Ratio),
        ("medians", Unit::Text),
        ("verdict", Unit::Text),
        ("reason", Unit::Text),
    ];
    let mut rows = Vec::new();
    let against = format!("{} ÷ {}", forest.b.as_deref().unwrap_or("each arm"), forest.a);
    let x = Axis::new(against.clone(), Unit::Ratio, Scale::Log);
    let mut panel = Panel::new("", Kind::Ratios, x, Axis::names(""));
    (panel.x_column, panel.lo_column, panel.hi_column) = (Some(2), Some(3), Some(4));
    for (at, line) in forest.lines.iter().enumerate() {
        let (verdict, disturbed) = (line.mark.verdict, line.mark.disturbed);
        let middle = middle(&line.ratios);
        let across = if line.comparisons > 1 { line.ratios.clone() } else { Vec::new() };
        panel.lines.push(Line { name: line.name.clone(), says: line.mark.text(), across });
        if middle.is_some() {
            panel.series(&series_name(verdict, disturbed), look(verdict, disturbed)).mark(rows.len(), at);
        }
        rows.push(vec![
            json!(line.name),
            json!(line.comparisons),
            json!(middle),
            json!(line.interval.map(|i| i[0])),
            json!(line.interval.map(|i| i[1])),
            json!(line.mark.levels),
            json!(series_name(verdict, disturbed)),
            json!(line.open),
        ]);
    }
    let has_several = forest.lines.iter().any(|l| l.comparisons > 1);
    let mut reads = forest.legend.join(" · ").replace("* disturbed", "hollow and *: disturbed");
    if has_several {
        reads.push_str(" · several comparisons in one row: one vertical bar per comparison");
    }
    if forest.more > 0 {
        reads = format!(
            "{reads} · {} with smaller differences are below, in “What differs”",
            plural(forest.more, "comparison")
        );
    }
    let title = format!("{}: {against}, with 95 % intervals", forest.metric.words(unit));
    let head = Head { id: "forest", title: &title, reads: &reads, is_of_time: false };
    Figure::plain(head, Place::First, &columns, rows, vec![panel])
}

/// The median of several ratios.
fn middle(ratios: &[f64]) -> Option<f64> {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
