//! The runs of a page as its figures take them: cells with their levels and merged latencies, in groups that differ in nothing but the
//! place on the x axis and the arm. What goes where is decided by the runs' own parameters, whatever an experiment calls them.

use std::cell::RefCell;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::Source;
use super::figure::{Axis, Column, Panel, Scale, Unit};
use iotrail_answer::command;
use iotrail_answer::compare::{Level, Metric, Side, level, metrics};
use iotrail_answer::group::{Row, groups, row_axis};
use iotrail_answer::unit;
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, RunRecord, value_text};

pub struct View<'a> {
    pub sides: Vec<&'a Source<'a>>,
    pub cells: Vec<Cell<'a>>,
    /// Parameters of all runs.
    pub axes: Vec<String>,
    pub unit: unit::Unit,
    /// The groups of every run; of two runs, those of one title follow each other.
    pub facets: Vec<Facet>,
}

pub struct Cell<'a> {
    pub side: usize,
    pub record: &'a CellRecord,
    /// `depth 16 · arm coop`.
    pub label: String,
    /// That does its load again; `None`: nothing is measured, or none can.
    pub command: Option<String>,
    levels: Vec<(Metric, Level)>,
    /// Latencies of all repeats; `None`: not all were kept.
    pub latencies: Option<Histogram<u64>>,
}

/// Metrics that every page shows, beside those that a run is about.
const ALWAYS: [Metric; 4] = [Metric::Iops, Metric::LatencyMean, Metric::LatencyP99, Metric::CpuPerIo];

impl<'a> View<'a> {
    /// Reads every histogram once, one at a time.
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

    /// Metrics that are known of any cell, those that the runs are about first.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut all: Vec<Metric> = Vec::new();
        for metric in self.sides.iter().flat_map(|s| shown(s.record)) {
            if !all.contains(&metric) && self.cells.iter().any(|c| c.level(metric).is_some()) {
                all.push(metric);
            }
        }
        all
    }

    /// The columns that say which cell a row is of.
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
            // That nothing could be measured at a place is said in the answer; an empty place would say that nothing was there.
            group.rows.retain(measured);
            let cells = |of: &[&CellRecord]| -> Vec<usize> {
                of.iter().filter_map(|c| self.with_params(side, |r| std::ptr::eq(r, *c))).collect()
            };
            let places = match rows {
                Some(axis) => {
                    let number = |cells: &[&CellRecord]| cells.first()?.params.get(axis)?.as_f64();
                    let numbers: Vec<Option<f64>> = group.rows.iter().map(|r| number(&r.cells)).collect();
                    Places::new(axis, group.rows.iter().map(|r| r.value.clone()).collect(), &numbers)
                }
                None => Places::new("", arms.clone(), &[]),
            };
            let mut marks = Vec::new();
            for (i, row) in group.rows.iter().enumerate() {
                for cell in cells(&row.cells) {
                    let arm = arms.iter().position(|a| a == self.cells[cell].record.arm()).unwrap_or(0);
                    let at = places.at[if rows.is_some() { i } else { arm }];
                    marks.push(Spot { cell, row: row.value.clone(), arm, at });
                }
            }
            let words = [prefix.clone(), group.title.clone()].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>();
            Facet { title: words.join(" · "), group: group.title, places, spots: marks, has_rows: rows.is_some() }
        });
        each.filter(|facet| !facet.spots.is_empty()).collect()
    }

    /// The first such cell of that side.
    pub fn with_params(&self, side: usize, is: impl Fn(&CellRecord) -> bool) -> Option<usize> {
        self.cells.iter().position(|c| c.side == side && is(c.record))
    }

    /// A name for a series: the arm; what was measured, where there are no arms.
    pub fn arm_name(&self, cell: usize) -> String {
        match self.cells[cell].record.arm() {
            "" => "measured".into(),
            arm => arm.into(),
        }
    }
}

/// The arms in their order, and the control after them.
pub fn looks(run: &RunRecord) -> Vec<String> {
    let arms = run.values(ARM).into_iter().map(value_text).collect::<Vec<_>>();
    let mut all: Vec<String> = run.arms.iter().filter(|a| arms.contains(a)).cloned().collect();
    all.extend(arms.into_iter().filter(|a| !run.arms.contains(a) && a != CONTROL));
    if all.is_empty() { vec![String::new()] } else { all }
}

fn shown(run: &RunRecord) -> Vec<Metric> {
    let mut all = metrics(run);
    all.extend(ALWAYS);
    let mut seen = Vec::new();
    all.retain(|m| {
        !seen.contains(m) && {
            seen.push(*m);
            true
        }
    });
    all
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

/// Cells that differ in nothing but one parameter and the arm.
pub struct Facet {
    /// With the run's name before it, where there are two.
    pub title: String,
    pub group: String,
    pub places: Places,
    pub spots: Vec<Spot>,
    has_rows: bool,
}

/// Where a cell is in a figure.
pub struct Spot {
    pub cell: usize,
    /// The value of the parameter of the x axis.
    pub row: String,
    /// The arm's place among the arms.
    pub arm: usize,
    pub at: f64,
}

impl Facet {
    /// What a bar is called.
    pub fn bar_name(&self, view: &View<'_>, spot: &Spot) -> String {
        let arm = view.cells[spot.cell].record.arm();
        let row = if self.has_rows { spot.row.as_str() } else { "" };
        [row, arm].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" · ")
    }

    /// `depth 16`; empty where the x axis is the arms'.
    pub fn row_name(&self, spot: &Spot) -> String {
        if self.has_rows { format!("{} {}", self.places.title, spot.row) } else { String::new() }
    }

    /// An empty panel of it.
    pub fn panel(&self, kind: super::figure::Kind, x: Axis, y: Axis) -> Panel {
        Panel {
            title: self.title.clone(),
            kind,
            x,
            y,
            x_column: None,
            y_column: None,
            lo_column: None,
            hi_column: None,
            joined: false,
            series: Vec::new(),
        }
    }
}

/// The places of an x axis, by a parameter's values: numbers lie as far from each other as they are, on a logarithmic scale where they
/// span much; text in the order of the plan.
pub struct Places {
    title: String,
    pub at: Vec<f64>,
    text: Vec<String>,
    /// They follow each other.
    pub are_numbers: bool,
}

/// From this factor between the least and the most on, the scale is logarithmic.
const SPAN: f64 = 8.0;

impl Places {
    fn new(title: &str, text: Vec<String>, numbers: &[Option<f64>]) -> Self {
        let known: Vec<f64> = numbers.iter().flatten().copied().collect();
        let are_numbers = known.len() == text.len() && known.len() > 1;
        let (least, most) = known.iter().fold((f64::INFINITY, 0.0f64), |(l, m), x| (l.min(*x), m.max(*x)));
        let at: Vec<f64> = match are_numbers {
            true if least > 0.0 && most / least >= SPAN => known.iter().map(|x| x.log2()).collect(),
            true if least >= 0.0 && most < SPAN * known.len() as f64 => known.clone(),
            // With a 0 among numbers that span much, only their order can be shown.
            _ => (0..text.len()).map(|i| i as f64).collect(),
        };
        Self { title: title.into(), at, text, are_numbers }
    }

    pub fn axis(&self) -> Axis {
        let ticks = self.at.iter().copied().zip(self.text.iter().cloned()).collect();
        Axis { title: self.title.clone(), unit: Unit::Text, scale: Scale::Linear, ticks }
    }
}
