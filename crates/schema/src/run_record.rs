//! A run of an experiment as stored, reported and printed. These types *are* the JSON schema `iotrail.run/1` (`docs/formats.md`).
//! Reports and answers read only these types, so that every report can be repeated.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::comparison::Comparison;
use crate::measurement::{Host, LoadRecord, Measurement};
use crate::measurements::{Measurements, One};
use crate::program_record::TriedArm;
use crate::search_record::SearchRecord;
use iotrail_base::corruption::Corruption;
use iotrail_base::distinct::distinct;

pub const SCHEMA: &str = "iotrail.run/1";

/// The parameter that names the arm of a cell.
pub const ARM: &str = "arm";
/// An arm that measures the first arm again in every block: its difference from the first is noise. It is in the cells and not in
/// the run's arms.
pub const CONTROL: &str = "control";
/// The parameter that names a cell's combination of options.
pub const VARIANT: &str = "variant";
/// The parameter that names a cell's kernel, if the plan ran on several.
pub const KERNEL: &str = "kernel";

/// Experiment name for a measurement without an experiment.
const SINGLE: &str = "bench";

/// One run: its plan and its measurements so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// `iotrail.run/1`.
    pub schema: String,
    /// The run's number in its store.
    pub run: i64,
    /// Name of the experiment.
    pub experiment: String,
    /// The title in the experiment's file.
    pub title: String,
    /// The question in the experiment's file.
    pub question: String,
    /// The expected result and the reason, written before any measurement.
    pub expect: String,
    /// Name of its table.
    pub table: String,
    /// Columns that replace the table's own; omitted if the experiment specifies none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Whether the run used `--quick`.
    pub quick: bool,
    /// Seed (32 bits) for the order of the cells.
    pub seed: u32,
    /// Planned measurements per cell; with `stop`, the maximum. If other programs disturb the run, more can be added.
    pub repeats: u32,
    /// The stopping rule; null: none.
    #[serde(default)]
    pub stop: Option<Stop>,
    /// Names of the parameters, in the experiment's order, with `arm` last.
    pub axes: Vec<String>,
    /// Names of the arms; the others are compared with the first.
    #[serde(deserialize_with = "arm_names")]
    pub arms: Vec<String>,
    /// For a program, the checks of each arm before it was measured; printed as `arms`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<TriedArm>,
    /// For `iotrail advise`, the objective of the search over the arms; otherwise omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchRecord>,
    /// Metrics by which the arms are compared; if empty, the table's metrics.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Equivalence band, as a factor minus 1; null: 0.05.
    #[serde(default)]
    pub equivalent_within: Option<f64>,
    /// The expectations in the experiment's file.
    #[serde(default)]
    pub expectations: Vec<Expectation>,
    /// Wall-clock start.
    pub started_unix_s: u64,
    /// Wall-clock end; null while measurements are missing.
    pub finished_unix_s: Option<u64>,
    /// Corrupt data found by a read, which ended the run early. Omitted if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corruption: Option<Corruption>,
    /// Every combination of the parameters. A cell whose arm is `control` measures the first arm again. `control` is not listed
    /// as an arm; it provides the noise floor.
    pub cells: Vec<CellRecord>,
    /// Comparison of every other arm with the first, per metric. Computed when the run is read.
    pub comparisons: Vec<Comparison>,
}

/// Names, or objects with a name.
fn arm_names<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Arm {
        Name(String),
        Tried { name: String },
    }
    let name = |arm| match arm {
        Arm::Name(name) | Arm::Tried { name } => name,
    };
    Ok(Vec::<Arm>::deserialize(from)?.into_iter().map(name).collect())
}

/// A run adds blocks until every comparison's interval is narrow enough, or its limits are reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Half-width of the interval, as a share of the ratio.
    pub within: f64,
    /// Minimum number of blocks.
    pub at_least: u32,
    /// Time limit: a block that would exceed it is not started; null: no limit. In a resumed run, the time restarts at zero.
    pub budget_s: Option<f64>,
}

/// The expected comparisons of one arm with the first arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// The metric.
    pub metric: String,
    /// The arm that is compared with the first.
    pub arm: String,
    /// Required parameter values; other parameters may have any value.
    pub at: Map<String, Value>,
    /// The expected verdict.
    pub is: Expected,
    /// Lower bound of the ratio to the first arm.
    pub at_least: Option<f64>,
    /// Upper bound of the ratio to the first arm.
    pub at_most: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Better than the first arm.
    Faster,
    /// Worse.
    Slower,
    /// Equivalent.
    NoDifference,
    /// Not worse.
    NotSlower,
    /// Not better.
    NotFaster,
}

