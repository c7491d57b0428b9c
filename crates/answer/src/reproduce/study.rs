//! A study in the form of its file: published figures with their sources, and the measurements that would test each.

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
    /// The machine of its measurements.
    pub machine: String,
    pub part: Vec<Part>,
    pub claim: Vec<Claim>,
}

/// One of iotrail's experiments, whose file has the part's name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Part {
    pub name: String,
    pub title: String,
    #[serde(default)]
    pub needs: Needs,
}

/// Requirements on a machine.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Needs {
    /// Online CPUs.
    pub cpus: Option<u32>,
    /// Files that must exist.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// The files, in words.
    pub what: Option<String>,
    /// An alternative that tests it.
    pub instead: Option<String>,
}

/// A published figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    pub says: String,
    /// File and columns, or page.
    pub source: String,
    pub part: Option<String>,
    pub shape: Option<Shape>,
    /// As text, for a figure without a shape.
    pub published: Option<String>,
    #[serde(default)]
    pub needs: Needs,
    /// Why no machine can test it with this tool.
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

/// Values of parameters that identify one cell.
pub type Place = BTreeMap<String, Value>;

/// A figure of one cell over that of another.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ratio {
    /// A [`Metric`](crate::compare::Metric).
    pub metric: String,
    pub a: Place,
    pub b: Place,
    /// The figures of a and b; without them there is a band.
    pub published: Option<[f64; 2]>,
    /// The unit, if it differs from the metric's.
    pub of: Option<String>,
    /// They are the metric's reciprocal: I/Os per second of a saturated core, for CPU time per I/O.
    #[serde(default)]
    pub inverse: bool,
    pub band: Option<Band>,
    pub limit: Option<Limit>,
}

/// The limit of the published figure, and the required limit here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    Cpu,
}

/// A count of one cell.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Count {
    pub figure: String,
    pub at: Place,
    /// Without it there is a band.
    pub published: Option<f64>,
    pub band: Option<Band>,
}

/// The value at which a curve reaches nine tenths of its best.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Knee {
    pub metric: String,
    /// The parameter, and its values from the lowest.
    pub along: String,
    pub values: Vec<Value>,
    /// The others.
    #[serde(default)]
    pub at: Place,
    /// The figure at each value.
    pub published: Vec<f64>,
}

/// Cells from the best to the worst.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Order {
    pub metric: String,
    pub cells: Vec<Place>,
    /// The figure of each.
    pub published: Vec<f64>,
}

impl Ratio {
    /// The published ratio, in the direction of the measured one.
    pub fn value(&self) -> Option<f64> {
        self.published.map(|[a, b]| if self.inverse { a / b } else { b / a })
    }

    /// The band of agreement; without a published figure and a band, every value.
    pub fn band(&self) -> Band {
        self.band.or(self.value().map(band::of_ratio)).unwrap_or_default()
    }
}

impl Count {
    pub fn band(&self) -> Band {
        self.band.or(self.published.map(band::of_count)).unwrap_or_default()
    }
}
