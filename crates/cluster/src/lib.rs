//! `--slurm`: runs the same plan on cluster nodes, in one exclusive job each; their runs return as a fleet.
//!
//! | file | responsible for |
//! |---|---|
//! | `submitting` | submits the jobs: all or none |
//! | `submitted` | the submitted jobs, kept until all results have returned |
//! | `node` | one node, from the queue to its end |
//! | `second` | the server's node, in a job of two |
//! | `follow` | all nodes, once per second; Ctrl-C |
//! | `carry` | results over srun's streams |
//! | `shown` | lines and bars |
//! | `collect` | stores the results |
//! | `on_node` | the other end: `iotrail slurm-node` |

mod carry;
mod collect;
mod follow;
mod node;
pub mod on_node;
mod second;
mod shown;
mod submitted;
mod submitting;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ArgGroup;

use follow::Patience;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::interrupt;
use iotrail_base::units::Span;
use iotrail_base::words::plural;
use iotrail_experiment::plan::absolute;
use iotrail_host::clock;
use iotrail_report::terminal;
use iotrail_schema::fleet_record::{FleetNode, FleetRecord, NodeState, SCHEMA};
use iotrail_slurm::nodes::{self, Wanted};
use iotrail_slurm::refused::{self, Refused};
use iotrail_slurm::words;
use iotrail_store::{Store, default_path};

pub use collect::Collected;
use submitted::{Submitted, Watching};
use submitting::SubmitOptions;

/// The job to submit, and how it is monitored.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "With --slurm", group(ArgGroup::new("cluster").args(["slurm", "attach"])))]
pub struct Fleet {
    /// Run the same plan on nodes of a Slurm cluster, with one exclusive job per node; store their runs as one fleet
    #[arg(long)]
    pub slurm: bool,

    /// Run on these nodes, in Slurm notation: n[1-4],m7
    #[arg(long, value_name = "LIST", requires = "slurm")]
    nodes: Option<String>,

    /// Pass these options to sbatch: '--partition=x --time=2:00:00'
    #[arg(long, value_name = "OPTIONS", requires = "slurm", value_parser = sbatch, allow_hyphen_values = true)]
    sbatch: Option<Words>,

    /// Write results to this directory, which all nodes share at the same path (default: return them over srun's streams)
    #[arg(long, value_name = "DIR", requires = "slurm")]
    shared: Option<PathBuf>,

    /// Copy this iotrail binary to the nodes (default: use the one installed there)
    #[arg(long, requires = "slurm")]
    ship: bool,

    /// Submit the job, print its ID, and exit
    #[arg(long, requires = "slurm")]
    detach: bool,

    /// Collect the measurements so far of a lost node if it does not return within this time (default: 5m). With --attach, also give up on a
    /// node that has measured but is unreachable (default: leave it for a later --attach)
    #[arg(long, value_name = "TIME", requires = "cluster")]
    lost_after: Option<Span>,

    /// Wait for a job submitted with --slurm, and collect its results
    #[arg(long, value_name = "JOB")]
    pub attach: Option<u64>,
}

/// Nodes that the user does not name.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "With --slurm")]
pub struct Chosen {
    /// Run on N nodes that Slurm chooses
    #[arg(long, value_name = "N", requires = "slurm", conflicts_with = "nodes", value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: Option<u32>,

    /// Choose only nodes with these features (sbatch --constraint)
    #[arg(long, value_name = "FEATURES", requires = "count")]
    constraint: Option<String>,
}

impl Chosen {
    pub fn or_named(&self, fleet: &Fleet) -> Result<Wanted> {
        let count = self.count.map(|count| Wanted::Count { count, constraint: self.constraint.clone() });
        fleet.named().or(count).or_input(
            "--slurm does not specify any nodes",
            "specify nodes (--nodes LIST) or a number of nodes (--count N)",
        )
    }
}

impl Fleet {
    /// The nodes specified by name.
    fn named(&self) -> Option<Wanted> {
        self.nodes.clone().map(Wanted::Named)
    }

