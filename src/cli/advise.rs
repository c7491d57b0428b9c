//! `iotrail advise`: searches for the best valid configuration of a program, a described load or iotrail's own server,
//! and confirms it against the current configuration in fresh blocks.
//!
//! Exit status: 0 if there is an answer, including *keep the current configuration*; 1 if stopped earlier; 2, 3, 4 and
//! 70 as for all commands.

mod described;
mod net;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::Serialize;
use toml::{Table, Value};

use crate::cli::on_the_command_line;
use crate::cli::program::{ProgramOptions, without_place};
use crate::cli::replay::read;
use crate::runner::progress::minutes;
use crate::runner::{self, outline, printed};
use iotrail_answer::compare::Metric;
use iotrail_answer::search;
use iotrail_answer::summary::{Head, advice};
use iotrail_base::alarm::Alarm;
use iotrail_base::distinct::distinct;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::output::{self, Existing, Reserved};
use iotrail_base::units::Span;
use iotrail_base::words::{plural, span};
use iotrail_experiment::advise::candidates::{NOW, Placement, of_program, of_replay};
use iotrail_experiment::advise::objective;
use iotrail_experiment::advise::subject::{SEARCH, Subject};
use iotrail_experiment::budget::Budget;
use iotrail_experiment::execute::{Outcome, Started, nothing_to_resume, resume, start};
use iotrail_experiment::given::{OptionValues, value};
use iotrail_experiment::load::Kind;
use iotrail_experiment::plan::Plan;
use iotrail_experiment::precheck;
use iotrail_experiment::schedule::fresh_seed;
use iotrail_load::cpus;
use iotrail_load::options::LoadOptions;
use iotrail_report::terminal::{self, View};
use iotrail_schema::program_record::TriedArm;
use iotrail_schema::run_record::RunRecord;
use iotrail_schema::search_record::SearchRecord;
use iotrail_store::{Store, default_path};

#[derive(Debug)]
pub struct AdviseArgs {
    /// The load's options.
    given: Vec<OptionValues>,
    load: LoadOptions,
    own: OwnArgs,
    /// `advise net`.
    net: Option<Box<net::NetArgs>>,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "iotrail advise [OPTIONS] -- CMD [ARGS]...
       iotrail advise [OPTIONS] [OPTIONS OF bench]
       iotrail advise [OPTIONS] --replay FILE
       iotrail advise net [OPTIONS] [OPTIONS OF net bench]",
    after_help = "The recommended configuration is measured again against the current one, in blocks not used by the search. Examples:
  iotrail advise -- ./server-bench
  iotrail advise --metric 'tps=/tps = ([0-9.]+)/' -- pgbench -T 5 db
  iotrail advise --objective cpu --metric 'lat_ms=/latency average = ([0-9.]+)/' --constraint 'lat_ms<2' -- pgbench -t 5000 db
  iotrail advise --file /data/f --rw randread --depth 16 --wait peek
  iotrail advise --rw nop --depth 16 --objective iops,p99
  iotrail advise --replay db.iotrail --map /var/lib/db=/scratch/db
  iotrail advise net --connections 64 --objective cpu"
)]
struct OwnArgs {
    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    program: ProgramOptions,

    /// Also try other I/O schedulers and nr_requests values for the target's disk. They affect other users of the disk during the search, and
    /// are restored
    #[arg(long, conflicts_with = "command")]
    host_settings: bool,

    /// Find the best configuration for a recorded program by replaying it: rings, registration, batches, and io_uring for synchronous calls.
    /// FILE is a recording made with `iotrail trace --record FILE --for-replay`, or a fio iolog
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "host_settings"])]
    replay: Option<PathBuf>,

    /// Use the file or directory NEW in place of the recorded OLD; may be repeated
    #[arg(long = "map", value_name = "OLD=NEW", requires = "replay")]
    maps: Vec<String>,

    /// Program to find the best configuration for; it runs once per measurement
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Options of every search.
#[derive(Debug, Args)]
struct SearchArgs {
    /// Optimise this metric. Loads: iops, p50, p99, p99.9, mean or cpu; programs: the name of a --metric, elapsed or cpu. With two, separated
    /// by a comma, find the configurations that no other beats in both (default: iops; for programs, the first --metric, otherwise elapsed)
    #[arg(long, value_name = "METRIC[,METRIC]")]
    objective: Option<String>,

    /// Drop candidates that violate this constraint: METRIC<LIMIT or METRIC>LIMIT (or <=, >=), such as p99<2ms for a load or, with --metric
    /// 'lat_ms=…', lat_ms<2 for a program; cpus is the number of CPUs in use. May be repeated
    #[arg(long = "constraint", value_name = "METRIC<LIMIT")]
    constraints: Vec<String>,

