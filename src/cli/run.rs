//! `iotrail run`: plans, measures, stores and reports an experiment.
//!
//! Exit status: 0 if the run is complete (cells may have failed); 1 if the run was stopped early (its measurements are
//! stored and printed), with --fail-on-unmet if an expectation is not met, or with --kernels if some kernels have not
//! measured everything; 4 with --fail-on-unmet if an expectation could not be evaluated; 5 if --verify found corrupt
//! data; 2, 3 and 70 as for all commands.

mod across;

use std::path::{Path, PathBuf};

use super::slurm;
use crate::runner::{self, Shown, measured, outline, show};
use iotrail_answer::expectation::{self, Judged};
use iotrail_base::error::{self, Error, Result};
use iotrail_base::units::Bytes;
use iotrail_cluster::Work;
use iotrail_experiment::execute::{Outcome, nothing_to_resume, resume, start};
use iotrail_experiment::file::{Experiment, parse};
use iotrail_experiment::load::Kind;
use iotrail_experiment::plan::{Plan, Target, TargetUse, absolute, plan_here, target_use};
use iotrail_experiment::schedule::fresh_seed;
use iotrail_experiment::{builtin, emulated, scratch};
use iotrail_report::terminal::{self, View};
use iotrail_store::{Store, default_path};

#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    /// Name of a built-in experiment (see `iotrail list`), or path to a TOML file
    #[arg(required_unless_present = "attach", conflicts_with = "attach")]
    experiment: Option<String>,

    /// Run the experiment's short form
    #[arg(long)]
    pub quick: bool,

    /// Print the cells, their order and the estimated time; run nothing
    #[arg(long, conflicts_with_all = ["slurm", "attach"])]
    pub plan: bool,

    /// Resume the last unfinished run of this experiment
    #[arg(long, conflicts_with_all = ["plan", "seed", "slurm", "attach"])]
    pub resume: bool,

    /// Seed the order in which cells are measured (default: random; printed and stored)
    #[arg(long, value_name = "N")]
    pub seed: Option<u32>,

    /// Measure each cell N times (default: the experiment's; at most 2 under emulation, where times are meaningless)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// Use this file or block device (default: $IOTRAIL_TARGET if the experiment only reads; otherwise a scratch file under $XDG_CACHE_HOME,
    /// ~/.cache or /var/tmp)
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,

    /// Use this much of the target; if the file is missing, create it with this size (default: the experiment's)
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,

    /// Allow the experiment to overwrite an existing file or device; allow-write in the experiment file is not sufficient
    #[arg(long, conflicts_with = "attach")]
    pub allow_write: bool,

    /// Exit 1 if an expectation of the experiment is not met, 4 if one cannot be evaluated
    #[arg(long, conflicts_with_all = ["slurm", "attach"])]
    pub fail_on_unmet: bool,

    /// Print all sections, not only the answer
    #[arg(long, conflicts_with = "json")]
    pub full: bool,

    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    machines: across::Machines,

    #[command(flatten)]
    fleet: iotrail_cluster::Fleet,

    #[command(flatten)]
    chosen: iotrail_cluster::Chosen,
}

impl RunArgs {
    /// The experiment specified on the command line.
    fn experiment(&self) -> &str {
        self.experiment.as_deref().unwrap_or_default()
    }
}

/// Size of a new target if neither the command line nor the experiment specifies one.
const SIZE: Bytes = Bytes(1 << 30);