    /// One node for the server and one for the sender.
    pub fn two(&self, constraint: Option<String>) -> Wanted {
        self.named().unwrap_or(Wanted::Count { count: 2, constraint })
    }
}

/// Options combined into a single string.
#[derive(Debug, Clone)]
struct Words(Vec<String>);

fn sbatch(text: &str) -> std::result::Result<Words, String> {
    words::split(text).map(Words)
}

/// The iotrail command that runs on the nodes and stores a run.
pub struct Work<'a> {
    /// Name of the command, such as `run`.
    pub command: &'a str,
    pub experiment: &'a str,
    /// The experiment's text, for `iotrail run` on a node; `None` for other commands.
    pub text: Option<&'a str>,
    /// Options for `iotrail run` on the node, without experiment and store; or the arguments of another command.
    pub options: Vec<String>,
    /// The part of the plan that is the same on all nodes.
    pub plan: serde_json::Value,
    /// The command line that repeats it.
    pub again: String,
    /// Working directory of a user's program.
    pub within: Option<PathBuf>,
    /// The requested nodes.
    pub wanted: Wanted,
    /// Set if the server runs on a separate node.
    pub served: Option<Served>,
}

/// The server's node.
pub struct Served {
    /// The server's address for other nodes, if it differs from Slurm's.
    pub address: Option<String>,
}

/// Working directory for a user's program, on this machine.
pub fn here() -> Result<PathBuf> {
    std::env::current_dir()
        .or_input("the working directory no longer exists", "change to a directory that exists on the nodes")
}

/// The command line, including a random seed.
pub fn again(seed: u32) -> String {
    let given: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let is_seed = |word: &String| word == "--seed" || word.starts_with("--seed=");
    let mut words = given.clone();
    if !given.iter().take_while(|word| *word != "--").any(is_seed) {
        let end = given.iter().position(|word| word == "--").unwrap_or(given.len());
        words.insert(end, format!("--seed={seed}"));
    }
    let words: Vec<String> = words.iter().map(|word| words::quoted(word)).collect();
    format!("iotrail {}", words.join(" "))
}

/// `named`: the store specified on the command line. Fails if no node has measured anything; `None` with `--detach`.
pub fn run(fleet: &Fleet, work: &Work<'_>, named: Option<&Path>) -> Result<Option<Collected>> {
    let path = named.map_or_else(default_path, |path| Ok(path.to_owned()))?;
    if fleet.ship && fleet.detach && fleet.shared.is_none() {
        return Err(Error::input(
            "--ship cannot be combined with --detach: no process would copy iotrail to a node whose job starts later",
            "put iotrail where the nodes can find it (--shared DIR), or omit one of the two options",
        ));
    }
    let more = fleet.sbatch.as_ref().map_or(&[][..], |words| &words.0);
    if let Some(Refused { option, why, instead }) = refused::first(more) {
        return Err(Error::input(format!("--sbatch cannot contain {option}: {why}"), instead));
    }
    let shared = fleet.shared.as_deref().map(absolute).transpose()?;
    if let Some(dir) = shared.as_ref().filter(|dir| !dir.is_dir()) {
        return Err(Error::input(
            format!("--shared {} is not a directory", dir.display()),
            "specify a directory that all nodes share",
        ));
    }
    let (nodes, left_out, second) = match &work.served {
        None => usable(&work.wanted, more).map(|(can, cannot)| (can, cannot, None))?,
        Some(served) => {
            second::of_two(&work.wanted, served, more).map(|(one, second)| (vec![one], vec![], Some(second)))?
        }
    };
    // From here on, Ctrl-C leaves no job behind.
    let stop = interrupt::raise_flag()?;
    let mut store = Store::create_or_open(&path)?;
    let called = |n: &String| second.as_ref().map_or_else(|| n.clone(), |second| second.called(n));
    let waiting = |n: &String| FleetNode { node: called(n), state: NodeState::Waiting, run: None, said: None };
    let record = FleetRecord {
        schema: SCHEMA.into(),
        fleet: 0,
        name: String::new(),
        experiment: work.experiment.to_owned(),
        plan: work.plan.to_string(),
        command: Some(work.again.clone()),
        started_unix_s: clock::unix_s(),
        finished_unix_s: None,
        nodes: nodes.iter().map(waiting).chain(left_out).collect(),
    };
    let given = SubmitOptions {
        work,
        nodes: &nodes,
        second: second.as_ref(),
        more,
        shared: shared.as_deref(),
        ship: fleet.ship,
    };
    let submitted = match given.submit(record, &mut store, stop) {
        Ok(submitted) => submitted,
        Err(e) => {
            store.abandon();
            return Err(e);
        }
    };
    terminal::say(&format!(
        "job {} on {}, as fleet f{}; if this ends: {}",
        submitted.job,
        second.as_ref().map_or_else(|| plural(nodes.len(), "node"), |second| second.roles(&nodes[0])),
        submitted.fleet,
        submitted.attach(named)
    ));
    let watching = submitted::watch(store.path(), submitted.job)?;
    if fleet.detach {
        terminal::print(&format!("{}\n", submitted.job))?;
        return Ok(None);
    }
    watch(fleet, (submitted, watching), (store, named), stop).map(Some)
}

