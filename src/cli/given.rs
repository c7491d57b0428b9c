//! A run specified on the command line: its number in the store, `last`, or a JSON file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::input;
use iotrail_schema::fleet_record;
use iotrail_schema::measurement::{self, Measurement};
use iotrail_schema::measurements::Measurements;
use iotrail_schema::packed::Packer;
use iotrail_schema::run_record::{self, RunRecord};
use iotrail_schema::stored_trace;
use iotrail_store::{Store, default_path};

/// Refers to the most recently started run.
const LAST: &str = "last";

/// The store with a cache, so that each run is read only once.
pub struct Stored {
    path: Option<PathBuf>,
    opened: Option<Store>,
    runs: BTreeMap<i64, RunRecord>,
}

impl Stored {
    pub fn new(path: Option<&Path>) -> Self {
        Self { path: path.map(Path::to_owned), opened: None, runs: BTreeMap::new() }
    }

    /// The store, if it has been opened.
    pub fn opened(&self) -> Option<&Store> {
        self.opened.as_ref()
    }

    /// The run number specified by `text`; `None` if `text` is a file.
    pub fn number(&mut self, text: &str) -> Result<Option<i64>> {
        if fleet_record::number(text).is_some() {
            return Err(Error::input(
                format!("{text} is a fleet, but a run is expected"),
                format!("`iotrail report {text}` prints the answer for all its machines; `--full` lists their runs"),
            ));
        }
        if stored_trace::number(text).is_some() {
            return Err(Error::input(
                format!("{text} is a trace, but a run is expected"),
                format!("`iotrail report {text}` prints it; `iotrail compare` compares two traces"),
            ));
        }
        if text != LAST {
            return Ok(text.parse().ok());
        }
        let store = self.store("no run")?;
        store.last()?.map(Some).or_input(
            format_args!("nothing is stored in {}", store.path().display()),
            "run an experiment: `iotrail run coop --quick`",
        )
    }

    pub fn run(&mut self, run: i64) -> Result<RunRecord> {
        if let Some(read) = self.runs.get(&run) {
            return Ok(read.clone());
        }
        let store = self.store(&format!("no run {run}"))?;
        let record = store.load(run)?.ok_or_else(|| unknown_run(run, store.path()))?;
        self.runs.insert(run, record.clone());
        Ok(record)
    }

    /// The same with packed measurements, and without caching.
    pub fn run_packed(&mut self, run: i64) -> Result<RunRecord> {
        let store = self.store(&format!("no run {run}"))?;
        packed(store, run)?.ok_or_else(|| unknown_run(run, store.path()))
    }

    /// A run without measurements, and the store that contains them.
    pub fn outline(&mut self, run: i64) -> Result<(RunRecord, &Store)> {
        let store = self.store(&format!("no run {run}"))?;
        let record = store.outline(run)?.ok_or_else(|| unknown_run(run, store.path()))?;
        Ok((record, store))
    }

    /// The store, for summaries of all runs.
    pub fn all(self) -> Result<Store> {
        open(self.path.as_deref(), "no run")
    }

    fn store(&mut self, lacking: &str) -> Result<&Store> {
        match &mut self.opened {
            Some(store) => Ok(store),
            none => Ok(none.insert(open(self.path.as_deref(), lacking)?)),
        }
    }
}

/// A run with packed measurements; `None` if it does not exist.
pub fn packed(store: &Store, run: i64) -> Result<Option<RunRecord>> {
    let Some(mut record) = store.outline(run)? else { return Ok(None) };
    let (mut packer, unpacked) = (Packer::default(), Arc::default());
    for cell in &mut record.cells {
        store.each_of(run, cell.cell, &mut |m| {
            packer.push(m);
            Ok(())
        })?;
        cell.measurements = packer.end(&unpacked).map(Measurements::from).unwrap_or_default();
    }
    Ok(Some(record))
}

/// The contents of a JSON file.
pub enum Document {
    Measurement(Box<Measurement>),
    /// Output of `bench --repeats`: independent measurements.
    Measurements(Vec<Measurement>),
    Run(Box<RunRecord>),
}

/// Maximum size of a JSON file in bytes.
pub const LONGEST: u64 = 1 << 30;

