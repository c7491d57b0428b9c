//! `iotrail run`: an experiment, planned, measured, stored, reported.
//!
//! Exit status: 0 when every measurement was made; 1 when the run was stopped before (what is done is stored and printed), or
//! with --fail-on-unmet when an expectation is not met; 2 and 3 as everywhere.

mod outline;
mod progress;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::answer::compare;
use crate::answer::conclude::{Conclusion, conclude};
use crate::answer::drift;
use crate::answer::expectation::{self, Judged, judge};
use crate::comparison::Comparison;
use crate::error::{Error, Result};
use crate::experiment::cell::Watching;
use crate::experiment::execute::{Execution, Outcome, Started, Step, execute, nothing_to_resume, resume, start};
use crate::experiment::file::Experiment;
use crate::experiment::plan::{Cell, Facts, Plan, Target, absolute, needs_target, plan};
use crate::experiment::schedule::fresh_seed;
use crate::experiment::{builtin, cell, interrupt, scratch};
use crate::host::{self, settings::Settings};
use crate::load::options::Bytes;
use crate::measurement::{self, Warning};
use crate::probe::profile::{Clock, DEFAULT_HZ, Sampling};
use crate::report::terminal;
use crate::run_record::RunRecord;
use crate::store::{Store, default_path};

#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    /// A built-in experiment by its name (`iotrail list` names them), or the path of a TOML file
    pub experiment: String,

    /// The experiment's short form
    #[arg(long)]
    pub quick: bool,

    /// Print the cells, their order and the estimated time, and run nothing
    #[arg(long)]
    pub plan: bool,

    /// Go on with the last unfinished run of this experiment
    #[arg(long, conflicts_with_all = ["plan", "seed"])]
    pub resume: bool,

    /// Of the order of the cells (default: drawn, printed and stored)
    #[arg(long, value_name = "N")]
    pub seed: Option<u32>,

    /// The store (default: $XDG_STATE_HOME/iotrail/iotrail.db, else ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// Target: a file or a block device (default: a scratch file under $XDG_CACHE_HOME or ~/.cache, else /var/tmp)
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,

    /// Size of the target that is used; a missing file is made with it (default: the experiment's)
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// Exit with 1 if an expectation of the experiment is not met
    #[arg(long)]
    pub fail_on_unmet: bool,

    /// JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// Of the target that is made when neither the command line nor the experiment says.
const SIZE: Bytes = Bytes(1 << 30);

/// The run as `--json` prints it.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    record: &'a RunRecord,
    conclusions: Vec<Conclusion>,
    /// The experiment's expectations, wherever they hold.
    judged: &'a [Judged],
    /// Of the repeats beside each other: outliers, drift.
    warnings: Vec<Warning>,
}

pub fn run(args: &RunArgs) -> Result<u8> {
    let experiment = builtin::find(&args.experiment)?;
    let target = target(args, &experiment)?;
    let plan = resolve(args, &experiment, &target)?;
    if args.plan {
        let seed = args.seed.or(experiment.seed).unwrap_or_else(fresh_seed);
        if args.json {
            terminal::print_json(&outline::json(&plan, seed))?;
        } else {
            terminal::print(&outline::text(&plan, seed))?;
        }
        return Ok(0);
    }
    let path = args.store.clone().map_or_else(default_path, Ok)?;
    let mut store = match args.resume {
        // A store that is not there holds nothing to resume, and is not made for that.
        true => Store::open(&path)?.ok_or_else(|| nothing_to_resume(&plan.name, &path))?,
        false => Store::create_or_open(&path)?,
    };
    let measured = measure_and_load(args, &plan, &target, &experiment, &mut store);
    if measured.is_err() {
        store.abandon();
    }
    let (outcome, record) = measured?;
    let judged = judge(&record);
    if args.json {
        terminal::print_json(&Printed {
            record: &record,
            conclusions: conclude(&record),
            judged: &judged,
            warnings: drift::warnings(&record),
        })?;
    } else {
        terminal::print(&terminal::run(&record))?;
    }
    if outcome == Outcome::Finished {
        let unmet = judged.iter().any(|j| j.outcome == expectation::Outcome::NotMet);
        return Ok(u8::from(args.fail_on_unmet && unmet));
    }
    terminal::say(&format!(
        "stopped: {} of {} measurements are stored; go on with: iotrail run {} {}--resume",
        record.done(),
        record.planned(),
        terminal::sanitise(&args.experiment),
        again(args)
    ));
    Ok(1)
}

