//! A figure: a table and the marks drawn from it. Every mark refers to its row, so all data in a chart also appears in
//! its table, hover text and CSV.

use serde::Serialize;
use serde_json::Value;

use super::rows::Rows;

/// The unit of a column, which determines how its numbers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Text,
    Number,
    PerSecond,
    Ns,
    /// From 0 to 1.
    Share,
    /// Ratio of two numbers.
    Ratio,
}

#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// The column's name in the CSV, with its unit.
    pub name: String,
    pub unit: Unit,
}

impl Column {
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit }
    }
}

/// The part of the page that contains a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the first screen.
    First,
    /// Next to the text of the answer.
    Beside,
    /// Below the answer.
    Open,
    Folded,
}

#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Identifier in the page's links and in file names.
    pub id: String,
    #[serde(skip)]
    pub title: String,
    /// The caption, which explains how to read the figure.
    #[serde(skip)]
    pub reads: String,
    /// The figure shows time, which is meaningless on an emulated machine (no KVM).
    #[serde(skip)]
    pub is_of_time: bool,
    #[serde(skip)]
    pub place: Place,
    pub columns: Vec<Column>,
    pub rows: Rows,
    /// Index of each row's cell on the page; null if the row has no cell.
    pub cells: Vec<Option<usize>>,
    pub panels: Vec<Panel>,
}

/// A figure's name, and how to read it.
pub struct Head<'a> {
    pub id: &'a str,
    pub title: &'a str,
    pub reads: &'a str,
    pub is_of_time: bool,
}

impl Figure {
    /// A figure whose rows have no cells on the page; `None` if nothing is drawn.
    pub fn plain(
        head: Head<'_>,
        place: Place,
        columns: &[(&str, Unit)],
        rows: Vec<Vec<Value>>,
        panels: Vec<Panel>,
    ) -> Option<Self> {
        let columns = columns.iter().map(|(name, unit)| Column::new(*name, *unit)).collect();
        let cells = vec![None; rows.len()];
        let is_drawn = panels.iter().any(|panel| panel.marks() > 0);
        is_drawn.then(|| Self {
            id: head.id.into(),
            title: head.title.into(),
            reads: head.reads.into(),
            is_of_time: head.is_of_time,
            place,
            columns,
            rows: rows.into(),
            cells,
            panels,
        })
    }

    pub fn number(&self, row: usize, column: Option<usize>) -> Option<f64> {
        self.rows.get(row)[column?].as_f64()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One line per name: a mark with its interval.
    Levels,
    /// One line per name: ratios with their intervals, and a reference line at 1.
    Ratios,
    /// One line per name: many marks and their median.
    Dots,
    /// One line per name: a stacked bar.
    Bars,
    /// Curves through many points.
    Curves,
    Points,
    /// One chart of consecutive levels: points, and each level's mean.
    Course,
    /// One line per name with a field per column.
    Grid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
    /// From 0, or logarithmic if that would crowd most marks.
    Auto,
}

#[derive(Debug, Clone)]
pub struct Axis {
    pub title: String,
    pub unit: Unit,
    pub scale: Scale,
}

impl Axis {
    pub fn new(title: impl Into<String>, unit: Unit, scale: Scale) -> Self {
        Self { title: title.into(), unit, scale }
    }

    /// An axis with names instead of numbers.
    pub fn names(title: impl Into<String>) -> Self {
        Self::new(title, Unit::Text, Scale::Linear)
    }
}

/// A line of a panel of names.
#[derive(Debug, Clone, Default)]
pub struct Line {
    pub name: String,
    /// Printed next to its marks.
    pub says: String,
    /// Positions of its bars: the median, or every comparison of the line.
    pub across: Vec<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    pub title: String,
    pub kind: Kind,
    #[serde(skip)]
    pub x: Axis,
    #[serde(skip)]
    pub y: Axis,
    /// The lines, in a panel of names.
    #[serde(skip)]
    pub lines: Vec<Line>,
    /// Column names of a grid; `x_column` contains the index of a mark's column.
    #[serde(skip)]
    pub heads: Vec<String>,
    /// Columns that contain the marks' coordinates; `lo` and `hi` are the ends of their intervals.
    #[serde(skip)]
    pub x_column: Option<usize>,
    #[serde(skip)]
    pub y_column: Option<usize>,
    #[serde(skip)]
    pub lo_column: Option<usize>,
    #[serde(skip)]
    pub hi_column: Option<usize>,
    pub series: Vec<Series>,
}

impl Panel {
    pub fn new(title: impl Into<String>, kind: Kind, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            kind,
            x,
            y,
            lines: Vec::new(),
            heads: Vec::new(),
            x_column: None,
            y_column: None,
            lo_column: None,
            hi_column: None,
            series: Vec::new(),
        }
    }

    /// The series with this name; creates it if necessary.
    pub fn series(&mut self, name: &str, class: &'static str) -> &mut Series {
        let i = self.series.iter().position(|s| s.name == name).unwrap_or_else(|| {
            self.series.push(Series { name: name.into(), class, rows: Vec::new(), at: Vec::new() });
            self.series.len() - 1
        });
        &mut self.series[i]
    }

    pub fn marks(&self) -> usize {
        self.series.iter().map(|s| s.rows.len()).sum()
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Series {
    pub name: String,
    /// Its style sheet class.
    #[serde(skip)]
    pub class: &'static str,
    pub rows: Vec<usize>,
    /// The line of each mark, in a panel of names.
    #[serde(skip)]
    pub at: Vec<usize>,
}

impl Series {
    pub fn mark(&mut self, row: usize, at: usize) {
        self.rows.push(row);
        self.at.push(at);
    }
}

/// Flattens groups of panels; the group's name is prefixed to its panels' titles.
pub fn panels(lots: Vec<(String, Vec<Panel>)>) -> Vec<Panel> {
    let named = |(name, panels): (String, Vec<Panel>)| {
        panels.into_iter().map(move |mut panel| {
            if panel.title != name {
                let both = [name.as_str(), panel.title.as_str()].into_iter().filter(|w| !w.is_empty());
                panel.title = both.collect::<Vec<_>>().join(" · ");
            }
            panel
        })
    };
    lots.into_iter().flat_map(named).filter(|p| p.marks() > 0).collect()
}
