//! Network runs: requests per second versus delivery order, and versus the server's idle time.

use serde_json::{Value, json};

use super::{Head, Sheet};
use crate::html::figure::{Axis, Column, Figure, Kind, Panel, Scale, Unit};
use crate::html::paths;
use crate::html::view::View;
use iotrail_answer::compare::Metric;

pub fn figure(view: &View<'_>) -> Option<Figure> {
    let own = Sheet::own(view);
    let columns = [
        Column::new("repeat", Unit::Number),
        Column::new("iops", Unit::PerSecond),
        Column::new("inversions_per_completion", Unit::Number),
        Column::new("max_displacement", Unit::Number),
        Column::new("idle_of_each_second", Unit::Share),
    ];
    let mut sheet = Sheet::new(view, columns);
    let mut lots = Vec::new();
    let all = || view.cells.iter().flat_map(|c| c.record.measurements.each());
    let any_inversion = all().any(|m| Metric::Inversions.of(&m).is_some_and(|share| share > 0.0));
    for facet in &view.facets {
        let axes = [
            ("share of completions delivered out of order", Unit::Number, own + 2),
            ("share of time for which the server was idle", Unit::Share, own + 4),
        ];
        let mut by = axes.map(|(title, unit, column)| {
            let y = Axis::new("requests per second", Unit::PerSecond, Scale::Linear);
            let mut panel = Panel::new(facet.title.clone(), Kind::Points, Axis::new(title, unit, Scale::Linear), y);
            (panel.x_column, panel.y_column) = (Some(column), Some(own + 1));
            panel
        });
        for spot in &facet.spots {
            let all = view.cells[spot.cell].record.measurements.all();
            for (repeat, m) in all.iter().enumerate().filter(|(_, m)| m.net.is_some()) {
                let (inversions, idle) = (Metric::Inversions.of(m), Metric::ServerIdle.of(m).map(|ns| ns / 1e9));
                if inversions.is_none() && idle.is_none() {
                    continue;
                }
                let displacement = m.delivery().map(|d| d.max_displacement);
                let values = [json!(repeat + 1), json!(m.iops), json!(inversions), json!(displacement), json!(idle)];
                let row = sheet.push(view, spot.cell, values);
                for (panel, known) in by.iter_mut().zip([inversions, idle]) {
                    if known.is_some() {
                        panel.series(&view.arm_name(spot.cell), paths::arm(spot.arm)).mark(row, spot.arm);
                    }
                }
            }
        }
        let [inverted, idle] = by;
        // Without inversions the chart would be empty, so a sentence replaces it.
        let panels = if any_inversion { vec![inverted, idle] } else { vec![idle] };
        lots.push((facet.title.clone(), panels));
    }
    let reads = match any_inversion {
        true => {
            "Each point is one measurement. It shows requests per second against the share of completions posted before one that was ready earlier, or against the server's idle time."
        }
        false => {
            "Each point is one measurement: requests per second against the share of time for which the server was idle. No completion with a known order was posted before one that was ready earlier."
        }
    };
    sheet
        .figure(
            Head { id: "order", title: "Order of delivery, idle time and throughput", reads, is_of_time: true },
            lots,
        )
        .filter(|f| f.rows.iter().any(|r| r[own + 2] != Value::Null))
}
