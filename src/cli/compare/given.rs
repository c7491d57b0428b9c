//! One side of a comparison on the command line: stored runs or JSON files, and a selection of their cells.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cli::given::{Document, Stored, unreadable};
use iotrail_answer::compare::{self, Metric, Repeat, Side};
use iotrail_base::error::{Error, Result};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, RunRecord, value_text};
use iotrail_stats::bootstrap::Counts;
use iotrail_store::Store;

/// A parsed side.
pub struct Input {
    pub text: String,
    sources: Vec<Source>,
    /// Parameters fixed by the selection, with their values.
    pub fixed: Vec<(String, String)>,
    /// The selected cells.
    pub cells: Vec<Cell>,
    /// All cells, including the control arm's, and those of the arm that it repeats.
    all: Vec<Cell>,
    /// The arm that the control arm repeats.
    first_arm: Option<String>,
}

#[derive(Debug, Clone)]
enum Source {
    Run(i64),
    /// Name, device and inode; the latter identify a file despite different names.
    File(String, (u64, u64)),
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Source::Run(a), Source::Run(b)) => a == b,
            (Source::File(_, a), Source::File(_, b)) => a == b,
            _ => false,
        }
    }
}

impl Source {
    fn file(path: &Path) -> Result<Self> {
        let of = std::fs::metadata(path).map_err(|e| unreadable(path, e))?;
        Ok(Source::File(path.display().to_string(), (of.dev(), of.ino())))
    }

    fn words(&self) -> String {
        match self {
            Source::Run(run) => format!("run {run}"),
            Source::File(name, _) => name.clone(),
        }
    }
}

/// A load with its repeats in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub params: Map<String, Value>,
    repeats: Vec<Measured>,
    /// Messages from runs in which the cell failed.
    failures: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Measured {
    measurement: Measurement,
    /// The measurement's source, and its cell and repeat there.
    source: (Source, u32, u32),
    /// Index of the measurement's run in the source.
    run: u32,
    /// Run, cell and repeat in the store; `None` for files, which have no histograms.
    stored: Option<(i64, u32, u32)>,
    /// Read on demand.
    latency: Option<Arc<Counts>>,
}

impl Cell {
    pub fn side(&self, name: &str) -> Side<'_> {
        let mut runs: Vec<(&Source, u32)> = Vec::new();
        let mut repeats = Vec::new();
        for m in &self.repeats {
            let of = (&m.source.0, m.run);
            let run = runs.iter().position(|run| *run == of).unwrap_or(runs.len());
            if run == runs.len() {
                runs.push(of);
            }
            repeats.push(Repeat { run: Some(run), ..Repeat::new(&m.measurement, m.latency.clone()) });
        }
        Side { name: name.into(), repeats }
    }

    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The source of a measurement that both sides share, if any.
    fn shared_with(&self, other: &Cell) -> Option<String> {
        let both = |m: &&Measured| other.repeats.iter().any(|o| o.source == m.source);
        self.repeats.iter().find(both).map(|m| m.source.0.words())
    }

    fn read_latencies(&mut self, store: &Store) -> Result<()> {
        for m in &mut self.repeats {
            if let Some((run, cell, repeat)) = m.stored {
                m.latency = store.histogram(run, cell, repeat)?.as_ref().map(|all| Counts::of(all).into());
            }
        }
        Ok(())
    }

    fn arm(&self) -> Option<&str> {
        self.params.get(ARM).and_then(Value::as_str)
    }

    fn is_beside(&self, other: &Cell) -> bool {
        let others = |c: &Cell| {
            c.params.iter().filter(|(n, _)| *n != ARM).map(|(n, v)| (n.clone(), v.clone())).collect::<Map<_, _>>()
        };
        others(self) == others(other)
    }
}

impl Input {
    pub fn read(text: &str, stored: &mut Stored, metrics: &[String]) -> Result<Self> {
        let (items, fixed) = parsed(text)?;
        let mut given =
            Self { text: text.into(), sources: Vec::new(), fixed, cells: Vec::new(), all: Vec::new(), first_arm: None };
        for item in items {
            match stored.number(item)? {
                Some(run) => {
                    let record = stored.run(run)?;
                    given.take_source(Source::Run(run))?;
                    given.take_run(record, Source::Run(run));
                }
                None => given.take_file(Path::new(item))?,
            }
        }
        let selected = given.selected()?;
        let is_quantile = |name: &String| name.parse().ok().and_then(Metric::quantile).is_some();
        if let (Some(store), true) = (stored.opened(), metrics.iter().any(is_quantile)) {
            given.read_latencies(&selected, store)?;
        }
        given.cells = selected.into_iter().map(|i| given.all[i].clone()).collect();
        Ok(given)
    }