/// Attaches to an earlier job, wherever its results are.
pub fn attach(fleet: &Fleet, job: u64, named: Option<&Path>) -> Result<Collected> {
    let path = named.map_or_else(default_path, |path| Ok(path.to_owned()))?;
    let none = || {
        Error::input(
            format!("no --slurm job {job} is waiting to be collected into {}", path.display()),
            "specify the --store with which it was submitted; `iotrail list` shows collected fleets",
        )
    };
    let watching = submitted::watch(&path, job)?;
    let submitted = Submitted::read(&path, job)?.ok_or_else(none)?;
    let store = Store::open(&path)?.ok_or_else(none)?;
    watch(fleet, (submitted, watching), (store, named), interrupt::raise_flag()?)
}

/// Default time for which a lost node may be absent.
const LOST_AFTER: Duration = Duration::from_secs(300);

fn watch(
    fleet: &Fleet,
    (submitted, _watching): (Submitted, Watching),
    (mut store, named): (Store, Option<&Path>),
    stop: &AtomicBool,
) -> Result<Collected> {
    let given = fleet.lost_after.map(|span| span.0);
    let patience =
        Patience { lost_after: given.unwrap_or(LOST_AFTER), give_up: given.filter(|_| fleet.attach.is_some()) };
    let attach = submitted.attach(named);
    let nodes = follow::follow(&submitted, store.path(), patience, &attach, stop)?;
    let collected = collect::collect(&submitted, &nodes, &mut store, attach);
    if collected.is_err() {
        store.abandon();
    }
    collected
}

/// If the store was not specified with --store, its remedy does not apply.
fn without_advice(e: &Error) -> String {
    e.source.as_ref().map_or_else(|| e.what.clone(), |cause| format!("{}: {cause}", e.what))
}

/// The requested nodes that are usable, and the unusable ones with the reason.
fn usable(wanted: &Wanted, more: &[String]) -> Result<(Vec<String>, Vec<FleetNode>)> {
    let names = nodes::resolve(wanted, more)?;
    let all = nodes::all().map_err(|f| f.error("cannot read the nodes"))?;
    let (mut can, mut cannot) = (Vec::new(), Vec::new());
    for name in names {
        let node = all.get(&name).or_input(format_args!("Slurm has no node {name}"), "`sinfo -N` lists the nodes")?;
        match node.unusable() {
            None => can.push(name),
            Some(why) => {
                terminal::say(&format!("{name}: skipped: Slurm reports it as {why}"));
                let said = Some(format!("Slurm reports it as {why}"));
                cannot.push(FleetNode { node: name, state: NodeState::Lost, run: None, said });
            }
        }
    }
    if can.is_empty() {
        return Err(Error::machine("none of the nodes is available now", "`sinfo -N -l` shows why"));
    }
    Ok((can, cannot))
}
