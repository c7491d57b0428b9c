//! `iotrail compare`: is B different from A, by how much, how sure.
//!
//! Exit status: 0 compared, whatever came out; 1 what `--fail-on` names; 2 and 3 as everywhere.

mod given;
mod matched;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use self::given::Given;
use self::matched::{Pair, matched};
use crate::answer::compare::{Metric, compare, differences};
use crate::cli::given::Stored;
use crate::comparison::{Comparison, Verdict};
use crate::error::Result;
use crate::report::terminal;

#[derive(Debug, Clone, Args)]
#[command(after_help = "A and B are each
  12                    a stored run; last: the last one
  12:arm=coop,depth=16  cells of it
  a.json,b.json         what `bench --json` or `run --json` printed, here or
                        elsewhere; with :arm=coop, cells of it

Metrics: iops, elapsed, latency_mean, latency_p50, latency_p99,
  latency_p99_9, latency_p99_99, cpu_per_io, kicks_per_io,
  mode_switches_per_io, syscalls_per_io")]
pub struct CompareArgs {
    /// The side that the other is compared with (see below)
    pub a: String,

    /// The side that is asked about: is it different from A?
    pub b: String,

    /// What they are compared on; may be repeated
    #[arg(long, value_name = "M", default_value = "iops", value_delimiter = ',')]
    pub metric: Vec<Metric>,

    /// Exit with 1 if a comparison says so
    #[arg(long, value_enum, value_name = "VERDICT", value_delimiter = ',')]
    pub fail_on: Vec<FailOn>,

    /// The store (default: $XDG_STATE_HOME/iotrail/iotrail.db, else ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    Slower,
    Faster,
    /// Slower or faster
    Difference,
    NotComparable,
}

impl FailOn {
    fn is_met(self, verdict: Verdict) -> bool {
        match self {
            FailOn::Slower => verdict == Verdict::Slower,
            FailOn::Faster => verdict == Verdict::Faster,
            FailOn::Difference => matches!(verdict, Verdict::Slower | Verdict::Faster),
            FailOn::NotComparable => verdict == Verdict::NotComparable,
        }
    }
}

pub fn run(args: &CompareArgs) -> Result<u8> {
    let mut stored = Stored::new(args.store.as_deref());
    let a = Given::read(&args.a, &mut stored, &args.metric)?;
    let b = Given::read(&args.b, &mut stored, &args.metric)?;
    let matched = matched(&a, &b)?;
    for left_over in &matched.left_over {
        terminal::say(&format!("warning: {left_over}"));
    }
    let pairs = || matched.pairs.iter();
    let all: Vec<Comparison> = args.metric.iter().flat_map(|m| pairs().map(|p| one(*m, &a, &b, p))).collect();
    match (&all[..], args.json) {
        // One comparison is one object; several are a list of such.
        ([one], true) => terminal::print_json(one)?,
        (several, true) => terminal::print_json(&several)?,
        (several, false) => terminal::show(&terminal::comparisons(several))?,
    }
    let met = |c: &Comparison| args.fail_on.iter().any(|f| f.is_met(c.verdict));
    Ok(u8::from(all.iter().any(met)))
}

fn one(metric: Metric, a: &Given, b: &Given, pair: &Pair<'_>) -> Comparison {
    let interleaved = a.is_of_one_run_with(b);
    let floors = [a.noise_floor(metric, pair.a), b.noise_floor(metric, pair.b)];
    let floor = floors.into_iter().flatten().reduce(f64::max);
    let (of_a, of_b) = (pair.a.side(&a.text), pair.b.side(&b.text));
    let mut c = compare(metric, &of_a, &of_b, interleaved, floor);
    c.at = pair.at.clone();
    if !interleaved {
        c.reasons.push("measured apart: what drifted between the two is in the ratio and not in the interval".into());
        c.reasons.extend(differences(&of_a, &of_b));
    }
    c
}