    /// Metrics of a program's measurements; `None` for loads. Registers the program's own metrics.
    pub fn of_program(&self) -> Option<Vec<Metric>> {
        let all = || self.all.iter().flat_map(|c| c.repeats.iter().map(|r| &r.measurement));
        all().next().filter(|m| m.program.is_some()).map(|_| compare::of_program(all()))
    }

    /// Reads the latencies of the selected cells and of their control cells.
    fn read_latencies(&mut self, selected: &[usize], store: &Store) -> Result<()> {
        let tells_noise = |cell: &Cell| {
            let arm = cell.arm();
            let has_part = arm == Some(CONTROL) || arm.is_some() && arm == self.first_arm.as_deref();
            has_part && selected.iter().any(|i| self.all[*i].is_beside(cell))
        };
        let needed: Vec<usize> =
            (0..self.all.len()).filter(|i| selected.contains(i) || tells_noise(&self.all[*i])).collect();
        needed.into_iter().try_for_each(|i| self.all[i].read_latencies(store))
    }

    /// Rejects duplicate files and runs, because no measurement may count twice.
    fn take_source(&mut self, source: Source) -> Result<()> {
        if let Some(before) = self.sources.iter().find(|s| **s == source) {
            let (before, now) = (before.words(), source.words());
            let what = match before == now {
                true => format!("'{}' lists {now} twice", self.text),
                false => format!("'{}' lists one file twice, as {before} and as {now}", self.text),
            };
            let remedy = "list each once: repeats must be separate measurements";
            return Err(Error::input(what, remedy));
        }
        self.sources.push(source);
        Ok(())
    }

    fn take_run(&mut self, record: RunRecord, source: Source) {
        let run = if let Source::Run(run) = source { Some(run) } else { None };
        if self.first_arm.is_none() {
            self.first_arm = record.arms.into_iter().next();
        }
        for cell in record.cells {
            let failure = compare::failed(&cell).map(|failure| format!("{}: {failure}", source.words()));
            let CellRecord { cell, params, measurements, .. } = cell;
            let repeats = measurements.into_vec().into_iter().zip(1..).map(|(measurement, repeat)| Measured {
                measurement,
                source: (source.clone(), cell, repeat),
                run: 0,
                stored: run.map(|run| (run, cell, repeat)),
                latency: None,
            });
            self.add(params, repeats.collect(), failure);
        }
    }

    fn take_file(&mut self, path: &Path) -> Result<()> {
        let source = Source::file(path)?;
        self.take_source(source.clone())?;
        match Document::read(path)? {
            Document::Measurement(measurement) => self.take_measurements(vec![*measurement], &source),
            Document::Measurements(all) => self.take_measurements(all, &source),
            Document::Run(record) => self.take_run(*record, source),
        }
        Ok(())
    }

    /// Treats each measurement as a separate run.
    fn take_measurements(&mut self, all: Vec<Measurement>, source: &Source) {
        let one = |(measurement, run): (Measurement, u32)| Measured {
            measurement,
            source: (source.clone(), 0, run + 1),
            run,
            stored: None,
            latency: None,
        };
        self.add(Map::new(), all.into_iter().zip(0..).map(one).collect(), None);
    }

    /// Merges repeats of the same load, from several runs or files, into one cell.
    fn add(&mut self, params: Map<String, Value>, repeats: Vec<Measured>, failure: Option<String>) {
        match self.all.iter_mut().find(|c| c.params == params) {
            Some(cell) => {
                cell.repeats.extend(repeats);
                cell.failures.extend(failure);
            }
            None => self.all.push(Cell { params, repeats, failures: failure.into_iter().collect() }),
        }
    }

