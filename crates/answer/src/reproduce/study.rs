//! A study's file format: published figures with their sources, and the measurements that test each of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::band;
use iotrail_schema::reproduction::Band;

/// A published study.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Study {
    pub name: String,
    pub title: String,
    pub citation: String,
    pub repository: Option<String>,
    pub commit: Option<String>,
    /// The machine on which the study was measured.
    pub machine: String,
    pub part: Vec<Part>,
    pub claim: Vec<Claim>,
}

/// An experiment that ships with iotrail. Its file has the part's name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Part {
    pub name: String,
    pub title: String,
    #[serde(default)]
    pub needs: Needs,
}

/// Requirements on the machine.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Needs {
    /// Minimum online CPUs.
    pub cpus: Option<u32>,
    /// Files that must exist.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Description of these files.
    pub what: Option<String>,
    /// An alternative test.
    pub instead: Option<String>,
}

/// A published figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    pub says: String,
    /// File and columns, or page number.
    pub source: String,
    pub part: Option<String>,
    pub shape: Option<Shape>,
    /// Published text, for a figure without a shape.
    pub published: Option<String>,
    #[serde(default)]
    pub needs: Needs,
    /// Why iotrail cannot test it on any machine.
    pub untestable: Option<String>,
    pub depends: Option<String>,
}

/// The compared quantity.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    Ratio(Ratio),
    Count(Count),
    Knee(Knee),
    Order(Order),
}

/// Parameter values that identify one cell.
pub type Place = BTreeMap<String, Value>;

/// The metric of one cell relative to another.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ratio {
    /// A [`Metric`](crate::compare::Metric).
    pub metric: String,
    pub a: Place,
    pub b: Place,
    /// Published figures of a and b; without them, `band` is required.
    pub published: Option<[f64; 2]>,
    /// The unit, if it differs from the metric's unit.
    pub of: Option<String>,
    /// The published figures are reciprocals of the metric: for example I/Os per second of a saturated core, for CPU
    /// time per I/O.
    #[serde(default)]
    pub inverse: bool,
    pub band: Option<Band>,
    pub limit: Option<Limit>,
}

/// A limit on the published figure, and the required limit here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    Cpu,
}

/// A count per I/O in one cell.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Count {
    pub figure: String,
    pub at: Place,
    /// Without it, `band` is required.
    pub published: Option<f64>,
    pub band: Option<Band>,
}

/// The value at which a curve reaches 90 % of its best.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Knee {
    pub metric: String,
    /// The varied parameter, with ascending values.
    pub along: String,
    pub values: Vec<Value>,
    /// The fixed parameters.
    #[serde(default)]
    pub at: Place,
    /// Published figure at each value.
    pub published: Vec<f64>,
}

/// Cells from the best to the worst.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Order {
    pub metric: String,
    pub cells: Vec<Place>,
    /// Published figure of each cell.
    pub published: Vec<f64>,
}

impl Ratio {
    /// The published ratio, in the direction of the measured ratio.
    pub fn value(&self) -> Option<f64> {
        self.published.map(|[a, b]| if self.inverse { a / b } else { b / a })
    }

    /// The band of agreement; unbounded without a published figure and a band.
    pub fn band(&self) -> Band {
        self.band.or(self.value().map(band::of_ratio)).unwrap_or_default()
    }
}

impl Count {
    pub fn band(&self) -> Band {
        self.band.or(self.published.map(band::of_count)).unwrap_or_default()
    }
}
