//! Options of a program's run: its command, changes to its rings, and its CPUs. They appear under `[load]` in an
//! experiment file, and on the command line of `iotrail try`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::figure::{OwnMetric, guessed};
use super::ready::Ready;
use super::replayed::Replayed;
use iotrail_base::units::Span;
use iotrail_supervise::change::Change;

/// Time without progress before a run is killed.
const STALL: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    program: Argv,
    #[serde(default = "as_is")]
    ring: String,
    sq_idle: Option<u32>,
    sq_cpu: Option<u32>,
    cq_entries: Option<u32>,
    cpus: Option<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    metric: Vec<String>,
    metric_file: Option<PathBuf>,
    check: Option<String>,
    prepare: Option<String>,
    cleanup: Option<String>,
    stall: Option<Span>,
    #[serde(default)]
    watch: Watched,
    server: Option<Argv>,
    ready: Option<String>,
    #[serde(default)]
    leave_running: bool,
    #[serde(default = "yes")]
    supervised: bool,
    replay: Option<PathBuf>,
    engine: Option<String>,
    register: Option<String>,
    batch: Option<u32>,
    depth: Option<u32>,
    speed: Option<String>,
    #[serde(default)]
    map: Vec<String>,
    requests: Option<u64>,
}

fn yes() -> bool {
    true
}

/// The runs that are traced; their times include the cost of the probes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Watched {
    /// One untimed run per arm, before the others: it shows the delivery paths.
    #[default]
    OnePerArm,
    All,
    None,
}

fn as_is() -> String {
    iotrail_supervise::change::AS_IS.into()
}

/// A command, as arguments or as a shell command line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Argv {
    Words(Vec<String>),
    Line(String),
}

impl Argv {
    fn words(self) -> Vec<String> {
        match self {
            Argv::Words(words) => words,
            Argv::Line(line) => vec!["/bin/sh".into(), "-c".into(), line],
        }
    }
}

impl Default for Argv {
    fn default() -> Self {
        Argv::Words(Vec::new())
    }
}

/// The arguments of execve.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramOptions {
    pub argv: Vec<String>,
    pub change: Change,
    /// CPUs of the program and its children; `None` for all.
    pub cpus: Option<String>,
    pub env: Vec<(String, String)>,
    pub metrics: Vec<OwnMetric>,
    /// A file to which the program writes its metrics; `None` if its output contains them.
    pub metric_file: Option<PathBuf>,
    /// Shell commands: a check of the results; before each run; after each run.
    pub check: Option<String>,
    pub prepare: Option<String>,
    pub cleanup: Option<String>,
    pub stall: Duration,
    pub watch: Watched,
    /// The server of which the program is the client. Changes and counts then apply to the server.
    pub server: Option<Server>,
    /// If iotrail is stopped or killed, the program continues to run with its existing rings.
    pub leave_running: bool,
    /// A supervisor handles its ring set-ups. Without it, nothing is changed and no ring is observed, which is used to
    /// measure the supervisor's overhead.
    pub supervised: bool,
    /// The flags of its rings, if known and unchanged, so that no supervisor is needed.
    pub known_flags: Option<Vec<String>>,
    /// The block's seed.
    pub seed: Option<u32>,
    /// The recording, if the program is a replay.
    pub replayed: Replayed,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub argv: Vec<String>,
    pub ready: Ready,
}

impl ProgramOptions {
    /// The command that runs with the arm's settings.
    pub fn subject(&self) -> &[String] {
        self.server.as_ref().map_or(&self.argv, |server| &server.argv)
    }

    /// The guessed directions of its metrics, if any.
    pub fn directions(&self) -> Option<String> {
        guessed(&self.metrics)
    }
}

/// The names of the options.
pub const NAMES: [&str; 26] = [
    "program",
    "ring",
    "sq-idle",
    "sq-cpu",
    "cq-entries",
    "cpus",
    "env",
    "metric",
    "metric-file",
    "check",
    "prepare",
    "cleanup",
    "stall",
    "watch",
    "server",
    "ready",
    "leave-running",
    "supervised",
    "replay",
    "engine",
    "register",
    "batch",
    "depth",
    "speed",
    "map",
    "requests",
];

/// IORING_MAX_CQ_ENTRIES of the kernel.
const CQ_ENTRIES_MAX: u32 = 65536;

