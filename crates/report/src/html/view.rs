//! A page's runs in the form that figures need: cells with levels and merged latencies, in groups that differ in only
//! one parameter and the arm. Grouping depends on the runs' parameters only, not on their names.

use std::cell::RefCell;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::Source;
use super::figure::{Column, Unit};
use iotrail_answer::command;
use iotrail_answer::compare::{Level, Metric, Side, level, metrics, place};
use iotrail_answer::group::{Row, groups, row_axis};
use iotrail_answer::summary::Forest;
use iotrail_answer::unit;
use iotrail_base::distinct::distinct;
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, RunRecord, value_text};

pub struct View<'a> {
    pub sides: Vec<&'a Source<'a>>,
    pub cells: Vec<Cell<'a>>,
    /// Names of the parameters of all runs.
    pub axes: Vec<String>,
    pub unit: unit::Unit,
    /// Groups of all runs; groups of two runs with the same title are adjacent.
    pub facets: Vec<Facet>,
}

pub struct Cell<'a> {
    pub side: usize,
    pub record: &'a CellRecord,
    /// `depth 16 · arm coop`.
    pub label: String,
    /// The command that repeats the cell's load; `None` if nothing was measured or no command can repeat it.
    pub command: Option<String>,
    levels: Vec<(Metric, Level)>,
    /// Latencies of all repeats; `None` if some were not stored.
    pub latencies: Option<Histogram<u64>>,
}

/// Metrics shown on every page, in addition to those of the run's question.
const ALWAYS: [Metric; 4] = [Metric::Iops, Metric::LatencyMean, Metric::LatencyP99, Metric::CpuPerIo];

