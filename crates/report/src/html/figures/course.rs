//! All measurements in chronological order, to show drift and outliers.

use serde_json::json;

use super::{Head, Sheet};
use crate::html::figure::{Axis, Column, Figure, Kind, Panel, Scale, Unit};
use crate::html::paths;
use crate::html::view::{View, looks};
use iotrail_answer::spread::over_repeats;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::CONTROL;

pub fn figure(view: &View<'_>) -> Option<Figure> {
    let own = Sheet::own(view);
    let columns = [
        Column::new("order", Unit::Number),
        Column::new("repeat", Unit::Number),
        Column::new("started_unix_s", Unit::Text),
        Column::new("against_median", Unit::Ratio),
        Column::new("iops", Unit::PerSecond),
        Column::new("latency_mean_ns", Unit::Ns),
        Column::new("latency_p99_ns", Unit::Ns),
    ];
    let mut sheet = Sheet::new(view, columns);
    let mut lots = Vec::new();
    for (side, source) in view.sides.iter().enumerate() {
        let first = view.cells.iter().position(|c| c.side == side).unwrap_or(0);
        let cells = &source.record.cells;
        // All cells share the limit on drawn points.
        let drawn: Vec<(Option<f64>, Vec<Drawn>)> = cells
            .iter()
            .map(|c| {
                let each = c.measurements.all().iter().map(Drawn::of).collect();
                (over_repeats(c, |m| m.iops).filter(|x| *x > 0.0), each)
            })
            .collect();
        let arms = looks(source.record);
        let title = if view.is_of_two() { source.name.clone() } else { String::new() };
        let x = Axis::new("measurement, in the order in which they ran", Unit::Number, Scale::Linear);
        let y = Axis::new("relative to the cell's median", Unit::Ratio, Scale::Linear);
        let mut panel = Panel::new(title.clone(), Kind::Points, x, y);
        (panel.x_column, panel.y_column) = (Some(own), Some(own + 3));
        for (order, (cell, repeat)) in in_order(source.record, source.order.as_deref()).into_iter().enumerate() {
            let (median, all) = &drawn[cell];
            let (Some(m), Some(median)) = (all.get(repeat), median) else { continue };
            let row = sheet.push(
                view,
                first + cell,
                [
                    json!(order + 1),
                    json!(repeat + 1),
                    json!(m.started_unix_s),
                    json!(m.iops.map(|iops| iops / median)),
                    json!(m.iops),
                    json!(m.mean_ns),
                    json!(m.p99_ns),
                ],
            );
            let arm = cells[cell].arm();
            let look = arms.iter().position(|a| a == arm).unwrap_or(arms.len());
            let name = if arm == CONTROL { "control".into() } else { view.arm_name(first + cell) };
            panel.series(&name, paths::arm(look)).mark(row, look);
        }
        panel.series.sort_by_key(|s| s.at[0]);
        lots.push((title, vec![panel]));
    }
    let reads = "Each point is the throughput of one measurement; ×1 is the median of its cell. A rise or fall from left to right is drift; an isolated point was disturbed.";
    sheet.figure(Head { id: "course", title: "Run by run", reads, is_of_time: true }, lots)
}

struct Drawn {
    started_unix_s: u64,
    iops: Option<f64>,
    mean_ns: Option<f64>,
    p99_ns: Option<u64>,
}

impl Drawn {
    fn of(m: &Measurement) -> Self {
        let l = &m.latency_ns;
        Self { started_unix_s: m.started_unix_s, iops: m.iops, mean_ns: l.mean, p99_ns: l.p99 }
    }
}

/// Pairs of cell index and 0-based repeat. A run from a file has start times in seconds only, which determine the order
/// within each block.
fn in_order(run: &iotrail_schema::run_record::RunRecord, stored: Option<&[(u32, u32)]>) -> Vec<(usize, usize)> {
    if let Some(stored) = stored {
        let mut places = std::collections::HashMap::new();
        let mut repeats = vec![Vec::new(); run.cells.len()];
        places.extend(run.cells.iter().enumerate().map(|(i, c)| (c.cell, i)));
        // A cell's measurements are sorted by repeat; some repeats may be missing.
        for (cell, repeat) in stored {
            if let Some(i) = places.get(cell) {
                repeats[*i].push(*repeat);
            }
        }
        repeats.iter_mut().for_each(|r| r.sort_unstable());
        let place = |(cell, repeat): &(u32, u32)| {
            let i = *places.get(cell)?;
            Some((i, repeats[i].binary_search(repeat).ok()?))
        };
        return stored.iter().filter_map(place).collect();
    }
    let each = |(i, c): (usize, &iotrail_schema::run_record::CellRecord)| {
        c.measurements.all().iter().enumerate().map(move |(r, m)| (m.started_unix_s, r, i)).collect::<Vec<_>>()
    };
    let mut all: Vec<(u64, usize, usize)> = run.cells.iter().enumerate().flat_map(each).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, repeat, cell)| (cell, repeat)).collect()
}
