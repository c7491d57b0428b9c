//! All measurements of a metric with each cell's median, to show the spread within and between arms.

use serde_json::json;

use super::{Head, Sheet, levels, line_of};
use crate::html::draw;
use crate::html::figure::{Axis, Column, Figure, Kind, Panel, Scale, Unit};
use crate::html::paths;
use crate::html::view::{Facet, View};
use iotrail_answer::compare::Metric;
use iotrail_answer::spread::over_repeats;
use iotrail_base::words::plural;

pub fn figure(view: &View<'_>, facets: &[Facet], metric: Metric) -> Option<Figure> {
    let (unit, own) = (levels::unit(metric), Sheet::own(view));
    let columns = [Column::new("repeat", Unit::Number), Column::new(levels::column(metric), unit)];
    let mut sheet = Sheet::new(view, columns);
    let mut lots = Vec::new();
    let mut unknown = 0;
    for facet in facets {
        let x = Axis::new(metric.words(view.unit), unit, Scale::Auto);
        let mut panel = Panel::new(facet.title.clone(), Kind::Dots, x, Axis::names(facet.lines_are()));
        panel.x_column = Some(own + 1);
        let mut lines = Vec::new();
        for spot in &facet.spots {
            let record = view.cells[spot.cell].record;
            for (repeat, m) in record.measurements.all().iter().enumerate() {
                let Some(value) = metric.of(m) else {
                    unknown += 1;
                    continue;
                };
                let at = line_of(facet, view, &mut panel, &mut lines, spot.cell);
                let row = sheet.push(view, spot.cell, [json!(repeat + 1), json!(value)]);
                panel.series(&view.arm_name(spot.cell), paths::arm(spot.arm)).mark(row, at);
            }
        }
        for (line, cell) in panel.lines.iter_mut().zip(lines) {
            let median = over_repeats(view.cells[cell].record, |m| metric.of(m));
            line.says = draw::known(median, unit);
            line.across.extend(median);
        }
        lots.push((facet.title.clone(), vec![panel]));
    }
    let words = metric.words(view.unit);
    let title = format!("{words}: every repeat");
    let mut reads = "Each dot is one measurement. The vertical bar and the number show the median.".to_owned();
    if unknown > 0 {
        let not_drawn = plural(unknown, "measurement");
        reads.push_str(&format!(" Not drawn: {not_drawn} with an unknown value or too few samples."));
    }
    let head = Head { id: "repeats", title: &title, reads: &reads, is_of_time: metric.is_of_time() };
    // A single dot would only repeat the cell table.
    sheet.figure(head, lots).filter(|f| f.rows.len() > 1)
}
