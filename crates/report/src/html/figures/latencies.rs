//! The share of I/Os slower than each latency, with a logarithmic tail down to one in 10,000.

use serde_json::json;

use super::{Head, Sheet};
use crate::html::figure::{Axis, Column, Figure, Kind, Panel, Scale, Unit};
use crate::html::paths;
use crate::html::view::{Facet, View};
use iotrail_stats::quantile::quantile;

/// Maximum number of points per curve, which has fewer pixels.
const POINTS: u32 = 100;
/// Decades of the tail, up to p99.99.
const DECADES: f64 = 4.0;

pub fn figure(view: &View<'_>, facets: &[Facet]) -> Option<Figure> {
    let own = Sheet::own(view);
    let columns = [
        Column::new("latency_ns", Unit::Ns),
        Column::new("share_slower", Unit::Share),
        Column::new("ios", Unit::Number),
    ];
    let mut sheet = Sheet::new(view, columns);
    let mut lots = Vec::new();
    for facet in facets {
        let mut panels: Vec<(String, Panel)> = Vec::new();
        for spot in &facet.spots {
            let Some(all) = view.cells[spot.cell].latencies.as_ref().filter(|all| !all.is_empty()) else { continue };
            let row = facet.row_name(spot);
            let i = panels.iter().position(|(name, _)| *name == row).unwrap_or_else(|| {
                let x = Axis::new("latency", Unit::Ns, Scale::Log);
                let y = Axis::new("p99: 1 % of the I/Os were slower", Unit::Share, Scale::Log);
                let title = if row.is_empty() { facet.title.clone() } else { row.clone() };
                let mut panel = Panel::new(title, Kind::Curves, x, y);
                (panel.x_column, panel.y_column) = (Some(own), Some(own + 1));
                panels.push((row, panel));
                panels.len() - 1
            });
            let curve = panels[i].1.series(&facet.series_name(view, spot), paths::arm(spot.arm));
            let mut last = None;
            for i in 0..=POINTS {
                let slower = 10f64.powf(-DECADES * f64::from(i) / f64::from(POINTS));
                let Some(ns) = quantile(all, 1.0 - slower).filter(|ns| last != Some(*ns)) else { continue };
                last = Some(ns);
                let slower = (slower * 1e7).round() / 1e7;
                curve.mark(sheet.push(view, spot.cell, [json!(ns), json!(slower), json!(all.len())]), 0);
            }
        }
        lots.push((facet.title.clone(), panels.into_iter().map(|(_, panel)| panel).collect()));
    }
    let reads = "All repeats of a cell together, from its histogram (accurate to 0.1 %). Each line ends where fewer than five I/Os remain beyond it.";
    sheet.figure(
        Head { id: "latencies", title: "Distribution of the latency, every cell", reads, is_of_time: true },
        lots,
    )
}
