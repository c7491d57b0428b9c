//! Which share of the I/Os was slower than so much: the tail on a logarithmic axis, down to one in ten thousand.

use serde_json::json;

use super::{Head, Sheet};
use crate::html::figure::{Axis, Column, Figure, Kind, Panel, Scale, Series, Unit, pages};
use crate::html::view::View;
use iotrail_stats::quantile::quantile;

/// Points of a curve, at most: more than a curve has pixels say nothing.
const POINTS: u32 = 200;
/// Decades of the tail: to p99.99.
const DECADES: f64 = 4.0;

pub fn figure(view: &View<'_>) -> Option<Figure> {
    let own = Sheet::own(view);
    let columns = [
        Column::new("latency_ns", Unit::Ns),
        Column::new("share_slower", Unit::Share),
        Column::new("ios", Unit::Number),
    ];
    let mut sheet = Sheet::new(view, columns);
    let mut lots = Vec::new();
    for facet in &view.facets {
        let mut panels: Vec<(String, Panel)> = Vec::new();
        for spot in &facet.spots {
            let Some(all) = view.cells[spot.cell].latencies.as_ref().filter(|all| !all.is_empty()) else { continue };
            let mut curve = Series::new(view.arm_name(spot.cell), spot.arm);
            let mut last = None;
            for i in 0..=POINTS {
                let slower = 10f64.powf(-DECADES * f64::from(i) / f64::from(POINTS));
                let Some(ns) = quantile(all, 1.0 - slower).filter(|ns| last != Some(*ns)) else { continue };
                last = Some(ns);
                curve.mark(sheet.push(view, spot.cell, [json!(ns), json!(slower), json!(all.len())]), 0.0);
            }
            if curve.rows.is_empty() {
                continue;
            }
            let row = facet.row_name(spot);
            let i = panels.iter().position(|(name, _)| *name == row).unwrap_or_else(|| {
                let x = Axis::new("latency", Unit::Ns, Scale::Log);
                let y = Axis::new("share of I/Os that were slower", Unit::Share, Scale::Log);
                let mut panel = facet.panel(Kind::Curves, x, y);
                (panel.x_column, panel.y_column, panel.joined) = (Some(own), Some(own + 1), true);
                panel.title = if row.is_empty() { panel.title } else { row.clone() };
                panels.push((row, panel));
                panels.len() - 1
            });
            panels[i].1.series.push(curve);
        }
        lots.push((facet.title.clone(), panels.into_iter().map(|(_, panel)| panel).collect()));
    }
    let reads = "Each line falls from all I/Os to the slowest ones: where it crosses 1 %, 1 in 100 was slower (p99). All repeats of a cell \
                 together, from its histogram (right within 0.1 %); a line ends where fewer than five I/Os would be beyond it.";
    sheet.figure(Head { id: "latencies", title: "Distribution of the latency", reads, is_of_time: true }, pages(lots))
}