    /// Indices of the cells with the fixed values; includes the control arm only if requested.
    fn selected(&self) -> Result<Vec<usize>> {
        let mut cells: Vec<usize> = (0..self.all.len()).filter(|i| !self.all[*i].repeats.is_empty()).collect();
        if !self.fixed.iter().any(|(name, _)| name == ARM) {
            cells.retain(|i| self.all[*i].arm() != Some(CONTROL));
        }
        for (name, value) in &self.fixed {
            let there: Vec<String> = distinct(self.all.iter().filter_map(|c| c.params.get(name)).map(value_text));
            if there.is_empty() {
                let names = distinct(self.all.iter().flat_map(|c| c.params.keys().cloned()));
                let names = if names.is_empty() {
                    "it has no parameters".into()
                } else {
                    format!("its parameters are {}", names.join(", "))
                };
                return Err(Error::input(format!("'{}' has no parameter '{name}'", self.text), names));
            }
            cells.retain(|i| self.all[*i].params.get(name).map(value_text).as_ref() == Some(value));
            if cells.is_empty() {
                return Err(Error::input(
                    format!("'{}': no cell has {name}={value}", self.text),
                    format!("values of {name} are {}", there.join(", ")),
                ));
            }
        }
        if cells.is_empty() {
            return Err(Error::input(format!("'{}' contains no measurement", self.text), "see `iotrail list`"));
        }
        Ok(cells)
    }

    /// Whether all cells come from the same run, whose blocks interleave them.
    pub fn is_of_one_run_with(&self, other: &Input) -> bool {
        self.sources.len() == 1 && self.sources == other.sources
    }

    /// Fails if a measurement belongs to both cells.
    pub fn apart(&self, other: &Input, own: &Cell, others: &Cell) -> Result<()> {
        own.shared_with(others).map_or(Ok(()), |source| {
            Err(Error::input(
                format!("a measurement of {source} is on both sides, in '{}' and in '{}'", self.text, other.text),
                "give each side its own measurements",
            ))
        })
    }

    /// The noise floor of the cell's load, if there is a control arm.
    pub fn noise_floor(&self, metric: Metric, cell: &Cell) -> Option<f64> {
        let beside = |arm: &str| self.all.iter().find(|c| c.arm() == Some(arm) && c.is_beside(cell));
        let (twin, control) = (beside(self.first_arm.as_deref()?)?, beside(CONTROL)?);
        compare::noise_floor(metric, &twin.side(""), &control.side(""))
    }
}

fn distinct(of: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for text in of {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen
}

type Fixed = Vec<(String, String)>;

/// Splits `12`, `12:arm=coop,depth=16` or `a.json,b.json:arm=coop` into runs and files, and fixed parameters. Values
/// may contain commas: a part without `=` belongs to the preceding value.
fn parsed(text: &str) -> Result<(Vec<&str>, Fixed)> {
    let (items, selection) = match text.rsplit_once(':') {
        Some((items, selection)) if selection.contains('=') && !Path::new(text).exists() => (items, selection),
        _ => (text, ""),
    };
    let mut fixed: Fixed = Vec::new();
    for part in selection.split(',').filter(|p| !p.is_empty()) {
        match (part.split_once('='), fixed.last_mut()) {
            (Some((name, value)), _) => fixed.push((name.trim().into(), value.into())),
            (None, Some((_, value))) => *value = format!("{value},{part}"),
            (None, None) => {
                return Err(Error::input(
                    format!("'{part}' in '{text}' is not a selection"),
                    "use RUN:parameter=value,parameter=value",
                ));
            }
        }
    }
    let items: Vec<&str> = match Path::new(items).exists() {
        true => vec![items],
        false => items.split(',').filter(|i| !i.is_empty()).collect(),
    };
    match items.is_empty() {
        true => Err(Error::input(
            format!("'{text}' is neither a run nor a file"),
            "specify the number of a stored run, or a JSON file",
        )),
        false => Ok((items, fixed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_files_and_selections_are_distinguished() {
        let of = |text: &str| {
            let (items, fixed) = parsed(text).unwrap();
            let fixed: Vec<String> = fixed.iter().map(|(n, v)| format!("{n} {v}")).collect();
            (items.join(" "), fixed.join(" "))
        };
        let is = |items: &str, fixed: &str| (items.to_owned(), fixed.to_owned());
        assert_eq!(of("12"), is("12", ""));
        assert_eq!(of("12,13"), is("12 13", ""));
        assert_eq!(of("12:arm=coop,depth=16"), is("12", "arm coop depth 16"));
        assert_eq!(of("12:register=files,buffers,depth=4"), is("12", "register files,buffers depth 4"));
        assert_eq!(of("a.json,b.json:arm=x"), is("a.json b.json", "arm x"));
        assert_eq!(of("host:a.json"), is("host:a.json", ""));
        assert!(parsed(":arm=x").is_err() && parsed("12:deep,arm=x").is_err() && parsed("").is_err());
    }
}
