//! `iotrail fleet`: combines runs of one experiment on several machines. Also prints fleets, for this command and
//! `report`.

use std::path::{Path, PathBuf};
use std::thread;

use clap::Args;

use super::given::unknown_run;
use super::page_file;
use crate::runner::compared;
use iotrail_answer::fleet::{Brought, Gathered};
use iotrail_answer::unit::Unit;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::output::Reserved;
use iotrail_base::words::plural;
use iotrail_report::{html, terminal};
use iotrail_schema::fleet_answer::FleetAnswer;
use iotrail_schema::fleet_record::{self, FleetNode, FleetRecord, NodeState};
use iotrail_schema::run_record::RunRecord;
use iotrail_store::named;
use iotrail_store::{Store, default_path};

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "RUN is\n  12          a stored run\n  c9.db       the last run in another machine's store, copied into this one\n  \
                        c9.db:12    run 12 in that store\n  c9=12       any of these, with a name for its machine (default: its host name)"
)]
pub struct FleetArgs {
    /// Name of the fleet
    pub name: String,

    /// Runs of one experiment, one per machine (see below)
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,

    /// Write one self-contained HTML page (default: print on the terminal)
    #[arg(short, long, value_name = "PAGE.html", conflicts_with_all = ["json", "full"])]
    pub output: Option<PathBuf>,

    /// Overwrite an existing file that is not an iotrail report
    #[arg(long, requires = "output")]
    pub force: bool,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// Print every comparison and every machine, not only the answer
    #[arg(long, conflicts_with = "json")]
    pub full: bool,

    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &FleetArgs) -> Result<u8> {
    let output = args.output.as_deref().map(|path| page_file::reserve(path, args.force)).transpose()?;
    let path = args.store.clone().map_or_else(default_path, Ok)?;
    let mut store = Store::create_or_open(&path)?;
    let record = match gathered(args, &mut store) {
        Ok(record) => record,
        Err(e) => {
            store.abandon();
            return Err(e);
        }
    };
    show(&store, record, Options { full: args.full, json: args.json, store: args.store.as_deref(), output })
}

/// How to print a fleet.
pub struct Options<'a> {
    pub full: bool,
    pub json: bool,
    /// The store as specified on the command line.
    pub store: Option<&'a Path>,
    pub output: Option<Reserved>,
}

/// Prints a stored fleet, answer first.
pub fn show(store: &Store, record: FleetRecord, how: Options<'_>) -> Result<u8> {
    let (answer, unit) = answered(store, record)?;
    match how.output {
        Some(output) => page_file::write(output, &html::fleet(&answer, unit)?)?,
        None if how.json => terminal::print_json(&answer)?,
        None => {
            terminal::show(&terminal::fleet(&answer, unit, how.full, &named(how.store)))?;
        }
    }
    Ok(0)
}

/// A stored fleet, by number.
pub fn stored(store: &Store, fleet: i64) -> Result<FleetRecord> {
    store.fleet(fleet)?.or_input(
        format_args!("no fleet {} in {}", fleet_record::id(fleet), store.path().display()),
        "`iotrail list` lists the stored fleets",
    )
}

/// The machines' common result. As many threads as CPUs compare their runs, each with a store connection of its own.
fn answered(store: &Store, record: FleetRecord) -> Result<(FleetAnswer, Unit)> {
    let runs: Vec<(&str, i64)> = record.runs().map(|(node, run)| (node.node.as_str(), run)).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(runs.len().max(1));
    let path = store.path();
    let of = |first: usize| -> Result<Vec<(usize, Brought)>> {
        let Some(store) = Store::open(path)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (place, (node, run)) in runs.iter().enumerate().skip(first).step_by(threads) {
            if let Some(mut run) = store.load(*run)? {
                run.comparisons = compared(&run, &store)?;
                found.push((place, Brought::new(node, &run)));
            }
        }
        Ok(found)
    };
    let mut brought: Vec<(usize, Brought)> = Vec::new();
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|first| scope.spawn(move || of(first))).collect();
        for thread in started {
            brought.extend(thread.join().map_err(|p| Error::of_panic("a thread that compares", p.as_ref()))??);
        }
        Ok::<(), Error>(())
    })?;
    brought.sort_by_key(|(place, _)| *place);
    let mut all = Gathered::default();
    brought.into_iter().for_each(|(_, one)| all.add(one));
    let unit = all.unit();
    Ok((all.answer(record), unit))
}

