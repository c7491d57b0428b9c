//! An experiment on this host: all combinations of its parameters, resolved to load options. Combinations that the host
//! cannot run stay in the plan with the reason, so that the report lists them as untested.

mod combination;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::budget::{Budget, PROBES};
use super::file::{Experiment, Point, Scale, settled, to_json};
use super::load::{Ends, Kind, Load};
use super::program::expected::Expected;
use combination::{Combination, each_combination, label, merged, params, refuse_combination, refuse_in};
use iotrail_base::error::{self, Error, OrFail, Result};
use iotrail_base::units::Bytes;
use iotrail_load::options::{EngineKind, LoadOptions, Trace};
use iotrail_schema::measurement;
use iotrail_schema::program_record::TriedArm;
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, Expectation, RunRecord, SCHEMA, Stop, value_text};
use iotrail_schema::search_record::SearchRecord;
use iotrail_settings::Conditions;

/// Overhead per measurement (starting processes, storing the result). Only used for the estimate; measured times
/// replace it during the run.
const BESIDE_THE_LOAD: Duration = Duration::from_millis(160);

/// Additional time to start a server.
const BESIDE_A_NET_LOAD: Duration = Duration::from_millis(300);

/// Facts about the host that a plan depends on; they determine the `irq` CPUs.
#[derive(Clone)]
pub struct Facts<'a> {
    pub online_cpus: Vec<u32>,
    /// Whether this process may load the probes.
    pub may_watch: bool,
    /// A cell's target; `None` if it has none, or if the target cannot be examined.
    pub below: &'a dyn Fn(&LoadOptions) -> Option<measurement::Target>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub name: String,
    pub title: String,
    pub question: String,
    pub expect: String,
    pub kind: Kind,
    pub table: String,
    pub columns: Vec<String>,
    pub profile: bool,
    pub follow: Option<u32>,
    pub metrics: Vec<String>,
    pub equivalent_within: Option<f64>,
    pub expectations: Vec<Expectation>,
    /// Options of a fio job file that could not be mapped.
    pub unmapped: Vec<String>,
    pub quick: bool,
    /// Number of blocks; the maximum if `stop` is set.
    pub repeats: u32,
    pub stop: Option<Stop>,
    pub axes: Vec<String>,
    pub arms: Vec<String>,
    pub target: Option<PathBuf>,
    pub size: Option<u64>,
    pub cells: Vec<Cell>,
    /// The objective of a search over the arms.
    pub search: Option<SearchRecord>,
    /// For a program: the trial results of its arms, and the reference for its runs.
    pub tried: Vec<TriedArm>,
    pub expected: Option<Expected>,
    /// Duration of one run; `None` if still unknown.
    pub each: Option<Duration>,
    /// Whether this process may load the probes.
    pub may_watch: bool,
    /// Time budget of a search, from the first trial to the last confirmation block.
    pub budget: Option<Budget>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// 1-based.
    pub number: u32,
    /// `cpus irq · wait peek · depth 1 · arm default`.
    pub label: String,
    pub params: Map<String, Value>,
    /// The experiment's options, as written.
    pub options: Map<String, Value>,
    /// The same options with defaults and target.
    pub load: Load,
    /// The load's target, as far as known before the run.
    pub target: Option<measurement::Target>,
    pub host: Conditions,
    pub untestable: Option<String>,
}

/// Estimated duration of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Warm-ups, run times and overhead of all blocks' measurements.
    pub stated: Duration,
    /// The same for the minimum number of blocks.
    pub least: Duration,
    /// Number of I/Os in measurements that end by count, whose duration is unknown before the run.
    pub counted_ios: u64,
    /// Number of runs, including trials, of a program that has not run yet; their duration is unknown too.
    pub runs: u64,
}

/// How cells without a file of their own use the default file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetUse {
    Nothing,
    Reads,
    Writes,
}

/// A file or device that a run creates or writes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    pub path: PathBuf,
    pub exists: bool,
    /// Size of the used part; `None` for an entire device.
    pub bytes: Option<u64>,
    /// Number of measurements that write to it.
    pub overwrites: usize,
    pub allowed: bool,
}