    /// Answer within this time, including trials, layout and confirmation
    #[arg(long, value_name = "TIME", default_value = "3m")]
    budget: Span,

    /// Write the confirmation to FILE as an experiment, for `iotrail run FILE` here or on other machines
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Resume the last unfinished search
    #[arg(long)]
    resume: bool,

    /// Print the candidates; run nothing
    #[arg(long)]
    plan: bool,

    /// Print all sections, not only the answer
    #[arg(long, conflicts_with = "json")]
    full: bool,

    /// Print JSON on standard output
    #[arg(long)]
    json: bool,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
}

impl Args for AdviseArgs {
    fn augment_args(command: Command) -> Command {
        // advise itself decides which runs are traced.
        let own = OwnArgs::augment_args(command).next_help_heading("Load");
        let own = LoadOptions::augment_args(own).mut_arg("trace", |arg| arg.hide(true)).next_help_heading(None::<&str>);
        own.subcommand(net::command()).disable_help_subcommand(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AdviseArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = on_the_command_line(LoadOptions::augment_args(Command::new("load")), matches);
        let net = matches.subcommand().map(|(_, matches)| net::NetArgs::of(matches)).transpose()?;
        if net.is_some()
            && let Some(before) = on_the_command_line(Self::augment_args(Command::new("advise")), matches).first()
        {
            let why = format!("--{0} must follow net: write `iotrail advise net --{0} ...`", before.name);
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, why));
        }
        let (load, own) = (LoadOptions::from_arg_matches(matches)?, OwnArgs::from_arg_matches(matches)?);
        Ok(Self { given, load, own, net: net.map(Box::new) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The output of `--json`.
#[derive(Serialize)]
struct Advised<'a> {
    head: &'a Head,
    search: serde_json::Value,
    confirmation: Option<serde_json::Value>,
}

pub fn run(args: &AdviseArgs) -> Result<u8> {
    let began = Instant::now();
    match &args.net {
        Some(net) => carried_out(&net.search, &net::subject(net)?, began),
        None => carried_out(&args.own.search, &subject(args)?, began),
    }
}

fn carried_out(args: &SearchArgs, subject: &Subject, began: Instant) -> Result<u8> {
    let mut search = subject.plan(None).map_err(|e| without_place("iotrail advise", e))?;
    let seed = fresh_seed();
    search.directions().iter().for_each(|text| terminal::say(text));
    if args.plan {
        outline::show(&search, seed, args.json)?;
        return search.check_leave().map(|()| 0);
    }
    search.check_leave()?;
    let budget = Budget { began, whole: args.budget.0, fresh: subject.fresh(), search: None };
    if search.kind != Kind::Program {
        budget.check(each(&search), search.testable().count(), Duration::ZERO, true)?;
    }
    search.budget = Some(budget);
    let reserve = |path: &PathBuf| Reserved::new(path, Existing::Refuse, "--save").and_then(Reserved::apart);
    let save = args.save.as_ref().map(reserve).transpose()?;
    let path = args.store.clone().map_or_else(default_path, Ok)?;
    let mut store = match args.resume {
        true => Store::open(&path)?.ok_or_else(|| nothing_to_resume(SEARCH, &path))?,
        false => Store::create_or_open(&path)?,
    };
    let done = advised(args, subject, (&mut search, budget), seed, &mut store, save);
    if !matches!(done, Ok(Some(_))) {
        store.abandon();
    }
    let Some(Answered { stopped, search: searched, confirmation }) = done? else {
        terminal::say("stopped before the first measurement");
        return Ok(1);
    };
    let is_confirmed = confirmation.is_some();
    let record = confirmation.as_ref().unwrap_or(&searched);
    let head = Head::of_run(record, false);
    let again = runner::again(record.run, args.store.as_deref());
    let printed = if args.json {
        let confirmation = confirmation.as_ref().map(printed::as_value).transpose()?;
        terminal::print_json(&Advised { head: &head, search: printed::as_value(&searched)?, confirmation })
    } else {
        terminal::show(&terminal::run(record, &head, View { full: args.full, again: &again }))
    };
    printed.map_err(|e| runner::kept(e, record.run, &again))?;
    match (stopped, is_confirmed) {
        (false, _) => {}
        (true, false) => {
            terminal::say(
                "stopped: the answer is from the measurements so far; continue with the same options and --resume",
            );
        }
        (true, true) => terminal::say("stopped during the confirmation: the answer is from the complete blocks"),
    }
    Ok(u8::from(stopped))
}

/// The command's result.
struct Answered {
    stopped: bool,
    search: RunRecord,
    confirmation: Option<RunRecord>,
}

/// Searches, then confirms. `None` if stopped before the first measurement.
fn advised(
    args: &SearchArgs,
    subject: &Subject,
    (search, budget): (&mut Plan, Budget),
    seed: u32,
    store: &mut Store,
    save: Option<Reserved>,
) -> Result<Option<Answered>> {
    let alarm = Alarm::after(budget.left())?;
    if !runner::checked(search)? {
        return match alarm.rang() {
            true => Err(used_up(budget)),
            false => Ok(None),
        };
    }
    drop(alarm);
    precheck::spare(search);
    let expected = search.expected.map_or_else(|| each(search), |expected| expected.each);
    search.each = search.expected.map(|expected| expected.each);
    let time = budget.for_search(expected);
    search.budget = Some(Budget { search: Some(time), ..budget });
    let candidates = search.testable().count();
    let block = expected * u32::try_from(candidates).unwrap_or(u32::MAX);
    terminal::say(&format!(
        "search: about {} of {}, {} each, in {}; then the confirmation",
        plural((time.as_secs_f64() / block.as_secs_f64().max(1e-3)) as usize, "block"),
        plural(candidates, "candidate"),
        minutes(block),
        minutes(time)
    ));
    let started: Started = match args.resume {
        true => resume(search, store, iotrail_host::kernel::release().as_deref())?,
        false => start(search, seed, store)?,
    };
    let begun = Instant::now();
    let (stopped, searched) = in_time(time, search, &started, store)?;
    let measured = searched.done().saturating_sub(started.planned - started.slots.len());
    let pace = begun.elapsed().checked_div(u32::try_from(measured).unwrap_or(u32::MAX)).unwrap_or(expected);
    let Some((chosen, found)) = advice::to_confirm(&searched).filter(|_| !stopped) else {
        return Ok(Some(Answered { stopped, search: searched, confirmation: None }));
    };
    if let Some(save) = save {
        let path = save.path().display().to_string();
        output::write(save, subject.text(Some(&chosen))?.as_bytes())?;
        terminal::say(&format!("written; run it with: iotrail run {path}"));
    }
    let mut confirm = subject.plan(Some(&chosen))?;
    let Some(blocks) = budget.fresh_blocks(pace) else {
        terminal::say("no time left in the budget to confirm the leader of the search");
        return Ok(Some(Answered { stopped, search: searched, confirmation: None }));
    };
    confirm.repeats = blocks;
    confirm.search = Some(SearchRecord { found: Some(found), ..subject.search.clone() });
    let is_told = |t: &&TriedArm| t.name == NOW || chosen.contains(&t.name) || t.hang.is_some();
    confirm.tried = searched.tried.iter().filter(is_told).cloned().collect();
    (confirm.expected, confirm.each) = (search.expected, search.each);
    let started = start(&confirm, fresh_seed(), store)?;
    let (stopped, confirmation) = in_time(budget.left(), &confirm, &started, store)?;
    Ok(Some(Answered { stopped, search: searched, confirmation: Some(confirmation) }))
}

/// Measures for at most this time. Returns true if a signal stopped it.
fn in_time(time: Duration, plan: &Plan, started: &Started, store: &mut Store) -> Result<(bool, RunRecord)> {
    let alarm = Alarm::after(time)?;
    let (outcome, mut record) = runner::measured(plan, started, store)?;
    if outcome == Outcome::Interrupted && alarm.rang() {
        let now = iotrail_host::clock::unix_s();
        store.finish(started.run, now)?;
        record.finished_unix_s = Some(now);
        return Ok((false, record));
    }
    Ok((outcome != Outcome::Finished, record))
}

/// Duration of one measurement of a load, as far as its options determine it.
fn each(plan: &Plan) -> Duration {
    let measurements = plan.testable().count() * plan.repeats as usize;
    plan.estimate().stated / u32::try_from(measurements).unwrap_or(u32::MAX).max(1)
}

fn used_up(budget: Budget) -> Error {
    let what = format!("--budget {} was used up before the program's trials", span(budget.whole.as_nanos() as f64));
    Error::input(what, "use a longer --budget, or make the program's run shorter")
}

fn subject(args: &AdviseArgs) -> Result<Subject> {
    let own = &args.own;
    let is_program = !own.command.is_empty() || own.replay.is_some();
    let kind = if is_program { Kind::Program } else { Kind::Storage };
    let of_time = is_program && own.replay.is_none();
    let cpu = if of_time { Metric::CpuTime } else { Metric::CpuPerIo };
    let load = if is_program { program(args)? } else { described::load(args)? };
    let names: Vec<String> =
        own.program.metrics.iter().filter_map(|m| Some(m.split_once('=')?.0.trim().to_owned())).collect();
    let usual = names.first().cloned().unwrap_or_else(|| if of_time { "elapsed" } else { "iops" }.into());
    let below = if is_program { Some(Path::new(".")) } else { args.load.file.as_deref() };
    let fixed = args.given.iter().any(|g| g.name == "cpus");
    let places = if fixed { Vec::new() } else { placements(below)? };
    let (proposed, left_out) = match (&own.replay, is_program) {
        (Some(recording), _) => (of_replay(&read(recording)?, &places), Vec::new()),
        (None, true) => (of_program(&places), Vec::new()),
        (None, false) => described::candidates(args, &load, &places)?,
    };
    let always = [if of_time { Metric::Elapsed } else { Metric::LatencyP99 }, cpu];
    let (search, metrics) = searched_for(&own.search, &usual, &names, &always, cpu)?;
    Ok(Subject::new(kind, load, proposed, SearchRecord { left_out, ..search }, metrics))
}

/// `[load]` with the options as specified.
fn as_given(kind: Kind, given: &[OptionValues]) -> Result<Table> {
    let mut load = Table::new();
    for OptionValues { name, values } in given.iter().filter(|g| g.name != "trace") {
        for text in values {
            load.insert(name.clone(), value(kind, name, text)?);
        }
    }
    Ok(load)
}

/// Default duration of a measurement.
fn takes(load: &mut Table, runtime: &str, warmup: &str) {
    if !load.contains_key("runtime") && !load.contains_key("count") {
        load.insert("runtime".into(), runtime.into());
    }
    if !load.contains_key("warmup") {
        load.insert("warmup".into(), warmup.into());
    }
}

/// The objectives without candidates, and the compared metrics. `own`: the program's metrics; `cpu`: the metric that
/// the name `cpu` selects.
fn searched_for(
    args: &SearchArgs,
    usual: &str,
    own: &[String],
    always: &[Metric],
    cpu: Metric,
) -> Result<(SearchRecord, Vec<String>)> {
    let refuse = |why: String| Error::input(why, "see iotrail advise --help");
    let asked = args.objective.as_deref().unwrap_or(usual);
    let (objective, second) = objective::objectives(asked, own, cpu).map_err(refuse)?;
    if objective == search::CPUS || second.as_deref() == Some(search::CPUS) {
        return Err(refuse("--objective cpus is a share of the machine, not a cost: use cpu, or --constraint".into()));
    }
    let constraints = args.constraints.iter().map(|text| objective::constraint(text, own, cpu).map_err(refuse));
    let constraints = constraints.collect::<Result<Vec<_>>>()?;
    let more = constraints.iter().map(|c| c.metric.clone()).filter(|m| m != search::CPUS);
    let more = more.chain(own.iter().cloned()).chain(always.iter().map(ToString::to_string));
    let metrics = distinct([objective.clone()].into_iter().chain(second.clone()).chain(more));
    let budget_s = args.budget.0.as_secs_f64();
    let (candidates, left_out) = (Vec::new(), Vec::new());
    let search = SearchRecord { objective, second, constraints, budget_s, candidates, left_out, found: None };
    Ok((search, metrics))
}

/// `irq` and `non-irq`, if they are proper subsets of the CPUs.
fn placements(below: Option<&Path>) -> Result<Vec<Placement>> {
    let online = iotrail_host::cpu::online()?;
    let target = below.and_then(|path| iotrail_host::block::target(path).ok());
    let of = |name: &'static str| {
        let cpus = cpus::resolve(name, target.as_ref(), &online).ok()?;
        (!cpus.is_empty() && cpus.len() < online.len()).then_some(Placement { name, cpus })
    };
    Ok(["irq", "non-irq"].into_iter().filter_map(of).collect())
}

/// `[load]` for a replay.
fn replayed(recording: &Path, maps: &[String]) -> Result<Table> {
    let path =
        recording.to_str().or_input(format_args!("{} is not UTF-8", recording.display()), "rename the recording")?;
    let mut load: Table = [("replay".to_owned(), Value::from(path))].into_iter().collect();
    if !maps.is_empty() {
        load.insert("map".into(), Value::from(maps.to_vec()));
    }
    Ok(load)
}

/// `[load]` for a program.
fn program(args: &AdviseArgs) -> Result<Table> {
    let own = &args.own;
    if let Some(other) = args.given.iter().find(|g| g.name != "cpus") {
        return Err(Error::input(
            format!("--{} describes a load, but a program is its own load", other.name),
            "omit one of them",
        ));
    }
    let mut load = match &own.replay {
        Some(recording) => replayed(recording, &own.maps)?,
        None => {
            iotrail_watch::command::find(&own.command)?;
            own.program.load(&own.command)?
        }
    };
    load.extend(args.load.cpus.clone().map(|cpus| ("cpus".to_owned(), Value::from(cpus))));
    // Changing and comparing flags works without probes.
    if !iotrail_host::privileges::may_watch() {
        terminal::say("not traced: this user may not load the probes, so the answer has no reasons");
        load.insert("watch".into(), "none".into());
    }
    Ok(load)
}
