//! Events per I/O: kicks, interrupts, system calls and others.

use serde_json::json;

use super::{Head, Sheet, line_of};
use crate::html::figure::{Axis, Column, Figure, Kind, Panel, Scale, Unit};
use crate::html::paths;
use crate::html::view::View;
use iotrail_answer::compare::Metric;
use iotrail_answer::spread::over_repeats;

pub fn figure(view: &View<'_>) -> Option<Figure> {
    let own = Sheet::own(view);
    let mut sheet = Sheet::new(view, Metric::PER_IO.map(|m| Column::new(m.field(), Unit::Number)));
    let mut lots = Vec::new();
    for facet in &view.facets {
        let mut panels: Vec<(Panel, Vec<usize>)> = Metric::PER_IO
            .iter()
            .enumerate()
            .map(|(i, metric)| {
                let x = Axis::new(format!("per {}", view.unit.one()), Unit::Number, Scale::Auto);
                let mut panel = Panel::new(metric.counted(), Kind::Levels, x, Axis::names(facet.lines_are()));
                panel.x_column = Some(own + i);
                (panel, Vec::new())
            })
            .collect();
        for spot in &facet.spots {
            let record = view.cells[spot.cell].record;
            let values = Metric::PER_IO.map(|metric| over_repeats(record, |m| metric.of(m)));
            if values.iter().all(Option::is_none) {
                continue;
            }
            let row = sheet.push(view, spot.cell, values.map(|v| json!(v)));
            for (i, _) in values.iter().enumerate().filter(|(_, v)| v.is_some()) {
                let (panel, lines) = &mut panels[i];
                let at = line_of(facet, view, panel, lines, spot.cell);
                panel.series(&view.arm_name(spot.cell), paths::arm(spot.arm)).mark(row, at);
            }
        }
        lots.push((facet.title.clone(), panels.into_iter().map(|(panel, _)| panel).collect()));
    }
    let one = view.unit.one();
    let title = format!("Kicks, interrupts and calls per {one}");
    let reads = format!(
        "Medians over the repeats. A kick is a reschedule interrupt sent to make a running task process its completions. Values that could not be counted are not drawn. Each count has its own scale, per {one}."
    );
    sheet.figure(Head { id: "rates", title: &title, reads: &reads, is_of_time: false }, lots)
}