/// Target devices of a plan's cells, by path and engine, because engines interpret paths differently.
type Targets = HashMap<(Option<PathBuf>, EngineKind), Option<measurement::Target>>;

/// The most demanding use by any cell.
pub fn target_use(kind: Kind, scale: &Scale) -> Result<TargetUse> {
    let mut most = TargetUse::Nothing;
    each_combination(scale, &mut |points| {
        let settled = settled(kind, merged(scale, points)).map_err(|e| refuse_combination(kind, points, &e))?;
        if let Some(load) = settled.load.storage().filter(|load| load.file.is_none() && load.uses_target()) {
            most = most.max(if load.rw.writes() { TargetUse::Writes } else { TargetUse::Reads });
        }
        Ok(())
    })?;
    Ok(most)
}

/// The file of cells that specify none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Target {
    pub path: Option<PathBuf>,
    pub size: Option<Bytes>,
    /// iotrail's own scratch file, which loads may overwrite.
    pub scratch: bool,
    /// `--allow-write` was specified on the command line.
    pub allow_write: bool,
}

/// Why these conditions cannot be set on the host for this target; `None` if no reason is known.
pub type Refusal<'a> = &'a dyn Fn(&Conditions, Option<&measurement::Target>) -> Option<Error>;

/// [`plan`] on this host.
pub fn plan_here(experiment: &Experiment, quick: bool, target: &Target) -> Result<Plan> {
    let facts = Facts {
        online_cpus: iotrail_host::cpu::online()?,
        may_watch: iotrail_host::privileges::may_watch(),
        below: &crate::cell::target_of,
    };
    plan(experiment, quick, target, &facts, &|host, target| host.refusal(target))
}

/// Resolves all cells by the load's rules. If these or the host's rules report that the machine cannot run a cell
/// ([`error::Kind::Machine`]), the cell is untestable. Options that no machine can run ([`error::Kind::Input`]) make
/// the experiment invalid.
pub fn plan(
    experiment: &Experiment,
    quick: bool,
    target: &Target,
    facts: &Facts<'_>,
    refusal: Refusal<'_>,
) -> Result<Plan> {
    let scale = match (quick, &experiment.quick) {
        (false, _) => &experiment.full,
        (true, Some(scale)) => scale,
        (true, None) => {
            return Err(Error::input(
                format!("experiment '{}' has no quick form", experiment.name),
                "omit --quick, or add a [quick] table to the file",
            ));
        }
    };
    let arms = scale.axes.last().map(|a| a.points.iter().map(|p| value_text(&to_json(&p.value))).collect());
    let with_control = with_control(scale);
    let scale = if experiment.control { &with_control } else { scale };
    let mut cells = Vec::new();
    // Cells share targets, and examining a target reads dozens of kernel files.
    let known: RefCell<Targets> = RefCell::default();
    let below = |load: &LoadOptions| {
        let key = (load.file.clone(), load.engine);
        known.borrow_mut().entry(key).or_insert_with(|| (facts.below)(load)).clone()
    };
    let facts = &Facts { below: &below, ..facts.clone() };
    each_combination(scale, &mut |points| {
        let number = cells.len() as u32 + 1;
        let cell = cell(number, (experiment.kind, scale), points, target, (facts, refusal))?;
        cells.push(cell);
        Ok(())
    })?;
    Ok(Plan {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        question: experiment.question.clone(),
        expect: experiment.expect.clone(),
        kind: experiment.kind,
        table: experiment.table.clone(),
        columns: experiment.columns.clone(),
        profile: experiment.profile,
        follow: experiment.follow,
        metrics: experiment.metrics.clone(),
        equivalent_within: experiment.equivalent_within,
        expectations: expected_here(experiment, scale),
        unmapped: experiment.unmapped.clone(),
        quick,
        repeats: scale.repeats,
        stop: scale.stop.clone(),
        axes: scale.axes.iter().map(|a| a.name.clone()).collect(),
        arms: arms.unwrap_or_default(),
        target: target.path.clone(),
        size: target.size.map(|b| b.0),
        cells,
        tried: Vec::new(),
        search: None,
        expected: None,
        each: None,
        may_watch: facts.may_watch,
        budget: None,
    })
}