/// Finds the runs, copies those in other stores, and stores the fleet.
fn gathered(args: &FleetArgs, store: &mut Store) -> Result<FleetRecord> {
    let mut nodes: Vec<FleetNode> = Vec::new();
    let mut first: Option<RunRecord> = None;
    let (mut started, mut finished) = (u64::MAX, 0);
    for text in &args.runs {
        let (called, run) = found(text, store)?;
        let record = store.load(run)?.ok_or_else(|| unknown_run(run, store.path()))?;
        let host = record.first().map(|m| m.host.hostname.clone());
        let node = called.map(str::to_owned).or(host).or_input(
            format_args!("run {run} has no measurement, so its host name is unknown"),
            format_args!("omit it, or name its machine: NAME={text}"),
        )?;
        if let Some(other) = nodes.iter().find(|n| n.node == node) {
            return Err(Error::input(
                format!("runs {} and {run} are both of {node}", other.run.unwrap_or(0)),
                format!("omit one of them, or give each machine its own name: NAME={text}"),
            ));
        }
        let outline = first.get_or_insert_with(|| RunRecord { cells: Vec::new(), ..record.clone() });
        if outline.experiment != record.experiment {
            return Err(Error::input(
                format!("run {} is of {}, but run {run} is of {}", outline.run, outline.experiment, record.experiment),
                "specify runs of the same experiment (see `iotrail list`)",
            ));
        }
        started = started.min(record.started_unix_s);
        finished = finished.max(record.finished_unix_s.unwrap_or(record.started_unix_s));
        nodes.push(FleetNode { node, state: state(&record), run: Some(run), said: None });
    }
    let experiment = first.map(|r| r.experiment).unwrap_or_default();
    if nodes.len() < 2 {
        return Err(Error::input(
            format!("a fleet needs at least two machines, but only {} is specified", plural(nodes.len(), "machine")),
            "specify a run of each machine, or their stores",
        ));
    }
    let mut record = FleetRecord {
        schema: fleet_record::SCHEMA.into(),
        fleet: 0,
        name: args.name.clone(),
        experiment,
        plan: "{}".into(),
        command: None,
        started_unix_s: started,
        finished_unix_s: Some(finished),
        nodes,
    };
    record.fleet = store.begin_fleet(&record)?;
    Ok(record)
}

fn state(record: &RunRecord) -> NodeState {
    match (record.done(), record.planned()) {
        (0, 0) => NodeState::CannotTest,
        (done, planned) if done < planned => NodeState::Partial,
        _ => NodeState::Done,
    }
}

/// The run specified by `text`, and its machine's name.
fn found<'t>(text: &'t str, store: &mut Store) -> Result<(Option<&'t str>, i64)> {
    let is_there = |path: &str| Path::new(path).exists();
    let (called, run) = match text.split_once('=') {
        Some((name, run)) if !name.is_empty() && !is_there(text) => (Some(name), run),
        _ => (None, text),
    };
    if let Ok(number) = run.parse::<i64>() {
        return Ok((called, number));
    }
    let (path, number) = match run.rsplit_once(':') {
        Some((path, number)) if !is_there(run) => {
            let wrong = |_| Error::input(format!("'{number}' is not a run number"), "write PATH:12");
            (Path::new(path), Some(number.parse().map_err(wrong)?))
        }
        _ => (Path::new(run), None),
    };
    let other = Store::open(path)?.or_input(
        format_args!("{} is neither a run nor a store", path.display()),
        "specify a stored run's number (`iotrail list`), or the path of another machine's store",
    )?;
    let theirs = match number {
        Some(number) => number,
        None => other.last()?.or_input(format_args!("{} contains no run", path.display()), "omit it")?,
    };
    drop(other);
    let here = store.take_in_run(path, theirs)?.ok_or_else(|| unknown_run(theirs, path))?;
    Ok((called, here))
}
