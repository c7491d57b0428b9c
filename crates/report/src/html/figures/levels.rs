//! One metric of every cell with its interval, by the parameter of the x axis, a series for each arm.

use serde_json::json;

use super::{Head, Sheet};
use crate::html::figure::{Axis, Column, Figure, Kind, Scale, Series, Unit, pages};
use crate::html::view::View;
use iotrail_answer::compare::Metric;

pub fn unit(metric: Metric) -> Unit {
    match metric {
        Metric::Iops => Unit::PerSecond,
        Metric::KicksPerIo | Metric::ModeSwitchesPerIo | Metric::SyscallsPerIo => Unit::Number,
        _ => Unit::Ns,
    }
}

/// As a column's name has it.
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
        let y = Axis::new(metric.words(view.unit), unit, Scale::Auto);
        let mut panel = facet.panel(Kind::Levels, facet.places.axis(), y);
        (panel.y_column, panel.lo_column, panel.hi_column) = (Some(own), Some(own + 1), Some(own + 2));
        panel.joined = facet.places.are_numbers;
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
            let i = panel.series.iter().position(|s| s.look == spot.arm).unwrap_or_else(|| {
                panel.series.push(Series::new(view.arm_name(spot.cell), spot.arm));
                panel.series.len() - 1
            });
            panel.series[i].mark(row, spot.at);
        }
        if !panel.series.is_empty() {
            lots.push((facet.title.clone(), vec![panel]));
        }
    }
    let what = match metric.quantile() {
        Some(_) => "All latencies of a cell's repeats together",
        None => "Medians over a cell's repeats",
    };
    let mut reads = format!(
        "{what}, with their 95 % intervals where there are repeats enough. Whether two arms differ is told by their ratio, not by two \
         intervals."
    );
    if unknown > 0 {
        reads.push_str(&format!(" {unknown} cells are not drawn: it is not known there, or of too few samples."));
    }
    let id = metric.name().replace('_', "-");
    let (title, is_of_time) = (metric.words(view.unit), metric.is_of_time());
    sheet.figure(Head { id: &id, title: &title, reads: &reads, is_of_time }, pages(lots))
}
