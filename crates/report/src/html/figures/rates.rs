//! What each I/O brought with it: kicks, interrupts, system calls, and the like.

use serde_json::json;

use super::{Head, Sheet};
use crate::html::figure::{Axis, Column, Figure, Kind, Panel, Scale, Series, Unit, pages};
use crate::html::view::View;
use iotrail_answer::spread::over_repeats;
use iotrail_schema::measurement::PerIo;

type Rate = (&'static str, &'static str, fn(&PerIo) -> Option<f64>);

const RATES: [Rate; 7] = [
    ("kicks", "kicks", |p| p.kicks),
    ("resched_ipis", "reschedule IPIs", |p| p.resched_ipis),
    ("device_irqs", "device interrupts", |p| p.device_irqs),
    ("syscalls", "system calls", |p| p.syscalls),
    ("mode_switches", "returns to user mode", |p| p.mode_switches),
    ("context_switches", "context switches", |p| p.context_switches),
    ("task_work_runs", "runs of task work", |p| p.task_work_runs),
];

pub fn figure(view: &View<'_>) -> Option<Figure> {
    let own = Sheet::own(view);
    let mut sheet = Sheet::new(view, RATES.map(|(name, _, _)| Column::new(name, Unit::Number)));
    let mut lots = Vec::new();
    for facet in &view.facets {
        let mut panels: Vec<Option<Panel>> = RATES.map(|_| None).to_vec();
        for spot in &facet.spots {
            let record = view.cells[spot.cell].record;
            let values = RATES.map(|(_, _, of)| over_repeats(record, |m| of(&m.per_io)));
            if values.iter().all(Option::is_none) {
                continue;
            }
            let row = sheet.push(view, spot.cell, values.map(|v| json!(v)));
            for (i, _) in values.iter().enumerate().filter(|(_, v)| v.is_some()) {
                let panel = panels[i].get_or_insert_with(|| {
                    let y = Axis::new(format!("per {}", view.unit.one()), Unit::Number, Scale::Auto);
                    let mut panel = facet.panel(Kind::Levels, facet.places.axis(), y);
                    panel.title = RATES[i].1.into();
                    panel.y_column = Some(own + i);
                    panel.joined = facet.places.are_numbers;
                    panel
                });
                let series = panel.series.iter().position(|s| s.look == spot.arm).unwrap_or_else(|| {
                    panel.series.push(Series::new(view.arm_name(spot.cell), spot.arm));
                    panel.series.len() - 1
                });
                panel.series[series].mark(row, spot.at);
            }
        }
        lots.push((facet.title.clone(), panels.into_iter().flatten().collect()));
    }
    let one = view.unit.one();
    let title = format!("Kicks, interrupts and calls per {one}");
    let reads = format!(
        "Medians over the repeats. A kick is a reschedule interrupt that was sent to make a running task notice its completions. What could \
         not be counted is not drawn; each count has a scale of its own, per {one}."
    );
    sheet.figure(Head { id: "rates", title: &title, reads: &reads, is_of_time: false }, pages(lots))
}
