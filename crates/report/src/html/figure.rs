//! A figure: a table, and what of it is drawn. Every mark names the row that it shows, so that a chart holds nothing that its table, its
//! hover text and its CSV do not.

use serde::Serialize;

use super::rows::Rows;

/// What a column's numbers are, which decides how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Text,
    Number,
    PerSecond,
    Ns,
    /// From 0 to 1.
    Share,
    /// Of two numbers; 1: they are equal.
    Ratio,
}

#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// As the CSV has it: with its unit.
    pub name: String,
    pub unit: Unit,
}

impl Column {
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit }
    }
}

/// Where on the page a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the first screen.
    First,
    /// With the words of the answer.
    Beside,
    /// Below it.
    Open,
    Folded,
}

#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// In the page's links and in file names.
    pub id: String,
    #[serde(skip)]
    pub title: String,
    /// How it is read.
    #[serde(skip)]
    pub reads: String,
    /// What it shows is time, which means nothing where software runs the machine's instructions.
    #[serde(skip)]
    pub is_of_time: bool,
    #[serde(skip)]
    pub place: Place,
    pub columns: Vec<Column>,
    pub rows: Rows,
    /// The place of each row's cell among the page's; null: it has none.
    pub cells: Vec<Option<usize>>,
    pub panels: Vec<Panel>,
}

impl Figure {
    pub fn number(&self, row: usize, column: Option<usize>) -> Option<f64> {
        self.rows.get(row)[column?].as_f64()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A line for each name, on it a mark with its interval.
    Levels,
    /// A line for each name, on it marks beside 1, with their intervals.
    Ratios,
    /// A line for each name, on it many marks and their middle.
    Dots,
    /// A line for each name, on it parts one after the other.
    Bars,
    /// Lines through many points.
    Curves,
    Points,
    /// Points of one chart, one level after the other, each with its mean.
    Course,
    /// A line for each name, on it a field for each column.
    Grid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
    /// From 0, or logarithmic where that would press most marks together.
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

    /// Of names.
    pub fn names(title: impl Into<String>) -> Self {
        Self::new(title, Unit::Text, Scale::Linear)
    }
}

/// A line of a panel of names.
#[derive(Debug, Clone, Default)]
pub struct Line {
    pub name: String,
    /// Beside its marks.
    pub says: String,
    /// Bars across: its middle; of several comparisons, each.
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
    /// The lines of a panel of names.
    #[serde(skip)]
    pub lines: Vec<Line>,
    /// Names of a grid's columns; `x_column` says which of them a mark is in, from 0.
    #[serde(skip)]
    pub heads: Vec<String>,
    /// The columns that the marks are placed by; `lo` and `hi`: the ends of their intervals.
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

    /// The series of that name, as a new one if there is none.
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
    /// Its look in the page's style sheet.
    #[serde(skip)]
    pub class: &'static str,
    pub rows: Vec<usize>,
    /// The line of each, in a panel of names.
    #[serde(skip)]
    pub at: Vec<usize>,
}

impl Series {
    pub fn mark(&mut self, row: usize, at: usize) {
        self.rows.push(row);
        self.at.push(at);
    }
}

/// Panels that come in lots which belong together, each lot with its name, which its panels' titles begin with.
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