/// Adds the first arm again as control.
fn with_control(scale: &Scale) -> Scale {
    let mut scale = scale.clone();
    let arms = scale.axes.iter_mut().filter(|axis| axis.name == ARM);
    for axis in arms {
        let control = axis.points.first().map(|first| Point { value: CONTROL.into(), ..first.clone() });
        axis.points.extend(control);
    }
    scale
}

/// The quick form may lack values to which expectations refer.
fn expected_here(experiment: &Experiment, scale: &Scale) -> Vec<Expectation> {
    let has = |name: &str, value: &Value| {
        scale.axes.iter().any(|a| a.name == name && a.points.iter().any(|p| to_json(&p.value) == *value))
    };
    let here = |e: &&Expectation| e.at.iter().all(|(name, value)| has(name, value));
    experiment.expectations.iter().filter(here).cloned().collect()
}

fn cell(
    number: u32,
    (kind, scale): (Kind, &Scale),
    points: &Combination<'_>,
    target: &Target,
    (facts, refusal): (&Facts<'_>, Refusal<'_>),
) -> Result<Cell> {
    let options = merged(scale, points);
    let refuse = |why: &dyn std::fmt::Display| refuse_combination(kind, points, why);
    let settled = settled(kind, options.clone()).map_err(|e| refuse(&e))?;
    let (mut load, host) = (settled.load, settled.host);
    if let Load::Storage(load) = &mut load {
        // An experiment file from another author can name any file, so only the command line may permit overwriting.
        load.allow_write = target.allow_write;
        if load.file.is_none() && load.uses_target() {
            load.file.clone_from(&target.path);
            load.size = load.size.or(target.size);
            load.allow_write |= target.scratch;
        }
    }
    let params = params(points);
    let below = load.storage().and_then(facts.below);
    let untestable = match load.check(below.as_ref(), &facts.online_cpus) {
        Ok(()) => refusal(&host, below.as_ref())
            .map(|e| e.to_string())
            .or_else(|| no_poll_queues(load.storage()?, &host, below.as_ref())),
        Err(e) if e.kind == error::Kind::Machine => Some(e.to_string()),
        Err(e) if kind == Kind::Program => return Err(refuse_in(points, e)),
        Err(e) => return Err(refuse(&e)),
    };
    let options = options.iter().map(|(k, v)| (k.clone(), to_json(v))).collect();
    Ok(Cell { number, label: label(&params, points), params, options, load, target: below, host, untestable })
}

/// The kernel would reject this as well, but only at the first I/O of each cell.
fn no_poll_queues(load: &LoadOptions, host: &Conditions, target: Option<&measurement::Target>) -> Option<String> {
    let polls = load.ring.split(',').any(|flag| flag.trim() == "iopoll") && load.uses_target();
    let target = target.filter(|t| polls && host.poll_queues.is_none_or(|n| n == 0) && t.poll_queues == Some(0))?;
    let device = target.queue_device().unwrap_or("the target");
    Some(format!(
        "{device} has no poll queues for iopoll; use a device and driver with poll queues, such as NVMe with nvme.poll_queues=N"
    ))
}