/// One combination of parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Number in the plan, from 1.
    pub cell: u32,
    /// Parameter → value; the arm and the variant by name.
    pub params: Map<String, Value>,
    /// Why this host cannot measure it; null: it can.
    pub untestable: Option<String>,
    /// Measurements in repeat order; fewer than planned if the run was interrupted.
    pub measurements: Measurements,
}

impl RunRecord {
    /// A run of measurements of one load without an experiment; there is at least one.
    pub fn of_measurements(all: Vec<Measurement>) -> Self {
        let mut record = RunRecord::single(&all[0]);
        record.cells[0].measurements = all.into();
        record
    }

    /// A run for one measurement without an experiment: one cell, still without the measurement.
    pub fn single(m: &Measurement) -> Self {
        RunRecord {
            schema: SCHEMA.into(),
            run: 0,
            experiment: SINGLE.into(),
            title: "a single measurement".into(),
            question: String::new(),
            expect: String::new(),
            table: "delivery".into(),
            columns: Vec::new(),
            quick: false,
            seed: 0,
            repeats: 1,
            axes: Vec::new(),
            arms: Vec::new(),
            tried: Vec::new(),
            search: None,
            metrics: Vec::new(),
            equivalent_within: None,
            expectations: Vec::new(),
            stop: None,
            corruption: None,
            started_unix_s: m.started_unix_s,
            finished_unix_s: Some(m.started_unix_s + m.elapsed_ns / 1_000_000_000),
            cells: vec![CellRecord {
                cell: 1,
                params: Map::new(),
                untestable: None,
                measurements: Measurements::default(),
            }],
            comparisons: Vec::new(),
        }
    }

    /// The measurement without an experiment, if this is a run of one.
    pub fn as_single(&self) -> Option<&Measurement> {
        match &self.cells[..] {
            [CellRecord { params, measurements, .. }] if params.is_empty() && self.experiment == SINGLE => {
                measurements.first()
            }
            _ => None,
        }
    }

    /// Number of measurements that this host can make. For a cell that it can no longer measure: those that it made.
    pub fn planned(&self) -> usize {
        if self.corruption.is_none() && self.stop.is_some() && self.finished_unix_s.is_some() {
            return self.done();
        }
        // Blocks may have been added.
        let repeats = self.blocks().max(self.repeats as usize);
        let of_cell = |c: &CellRecord| match c.untestable {
            None => repeats,
            Some(_) => c.measurements.len(),
        };
        self.cells.iter().map(of_cell).sum()
    }

    /// Repeats of the cell that has the most.
    pub fn blocks(&self) -> usize {
        self.cells.iter().map(|c| c.measurements.len()).max().unwrap_or(0)
    }

    /// Blocks added to the plan because other programs disturbed the machine throughout.
    pub fn added_blocks(&self) -> usize {
        self.blocks().saturating_sub(self.repeats as usize)
    }

    /// All measurements, cell by cell, including those of the control arm.
    pub fn measurements(&self) -> impl Iterator<Item = One<'_>> {
        self.cells.iter().flat_map(|c| c.measurements.each())
    }

    /// The first measurement.
    pub fn first(&self) -> Option<&Measurement> {
        self.cells.iter().find_map(|c| c.measurements.first())
    }

    /// The machine and the options of each measurement.
    pub fn set_up(&self) -> impl Iterator<Item = (&Host, &LoadRecord)> {
        self.cells.iter().flat_map(|c| c.measurements.set_up())
    }

    /// Whether the machine was emulated in any of its measurements.
    pub fn is_emulated(&self) -> bool {
        self.set_up().any(|(host, _)| host.is_emulated())
    }

    pub fn done(&self) -> usize {
        self.cells.iter().map(|c| c.measurements.len()).sum()
    }

    /// The values of one parameter, in the order of the plan.
    pub fn values(&self, axis: &str) -> Vec<&Value> {
        distinct(self.cells.iter().filter_map(|c| c.params.get(axis)))
    }
}

impl CellRecord {
    pub fn arm(&self) -> &str {
        self.params.get(ARM).and_then(Value::as_str).unwrap_or_default()
    }
}

/// A parameter's value as text: without quotes, `none` if it is empty.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(s) if s.is_empty() => "none".into(),
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}
