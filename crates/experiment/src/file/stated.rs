//! An experiment as its file states it.

use toml::Value;

use super::values::Options;
use crate::load::Kind;
use iotrail_base::units::Bytes;
use iotrail_schema::run_record::{Expectation, Stop};

/// An experiment as its file states it.
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
    /// The CPUs are sampled in every cell.
    pub profile: bool,
    /// One of io_uring's requests in so many is followed whole in every cell.
    pub follow: Option<u32>,
    /// What the arms are compared on; empty: what the table is about.
    pub metrics: Vec<String>,
    /// Arms that differ by no more, as a factor less 1, are equivalent; null: what is usual.
    pub equivalent_within: Option<f64>,
    pub expectations: Vec<Expectation>,
    /// The first arm is measured again in every block.
    pub control: bool,
    /// What a fio job file asks for and this cannot do, with its place.
    pub unmapped: Vec<String>,
    pub seed: Option<u32>,
    /// Of the target that is made when none is given.
    pub size: Option<Bytes>,
    pub full: Scale,
    /// What `--quick` runs; null: the file has no quick form.
    pub quick: Option<Scale>,
}

/// One size of the experiment: the whole, or the quick one.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Blocks; with `stop`, at most.
    pub repeats: u32,
    pub stop: Option<Stop>,
    /// Options that hold in every cell.
    pub load: Options,
    /// In the order of the file; the arms' axis is the last one, so that arms stand beside each other.
    pub axes: Vec<Axis>,
}

impl Scale {
    /// The largest size that a load is told to use of its target; what is no size is refused where the cell is planned.
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

/// One value of a parameter: what it is called, and the options it sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub value: Value,
    pub options: Options,
    /// `FILE:LINE:COLUMN` of it.
    pub at: String,
}