impl<'a> View<'a> {
    /// Reads histograms one at a time, and each only once, to bound memory.
    pub fn new(sources: &'a [Source<'a>]) -> Self {
        let mut axes: Vec<String> = Vec::new();
        let mut cells = Vec::new();
        for (side, source) in sources.iter().enumerate() {
            axes.extend(source.record.axes.iter().filter(|a| !axes.contains(a)).cloned().collect::<Vec<_>>());
            let metrics = shown(source.record);
            cells.extend(source.record.cells.iter().map(|record| cell(side, source, record, &metrics)));
        }
        let unit = sources.first().map_or(unit::Unit::Io, |s| unit::Unit::of_run(s.record));
        let mut view = Self { sides: sources.iter().collect(), cells, axes, unit, facets: Vec::new() };
        view.facets = view.all_facets();
        view
    }

    pub fn is_of_two(&self) -> bool {
        self.sides.len() > 1
    }

    /// Metrics that are known in any cell, starting with those of the runs' question.
    pub fn metrics(&self) -> Vec<Metric> {
        let is_known = |metric: &Metric| self.cells.iter().any(|c| c.level(*metric).is_some());
        distinct(self.sides.iter().flat_map(|s| shown(s.record)).filter(is_known))
    }

    /// The columns that identify a row's cell.
    pub fn columns(&self) -> Vec<Column> {
        let run = self.is_of_two().then_some("run");
        let names = run.into_iter().chain(["cell"]).chain(self.axes.iter().map(String::as_str));
        names.map(|name| Column::new(name, Unit::Text)).collect()
    }

    pub fn identity(&self, cell: &Cell<'_>) -> Vec<Value> {
        let run = self.is_of_two().then(|| json!(self.sides[cell.side].name));
        let values = self.axes.iter().map(|a| cell.record.params.get(a).cloned().unwrap_or(Value::Null));
        run.into_iter().chain([json!(cell.record.cell)]).chain(values).collect()
    }

    fn all_facets(&self) -> Vec<Facet> {
        let mut all: Vec<Facet> = Vec::new();
        for (side, source) in self.sides.iter().enumerate() {
            for facet in self.facets_of(side, source.record) {
                let beside = all.iter().rposition(|f| f.group == facet.group);
                all.insert(beside.map_or(all.len(), |i| i + 1), facet);
            }
        }
        all
    }

    fn facets_of(&self, side: usize, run: &RunRecord) -> Vec<Facet> {
        let rows = row_axis(run).filter(|axis| run.values(axis).len() > 1);
        let prefix = if self.is_of_two() { self.sides[side].name.clone() } else { String::new() };
        let arms = looks(run);
        let measured = |row: &Row<'_>| row.cells.iter().any(|c| !c.measurements.is_empty());
        let each = groups(run, rows).into_iter().map(|mut group| {
            // The answer names unmeasured cells; an empty line would look like a value of 0.
            group.rows.retain(measured);
            let cells = |of: &[&CellRecord]| -> Vec<usize> {
                of.iter().filter_map(|c| self.with_params(side, |r| std::ptr::eq(r, *c))).collect()
            };
            let mut spots = Vec::new();
            for row in &group.rows {
                for cell in cells(&row.cells) {
                    let arm = arms.iter().position(|a| a == self.cells[cell].record.arm()).unwrap_or(0);
                    spots.push(Spot { cell, row: row.value.clone(), arm, name: None });
                }
            }
            let words = [prefix.clone(), group.title.clone()].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>();
            Facet { title: words.join(" · "), group: group.title, axis: rows.unwrap_or_default().to_owned(), spots }
        });
        each.filter(|facet| !facet.spots.is_empty()).collect()
    }

    /// The first matching cell on this side.
    pub fn with_params(&self, side: usize, is: impl Fn(&CellRecord) -> bool) -> Option<usize> {
        self.cells.iter().position(|c| c.side == side && is(c.record))
    }

    /// The answer's cells as a group: the pair with the largest difference, or the first cells if there are no
    /// comparisons.
    pub fn focus(&self, forest: Option<&Forest>) -> Option<Facet> {
        let pair = forest.and_then(|f| f.largest.as_ref()).and_then(|(c, situation)| {
            let has = |r: &CellRecord| c.at.iter().all(|(name, value)| r.params.get(name) == Some(value));
            let (a, b) = match self.is_of_two() {
                true => (self.with_params(0, has)?, self.with_params(1, has)?),
                false => {
                    let of = |arm: &str| self.with_params(0, |r| r.arm() == arm && place(r) == c.at);
                    (of(&c.a)?, of(&c.b)?)
                }
            };
            Some((vec![a, b], situation.clone()))
        });
        let measured = |i: &usize| {
            let record = self.cells[*i].record;
            !record.measurements.is_empty() && record.arm() != CONTROL
        };
        let (cells, title) =
            pair.unwrap_or_else(|| ((0..self.cells.len()).filter(measured).take(2).collect(), String::new()));
        let spot = |(arm, cell): (usize, usize)| {
            let name = match (self.is_of_two(), forest) {
                (true, _) => self.sides[self.cells[cell].side].name.clone(),
                (false, Some(_)) => self.arm_name(cell),
                (false, None) if self.cells[cell].label.is_empty() => self.arm_name(cell),
                (false, None) => self.cells[cell].label.clone(),
            };
            Spot { cell, row: String::new(), arm, name: Some(name) }
        };
        let spots: Vec<Spot> = cells.into_iter().enumerate().map(spot).collect();
        (!spots.is_empty()).then(|| Facet { title, group: String::new(), axis: String::new(), spots })
    }

    /// The groups of these cells.
    pub fn beside(&self, focus: &Option<Facet>) -> Vec<Facet> {
        let cells: Vec<usize> = focus.iter().flat_map(|f| &f.spots).map(|s| s.cell).collect();
        let has = |f: &&Facet| f.spots.iter().any(|s| cells.contains(&s.cell));
        self.facets.iter().filter(has).cloned().collect()
    }

    /// A series' name: the arm, or without arms the measured quantity.
    pub fn arm_name(&self, cell: usize) -> String {
        match self.cells[cell].record.arm() {
            "" => "measured".into(),
            arm => arm.into(),
        }
    }
}

