//! The parsed experiment file.

use toml::Value;

use super::values::Options;
use crate::load::Kind;
use iotrail_base::units::Bytes;
use iotrail_schema::run_record::{Expectation, Stop};

/// The parsed experiment file.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    pub name: String,
    pub title: String,
    pub question: String,
    pub expect: String,
    pub kind: Kind,
    pub table: String,
    /// Columns instead of the table's; empty: the table's.
    pub columns: Vec<String>,
    /// Sample the CPUs in all cells.
    pub profile: bool,
    /// Trace 1 in N io_uring requests end to end in all cells.
    pub follow: Option<u32>,
    /// Metrics of the comparisons; empty: the metrics of the table.
    pub metrics: Vec<String>,
    /// Arms that differ by at most this share are equivalent; null: the default.
    pub equivalent_within: Option<f64>,
    pub expectations: Vec<Expectation>,
    /// Measure the first arm twice in each block.
    pub control: bool,
    /// Unmapped options of a fio job file, with their positions.
    pub unmapped: Vec<String>,
    pub seed: Option<u32>,
    /// Size of the scratch file that is created if no target is specified.
    pub size: Option<Bytes>,
    pub full: Scale,
    /// The size for `--quick`; null: the file has none.
    pub quick: Option<Scale>,
}

/// One size of the experiment: full or quick.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Number of blocks; with `stop`, the maximum.
    pub repeats: u32,
    pub stop: Option<Stop>,
    /// Options of all cells.
    pub load: Options,
    /// In file order; the axis of the arms is last, so that arms are adjacent.
    pub axes: Vec<Axis>,
}

impl Scale {
    /// The largest size that a load uses of its target; planning the cell rejects an invalid size.
    pub fn largest_size(&self) -> Option<Bytes> {
        let points = self.axes.iter().flat_map(|axis| &axis.points);
        let sizes = std::iter::once(&self.load).chain(points.map(|p| &p.options)).filter_map(|o| o.get("size"));
        let bytes = |value: &Value| match value {
            Value::String(text) => text.parse::<Bytes>().ok(),
            Value::Integer(n) => u64::try_from(*n).ok().map(Bytes),
            _ => None,
        };
        sizes.filter_map(bytes).max_by_key(|b| b.0)
    }
}

/// A parameter and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub name: String,
    pub points: Vec<Point>,
}

/// One value of a parameter: its name, and the options it sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub value: Value,
    pub options: Options,
    /// Its position as `FILE:LINE:COLUMN`.
    pub at: String,
}