impl Document {
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let unreadable = |e| unreadable(path, e);
        let text = input::text(path, LONGEST).map_err(unreadable)?;
        let value: Value = serde_json::from_str(&text).map_err(|e| {
            // JSON cannot represent infinity or NaN, except by an overflowing number.
            let what = match e.is_eof() {
                true => "is truncated".to_owned(),
                false if e.to_string().starts_with("number out of range") => {
                    match field_before(&text, e.line(), e.column()) {
                        Some(field) => format!("has a number in {field} that is not finite"),
                        None => "has a number that is not finite".to_owned(),
                    }
                }
                false => "is not JSON".to_owned(),
            };
            Error::input(format!("{shown} {what}"), "create it again with `bench --json` or `run --json`").because(e)
        })?;
        let foreign = |e: serde_json::Error| {
            Error::input(format!("{shown} does not match its schema"), "use the version of iotrail that wrote it")
                .because(e)
        };
        if let Some(found) = unknown_schema(&value) {
            return Err(Error::input(format!("{shown}: {found}"), "use the version of iotrail that wrote it"));
        }
        if let Some((field, number)) = negative_figure(&value) {
            return Err(Error::input(
                format!("{shown}: {field} is {number}, but measurements have no negative values"),
                "create the file again with `bench --json` or `run --json`, or omit it",
            ));
        }
        if let Some(found) = contradiction(&value) {
            return Err(Error::input(
                format!("{shown}: {found}"),
                "create the file again with `bench --json` or `run --json`, or omit it",
            ));
        }
        let is_measurement = |v: &Value| v.get("schema").and_then(Value::as_str) == Some(measurement::SCHEMA);
        if value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is_measurement)) {
            return serde_json::from_value(value).map(Document::Measurements).map_err(foreign);
        }
        match value.get("schema").and_then(Value::as_str) {
            Some(measurement::SCHEMA) => serde_json::from_value(value).map(Document::Measurement).map_err(foreign),
            Some(run_record::SCHEMA) => serde_json::from_value(value).map(Document::Run).map_err(foreign),
            other => Err(Error::input(
                format!("{shown} contains {}, not a measurement or a run", other.unwrap_or("no iotrail schema")),
                format!(
                    "specify output of `bench --json` ({}) or `run --json` ({})",
                    measurement::SCHEMA,
                    run_record::SCHEMA
                ),
            )),
        }
    }
}

pub fn unreadable(path: &Path, e: std::io::Error) -> Error {
    let remedy = "specify a stored run's number (`iotrail list`) or a JSON file";
    Error::input(format!("cannot read {}", path.display()), remedy).because(e)
}

/// Reports a document, or a measurement in a run, with another version's schema.
fn unknown_schema(document: &Value) -> Option<String> {
    let of = |value: &Value| value.get("schema").and_then(Value::as_str).map(str::to_owned);
    let known = [measurement::SCHEMA, run_record::SCHEMA];
    let family = |schema: &str| schema.split('/').next().map(str::to_owned);
    let whole = of(document).filter(|s| !known.contains(&s.as_str()) && known.iter().any(|k| family(k) == family(s)));
    if let Some(other) = whole {
        return Some(format!("it is {other}, which this version of iotrail does not support"));
    }
    each_measurement(document).into_iter().find_map(|(at, m)| {
        let other = of(m).filter(|s| s != measurement::SCHEMA)?;
        Some(format!("{at}schema is {other}, which this version of iotrail does not support"))
    })
}

/// Tolerance for rounding when values of one measurement are compared.
const ROUNDED: f64 = 0.01;

/// The first measurement whose `iops` contradicts its `ios` and `elapsed_ns`.
fn contradiction(document: &Value) -> Option<String> {
    let number = |m: &Value, name: &str| m.get(name).and_then(Value::as_f64);
    let of_one = |(at, m): (String, &Value)| {
        let (ios, ns, iops) = (number(m, "ios")?, number(m, "elapsed_ns").filter(|ns| *ns > 0.0)?, number(m, "iops")?);
        let made = ios * 1e9 / ns;
        ((iops - made).abs() > ROUNDED * made)
            .then(|| format!("{at}iops is {iops}, and {ios} ios in {ns} ns make {made:.1}"))
    };
    each_measurement(document).into_iter().find_map(of_one)
}

/// All measurements of a document, with their paths.
fn each_measurement(document: &Value) -> Vec<(String, &Value)> {
    if let Some(list) = document.as_array() {
        return list.iter().zip(0..).map(|(m, i): (_, usize)| (format!("[{i}]."), m)).collect();
    }
    match document.get("schema").and_then(Value::as_str) {
        Some(measurement::SCHEMA) => vec![(String::new(), document)],
        Some(run_record::SCHEMA) => {
            let cells = document.get("cells").and_then(Value::as_array).into_iter().flatten().zip(0..);
            cells
                .map(|(cell, i): (_, usize)| (i, cell.get("measurements").and_then(Value::as_array)))
                .flat_map(|(i, all)| all.into_iter().flatten().zip(0..).map(move |(m, j)| (i, j, m)))
                .map(|(i, j, m): (_, usize, _)| (format!("cells[{i}].measurements[{j}]."), m))
                .collect()
        }
        _ => vec![],
    }
}

