//! A figure: a table, and what of it is drawn. Every mark names the row that it shows, so that a chart holds nothing that its table, its
//! hover text and its CSV do not.

use serde::Serialize;
use serde_json::Value;

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

#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// In the page's links and in file names.
    pub id: String,
    pub title: String,
    /// How it is read.
    pub reads: String,
    /// What it shows is time, which means nothing where software runs the machine's instructions.
    #[serde(skip)]
    pub is_of_time: bool,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    /// The place of each row's cell among the page's; null: it has none.
    pub cells: Vec<Option<usize>>,
    /// One is shown at a time.
    pub pages: Vec<Page>,
}

impl Figure {
    /// Of several panels, or of many points: it takes the whole width.
    pub fn is_wide(&self) -> bool {
        match &self.pages[..] {
            [Page { panels, .. }] => !matches!(&panels[..], [one] if one.kind != Kind::Points),
            _ => true,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Page {
    pub name: String,
    pub panels: Vec<Panel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A mark with its interval at each place of the x axis.
    Levels,
    /// Lines through many points.
    Curves,
    /// Lying bars, their parts one after the other.
    Bars,
    Points,
    /// Lying marks with their intervals, beside 1.
    Ratios,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    Linear,
    Log,
    /// From 0, or logarithmic where that would press most marks together.
    Auto,
}

#[derive(Debug, Clone, Serialize)]
pub struct Axis {
    pub title: String,
    pub unit: Unit,
    pub scale: Scale,
    /// Places with names, and marks at these places; none: the marks are at their rows' numbers.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    pub fn new(title: impl Into<String>, unit: Unit, scale: Scale) -> Self {
        Self { title: title.into(), unit, scale, ticks: Vec::new() }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    pub title: String,
    pub kind: Kind,
    pub x: Axis,
    pub y: Axis,
    /// The columns that the marks are placed by; `lo` and `hi`: the ends of their intervals. Null where places have names.
    pub x_column: Option<usize>,
    pub y_column: Option<usize>,
    pub lo_column: Option<usize>,
    pub hi_column: Option<usize>,
    /// Its places follow each other, so that marks may be joined.
    pub joined: bool,
    pub series: Vec<Series>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Series {
    pub name: String,
    /// Which colour, dash, marker and pattern it has.
    pub look: usize,
    pub rows: Vec<usize>,
    /// The place of each, where places have names.
    pub at: Vec<f64>,
}

impl Series {
    pub fn new(name: impl Into<String>, look: usize) -> Self {
        Self { name: name.into(), look, rows: Vec::new(), at: Vec::new() }
    }

    pub fn mark(&mut self, row: usize, at: f64) {
        self.rows.push(row);
        self.at.push(at);
    }
}

/// Panels of a page, at most: what a reader can hold beside each other.
const PANELS: usize = 8;

/// Lays out panels that come in lots which belong together, each lot with its name. Where a page's own name does not say whose its panels
/// are, their titles do.
pub fn pages(mut lots: Vec<(String, Vec<Panel>)>) -> Vec<Page> {
    lots.retain(|(_, panels)| !panels.is_empty());
    let names_pages = lots.iter().map(|(_, panels)| panels.len()).sum::<usize>() > PANELS;
    for (name, panels) in &mut lots {
        // A lot of two or fewer shares its page.
        let is_named = names_pages && panels.len() > 2;
        for panel in panels.iter_mut().filter(|p| p.title != *name && !is_named) {
            let both = [name.as_str(), panel.title.as_str()].into_iter().filter(|w| !w.is_empty());
            panel.title = both.collect::<Vec<_>>().join(" · ");
        }
    }
    let all: usize = lots.iter().map(|(_, panels)| panels.len()).sum();
    if all <= PANELS {
        let panels: Vec<Panel> = lots.into_iter().flat_map(|(_, panels)| panels).collect();
        return if panels.is_empty() { Vec::new() } else { vec![Page { name: String::new(), panels }] };
    }
    let mut pages: Vec<Page> = Vec::new();
    for (name, panels) in lots {
        match pages.last_mut() {
            // Several lots on one page, as long as there is room, are called by the first and the last.
            Some(page) if page.panels.len() + panels.len() <= PANELS && panels.len() <= 2 => {
                let first = page.name.split(" … ").next().unwrap_or_default().to_owned();
                page.name = format!("{first} … {name}");
                page.panels.extend(panels);
            }
            _ => {
                let lots: Vec<&[Panel]> = panels.chunks(PANELS).collect();
                for (i, chunk) in lots.iter().enumerate() {
                    let part = if lots.len() > 1 { format!("{} of {}", i + 1, lots.len()) } else { String::new() };
                    let words = [name.clone(), part].into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>();
                    pages.push(Page { name: words.join(", "), panels: chunk.to_vec() });
                }
            }
        }
    }
    pages
}
