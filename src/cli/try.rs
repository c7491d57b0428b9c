//! `iotrail try`: runs a user's unmodified program under other ring flags, CPUs and environments. A short form for
//! experiments of kind `program`.
//!
//! Exit status: 0 if the run is complete (arms may have failed); 1 if stopped early, or if --fail-on matches; 4 with --fail-on if an
//! arm could not be compared; 2, 3 and 70 as for all commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use toml::{Table, Value};

use crate::cli::compare::{FailOn, gate};
use crate::cli::program::{ProgramOptions, without_place};
use crate::cli::slurm;
use crate::runner::outline;
use crate::runner::{self, Shown};
use iotrail_base::error::{Error, NOT_EVALUATED, OrFail, Result};
use iotrail_base::output::{self, Existing, Reserved};
use iotrail_base::units::Span;
use iotrail_cluster::Work;
use iotrail_experiment::file::{Experiment, parse};
use iotrail_experiment::plan::{Target, plan_here};
use iotrail_experiment::program::options::Watched;
use iotrail_experiment::schedule::fresh_seed;
use iotrail_report::terminal;
use iotrail_schema::run_record::{CONTROL, RunRecord};
use iotrail_schema::setup_flag;
use iotrail_supervise::change::{AS_IS, Change};

/// Default number of blocks.
const REPEATS: u32 = 10;
/// Default arms.
const USUAL: [&str; 3] = ["coop_taskrun,taskrun_flag", "defer_taskrun,single_issuer", "sqpoll"];

#[derive(Debug, Args)]
#[command(
    override_usage = "iotrail try [ARMS] [OPTIONS] -- CMD [ARGS]...",
    after_help = "Arms are compared with the unmodified program. Examples:
  iotrail try -- ./server-bench
  iotrail try --ring coop_taskrun,taskrun_flag --ring defer_taskrun,single_issuer -- fio job.fio
  iotrail try --metric 'tps=/tps = ([0-9.]+)/' -- pgbench -T 5 db
  iotrail try --arm 'threads: ./server --io threads' -- ./server --io uring"
)]
pub struct TryArgs {
    /// Set exactly these flags on every ring: coop_taskrun, taskrun_flag, single_issuer, defer_taskrun, sqpoll, submit_all, iopoll,
    /// hybrid_iopoll, no_sqarray, or none. +FLAG adds a flag to the program's own, -FLAG removes one. May be repeated
    #[arg(long = "ring", value_name = "LIST", allow_hyphen_values = true, value_parser = change, conflicts_with = "attach")]
    rings: Vec<String>,

    /// Try this environment variable: NAME=VALUE; may be repeated
    #[arg(long = "env-arm", value_name = "NAME=VALUE", conflicts_with = "attach")]
    envs: Vec<String>,

    /// Try these CPUs: irq or non-irq (of the current directory's disk), or a list; may be repeated
    #[arg(long = "cpus-arm", value_name = "CPUS", conflicts_with = "attach")]
    cpus_arms: Vec<String>,

    /// Try another command: 'NAME: COMMAND' (with --server, another server); may be repeated
    #[arg(long = "arm", value_name = "NAME: COMMAND", conflicts_with = "attach")]
    commands: Vec<String>,

    /// Run all arms on these CPUs: irq, non-irq, or a list
    #[arg(long, value_name = "CPUS")]
    cpus: Option<String>,

    /// Set an environment variable in all arms: NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// Let SQPOLL threads spin for N milliseconds before they sleep, in arms with sqpoll
    #[arg(long, value_name = "MS")]
    sq_idle: Option<u32>,

    /// Bind SQPOLL threads to this CPU, in arms with sqpoll
    #[arg(long, value_name = "CPU")]
    sq_cpu: Option<u32>,

    /// Set up completion queues with N entries, in --ring arms
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cq_entries: Option<u32>,

    #[command(flatten)]
    program: ProgramOptions,

    /// Read the metrics from this file, written by the program, instead of from its output
    #[arg(long, value_name = "FILE")]
    metric_file: Option<PathBuf>,

    /// If iotrail is stopped or killed, let the program continue with its existing rings (its next io_uring_setup fails with ENOSYS)
    #[arg(long)]
    leave_running: bool,

    /// Drop an arm whose traced run has requests in flight but completes none for this long
    #[arg(long, value_name = "TIME", default_value = "5s")]
    stall: Span,

    /// Trace one run of each arm before the timed runs, all runs, or none. By default, the timed runs are not traced
    #[arg(long, value_enum, default_value = "one-per-arm", value_name = "RUNS")]
    watch: Watched,

    /// Run each arm N times
    #[arg(long, value_name = "N", default_value_t = REPEATS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,

    /// Seed the order of the arms (default: random; printed and stored)
    #[arg(long, value_name = "N")]
    seed: Option<u32>,

