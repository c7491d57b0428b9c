//! The runner for all commands that measure: measures a plan, storing as it proceeds, then reads back, compares and
//! prints.

pub mod outline;
pub mod printed;
pub mod progress;

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use self::printed::{Printed, head};
use self::progress::Progress;
use iotrail_answer::compare;
use iotrail_answer::expectation::{Judged, judge};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::interrupt;
use iotrail_base::output;
use iotrail_base::words::plural;
use iotrail_experiment::cell::{self, Watching};
use iotrail_experiment::execute::{Execution, Outcome, Started, Step, execute, resume, start};
use iotrail_experiment::load::{Kind, Load};
use iotrail_experiment::net::ends::Ends;
use iotrail_experiment::plan::{Cell, Plan};
use iotrail_experiment::{precheck, program};
use iotrail_net::options::Between;
use iotrail_probe::profile::DEFAULT_HZ;
use iotrail_probe::sampling::{Clock, Sampling};
use iotrail_report::terminal::{self, View};
use iotrail_schema::comparison::Comparison;
use iotrail_schema::program_record::{Legal, TriedArm};
use iotrail_schema::run_record::RunRecord;
use iotrail_settings::Settings;
use iotrail_store::{Store, default_path, named};

/// Measures the remaining slots, reads back everything stored for the run, and compares.
pub fn measured(plan: &Plan, started: &Started, store: &mut Store) -> Result<(Outcome, RunRecord)> {
    let outcome = measure(plan, started, store)?;
    let mut record = store.load(started.run)?.or_machine(
        format_args!("run {} is no longer in {}", started.run, store.path().display()),
        "another program removed it",
    )?;
    record.comparisons = compared(&record, store)?;
    Ok((outcome, record))
}

/// Checks before any measurement that standard output is writable and that a program works with the plan's arms.
/// Returns false if stopped.
pub fn checked(plan: &mut Plan) -> Result<bool> {
    output::stdout_accepts()?;
    if plan.kind != Kind::Program {
        return Ok(true);
    }
    let stop: &AtomicBool = interrupt::raise_flag()?;
    let mut tell = |arm: &TriedArm| terminal::say(&format!("{}: {}", arm.name, precheck_words(arm)));
    match precheck::check(plan, &mut tell, stop)? {
        Some((tried, expected)) => {
            (plan.tried, plan.expected, plan.each) = (tried, Some(expected), Some(expected.each));
            Ok(true)
        }
        None => Ok(false),
    }
}

/// An arm's trial result, as text.
fn precheck_words(arm: &TriedArm) -> String {
    let rings = match arm.rings.len() {
        0 => String::new(),
        n => format!("{}, ", plural(n, "ring")),
    };
    match (arm.legal, &arm.dropped) {
        (Legal::No, _) => format!("not measured: {}", arm.reason),
        (_, Some(why)) => format!("{rings}dropped: {why}"),
        (Legal::Risky, None) => format!("{rings}runs; risky: {}", arm.reason),
        (Legal::Yes, None) => format!("{rings}runs"),
    }
}

/// Prints the run; returns the outcomes of its expectations.
pub fn show(record: &RunRecord, json: bool, view: View<'_>) -> Result<Vec<Judged>> {
    let judged = judge(record);
    let printed = match json {
        true => terminal::print_json(&Printed::of(record, &judged)?),
        false => terminal::show(&terminal::run(record, &head(record), view)),
    };
    printed.map_err(|e| kept(e, record.run, view.again)).map(|()| judged)
}

/// Where to store a run, and how to print it.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The store specified on the command line.
    pub store: Option<&'a Path>,
    pub json: bool,
    pub full: bool,
}

/// Measures a plan from the start and prints it. `None` if it was stopped, which has been reported.
pub fn whole(plan: &mut Plan, seed: u32, how: Shown<'_>) -> Result<Option<RunRecord>> {
    whole_or_rest(plan, Some(seed), how)
}