/// The first negative number in a measurement, with its name; parameters may be negative.
fn negative_figure(document: &Value) -> Option<(String, String)> {
    each_measurement(document).into_iter().find_map(|(at, m)| negative(m, at.strip_suffix('.').unwrap_or_default()))
}

fn negative(value: &Value, path: &str) -> Option<(String, String)> {
    match value {
        Value::Number(n) => n.as_f64().filter(|x| *x < 0.0).map(|_| (path.to_owned(), n.to_string())),
        Value::Array(list) => list.iter().zip(0..).find_map(|(v, i): (_, usize)| negative(v, &format!("{path}[{i}]"))),
        Value::Object(fields) => fields.iter().find_map(|(name, v)| {
            let dot = if path.is_empty() { "" } else { "." };
            negative(v, &format!("{path}{dot}{name}"))
        }),
        _ => None,
    }
}

/// The last field name before a position in JSON text; line and column are 1-based.
fn field_before(text: &str, line: usize, column: usize) -> Option<&str> {
    let start = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum::<usize>();
    let before = text.get(..start + column).or_else(|| text.get(..start))?;
    let (named, _) = before.rsplit_once(':')?;
    named.trim_end().strip_suffix('"')?.rsplit_once('"').map(|(_, name)| name)
}

pub fn open(path: Option<&Path>, lacking: &str) -> Result<Store> {
    let path = path.map_or_else(default_path, |p| Ok(p.to_owned()))?;
    Store::open(&path)?.or_input(
        format_args!("{lacking}: store {} does not exist", path.display()),
        "specify the store with --store, or specify JSON files",
    )
}

pub fn unknown_run(run: i64, store: &Path) -> Error {
    Error::input(format!("no run {run} in {}", store.display()), "`iotrail list` shows the stored runs")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rate_that_contradicts_its_counts_is_detected() {
        let one = |iops: f64| json!({"schema": measurement::SCHEMA, "ios": 1000, "elapsed_ns": 2_000_000_000u64, "iops": iops});
        assert_eq!([contradiction(&one(500.0)), contradiction(&one(504.9))], [None, None]);
        let said = "iops is 600, and 1000 ios in 2000000000 ns make 500.0";
        assert_eq!(contradiction(&one(600.0)).unwrap(), said);
        assert_eq!(contradiction(&json!([one(500.0), one(600.0)])).unwrap(), format!("[1].{said}"));
        let run = json!({"schema": run_record::SCHEMA, "cells": [{"measurements": [one(500.0), one(600.0)]}]});
        assert_eq!(contradiction(&run).unwrap(), format!("cells[0].measurements[1].{said}"));
        let still = json!({"schema": measurement::SCHEMA, "ios": 0, "elapsed_ns": 0, "iops": 0.0});
        assert_eq!(contradiction(&still), None);
    }

    #[test]
    fn negative_metrics_are_located_and_negative_parameters_accepted() {
        let found = |v: Value| negative_figure(&v);
        let is = |field: &str, number: &str| Some((field.to_owned(), number.to_owned()));
        let one =
            |iops: f64, p50: i64| json!({"schema": measurement::SCHEMA, "iops": iops, "latency_ns": {"p50": p50}});
        assert_eq!(found(one(1.0, 0)), None);
        assert_eq!(found(one(-1.5, 0)), is("iops", "-1.5"));
        assert_eq!(found(one(0.0, -3)), is("latency_ns.p50", "-3"));
        let run = |iops: f64| json!({"schema": run_record::SCHEMA, "cells": [{"params": {"nice": -5}, "measurements": [one(2.0, 1), one(iops, 1)]}]});
        assert_eq!(found(run(7.0)), None);
        assert_eq!(found(run(-7.0)), is("cells[0].measurements[1].iops", "-7.0"));
    }

    #[test]
    fn the_field_before_a_parse_error_is_identified() {
        let text = "{\n  \"a\": 1,\n  \"iops\": 1e999\n}";
        assert_eq!(field_before(text, 3, 15), Some("iops"));
        assert_eq!((field_before("1e999", 1, 5), field_before("", 0, 0)), (None, None));
    }
}
