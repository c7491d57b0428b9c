//! A run as JSON: from a record in memory, or from the store, reading measurements one by one.

use serde::Serialize;
use serde_json::Value;

use iotrail_answer::conclude::{Conclusion, conclude};
use iotrail_answer::drift;
use iotrail_answer::expectation::{Judged, judge};
use iotrail_answer::summary::Head;
use iotrail_base::error::{Error, Result};
use iotrail_experiment::builtin;
use iotrail_schema::measurement::{Measurement, Warning};
use iotrail_schema::run_record::RunRecord;
use iotrail_store::Store;

/// For a program's run, `arms` contains their trial results; for other runs, their names, and the run is written
/// unmodified.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Printed<'a> {
    Run(Box<Fields<'a>>),
    Tried(Value),
}

/// A run in the form of `--json`.
#[derive(Serialize)]
pub struct Fields<'a> {
    #[serde(flatten)]
    record: &'a RunRecord,
    #[serde(flatten)]
    said: Concluded<'a>,
}

/// A run's first lines.
pub(super) fn head(record: &RunRecord) -> Head {
    Head::of_run(record, builtin::ALL.iter().any(|(name, _)| *name == record.experiment))
}

/// Results computed from the measurements.
#[derive(Serialize)]
struct Concluded<'a> {
    /// The first lines of the screen.
    head: Head,
    conclusions: Vec<Conclusion>,
    /// The experiment's expectations, wherever they hold.
    judged: &'a [Judged],
    /// Statistics of the repeats: outliers, drift.
    warnings: Vec<Warning>,
}

impl<'a> Concluded<'a> {
    fn of(record: &RunRecord, judged: &'a [Judged]) -> Self {
        Self { head: head(record), conclusions: conclude(record), judged, warnings: drift::warnings(record) }
    }
}

impl<'a> Printed<'a> {
    pub fn of(record: &'a RunRecord, judged: &'a [Judged]) -> Result<Self> {
        Self::with(record, Concluded::of(record, judged))
    }

    fn with(record: &'a RunRecord, said: Concluded<'a>) -> Result<Self> {
        let fields = Fields { record, said };
        if record.tried.is_empty() {
            return Ok(Printed::Run(Box::new(fields)));
        }
        let mut value = serde_json::to_value(&fields).map_err(not_json)?;
        if let Some(fields) = value.as_object_mut()
            && let Some(tried) = fields.remove("tried")
        {
            fields.insert("arms".into(), tried);
        }
        Ok(Printed::Tried(value))
    }

    fn measurement(&self, m: &Measurement) -> serde_json::Result<String> {
        match self {
            Printed::Run(_) => serde_json::to_string_pretty(m),
            // Uses the same number formatting as the other variant.
            Printed::Tried(_) => serde_json::to_string_pretty(&serde_json::to_value(m)?),
        }
    }
}

/// In the form of `--json`, to be nested in another document.
pub fn as_value(record: &RunRecord) -> Result<Value> {
    serde_json::to_value(Printed::of(record, &judge(record))?).map_err(not_json)
}

/// A cell's list of measurements, around which the other text is written.
const LIST: &str = "\n      \"measurements\": [";
const LIST_END: &str = "\n      ]";
/// Prefix of each line of a measurement.
const INDENT: &str = "\n        ";

/// Writes a stored run in the form of `--json`, piece by piece. `record` only serves to compute results from its
/// measurements, which are read again one by one.
pub fn pieces(mut record: RunRecord, store: &Store, take: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let judged = judge(&record);
    let said = Concluded::of(&record, &judged);
    record.cells.iter_mut().for_each(|cell| cell.measurements = Vec::new().into());
    let printed = Printed::with(&record, said)?;
    let around = serde_json::to_string_pretty(&printed).map_err(not_json)?;
    let empty = format!("{LIST}]");
    let mut around = around.split(&empty);
    take(around.next().unwrap_or_default())?;
    for cell in &record.cells {
        take(LIST)?;
        let mut before = "";
        store.each_of(record.run, cell.cell, &mut |measurement| {
            let text = printed.measurement(&measurement).map_err(not_json)?;
            take(&format!("{before}{INDENT}{}", text.replace('\n', INDENT)))?;
            before = ",";
            Ok(())
        })?;
        take(if before.is_empty() { "]" } else { LIST_END })?;
        take(around.next().ok_or_else(|| Error::internal("a cell's measurements have no place in the JSON"))?)?;
    }
    take("\n")
}

fn not_json(cause: serde_json::Error) -> Error {
    Error::machine("cannot write the run as JSON", "report this with the command").because(cause)
}
