//! The figures of a page, one file for each kind: each is there where what it shows was measured.

mod course;
mod latencies;
mod levels;
mod order;
mod parts;
mod rates;
mod ratios;

use serde_json::Value;

use super::Against;
use super::figure::{Column, Figure, Page};
use super::view::View;

/// In the order of the page: what is different first, then how much it is, then why.
pub fn all(view: &View<'_>, against: Option<&Against<'_>>) -> Vec<Figure> {
    let mut all = Vec::new();
    all.extend(ratios::figure(view, against));
    all.extend(view.metrics().into_iter().filter_map(|metric| levels::figure(view, metric)));
    all.extend(latencies::figure(view));
    all.extend(parts::vehicles(view));
    all.extend(parts::stages(view));
    all.extend(rates::figure(view));
    all.extend(parts::interrupts(view));
    all.extend(parts::ipis(view));
    all.extend(parts::mode_switches(view));
    all.extend(parts::phases(view));
    all.extend(parts::cpu_shares(view));
    all.extend(order::figure(view));
    all.extend(course::figure(view));
    all
}

/// The rows of a figure as they are made.
struct Sheet {
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
    cells: Vec<Option<usize>>,
}

impl Sheet {
    /// `own`: the columns behind those that say which cell it is.
    fn new(view: &View<'_>, own: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: view.columns().into_iter().chain(own).collect(), rows: Vec::new(), cells: Vec::new() }
    }

    /// Where the columns of its own begin.
    fn own(view: &View<'_>) -> usize {
        view.columns().len()
    }

    /// Adds a row; returns its place.
    fn push(&mut self, view: &View<'_>, cell: usize, own: impl IntoIterator<Item = Value>) -> usize {
        self.rows.push(view.identity(&view.cells[cell]).into_iter().chain(own).collect());
        self.cells.push(Some(cell));
        self.rows.len() - 1
    }

    /// `None`: nothing is drawn.
    fn figure(self, head: Head<'_>, pages: Vec<Page>) -> Option<Figure> {
        (!pages.is_empty()).then(|| Figure {
            id: head.id.into(),
            title: head.title.into(),
            reads: head.reads.into(),
            is_of_time: head.is_of_time,
            columns: self.columns,
            rows: self.rows,
            cells: self.cells,
            pages,
        })
    }
}

struct Head<'a> {
    id: &'a str,
    title: &'a str,
    reads: &'a str,
    is_of_time: bool,
}