impl Plan {
    pub fn testable(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|c| c.untestable.is_none())
    }

    /// Arms with a superset of this arm's settings, which hang if this arm hangs.
    pub fn with_settings_of(&self, arm: &str) -> Vec<&str> {
        let options = |name: &str| {
            self.cells.iter().find(|cell| cell.params.get(ARM).is_some_and(|a| a == name)).map(|cell| &cell.options)
        };
        let Some((base, of)) = self.arms.first().and_then(|base| options(base).zip(options(arm))) else {
            return vec![];
        };
        let changed: Vec<_> = of.iter().filter(|(name, value)| base.get(*name) != Some(value)).collect();
        let flags =
            |value: &Value| value.as_str().unwrap_or_default().split(',').map(str::to_owned).collect::<Vec<_>>();
        let has = |other: &Map<String, Value>| {
            changed.iter().all(|(name, value)| match other.get(*name) {
                Some(its) if *name == "ring" => flags(value).iter().all(|flag| flags(its).contains(flag)),
                its => its == Some(value),
            })
        };
        let is_with = |name: &&String| *name != arm && options(name).is_some_and(has) && !changed.is_empty();
        self.arms.iter().filter(is_with).map(String::as_str).collect()
    }

    /// The guessed directions of a program's metrics, if any.
    pub fn directions(&self) -> Option<String> {
        self.cells.iter().find_map(|cell| match &cell.load {
            Load::Program(program) => program.directions(),
            Load::Storage(_) | Load::Net(_) => None,
        })
    }

    pub fn estimate(&self) -> Estimate {
        let mut block = Duration::ZERO;
        let (mut counted_ios, mut runs) = (0u64, 0);
        for cell in self.testable() {
            let beside = match &cell.load {
                Load::Storage(load) if self.may_watch && load.trace != Trace::Off => BESIDE_THE_LOAD + PROBES,
                Load::Storage(_) => BESIDE_THE_LOAD,
                Load::Net(_) | Load::Program(_) => BESIDE_A_NET_LOAD,
            };
            let mut one = beside + cell.load.warmup();
            match cell.load.ends() {
                Ends::AtCount(n) => counted_ios = counted_ios.saturating_add(n.saturating_mul(self.repeats.into())),
                Ends::After(runtime) => one += runtime,
                Ends::ByItself => match self.each {
                    // A measured duration includes the overhead.
                    Some(each) => one = each,
                    None => runs += u64::from(self.repeats),
                },
            }
            block += one;
        }
        let budget = self.stop.as_ref().and_then(|s| s.budget_s).map_or(Duration::MAX, Duration::from_secs_f64);
        let least = block * self.stop.as_ref().map_or(self.repeats, |s| s.at_least.min(self.repeats));
        let runs = if runs > 0 { runs + self.arms.len() as u64 } else { 0 };
        Estimate { stated: (block * self.repeats).min(budget.max(least)), least, counted_ios, runs }
    }

    /// Files and devices that the loads create or overwrite, without duplicates.
    pub fn written(&self) -> Vec<Written> {
        let mut all: Vec<Written> = Vec::new();
        for load in self.testable().filter_map(|cell| cell.load.storage()).filter(|load| load.uses_target()) {
            let Some(path) = load.file.as_ref() else { continue };
            let there = std::fs::metadata(path).ok();
            if there.is_some() && !load.rw.writes() {
                continue;
            }
            let has = there.as_ref().filter(|meta| meta.is_file()).map(std::fs::Metadata::len);
            let bytes = load.size.map(|size| size.0).or(has);
            let overwrites = if load.rw.writes() { self.repeats as usize } else { 0 };
            match all.iter_mut().find(|w| w.path == *path) {
                Some(known) => {
                    known.overwrites += overwrites;
                    known.bytes = known.bytes.max(bytes);
                }
                None => {
                    let (path, exists, allowed) = (path.clone(), there.is_some(), load.allow_write);
                    all.push(Written { path, exists, bytes, overwrites, allowed });
                }
            }
        }
        all
    }

    /// Rejects a plan that would overwrite a file without `--allow-write`.
    pub fn check_leave(&self) -> Result<()> {
        let Some(refused) = self.written().into_iter().find(|w| w.exists && !w.allowed) else { return Ok(()) };
        let is_in_file = self.cells.iter().any(|cell| cell.options.get("allow-write") == Some(&true.into()));
        let note = if is_in_file { " (allow-write in the experiment file does not suffice)" } else { "" };
        Err(Error::input(
            format!("'{}' would overwrite {}, which exists{note}", self.name, refused.path.display()),
            "add --allow-write to the command to overwrite its contents, or specify a file that does not exist, with --size",
        ))
    }

    /// The properties that must match for a resume: those that affect measurements, not descriptions.
    pub fn key(&self) -> String {
        let of = |c: &Cell| json!({"label": c.label, "options": c.options, "untestable": c.limit()});
        let cells: Vec<Value> = self.cells.iter().map(of).collect();
        let mut key = json!({"quick": self.quick, "repeats": self.repeats, "stop": self.stop, "target": self.target, "size": self.size, "cells": cells});
        if let Some(search) = self.searches() {
            let texts: Vec<&str> = search.constraints.iter().map(|c| c.text.as_str()).collect();
            key["objective"] = search.objectives().collect::<Vec<_>>().join(",").into();
            key["constraints"] = if texts.is_empty() { Value::Null } else { texts.join(", ").into() };
        }
        key.to_string()
    }

    /// Time limit of the run from now, of a search or of its confirmation.
    pub fn time_limit(&self) -> Option<Duration> {
        let left = self.budget.map(|budget| budget.left());
        let limit = self.limit_s().and_then(|s| Duration::try_from_secs_f64(s).ok());
        limit.into_iter().chain(left).min()
    }

    /// Time limit of the measurements, in seconds: of a search, or of the rule that stops a run early.
    pub fn limit_s(&self) -> Option<f64> {
        let part = self.budget.and_then(|budget| budget.search).map(|time| time.as_secs_f64());
        let search = self.searches().map(|search| part.unwrap_or(search.budget_s));
        search.or(self.stop.as_ref().and_then(|stop| stop.budget_s))
    }

    /// The objective; `None` if the run is not a search, for example a confirmation.
    pub fn searches(&self) -> Option<&SearchRecord> {
        self.search.as_ref().filter(|search| search.is_search())
    }

    /// The run's record before its first measurement.
    pub fn record(&self, seed: u32, started_unix_s: u64) -> RunRecord {
        RunRecord {
            schema: SCHEMA.into(),
            run: 0,
            experiment: self.name.clone(),
            title: self.title.clone(),
            question: self.question.clone(),
            expect: self.expect.clone(),
            table: self.table.clone(),
            columns: self.columns.clone(),
            quick: self.quick,
            seed,
            repeats: self.repeats,
            stop: self.stop.clone(),
            axes: self.axes.clone(),
            arms: self.arms.clone(),
            tried: self.tried.clone(),
            search: self.search.clone(),
            expectations: self.expectations.clone(),
            metrics: self.metrics.clone(),
            equivalent_within: self.equivalent_within,
            started_unix_s,
            finished_unix_s: None,
            corruption: None,
            cells: self
                .cells
                .iter()
                .map(|c| CellRecord {
                    cell: c.number,
                    params: c.params.clone(),
                    untestable: c.untestable.clone(),
                    measurements: Vec::new().into(),
                })
                .collect(),
            comparisons: Vec::new(),
        }
    }
}

