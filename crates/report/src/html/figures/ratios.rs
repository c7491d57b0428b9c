//! The comparisons: each ratio with its 95 % interval around 1, by verdict.

use serde_json::json;

use super::forest::{look, series_name};
use super::{Head, Sheet};
use crate::html::Against;
use crate::html::figure::{Axis, Column, Figure, Kind, Line, Panel, Scale, Unit};
use crate::html::rows::Rows;
use crate::html::view::View;
use iotrail_answer::compare::{compared_on, place};
use iotrail_answer::verdicts::at_text;
use iotrail_schema::comparison::Comparison;
use iotrail_schema::run_record::value_text;

/// Maximum number of ratios per panel.
const TALLEST: usize = 64;

pub fn figure(view: &View<'_>, against: Option<&Against<'_>>) -> Option<Figure> {
    let comparisons: &[Comparison] = match against {
        Some(against) => against.comparisons,
        None => &view.sides.first()?.record.comparisons,
    };
    let columns = [
        ("metric", Unit::Text),
        ("a", Unit::Text),
        ("b", Unit::Text),
        ("at", Unit::Text),
        ("ratio", Unit::Ratio),
        ("lo", Unit::Ratio),
        ("hi", Unit::Ratio),
        ("noise_floor", Unit::Share),
        ("smallest_visible", Unit::Share),
        ("pairs", Unit::Number),
        ("verdict", Unit::Text),
        ("reasons", Unit::Text),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit)).to_vec();
    let mut sheet = Sheet { columns, rows: Rows::default(), cells: Vec::new() };
    let several = comparisons.iter().any(|c| c.b != comparisons[0].b);
    let mut lots = Vec::new();
    for metric in compared_on(comparisons) {
        let of_metric: Vec<&Comparison> = comparisons.iter().filter(|c| c.metric == metric.name()).collect();
        let mut panels = Vec::new();
        for part in of_metric.chunks(TALLEST) {
            // The axis names the parameters, so marks show only values.
            let axes = view.axes.iter().filter(|a| part.iter().any(|c| c.at.contains_key(*a)));
            let axes: Vec<&str> = axes.map(String::as_str).collect();
            let (a, b) = (part[0].a.as_str(), if several { "each arm" } else { part[0].b.as_str() });
            let better = if metric.higher_is_better() { "more is better" } else { "less is better" };
            let title = format!("{}, {b} ÷ {a} ({better})", metric.words(view.unit));
            let x = Axis::new(format!("{b} ÷ {a}"), Unit::Ratio, Scale::Log);
            let mut panel = Panel::new(title, Kind::Ratios, x, Axis::names(axes.join(" · ")));
            (panel.x_column, panel.lo_column, panel.hi_column) = (Some(4), Some(5), Some(6));
            for c in part {
                let row = sheet.rows.len();
                sheet.cells.push(cell_of(view, c, against.is_some()));
                sheet.rows.push(vec![
                    json!(c.metric),
                    json!(c.a),
                    json!(c.b),
                    json!(at_text(c)),
                    json!(c.ratio),
                    json!(c.ci95.map(|i| i[0])),
                    json!(c.ci95.map(|i| i[1])),
                    json!(c.noise_floor),
                    json!(c.smallest_visible),
                    json!(c.pairs),
                    json!(c.verdict.words()),
                    json!(c.reasons.join("; ")),
                ]);
                // A ratio that is 0 or unknown has no position on a logarithmic axis.
                if c.ratio.is_none_or(|r| r <= 0.0) {
                    continue;
                }
                let arm = if several && against.is_none() { c.b.clone() } else { String::new() };
                let values = axes.iter().filter_map(|a| c.at.get(*a)).map(value_text);
                let name: Vec<String> = values.chain([arm]).filter(|w| !w.is_empty()).collect();
                let at = panel.lines.len();
                let name = if name.is_empty() { c.b.clone() } else { name.join(" · ") };
                panel.lines.push(Line { name, ..Line::default() });
                let disturbed = c.disturbed.counted > 0;
                panel.series(&series_name(c.verdict, disturbed), look(c.verdict, disturbed)).mark(row, at);
            }
            panels.push(panel);
        }
        lots.push((panels.first().map_or_else(String::new, |p: &Panel| p.title.clone()), panels));
    }
    let reads = "Each mark is a ratio with its own 95 % interval. Better or worse: chance alone rarely causes such a difference in any comparison of the metric. Equivalent: the interval is within the band. Comparisons without a ratio are only in the table, with the reason.";
    sheet.figure(Head { id: "ratios", title: "What differs", reads, is_of_time: false }, lots)
}

/// The compared cell; for two runs, the second run's cell.
fn cell_of(view: &View<'_>, c: &Comparison, of_two: bool) -> Option<usize> {
    if of_two {
        return view.with_params(1, |r| c.at.iter().all(|(name, value)| r.params.get(name) == Some(value)));
    }
    view.with_params(0, |r| r.arm() == c.b && place(r) == c.at)
}