pub fn run(args: &RunArgs) -> Result<u8> {
    let shown = Shown { store: args.store.as_deref(), json: args.json, full: args.full };
    if let Some(job) = args.fleet.attach {
        return slurm::attach(&args.fleet, job, shown);
    }
    let (text, origin) = builtin::text(args.experiment())?;
    let mut experiment = parse(&text, &origin)?;
    let seed = || args.seed.or(experiment.seed).unwrap_or_else(fresh_seed);
    if !args.machines.kernels.is_empty() {
        return across::run(args, &experiment, seed());
    }
    if args.fleet.slurm {
        return slurm::run(&args.fleet, &on_nodes(args, &experiment, (&text, &origin), seed())?, shown);
    }
    let seed = seed();
    let is_emulated = iotrail_host::facts(None)?.is_emulated();
    match args.repeats {
        Some(blocks) => emulated::repeat(&mut experiment, blocks),
        None if is_emulated => emulated::shorten(&mut experiment),
        None => {}
    }
    let asked =
        PlanOptions { file: args.file.as_deref(), size: args.size, quick: args.quick, allow_write: args.allow_write };
    let target = target(&asked, &experiment)?;
    let mut plan = resolve(&asked, &experiment, &target)?;
    if args.plan {
        outline::show(&plan, seed, args.json)?;
        return plan.check_leave().map(|()| 0);
    }
    plan.check_leave()?;
    if !runner::checked(&mut plan)? {
        terminal::say("stopped before the first measurement");
        return Ok(1);
    }
    let path = args.store.clone().map_or_else(default_path, Ok)?;
    let mut store = match args.resume {
        // A missing store contains nothing to resume, and is not created.
        true => Store::open(&path)?.ok_or_else(|| nothing_to_resume(&plan.name, &path))?,
        false => Store::create_or_open(&path)?,
    };
    let measured = (|| {
        if let Some(scratch) = target.path.as_ref().filter(|_| target.scratch) {
            scratch::make_folder(scratch)?;
        }
        let started = match args.resume {
            true => resume(&plan, &store, iotrail_host::kernel::release().as_deref())?,
            false => start(&plan, seed, &mut store)?,
        };
        if let Some(path) = target.path.as_ref().filter(|_| args.file.is_none()) {
            let why = if target.scratch { "kept for later runs" } else { "named by IOTRAIL_TARGET; only read" };
            terminal::say(&format!("target: {} ({why})", path.display()));
        }
        if is_emulated && args.repeats.is_none() {
            terminal::say(
                "this machine is emulated: at most two blocks, without a control arm, since times are meaningless (--repeats N for more)",
            );
        }
        measured(&plan, &started, &mut store)
    })();
    if measured.is_err() {
        store.abandon();
    }
    let (outcome, record) = measured?;
    let shown_by = runner::again(record.run, args.store.as_deref());
    let judged = show(&record, args.json, View { full: args.full, again: &shown_by })?;
    match outcome {
        Outcome::Finished if args.fail_on_unmet => return Ok(gate(&judged)),
        Outcome::Finished => return Ok(0),
        Outcome::Corrupted => return Err(record.corruption.map_or_else(corruption_gone, Error::corruption)),
        Outcome::Interrupted => {}
    }
    terminal::say(&format!(
        "stopped: {} of {} measurements are stored; continue with: iotrail run {} {}--resume",
        record.done(),
        record.planned(),
        args.experiment(),
        again(args)
    ));
    Ok(1)
}

/// The experiment for the nodes: its text, and its name for messages.
fn on_nodes<'a>(
    args: &RunArgs,
    experiment: &'a Experiment,
    (text, origin): (&'a str, &str),
    seed: u32,
) -> Result<Work<'a>> {
    if args.quick && experiment.quick.is_none() {
        return Err(Error::input(format!("experiment '{}' has no quick form", experiment.name), "omit --quick"));
    }
    if text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("fio")) {
        return Err(Error::input(
            format!("{origin} refers to a fio job file, which the nodes do not have"),
            "write its options under [load], and remove 'fio'",
        ));
    }
    let mut options = vec![format!("--seed={seed}")];
    options.extend(args.quick.then(|| "--quick".to_owned()));
    options.extend(args.repeats.map(|n| format!("--repeats={n}")));
    options.extend(args.size.map(|size| format!("--size={}", size.0)));
    options.extend(args.allow_write.then(|| "--allow-write".to_owned()));
    let file = args.file.as_deref().map(absolute).transpose()?;
    options.extend(file.map(|file| format!("--file={}", file.display())));
    Ok(Work {
        command: "run",
        experiment: &experiment.name,
        text: Some(text),
        plan: serde_json::json!({"seed": seed, "quick": args.quick, "repeats": args.repeats, "experiment": text}),
        again: iotrail_cluster::again(seed),
        options,
        within: (experiment.kind == Kind::Program).then(iotrail_cluster::here).transpose()?,
        wanted: args.chosen.or_named(&args.fleet)?,
        served: None,
    })
}