/// Parses a table of options.
pub fn from_table(table: toml::Table) -> Result<ProgramOptions, String> {
    let raw = Raw::deserialize(toml::Value::Table(table)).map_err(|e| e.message().to_owned())?;
    let mut change: Change = raw.ring.parse()?;
    (change.sq_idle_ms, change.sq_cpu, change.cq_entries) = (raw.sq_idle, raw.sq_cpu, raw.cq_entries);
    if raw.cq_entries.is_some_and(|n| !(1..=CQ_ENTRIES_MAX).contains(&n)) {
        return Err(format!("the kernel allows completion queues of 1 to {CQ_ENTRIES_MAX} entries"));
    }
    let variable = |text: String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is not NAME=VALUE")),
    };
    let metrics = raw.metric.iter().map(|m| m.parse()).collect::<Result<Vec<OwnMetric>, String>>()?;
    for (i, metric) in metrics.iter().enumerate() {
        if metrics[..i].iter().any(|m| m.name == metric.name) {
            return Err(format!("two metrics are named {}", metric.name));
        }
        if metric.name.parse::<iotrail_answer::compare::Metric>().is_ok_and(|m| !is_own(m)) {
            return Err(format!("{} is a metric of iotrail: choose another name", metric.name));
        }
    }
    let ready = raw.ready.as_deref().map(str::parse::<Ready>).transpose()?;
    let server = match (raw.server, ready) {
        (Some(argv), Some(ready)) => Some(Server { argv: argv.words(), ready }),
        // Each command is also validated at its own position.
        (Some(argv), None) => Some(Server { argv: argv.words(), ready: Ready::Port(0) }),
        (None, _) => None,
    };
    if !raw.supervised && !change.is_none() {
        return Err("ring flags cannot be changed without the supervisor".into());
    }
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    let options = [
        ("engine", raw.engine),
        ("register", raw.register),
        ("batch", number(raw.batch.map(u64::from))),
        ("depth", number(raw.depth.map(u64::from))),
        ("speed", raw.speed),
        ("requests", number(raw.requests)),
    ];
    let options = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let options = options.chain(raw.map.into_iter().map(|pair| ("map", pair))).collect();
    let replayed = Replayed::new(raw.replay, options)?;
    let argv = match (replayed.argv(), raw.program.words()) {
        (Some(_), program) if !program.is_empty() => return Err("'program' and 'replay' cannot be combined".into()),
        (Some(replay), _) => replay,
        (None, program) => program,
    };
    Ok(ProgramOptions {
        argv,
        change,
        cpus: raw.cpus,
        env: raw.env.into_iter().map(variable).collect::<Result<_, _>>()?,
        metrics,
        metric_file: raw.metric_file,
        check: raw.check,
        prepare: raw.prepare,
        cleanup: raw.cleanup,
        stall: raw.stall.map_or(STALL, |Span(stall)| stall),
        watch: raw.watch,
        server,
        leave_running: raw.leave_running,
        supervised: raw.supervised,
        known_flags: None,
        seed: None,
        replayed,
    })
}

fn is_own(metric: iotrail_answer::compare::Metric) -> bool {
    matches!(metric, iotrail_answer::compare::Metric::Own(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<ProgramOptions, String> {
        from_table(toml::from_str(text).unwrap())
    }

    #[test]
    fn a_program_is_an_argument_list_or_a_shell_command() {
        assert_eq!(of("program = ['fio', 'job']").unwrap().argv, ["fio", "job"]);
        assert_eq!(of("program = 'fio job | tail'").unwrap().argv, ["/bin/sh", "-c", "fio job | tail"]);
    }

    #[test]
    fn contradictory_options_are_rejected() {
        let said = |text: &str| of(text).unwrap_err();
        assert_eq!(said("env = ['A']"), "'A' is not NAME=VALUE");
        assert_eq!(said("metric = ['a=/(x)/', 'a=/(y)/']"), "two metrics are named a");
        assert_eq!(said("metric = ['iops=/(x)/']"), "iops is a metric of iotrail: choose another name");
        for entries in [0, 65537] {
            let limit = "the kernel allows completion queues of 1 to 65536 entries";
            assert_eq!(said(&format!("ring = 'coop_taskrun'\ncq-entries = {entries}")), limit);
        }
        assert!(said("ring = 'coop'").starts_with("unknown setup flag 'coop'"));
        assert!(said("rings = 'coop'").starts_with("unknown field `rings`"));
        let all = of("ring = 'sqpoll'\nsq-idle = 20\ncpus = '1'\nenv = ['A=b=c']\nstall = '2s'").unwrap();
        assert_eq!((all.change.to_string().as_str(), all.cpus.as_deref()), ("sqpoll,sq-idle=20", Some("1")));
        assert_eq!((all.env, all.stall), (vec![("A".into(), "b=c".into())], Duration::from_secs(2)));
    }

    #[test]
    fn unknown_option_errors_list_all_option_names() {
        let unknown = of("nothing = 1").unwrap_err();
        assert!(NAMES.iter().all(|name| unknown.contains(&format!("`{name}`"))), "{unknown}");
        assert_eq!(unknown.matches('`').count(), 2 * (NAMES.len() + 1), "{unknown}");
    }
}
