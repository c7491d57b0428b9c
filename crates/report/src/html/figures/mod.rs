//! The figures of a page, one file per kind. Figures without measured data are omitted.

mod course;
mod forest;
mod latencies;
mod levels;
mod order;
mod parts;
mod rates;
mod ratios;
mod repeats;

use serde_json::Value;

pub use self::levels::unit;
use super::Against;
use super::figure::{Column, Figure, Head, Panel, Place, panels};
use super::rows::Rows;
use super::view::{Facet, View};
use iotrail_answer::compare::Metric;
use iotrail_answer::summary::Forest;
use iotrail_answer::table::Table;

/// In page order: differences and delivery paths, values that changed with them, then the rest.
pub fn all(view: &View<'_>, forest: Option<&Forest>, against: Option<&Against<'_>>) -> Vec<Figure> {
    let all = &view.facets[..];
    let focus = view.focus(forest);
    let near = focus.as_slice();
    let metric = forest.map(|f| f.metric).or(view.metrics().first().copied()).unwrap_or(Metric::Iops);
    let situation = focus.as_ref().map(|f| f.title.as_str()).filter(|t| !t.is_empty());
    let near_only = |figure: Figure, place: Place, id: &str, title: &str| {
        let title = situation.map_or_else(|| title.to_owned(), |s| format!("{title}: {s}"));
        figure.of_few(place, id, title)
    };
    let mut first = Vec::new();
    first.extend(forest.and_then(|f| forest::figure(f, view.unit)));
    let reads = "Shares of the completions of all repeats.";
    let delivered = parts::vehicles(view, near).map(|f| near_only(f, Place::First, "delivered", "Delivered by"));
    first.extend(delivered.map(|f| Figure { reads: reads.into(), ..f }));
    let mut open = Vec::new();
    let distribution = latencies::figure(view, near);
    open.extend(distribution.map(|f| near_only(f, Place::Beside, "distribution", "Distribution of the latency")));
    open.extend(repeats::figure(view, &view.beside(&focus), metric).map(|f| Figure { place: Place::Open, ..f }));
    // In experiments about order, the order figure replaces the figure of the mean I/O.
    let is_of_order = view.sides.iter().all(|s| Table::of(s.record).each_run);
    let order = order::figure(view).map(|f| if is_of_order { Figure { place: Place::Open, ..f } } else { f });
    let course = parts::stages(view, near).filter(|_| !is_of_order);
    open.extend(course.map(|f| near_only(f, Place::Open, "timeline", "Mean latency, stage by stage")));
    let mut folded = Vec::new();
    folded.extend(ratios::figure(view, against));
    folded.extend(view.metrics().into_iter().filter_map(|metric| levels::figure(view, metric)));
    folded.extend(latencies::figure(view, all));
    folded.extend(parts::vehicles(view, all));
    folded.extend(parts::stages(view, all));
    folded.extend(rates::figure(view));
    folded.extend(parts::interrupts(view, all));
    folded.extend(parts::ipis(view, all));
    folded.extend(parts::mode_switches(view, all));
    folded.extend(parts::phases(view, all));
    folded.extend(parts::cpu_shares(view, all));
    folded.extend(order);
    folded.extend(course::figure(view));
    first.into_iter().chain(open).chain(folded).collect()
}

impl Figure {
    /// Turns the figure into that of the answer's cells, which the title names.
    fn of_few(mut self, place: Place, id: &str, title: String) -> Self {
        self.panels.iter_mut().for_each(|p| p.title.clear());
        Self { place, id: id.into(), title, ..self }
    }
}

/// Collects the rows of a figure.
struct Sheet {
    columns: Vec<Column>,
    rows: Rows,
    cells: Vec<Option<usize>>,
}

impl Sheet {
    /// `own`: columns that follow those identifying the cell.
    fn new(view: &View<'_>, own: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: view.columns().into_iter().chain(own).collect(), rows: Rows::default(), cells: Vec::new() }
    }

    /// Index of the figure's own first column.
    fn own(view: &View<'_>) -> usize {
        view.columns().len()
    }

    /// Adds a row and returns its index.
    fn push(&mut self, view: &View<'_>, cell: usize, own: impl IntoIterator<Item = Value>) -> usize {
        self.rows.push(view.identity(&view.cells[cell]).into_iter().chain(own).collect());
        self.cells.push(Some(cell));
        self.rows.len() - 1
    }

    /// `None` if nothing is drawn.
    fn figure(self, head: Head<'_>, lots: Vec<(String, Vec<Panel>)>) -> Option<Figure> {
        let Sheet { columns, rows, cells } = self;
        let plain = Figure::plain(head, Place::Folded, &[], vec![], panels(lots))?;
        Some(Figure { columns, rows, cells, ..plain })
    }
}

/// The panel's line of a cell, created if necessary, within a facet.
fn line_of(facet: &Facet, view: &View<'_>, panel: &mut Panel, lines: &mut Vec<usize>, cell: usize) -> usize {
    if let Some(i) = lines.iter().position(|c| *c == cell) {
        return i;
    }
    let name = facet.spots.iter().find(|s| s.cell == cell).map(|s| facet.line_name(view, s)).unwrap_or_default();
    panel.lines.push(super::figure::Line { name, ..Default::default() });
    lines.push(cell);
    lines.len() - 1
}