/// The same, but without a seed resumes the last interrupted run.
pub fn whole_or_rest(plan: &mut Plan, seed: Option<u32>, how: Shown<'_>) -> Result<Option<RunRecord>> {
    // Report an unwritable store before running anything.
    let path = how.store.map_or_else(default_path, |path| Ok(path.to_owned()))?;
    let mut store = Store::create_or_open(&path)?;
    let done = checked(plan).and_then(|goes_on| {
        if !goes_on {
            return Ok(None);
        }
        let started = match seed {
            Some(seed) => start(plan, seed, &mut store)?,
            None => {
                // With two hosts, the server's host is measured, whose kernel may differ.
                let is_far = |cell: &Cell| matches!(&cell.load, Load::Net(net) if net.between == Between::Hosts);
                let kernel = iotrail_host::kernel::release().filter(|_| !plan.cells.iter().any(is_far));
                resume(plan, &store, kernel.as_deref())?
            }
        };
        let (outcome, record) = measured(plan, &started, &mut store)?;
        if outcome == Outcome::Interrupted && record.done() == 0 {
            store.forget(record.run)?;
            return Ok(None);
        }
        Ok(Some((outcome, record)))
    });
    if !matches!(done, Ok(Some(_))) {
        store.abandon();
    }
    let Some((outcome, record)) = done? else {
        terminal::say("stopped before the first measurement");
        return Ok(None);
    };
    let again = again(record.run, how.store);
    show(&record, how.json, View { full: how.full, again: &again })?;
    if outcome == Outcome::Finished {
        return Ok(Some(record));
    }
    let (done, planned) = (record.done(), record.planned());
    terminal::say(&format!("stopped: {done} of {planned} measurements are stored, as run {}", record.run));
    Ok(None)
}

/// Adds to an error that the result, although not printed, is stored.
pub fn kept(e: Error, run: i64, again: &str) -> Error {
    Error { remedy: format!("{}; run {run} is stored: {again}", e.remedy), ..e }
}

/// The command that prints a stored run again.
pub fn again(run: i64, store: Option<&Path>) -> String {
    format!("iotrail report {run}{}", named(store))
}

/// Compares the arms with the first, using everything stored for the run.
pub fn compared(record: &RunRecord, store: &Store) -> Result<Vec<Comparison>> {
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

fn measure(plan: &Plan, started: &Started, store: &mut Store) -> Result<Outcome> {
    let stop: &AtomicBool = interrupt::raise_flag()?;
    let sampling = plan.profile.then_some(Sampling { clock: Clock::Time, hz: DEFAULT_HZ });
    let watching = Watching { sampling, follow: None };
    // Two closures use the display, but never at the same time.
    let progress = RefCell::new(Progress::new(plan, started));
    let changes_host = plan.testable().any(|cell| !cell.host.is_empty());
    let mut settings = changes_host.then(Settings::open).transpose()?;
    let mut ends = Ends::default();
    let mut one = |cell: &Cell| {
        // Before the load, and outside the measured span. Reads the target again, because a disk rebound to its driver
        // has new queues, and a file may now exist.
        if let Some(settings) = &mut settings {
            let target = cell.load.storage().and_then(cell::target_of);
            settings.set(&cell.host, target.as_ref())?;
        }
        let mut tell = |at| progress.borrow().load(&at);
        let mut measured = match &cell.load {
            Load::Storage(load) => {
                // Other engines have no requests to trace.
                let follow = plan.follow.filter(|_| load.engine.engine().ring.is_some());
                cell::run(load, Watching { follow, ..watching }, &mut tell, stop)?
            }
            Load::Program(program) => {
                let expected = plan.expected.ok_or_else(|| Error::internal("a program was not checked"))?;
                program::measured::measure(program, &expected, stop)?
            }
            Load::Net(net) => ends.run(net, &cell.options, plan.follow, &mut tell, stop)?,
        };
        // Settings that another program changed meanwhile affect the measurement.
        settings.as_mut().map_or(Ok(()), |settings| settings.check())?;
        if cell.host.cpu_quota.is_some() {
            // The quota was requested.
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
            Ok(lines) => lines.iter().for_each(|line| terminal::say(line)),
            Err(e) if outcome.is_ok() => return Err(e),
            // The run's own error takes precedence.
            Err(e) => terminal::say(&e.to_string()),
        }
    }
    outcome
}