impl Cell {
    /// For the key: whether and why a cell is not measured. For a program only whether, because its reasons contain
    /// varying numbers.
    fn limit(&self) -> Value {
        match (&self.untestable, &self.load) {
            (None, _) => Value::Null,
            (Some(_), Load::Program(_)) => true.into(),
            (Some(why), Load::Storage(_) | Load::Net(_)) => why.as_str().into(),
        }
    }
}

/// The first difference between two keys, in words.
pub fn difference(stored: &str, wanted: &str) -> String {
    let (Ok(old), Ok(new)) = (serde_json::from_str::<Value>(stored), serde_json::from_str::<Value>(wanted)) else {
        return "its plan is unreadable".into();
    };
    for name in ["quick", "target", "size", "repeats", "stop", "objective", "constraints"] {
        if old[name] != new[name] {
            let text = |v: &Value| value_text(v).replace("null", "none");
            return format!("{name} was {} and is now {}", text(&old[name]), text(&new[name]));
        }
    }
    let list = |v: &Value| v["cells"].as_array().cloned().unwrap_or_default();
    let (old, new) = (list(&old), list(&new));
    if old.len() != new.len() {
        return format!("it had {} cells and now has {}", old.len(), new.len());
    }
    match old.iter().zip(&new).find(|(a, b)| a != b) {
        Some((a, b)) if a["label"] != b["label"] => {
            format!("cell '{}' is now '{}'", value_text(&a["label"]), value_text(&b["label"]))
        }
        Some((a, _)) => {
            format!("cell '{}' has different options, or different limits on this host", value_text(&a["label"]))
        }
        None => "nothing differs".into(),
    }
}

/// Makes a path absolute, because the working directory may change before a resume.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).or_input(format_args!("cannot use {}", path.display()), "specify an absolute path")
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(crate) mod tests;