/// The arms in order, followed by the control.
pub fn looks(run: &RunRecord) -> Vec<String> {
    let arms = run.values(ARM).into_iter().map(value_text).collect::<Vec<_>>();
    let mut all: Vec<String> = run.arms.iter().filter(|a| arms.contains(a)).cloned().collect();
    all.extend(arms.into_iter().filter(|a| !run.arms.contains(a) && a != CONTROL));
    if all.is_empty() { vec![String::new()] } else { all }
}

fn shown(run: &RunRecord) -> Vec<Metric> {
    distinct(metrics(run).into_iter().chain(ALWAYS))
}

fn cell<'a>(side: usize, source: &'a Source<'a>, record: &'a CellRecord, metrics: &[Metric]) -> Cell<'a> {
    let merged: RefCell<Option<Histogram<u64>>> = RefCell::new(None);
    let complete = RefCell::new(true);
    let histograms = |cell, repeat| {
        let one = (source.histograms)(cell, repeat);
        let mut merged = merged.borrow_mut();
        match (&one, &mut *merged) {
            (None, _) => *complete.borrow_mut() = false,
            (Some(one), Some(all)) => *complete.borrow_mut() &= all.add(one).is_ok(),
            (Some(one), none) => *none = Some(one.clone()),
        }
        one
    };
    let levels = {
        let whole = Side::of_cell(record.arm(), record, &histograms, metrics);
        metrics.iter().filter_map(|m| Some((*m, level(*m, &whole)?))).collect()
    };
    let complete = complete.into_inner();
    Cell {
        side,
        record,
        label: label(source.record, record),
        command: record.measurements.first().and_then(command::of_measurement),
        levels,
        latencies: merged.into_inner().filter(|_| complete),
    }
}

fn label(run: &RunRecord, cell: &CellRecord) -> String {
    let each = run.axes.iter().filter_map(|a| Some(format!("{a} {}", value_text(cell.params.get(a)?))));
    each.collect::<Vec<_>>().join(" · ")
}

impl Cell<'_> {
    pub fn level(&self, metric: Metric) -> Option<Level> {
        self.levels.iter().find(|(m, _)| *m == metric).map(|(_, level)| *level)
    }
}

/// Cells that differ only in one parameter and the arm.
#[derive(Clone)]
pub struct Facet {
    /// Prefixed with the run's name if there are two runs.
    pub title: String,
    pub group: String,
    /// The parameter; empty if the cells differ only in the arm.
    axis: String,
    pub spots: Vec<Spot>,
}

/// A cell's position in a figure.
#[derive(Clone)]
pub struct Spot {
    pub cell: usize,
    /// The parameter's value.
    row: String,
    /// Index of the arm.
    pub arm: usize,
    /// Explicit name; `None` to build the name from value and arm.
    name: Option<String>,
}

impl Facet {
    /// The name of the cell's line.
    pub fn line_name(&self, view: &View<'_>, spot: &Spot) -> String {
        let arm = view.cells[spot.cell].record.arm();
        let row = if self.axis.is_empty() { "" } else { spot.row.as_str() };
        let words = || [row, arm].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" · ");
        spot.name.clone().unwrap_or_else(words)
    }

    /// The parameters that distinguish the lines: `depth · arm`.
    pub fn lines_are(&self) -> String {
        if self.axis.is_empty() { String::new() } else { format!("{} · arm", self.axis) }
    }

    /// The name of the cell's curve.
    pub fn series_name(&self, view: &View<'_>, spot: &Spot) -> String {
        spot.name.clone().unwrap_or_else(|| view.arm_name(spot.cell))
    }

    /// `depth 16`; empty if the cells differ only in the arm.
    pub fn row_name(&self, spot: &Spot) -> String {
        if self.axis.is_empty() { String::new() } else { format!("{} {}", self.axis, spot.row) }
    }
}
