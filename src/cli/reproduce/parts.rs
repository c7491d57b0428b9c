//! A study's parts: measured one after another, or looked up in the store.

use super::ReproduceArgs;
use crate::cli::run::{self, resolve, target};
use crate::runner::measured;
use crate::runner::progress::minutes;
use iotrail_answer::reproduce::Ran;
use iotrail_answer::reproduce::study::{Needs, Part, Study};
use iotrail_base::error::{Error, Kind, Result};
use iotrail_base::words::plural;
use iotrail_experiment::emulated;
use iotrail_experiment::execute::{Outcome, most_beyond, start};
use iotrail_experiment::file::Experiment;
use iotrail_experiment::plan::{Plan, Target};
use iotrail_experiment::schedule::fresh_seed;
use iotrail_experiment::{scratch, studies};
use iotrail_report::terminal;
use iotrail_store::Store;
use iotrail_store::named;

/// How to measure the requested parts.
pub struct Options<'a> {
    pub study: &'a Study,
    pub parts: &'a [&'a Part],
    pub args: &'a ReproduceArgs,
    /// Number of online CPUs.
    pub cpus: u32,
}

/// Results of the parts.
pub struct Run {
    /// Name of each part, name of its experiment, and result.
    pub ran: Vec<(String, String, Ran)>,
    /// The command was interrupted.
    pub is_stopped: bool,
}

impl Run {
    pub fn has_measured(&self) -> bool {
        self.ran.iter().any(|(_, _, ran)| ran.is_ok())
    }
}

/// A part to be measured, or the reason why it cannot be.
struct Planned {
    part: String,
    experiment: String,
    plan: std::result::Result<(Plan, Target), String>,
}

impl Options<'_> {
    /// Each part's last finished run in the requested form.
    pub fn stored(&self, store: &Store) -> Result<Run> {
        let list = store.list()?;
        let mut ran = Vec::new();
        for part in self.parts {
            let name = studies::experiment(self.study, part)?.name;
            let mut record = None;
            for run in list.iter().rev().filter(|r| r.experiment == name && r.finished_unix_s.is_some()) {
                if store.outline(run.run)?.is_some_and(|o| o.quick == self.args.quick) {
                    record = store.load(run.run)?;
                    break;
                }
            }
            let form = if self.args.quick { " of the quick form" } else { "" };
            let measure = again_with(self.args, &self.study.name, &part.name);
            let none = || {
                lacking(&part.needs, self.cpus).unwrap_or_else(|| format!("no finished run{form} is stored: {measure}"))
            };
            ran.push((part.name.clone(), name, record.ok_or_else(none)));
        }
        Ok(Run { ran, is_stopped: false })
    }

    pub fn measured(&self, store: &mut Store) -> Result<Run> {
        let is_emulated = iotrail_host::facts(None)?.is_emulated();
        let planned = self.parts.iter().map(|part| self.planned(part, is_emulated)).collect::<Result<Vec<_>>>()?;
        let plans = || planned.iter().filter_map(|p| p.plan.as_ref().ok());
        let time = plans().map(|(plan, _)| plan.estimate().stated).sum();
        let most = plans().map(|(plan, _)| plan.estimate().stated.mul_f64(1.0 + most_beyond(plan))).sum();
        if plans().next().is_some() {
            terminal::say(&format!(
                "{}: {}, about {} (at most {} if disturbed)",
                self.study.name,
                plural(plans().count(), "part"),
                minutes(time),
                minutes(most)
            ));
        }
        let (mut ran, mut is_stopped) = (Vec::new(), false);
        for Planned { part, experiment, plan } in planned {
            let made = match plan {
                Err(why) => Err(why),
                Ok(_) if is_stopped => Err("not measured: the run was stopped before it".into()),
                Ok((plan, target)) => {
                    terminal::say(&format!("{part}: {}, {}", plan.title, minutes(plan.estimate().stated)));
                    match one(&plan, &target, store) {
                        Ok((outcome, record)) => {
                            is_stopped = outcome == Outcome::Interrupted;
                            Ok(record)
                        }
                        // That a part is impossible here is an answer; other parts may be possible.
                        Err(e) if e.kind == Kind::Machine => Err(e.to_string()),
                        Err(e) => return Err(e),
                    }
                }
            };
            ran.push((part, experiment, made));
        }
        Ok(Run { ran, is_stopped })
    }

    fn planned(&self, part: &Part, is_emulated: bool) -> Result<Planned> {
        let mut experiment = studies::experiment(self.study, part)?;
        match self.args.repeats {
            Some(blocks) => emulated::repeat(&mut experiment, blocks),
            None if is_emulated => emulated::shorten(&mut experiment),
            None => {}
        }
        let name = experiment.name.clone();
        let plan = match lacking(&part.needs, self.cpus) {
            Some(why) => Err(why),
            None => self.plan(&experiment)?,
        };
        Ok(Planned { part: part.name.clone(), experiment: name, plan })
    }

    fn plan(&self, experiment: &Experiment) -> Result<std::result::Result<(Plan, Target), String>> {
        let (file, size, quick) = (self.args.file.as_deref(), self.args.size, self.args.quick);
        let asked = run::PlanOptions { file, size, quick, allow_write: false };
        let planned = target(&asked, experiment).and_then(|t| resolve(&asked, experiment, &t).map(|plan| (plan, t)));
        match planned {
            Err(e) if e.kind == Kind::Machine => Ok(Err(e.to_string())),
            planned => planned.map(Ok),
        }
    }
}

fn one(plan: &Plan, target: &Target, store: &mut Store) -> Result<(Outcome, iotrail_schema::run_record::RunRecord)> {
    if let Some(path) = target.path.as_ref().filter(|_| target.scratch) {
        scratch::make_folder(path)?;
    }
    let started = start(plan, fresh_seed(), store)?;
    let (outcome, record) = measured(plan, &started, store)?;
    match (outcome, &record.corruption) {
        (Outcome::Corrupted, Some(found)) => Err(Error::corruption(found.clone())),
        _ => Ok((outcome, record)),
    }
}

/// The missing requirement, if any.
pub fn lacking(needs: &Needs, cpus: u32) -> Option<String> {
    if let Some(n) = needs.cpus.filter(|n| cpus < *n) {
        return Some(format!("it needs {n} CPUs, but only {cpus} are online"));
    }
    let file = needs.files.iter().find(|file| !file.exists())?;
    let what = needs.what.as_ref().map_or_else(String::new, |what| format!("it needs {what}: "));
    let instead = needs.instead.as_ref().map_or_else(String::new, |how| format!("; {how}"));
    Some(format!("{what}{} does not exist{instead}", file.display()))
}

/// The command that compares the stored results again.
pub fn again(args: &ReproduceArgs, study: &str, has_runs: bool) -> String {
    let only = if args.only.is_empty() { String::new() } else { format!(" --only {}", args.only.join(",")) };
    let stored = if has_runs { " --stored" } else { "" };
    format!("iotrail reproduce {study}{}{only}{stored}{}", quick(args), named(args.store.as_deref()))
}

/// The command that measures a part.
fn again_with(args: &ReproduceArgs, study: &str, part: &str) -> String {
    format!("iotrail reproduce {study}{} --only {part}{}", quick(args), named(args.store.as_deref()))
}

fn quick(args: &ReproduceArgs) -> &'static str {
    if args.quick { " --quick" } else { "" }
}