/// Starts or takes up the run, measures what is to come, reads back all that is stored of it, and compares.
fn measure_and_load(
    args: &RunArgs,
    plan: &Plan,
    target: &Target,
    experiment: &Experiment,
    store: &mut Store,
) -> Result<(Outcome, RunRecord)> {
    let started = if args.resume {
        resume(plan, store, host::kernel::release().as_deref())?
    } else {
        start(plan, args.seed.or(experiment.seed).unwrap_or_else(fresh_seed), store)?
    };
    if let (true, Some(path)) = (target.scratch, &target.path) {
        scratch::make_folder(path)?;
        terminal::say(&format!("target: {} (kept for later runs)", terminal::sanitise(&path.display().to_string())));
    }
    let outcome = measure(plan, &started, store)?;
    let mut record = store.load(started.run)?.ok_or_else(|| {
        Error::machine(
            format!("run {} is no longer in {}", started.run, store.path().display()),
            "another program removed it",
        )
    })?;
    record.comparisons = compared(&record, store)?;
    Ok((outcome, record))
}

/// The arms against the first, from all that is stored of the run.
fn compared(record: &RunRecord, store: &Store) -> Result<Vec<Comparison>> {
    let failed = RefCell::new(None);
    let histogram = |cell, repeat| {
        store.histogram(record.run, cell, repeat).unwrap_or_else(|e| {
            failed.borrow_mut().get_or_insert(e);
            None
        })
    };
    let comparisons = compare::of_run(record, &histogram);
    failed.into_inner().map_or(Ok(comparisons), Err)
}

/// The options that a resumed run needs again.
fn again(args: &RunArgs) -> String {
    let path = |name: &str, p: &Option<PathBuf>| {
        p.as_ref().map_or_else(String::new, |p| format!("{name} {} ", terminal::sanitise(&p.display().to_string())))
    };
    let size = args.size.map_or_else(String::new, |s| format!("--size {} ", s.0));
    let quick = if args.quick { "--quick " } else { "" };
    format!("{quick}{}{size}{}", path("--file", &args.file), path("--store", &args.store))
}

/// The file that the cells use: the one that is named, else the scratch file.
fn target(args: &RunArgs, experiment: &Experiment) -> Result<Target> {
    let scale = if args.quick { experiment.quick.as_ref().unwrap_or(&experiment.full) } else { &experiment.full };
    if !needs_target(scale)? {
        return Ok(Target::default());
    }
    let wanted = args.size.or(experiment.size).unwrap_or(SIZE);
    match &args.file {
        None => Ok(Target { path: Some(scratch::file(wanted)?), size: Some(wanted), scratch: true }),
        Some(path) => {
            // All of a target that is there is used, unless it is said how much.
            let size = if path.exists() { args.size } else { Some(wanted) };
            Ok(Target { path: Some(absolute(path)?), size, scratch: false })
        }
    }
}

fn resolve(args: &RunArgs, experiment: &Experiment, target: &Target) -> Result<Plan> {
    let facts = Facts { online_cpus: host::cpu::online()?, target: target.path.as_deref().and_then(disk_below) };
    plan(experiment, args.quick, target, &facts, &|host| host.refusal(facts.target.as_ref()))
}

/// What is below `path`, or below the folder that it will be made in; `None` if it cannot be told.
fn disk_below(path: &Path) -> Option<measurement::Target> {
    let there = path.ancestors().find(|p| p.exists())?;
    host::block::target(there).ok()
}

fn measure(plan: &Plan, started: &Started, store: &mut Store) -> Result<Outcome> {
    let stop: &AtomicBool = interrupt::raise_flag()?;
    let sampling = plan.profile.then_some(Sampling { clock: Clock::Time, hz: DEFAULT_HZ });
    let watching = Watching { sampling, follow: plan.follow };
    // Both closures show something, one after the other.
    let progress = RefCell::new(progress::Progress::new(plan, started));
    let changes_host = plan.testable().any(|cell| !cell.host.is_empty());
    let mut settings = changes_host.then(Settings::open).transpose()?;
    let disk = plan.target.as_deref().and_then(disk_below);
    let mut one = |cell: &Cell| {
        // Before the load, and outside what is measured.
        settings.as_mut().map_or(Ok(()), |settings| settings.set(&cell.host, disk.as_ref()))?;
        let mut measured = cell::run(&cell.load, watching, &mut |at| progress.borrow().load(&at), stop)?;
        // Whoever changed them meanwhile changed what was measured.
        settings.as_mut().map_or(Ok(()), |settings| settings.check())?;
        if cell.host.cpu_quota.is_some() {
            // It is what was asked for.
            measured.measurement.warnings.retain(|w| w.code != "throttled");
        }
        Ok(measured)
    };
    let outcome = execute(Execution {
        plan,
        started,
        store,
        stop,
        measure: &mut one,
        tell: &mut |step: Step<'_>| progress.borrow_mut().show(&step),
    });
    progress.borrow().end();
    if let Some(settings) = &mut settings {
        interrupt::hold()?;
        let left = settings.restore();
        interrupt::let_go()?;
        match left {
            Ok(lines) => lines.iter().for_each(|line| terminal::say(&terminal::sanitise(line))),
            Err(e) if outcome.is_ok() => return Err(e),
            // The run's own error is the first one.
            Err(e) => terminal::say(&terminal::sanitise(&e.to_string())),
        }
    }
    outcome
}
