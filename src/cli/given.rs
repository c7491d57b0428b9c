//! What was measured, as a command line names it: a run of the store by its number, the last one, or a JSON file.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::measurement::{self, Measurement};
use crate::run_record::{self, RunRecord};
use crate::store::{Store, default_path};

/// Names the run that was begun last.
const LAST: &str = "last";

/// The store and what was read of it: each run is read once.
pub struct Stored {
    path: Option<PathBuf>,
    opened: Option<Store>,
    runs: BTreeMap<i64, RunRecord>,
}

impl Stored {
    pub fn new(path: Option<&Path>) -> Self {
        Self { path: path.map(Path::to_owned), opened: None, runs: BTreeMap::new() }
    }

    /// Where something of it was asked for.
    pub fn opened(&self) -> Option<&Store> {
        self.opened.as_ref()
    }

    /// The number of the run that `text` names; `None`: it names a file.
    pub fn number(&mut self, text: &str) -> Result<Option<i64>> {
        if text != LAST {
            return Ok(text.parse().ok());
        }
        let store = self.store("no run")?;
        store.last()?.map(Some).ok_or_else(|| {
            Error::input(
                format!("nothing is stored in {}", store.path().display()),
                "make a run: `iotrail run coop --quick`",
            )
        })
    }

    pub fn run(&mut self, run: i64) -> Result<RunRecord> {
        if let Some(read) = self.runs.get(&run) {
            return Ok(read.clone());
        }
        let store = self.store(&format!("no run {run}"))?;
        let record = store.load(run)?.ok_or_else(|| unknown_run(run, store))?;
        self.runs.insert(run, record.clone());
        Ok(record)
    }

    fn store(&mut self, lacking: &str) -> Result<&Store> {
        match &mut self.opened {
            Some(store) => Ok(store),
            none => Ok(none.insert(open(self.path.as_deref(), lacking)?)),
        }
    }
}

/// What a JSON file holds.
pub enum Document {
    Measurement(Box<Measurement>),
    Run(Box<RunRecord>),
}

/// A JSON file is not read for ever.
const LONGEST: u64 = 1 << 30;

impl Document {
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let unreadable = |e: std::io::Error| {
            Error::input(format!("cannot read {shown}"), "give a stored run's number (`iotrail list`) or a JSON file")
                .because(e)
        };
        let mut text = String::new();
        std::fs::File::open(path).map_err(unreadable)?.take(LONGEST).read_to_string(&mut text).map_err(unreadable)?;
        let value: Value = serde_json::from_str(&text).map_err(|e| {
            let what = if e.is_eof() { "is cut short" } else { "is no JSON" };
            Error::input(format!("{shown} {what}"), "make it again with `bench --json` or `run --json`").because(e)
        })?;
        let foreign = |e: serde_json::Error| {
            Error::input(format!("{shown} cannot be read as what it says it is"), "use the iotrail that wrote it")
                .because(e)
        };
        match value.get("schema").and_then(Value::as_str) {
            Some(measurement::SCHEMA) => serde_json::from_value(value).map(Document::Measurement).map_err(foreign),
            Some(run_record::SCHEMA) => serde_json::from_value(value).map(Document::Run).map_err(foreign),
            other => Err(Error::input(
                format!(
                    "{shown} holds {}, and neither a measurement nor a run",
                    other.unwrap_or("no schema of iotrail")
                ),
                format!(
                    "give what `bench --json` ({}) or `run --json` ({}) printed",
                    measurement::SCHEMA,
                    run_record::SCHEMA
                ),
            )),
        }
    }
}

fn open(path: Option<&Path>, lacking: &str) -> Result<Store> {
    let path = path.map_or_else(default_path, |p| Ok(p.to_owned()))?;
    Store::open(&path)?.ok_or_else(|| {
        Error::input(
            format!("there is {lacking}: there is no store {}", path.display()),
            "name the store with --store, or give JSON files",
        )
    })
}

fn unknown_run(run: i64, store: &Store) -> Error {
    Error::input(
        format!("there is no run {run} in {}", store.path().display()),
        "`iotrail list` shows the runs that are stored",
    )
}