    /// Write the experiment to FILE, for `iotrail run FILE`, and run nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["slurm", "attach"])]
    save: Option<PathBuf>,

    /// Print the arms and their order; run nothing
    #[arg(long, conflicts_with_all = ["slurm", "attach"])]
    plan: bool,

    /// Exit 1 if any verdict matches, 4 if one cannot be evaluated
    #[arg(long, value_enum, value_name = "VERDICT", value_delimiter = ',', conflicts_with_all = ["slurm", "attach"])]
    fail_on: Vec<FailOn>,

    /// Print all sections, not only the answer
    #[arg(long, conflicts_with = "json")]
    full: bool,

    /// Print JSON on standard output
    #[arg(long)]
    json: bool,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,

    #[command(flatten)]
    fleet: iotrail_cluster::Fleet,

    #[command(flatten)]
    chosen: iotrail_cluster::Chosen,

    /// Command to run, once per measurement
    #[arg(last = true, value_name = "CMD", required_unless_present = "attach", conflicts_with = "attach")]
    command: Vec<OsString>,
}

fn change(text: &str) -> std::result::Result<String, String> {
    text.parse::<Change>().map(|_| text.to_owned())
}

pub fn run(args: &TryArgs) -> Result<u8> {
    let shown = Shown { store: args.store.as_deref(), json: args.json, full: args.full };
    if let Some(job) = args.fleet.attach {
        return slurm::attach(&args.fleet, job, shown);
    }
    // A node may have programs that this machine lacks.
    if !args.fleet.slurm {
        iotrail_watch::command::find(&args.command)?;
    }
    let text = experiment(args)?;
    let parsed = parse(&text, ORIGIN).map_err(|e| without_place(ORIGIN, e))?;
    if let Some(path) = &args.save {
        return save(&text, path);
    }
    let seed = args.seed.unwrap_or_else(fresh_seed);
    if args.fleet.slurm {
        return slurm::run(&args.fleet, &on_nodes(args, &parsed, &text, seed)?, shown);
    }
    let mut plan = plan_here(&parsed, false, &Target::default()).map_err(|e| without_place(ORIGIN, e))?;
    plan.directions().iter().for_each(|text| terminal::say(text));
    if args.plan {
        outline::show(&plan, seed, args.json)?;
        return Ok(0);
    }
    let record = runner::whole(&mut plan, seed, shown)?;
    Ok(record.map_or(1, |record| gated(&args.fail_on, &record)))
}

/// Origin, in messages, of the experiment generated from the options.
const ORIGIN: &str = "iotrail try";

/// The exit status of `--fail-on`: an arm that could not be compared does not pass.
fn gated(fail_on: &[FailOn], record: &RunRecord) -> u8 {
    let status = gate(fail_on, &record.comparisons);
    let is_compared = |arm: &String| record.comparisons.iter().any(|c| c.b == *arm);
    let Some(arm) = record.arms.iter().skip(1).find(|arm| !is_compared(arm)) else { return status };
    if fail_on.is_empty() || status != 0 {
        return status;
    }
    let cell = record.cells.iter().find(|c| c.arm() == arm);
    let why = cell.and_then(|c| c.untestable.as_deref()).unwrap_or("it was not measured");
    terminal::say(&format!("iotrail: cannot gate on {arm}: {why}; correct it, or omit this arm"));
    NOT_EVALUATED
}

fn save(text: &str, path: &Path) -> Result<u8> {
    output::write(Reserved::new(path, Existing::Refuse, "--save")?, text.as_bytes())?;
    terminal::say(&format!("written; run it with: iotrail run {}", path.display()));
    Ok(0)
}

/// The experiment for the nodes, which is the one that --save writes, in this directory.
fn on_nodes<'a>(args: &TryArgs, experiment: &'a Experiment, text: &'a str, seed: u32) -> Result<Work<'a>> {
    Ok(Work {
        command: "try",
        experiment: &experiment.name,
        text: Some(text),
        // An emulated machine measures as many blocks as the user requests.
        options: vec![format!("--seed={seed}"), format!("--repeats={}", args.repeats)],
        plan: json!({"seed": seed, "quick": false, "repeats": args.repeats, "experiment": text}),
        again: iotrail_cluster::again(seed),
        within: Some(iotrail_cluster::here()?),
        wanted: args.chosen.or_named(&args.fleet)?,
        served: None,
    })
}

