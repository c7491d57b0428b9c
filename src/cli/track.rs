//! `iotrail track`: shows the stored runs of one experiment over time: when a metric changed level, and which facts
//! changed at the same time.
//!
//! Exit status: 0 evaluated, with any result; 1 if `--fail-on` matches; 4 if a series has too few runs to decide, or if
//! other work disturbed all runs of one level.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::compare::unknown_metric;
use super::given::Stored;
use super::page_file;
use iotrail_answer::compare::{Metric, metrics};
use iotrail_answer::history::{Change, FEWEST, Gathered, History};
use iotrail_answer::table::PROGRAM;
use iotrail_base::error::{Error, NOT_EVALUATED, Result};
use iotrail_base::words::plural;
use iotrail_report::{html, terminal};
use iotrail_store::{RunSummary, Store};

#[derive(Debug, Clone, Args)]
#[command(after_help = "Each run is one point: the mean of its repeats. A change needs at least three runs\n\
                        before it and three after it.")]
pub struct TrackArgs {
    /// Experiment whose stored runs are checked, as named by `iotrail list`
    pub experiment: String,

    /// Check this metric; may be repeated (default: the compared metrics of the experiment)
    #[arg(long, value_name = "M", value_delimiter = ',')]
    pub metric: Vec<String>,

    /// Check only cells with these parameters: arm=coop,depth=16
    #[arg(long, value_name = "PARAM=VALUE", value_delimiter = ',', value_parser = parameter)]
    pub at: Vec<(String, String)>,

    /// Start at this run
    #[arg(long, value_name = "RUN")]
    pub from: Option<i64>,

    /// Ignore changes smaller than this: 0.01 or 1%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = super::compare::share)]
    pub at_least: f64,

    /// Exit 1 if the latest change in any metric matches, 4 if any series has too few undisturbed runs
    #[arg(long, value_enum, value_name = "CHANGE")]
    pub fail_on: Option<FailOn>,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// Write one self-contained HTML page (default: print on the terminal)
    #[arg(short, long, value_name = "PAGE.html", conflicts_with_all = ["json", "full"])]
    pub output: Option<PathBuf>,

    /// Overwrite an existing file that is not an iotrail report
    #[arg(long, requires = "output")]
    pub force: bool,

    /// Print every change in every metric, not only the latest
    #[arg(long, conflicts_with = "json")]
    pub full: bool,

    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    Slower,
    Faster,
    /// Slower or faster
    Difference,
}

impl FailOn {
    fn is_met(self, change: &Change) -> bool {
        match self {
            FailOn::Slower => change.is_worse,
            FailOn::Faster => !change.is_worse,
            FailOn::Difference => true,
        }
    }
}

fn parameter(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("use PARAMETER=VALUE, for example depth=16")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub fn run(args: &TrackArgs) -> Result<u8> {
    let output = args.output.as_deref().map(|path| page_file::reserve(path, args.force)).transpose()?;
    let store = Stored::new(args.store.as_deref()).all()?;
    let history = history(args, &store)?;
    match output {
        Some(output) => page_file::write(output, &html::history(&history)?)?,
        None if args.json => terminal::print_json(&history)?,
        None => terminal::show(&terminal::history(&history, args.full))?,
    }
    Ok(args.fail_on.map_or(0, |asked| gate(asked, &history)))
}

fn history(args: &TrackArgs, store: &Store) -> Result<History> {
    let list = store.list()?;
    let is_asked = |r: &&RunSummary| r.experiment == args.experiment && args.from.is_none_or(|from| r.run >= from);
    let mut gathered = Gathered::default();
    for summary in list.iter().filter(is_asked) {
        // One at a time, so that any history takes the memory of a single run.
        if let Some(run) = store.load(summary.run)? {
            let of_program = run.table == PROGRAM;
            // Registers the program's own metrics.
            metrics(&run);
            let named = args.metric.iter().map(|name| Metric::named(name, of_program));
            let asked = named.collect::<std::result::Result<Vec<_>, _>>().map_err(unknown_metric)?;
            gathered.add(&run, &summary.started, &asked, &args.at);
        }
    }
    let history = gathered.history(&args.experiment, args.at_least);
    if !history.series.is_empty() {
        return Ok(history);
    }
    let mut names: Vec<&str> = list.iter().map(|r| r.experiment.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if !names.contains(&args.experiment.as_str()) {
        let what = format!("no run of {} is stored in {}", args.experiment, store.path().display());
        let remedy = match names.is_empty() {
            true => format!("measure some: iotrail run {}", args.experiment),
            false => format!("the stored runs are of {}", names.join(", ")),
        };
        return Err(Error::input(what, remedy));
    }
    Err(Error::input(
        format!("no measurement of a stored run of {} matches --metric, --at and --from", args.experiment),
        "omit one of them: `iotrail report RUN --full` shows a run's cells",
    ))
}

fn gate(asked: FailOn, history: &History) -> u8 {
    let latest = history.series.iter().flat_map(|s| &s.changes).filter(|c| c.is_latest);
    let (undecided, met): (Vec<_>, Vec<_>) = latest.filter(|c| asked.is_met(c)).partition(|c| c.is_undecided());
    if !met.is_empty() {
        return 1;
    }
    if let Some(c) = undecided.first() {
        let (when, of) =
            if c.disturbed_since == c.runs_since { ("since", c.runs_since) } else { ("before", c.runs_before) };
        terminal::say(&format!(
            "iotrail: cannot gate on the change in run {}: other work disturbed all of the {} {when}; run the experiment again on a quiet \
             machine",
            c.run,
            plural(of, "run")
        ));
        return NOT_EVALUATED;
    }
    let why = match history.too_few() {
        Some(short) => format!("{short}; run the experiment again, or omit these with --metric, --at or --from"),
        None if history.longest() >= FEWEST => return 0,
        None => format!(
            "{} stored, and at least {FEWEST} are needed; run the experiment again",
            plural(history.longest(), "run")
        ),
    };
    terminal::say(&format!("iotrail: cannot gate on a change: {why}"));
    NOT_EVALUATED
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::run_record::RunRecord;
    use iotrail_testing::sample::measurement;

    #[test]
    fn a_gate_is_not_evaluated_if_one_series_has_too_few_runs() {
        let history = |hosts: &[(&str, i64)]| {
            let mut all = Gathered::default();
            for (host, run) in hosts.iter().flat_map(|(host, n)| (0..*n).map(move |run| (host, run))) {
                let mut m = measurement();
                m.host.hostname = (*host).into();
                m.iops = Some(1000.0 + (run % 3) as f64);
                all.add(&RunRecord::of_measurements(vec![m]), "", &[Metric::Iops], &[]);
            }
            all.history("e", 0.01)
        };
        let status = |hosts: &[(&str, i64)]| gate(FailOn::Difference, &history(hosts));
        assert_eq!(status(&[("a", 7), ("b", 7)]), 0);
        assert_eq!(status(&[("a", 7), ("b", 4)]), NOT_EVALUATED);
        assert_eq!(status(&[("a", 4)]), NOT_EVALUATED);
    }
}