/// The exit status of `--fail-on-unmet`: an unmet expectation decides; otherwise one that could not be evaluated.
fn gate(judged: &[Judged]) -> u8 {
    let is = |outcome| judged.iter().filter(move |j| j.outcome == outcome);
    if is(expectation::Outcome::NotMet).next().is_some() {
        return 1;
    }
    let open = is(expectation::Outcome::Open).next();
    let (why, remedy) = match open {
        Some(open) => (open.text.clone(), "measure more blocks (--repeats), or the missing cells"),
        None if judged.is_empty() => {
            ("the experiment has no expectation".into(), "add [[expectation]] to its file, or omit the option")
        }
        None => return 0,
    };
    terminal::say(&format!("iotrail: cannot gate on unmet expectations: {why}; {remedy}"));
    error::NOT_EVALUATED
}

fn corruption_gone() -> Error {
    Error::internal("a run ended at corrupt data, and the store does not contain the reason")
}

/// The options to repeat when resuming the run.
fn again(args: &RunArgs) -> String {
    let path =
        |name: &str, p: &Option<PathBuf>| p.as_ref().map_or_else(String::new, |p| format!("{name} {} ", p.display()));
    let size = args.size.map_or_else(String::new, |s| format!("--size {} ", s.0));
    let quick = if args.quick { "--quick " } else { "" };
    let repeats = args.repeats.map_or_else(String::new, |n| format!("--repeats {n} "));
    let allow_write = if args.allow_write { "--allow-write " } else { "" };
    format!("{quick}{repeats}{allow_write}{}{size}{}", path("--file", &args.file), path("--store", &args.store))
}

/// Options of the plan from the command line.
pub(super) struct PlanOptions<'a> {
    pub file: Option<&'a Path>,
    pub size: Option<Bytes>,
    pub quick: bool,
    pub allow_write: bool,
}

/// The file that the cells use: the specified file, or the scratch file.
pub(super) fn target(asked: &PlanOptions<'_>, experiment: &Experiment) -> Result<Target> {
    let scale = if asked.quick { experiment.quick.as_ref().unwrap_or(&experiment.full) } else { &experiment.full };
    let target_use = target_use(experiment.kind, scale)?;
    if target_use == TargetUse::Nothing {
        return Ok(Target { allow_write: asked.allow_write, ..Target::default() });
    }
    let allow_write = asked.allow_write;
    let wanted = asked.size.or(experiment.size).or_else(|| scale.largest_size()).unwrap_or(SIZE);
    let named = scratch::named().filter(|_| asked.file.is_none() && target_use == TargetUse::Reads);
    match asked.file.or(named.as_deref()) {
        None => Ok(Target { path: Some(scratch::file(wanted)?), size: Some(wanted), scratch: true, allow_write }),
        Some(path) => {
            // An existing target is used entirely, unless a size is specified.
            let size = if path.exists() { asked.size } else { Some(wanted) };
            Ok(Target { path: Some(absolute(path)?), size, scratch: false, allow_write })
        }
    }
}

pub(super) fn resolve(asked: &PlanOptions<'_>, experiment: &Experiment, target: &Target) -> Result<Plan> {
    plan_here(experiment, asked.quick, target)
}