/// The experiment's text, as in a file.
fn experiment(args: &TryArgs) -> Result<String> {
    let mut load = args.program.load(&args.command)?;
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            load.insert(name.into(), value);
        }
    };
    put("cpus", args.cpus.clone().map(Value::from));
    put("env", (!args.env.is_empty()).then(|| Value::from(args.env.clone())));
    put("metric-file", args.metric_file.as_ref().map(|p| Value::from(p.display().to_string())));
    put("stall", Some(Value::from(time(args.stall.0))));
    put("leave-running", args.leave_running.then(|| Value::from(true)));
    let watch = match args.watch {
        Watched::OnePerArm => None,
        Watched::All => Some("all"),
        Watched::None => Some("none"),
    };
    put("watch", watch.map(Value::from));
    let mut file = Table::new();
    let mut say = |name: &str, value: Value| _ = file.insert(name.into(), value);
    say("name", "try".into());
    say("title", Value::from(format!("{} under other settings", args.command[0].to_string_lossy())));
    say("question", "Does another setting serve the program better?".into());
    say("expect", "".into());
    say("kind", "program".into());
    say("repeats", i64::from(args.repeats).into());
    say("load", Value::Table(load));
    say("arm", Value::Array(arms(args)?.into_iter().map(Value::Table).collect()));
    toml::to_string(&file).map_err(|e| Error::internal(format!("cannot format the experiment: {e}")))
}

fn time(span: Duration) -> String {
    format!("{}ms", span.as_millis())
}

/// The as-is program, and the arms compared with it.
fn arms(args: &TryArgs) -> Result<Vec<Table>> {
    let arm = |name: &str, options: Vec<(&str, Value)>| {
        let mut table: Table = options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        table.insert("name".into(), name.into());
        table
    };
    let mut all = vec![arm(AS_IS, Vec::new())];
    let none = args.rings.is_empty() && args.envs.is_empty() && args.cpus_arms.is_empty() && args.commands.is_empty();
    let usual: Vec<String> = USUAL.map(str::to_owned).to_vec();
    let values = [("sq-idle", args.sq_idle), ("sq-cpu", args.sq_cpu), ("cq-entries", args.cq_entries)];
    let rings = if none { &usual } else { &args.rings };
    let polls = |ring: &str| ring.parse::<Change>().is_ok_and(|change| change.sets(setup_flag::bit("sqpoll")));
    let given = values.iter().filter(|(_, value)| value.is_some());
    if let Some((name, _)) =
        given.clone().find(|(n, _)| rings.is_empty() || *n != "cq-entries" && !rings.iter().any(|r| polls(r)))
    {
        let (arm, ring) = if *name == "cq-entries" { ("--ring arm", "LIST") } else { ("arm with sqpoll", "sqpoll") };
        return Err(Error::input(
            format!("--{name} applies to no arm: there is no {arm}"),
            format!("add --ring {ring}, or omit it"),
        ));
    }
    for ring in rings.iter().filter(|r| r.as_str() != AS_IS) {
        let mut options = vec![("ring", Value::from(ring.clone()))];
        let takes = |name: &str| name == "cq-entries" || polls(ring);
        options.extend(
            values
                .iter()
                .filter(|(name, _)| takes(name))
                .filter_map(|(n, v)| Some((*n, Value::from(i64::from((*v)?))))),
        );
        all.push(arm(ring, options));
    }
    for text in &args.envs {
        let env: Vec<String> = args.env.iter().chain([text]).cloned().collect();
        all.push(arm(text, vec![("env", Value::from(env))]));
    }
    for cpus in &args.cpus_arms {
        all.push(arm(&format!("cpus {cpus}"), vec![("cpus", Value::from(cpus.clone()))]));
    }
    for text in &args.commands {
        let (name, command) = text.split_once(':').or_input(
            format_args!("--arm '{text}' is not 'NAME: COMMAND'"),
            "as --arm 'threads: ./server --io threads'",
        )?;
        let what = if args.program.server.is_some() { "server" } else { "program" };
        all.push(arm(name.trim(), vec![(what, Value::from(command.trim()))]));
    }
    let name = |t: &Table| t["name"].as_str().unwrap_or_default().to_owned();
    if let Some(reserved) = all.iter().map(name).find(|n| n == CONTROL) {
        return Err(Error::input(format!("the arm name {reserved} is reserved"), "choose another name"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::comparison::Verdict;
    use iotrail_testing::sample;

    #[test]
    fn an_unmeasured_arm_fails_each_gate() {
        let mut run = iotrail_testing::run::two_by_two();
        run.cells.iter_mut().for_each(|c| c.measurements = vec![sample::measurement(); 3].into());
        run.comparisons = iotrail_answer::compare::of_run(&run, &|_, _| None);
        run.comparisons.iter_mut().for_each(|c| c.verdict = Verdict::Equivalent);
        assert_eq!(gated(&[FailOn::Slower], &run), 0);
        run.comparisons.clear();
        assert_eq!((gated(&[FailOn::Slower], &run), gated(&[], &run)), (NOT_EVALUATED, 0));
    }
}
