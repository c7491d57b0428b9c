//! One metric with its interval for all cells, one line per cell.

use serde_json::json;

use super::{Head, Sheet, line_of};
use crate::html::figure::{Axis, Column, Figure, Kind, Panel, Scale, Unit};
use crate::html::paths;
use crate::html::view::View;
use iotrail_answer::compare::Metric;
use iotrail_answer::figure;

pub fn unit(metric: Metric) -> Unit {
    match metric.figure().map(|f| f.unit) {
        // The unit of a program's metric is unknown; a rate is printed as a plain number.
        None if matches!(metric, Metric::Own(_)) => Unit::PerSecond,
        None | Some(figure::Unit::Time) => Unit::Ns,
        Some(figure::Unit::Rate) => Unit::PerSecond,
        Some(_) => Unit::Number,
    }
}

/// The unit as a column name suffix.
pub fn column(metric: Metric) -> String {
    let suffix = if unit(metric) == Unit::Ns { "_ns" } else { "" };
    format!("{metric}{suffix}")
}

pub fn figure(view: &View<'_>, metric: Metric) -> Option<Figure> {
    let (unit, own) = (unit(metric), Sheet::own(view));
    let columns = [(column(metric), unit), ("lo".into(), unit), ("hi".into(), unit), ("repeats".into(), Unit::Number)];
    let mut sheet = Sheet::new(view, columns.map(|(name, unit)| Column::new(name, unit)));
    let mut lots = Vec::new();
    let mut unknown = 0;
    for facet in &view.facets {
        let x = Axis::new(metric.words(view.unit), unit, Scale::Auto);
        let mut panel = Panel::new(facet.title.clone(), Kind::Levels, x, Axis::names(facet.lines_are()));
        (panel.x_column, panel.lo_column, panel.hi_column) = (Some(own), Some(own + 1), Some(own + 2));
        let mut lines = Vec::new();
        for spot in &facet.spots {
            let cell = &view.cells[spot.cell];
            if cell.record.measurements.is_empty() {
                continue;
            }
            let Some(level) = cell.level(metric) else {
                unknown += 1;
                continue;
            };
            let (lo, hi) = (level.interval.map(|i| i[0]), level.interval.map(|i| i[1]));
            let row = sheet.push(
                view,
                spot.cell,
                [json!(level.value), json!(lo), json!(hi), json!(cell.record.measurements.len())],
            );
            let at = line_of(facet, view, &mut panel, &mut lines, spot.cell);
            panel.series(&view.arm_name(spot.cell), paths::arm(spot.arm)).mark(row, at);
        }
        lots.push((facet.title.clone(), vec![panel]));
    }
    let what = match metric.quantile() {
        Some(_) => "Latencies of all repeats of a cell, merged",
        None => "Medians over a cell's repeats",
    };
    let mut reads = format!(
        "{what}, with 95 % intervals if there are enough repeats. To see whether two arms differ, use the interval of their ratio, not two separate intervals."
    );
    if unknown > 0 {
        reads.push_str(&format!(" {unknown} cells are not drawn: the value is unknown or has too few samples."));
    }
    let id = metric.name().replace('_', "-");
    let (title, is_of_time) = (metric.words(view.unit), metric.is_of_time());
    sheet.figure(Head { id: &id, title: &title, reads: &reads, is_of_time }, lots)
}
