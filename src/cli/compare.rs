//! `iotrail compare`: whether B differs from A, by how much and with which confidence.
//!
//! Exit status: 0 compared, with any result; 1 if `--fail-on` matches; 4 if no evaluated comparison matches and another
//! could not be evaluated; 2 and 3 as for all commands.

mod fleets;
mod given;
mod matched;
mod traces;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use self::given::{Cell, Input};
use self::matched::{Matched, Pair, matched};
use crate::cli::given::Stored;
use crate::cli::stored_trace;
use iotrail_answer::compare::{Metric, differences, forbid, together, undecided};
use iotrail_answer::unit::Unit;
use iotrail_answer::verdicts;
use iotrail_base::error::{Error, NOT_EVALUATED, Result};
use iotrail_base::words::plural;
use iotrail_report::terminal;
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::fleet_record;
use iotrail_stats::bootstrap::FEWEST;

#[derive(Debug, Clone, Args)]
#[command(after_help = "A and B are each
  12                    a stored run; last: the most recent one
  12:arm=coop,depth=16  some of its cells
  a.json,b.json         output of `bench --json` or `run --json`, from here or
                        elsewhere; with :arm=coop, only those cells
  f3                    a fleet, compared with another one machine by machine
  t12                   a stored trace, or `trace --json` output, compared
                        with another trace: counts, shares of time, findings

Metrics: iops, elapsed, latency_mean, latency_p50, latency_p99,
  latency_p99_9, latency_p99_99, cpu_per_io, kicks_per_io,
  mode_switches_per_io, syscalls_per_io, cpu_time, cpus, and a program's own;
  short forms: p50, p99, p99.9, p99.99, mean, latency, cpu")]
pub struct CompareArgs {
    /// Baseline (see below)
    pub a: String,

    /// Side to compare with A
    pub b: String,

    /// Compare this metric; may be repeated (default: iops; for programs, the metrics of `try`)
    #[arg(long, value_name = "M", value_delimiter = ',')]
    pub metric: Vec<String>,

    /// Treat the sides as equivalent if they differ by at most this share: 0.05 or 5%
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub equivalent_within: f64,

    /// Exit 1 if any verdict matches, 4 if one cannot be evaluated
    #[arg(long, value_enum, value_name = "VERDICT", value_delimiter = ',')]
    pub fail_on: Vec<FailOn>,

    /// Use this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH")]
    pub store: Option<PathBuf>,

    /// Print the full table of comparisons, however long
    #[arg(long, conflicts_with = "json")]
    pub full: bool,

    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// Parses `5%` or `0.05`.
pub(super) fn share(text: &str) -> std::result::Result<f64, String> {
    let number = text.strip_suffix('%').map_or_else(|| text.parse(), |n| n.trim().parse().map(|n: f64| n / 100.0));
    match number {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("write a share between 0 and 1: 5% or 0.05".into()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    Slower,
    Faster,
    /// Slower or faster
    Difference,
    Inconclusive,
    NotComparable,
}

impl FailOn {
    fn is_met(self, verdict: Verdict) -> bool {
        match self {
            FailOn::Slower => verdict == Verdict::Slower,
            FailOn::Faster => verdict == Verdict::Faster,
            FailOn::Difference => matches!(verdict, Verdict::Slower | Verdict::Faster),
            FailOn::Inconclusive => verdict == Verdict::Inconclusive,
            FailOn::NotComparable => verdict == Verdict::NotComparable,
        }
    }

    /// Whether the condition cannot be met, or only by a ratio within the equivalence band.
    fn is_ruled_out(self, c: &Comparison) -> bool {
        if matches!(c.verdict, Verdict::Faster | Verdict::Slower | Verdict::Equivalent) {
            return !self.is_met(c.verdict);
        }
        // Without p there were too few measurements for any verdict, even with an interval.
        let known = c.ci95.filter(|_| c.p.is_some());
        let Some(([lo, hi], metric)) = known.zip(c.metric.parse::<Metric>().ok()) else {
            return matches!(self, FailOn::Inconclusive | FailOn::NotComparable);
        };
        let (not_lower, not_higher) = (lo >= 1.0 / (1.0 + c.equivalent_within), hi <= 1.0 + c.equivalent_within);
        let (not_slower, not_faster) =
            if metric.higher_is_better() { (not_lower, not_higher) } else { (not_higher, not_lower) };
        let comparable = c.verdict != Verdict::NotComparable;
        match self {
            FailOn::Slower => comparable && not_slower,
            FailOn::Faster => comparable && not_faster,
            FailOn::Difference => false,
            FailOn::Inconclusive | FailOn::NotComparable => true,
        }
    }
}

pub fn run(args: &CompareArgs) -> Result<u8> {
    if let (Some(a), Some(b)) = (fleet_record::number(&args.a), fleet_record::number(&args.b)) {
        return fleets::run(args, a, b);
    }
    let store = args.store.as_deref();
    if [&args.a, &args.b].iter().all(|side| stored_trace::names_one(side))
        && let (Some(a), Some(b)) = (stored_trace::named(&args.a, store)?, stored_trace::named(&args.b, store)?)
    {
        return traces::run(args, &a, &b);
    }
    let mut stored = Stored::new(store);
    let Sides { all, left_over, unit } = of_sides(&args.a, &args.b, &mut stored, &args.metric, args.equivalent_within)?;
    for left_over in &left_over {
        terminal::say(&format!("warning: {left_over}"));
    }
    match (&all[..], args.json) {
        // A single comparison is an object; several are a list.
        ([one], true) => terminal::print_json(one)?,
        (several, true) => terminal::print_json(&several)?,
        (several, false) => terminal::show(&terminal::comparisons(several, unit, args.full))?,
    }
    Ok(gate(&args.fail_on, &all))
}

/// The exit status of `--fail-on`: a comparison that matches decides; otherwise one that could not be evaluated.
pub(super) fn gate(fail_on: &[FailOn], all: &[Comparison]) -> u8 {
    gate_or(fail_on, all, &not_evaluated)
}

/// `open` makes the message about comparisons that could not be evaluated, from the condition, the first of them, their
/// number, and the total.
fn gate_or(fail_on: &[FailOn], all: &[Comparison], open: &dyn Fn(FailOn, &Comparison, usize, usize) -> String) -> u8 {
    if all.iter().any(|c| fail_on.iter().any(|f| f.is_met(c.verdict))) {
        return 1;
    }
    let of_evidence = |f: &&FailOn| !matches!(f, FailOn::Inconclusive | FailOn::NotComparable);
    let Some(asked) = fail_on.iter().find(of_evidence) else { return 0 };
    let mut left = all.iter().filter(|c| !fail_on.iter().all(|f| f.is_ruled_out(c)));
    let Some(first) = left.next() else { return 0 };
    terminal::say(&format!("iotrail: {}", open(*asked, first, 1 + left.count(), all.len())));
    NOT_EVALUATED
}

/// `cannot gate on slower in 2 of 6 comparisons: iops at depth 4`.
fn cannot(asked: FailOn, first: &Comparison, open: usize, all: usize) -> String {
    let name = asked.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
    let of = if all > 1 { format!(" in {open} of {all} comparisons") } else { String::new() };
    let at = verdicts::at_text(first);
    let at = if at.is_empty() { at } else { format!(" at {at}") };
    format!("cannot gate on {name}{of}: {}{at}", first.metric)
}

fn not_evaluated(asked: FailOn, first: &Comparison, open: usize, all: usize) -> String {
    let cannot = cannot(asked, first, open, all);
    let remedy = match first.pairs {
        _ if !first.paired && first.p.is_none() && first.ratio.is_some() => {
            "specify at least three runs per side (a1.json,a2.json,a3.json or 12,13,14), or measure both arms in one `iotrail run`"
        }
        _ if first.verdict == Verdict::Inconclusive => {
            return format!("{cannot}: inconclusive; {}", verdicts::what_would_show(first));
        }
        _ => "remove the named cause and measure again, or gate on another metric",
    };
    let few = format!("{} per side has no interval", plural(first.pairs, "measurement"));
    let reason = first.reasons.first().filter(|_| first.pairs >= FEWEST).map_or(few, String::clone);
    format!("{cannot}: {reason}; {remedy}")
}

/// Comparisons of two sides.
pub(super) struct Sides {
    /// By metric, then by cell.
    pub all: Vec<Comparison>,
    /// Cells without a counterpart, as text.
    pub left_over: Vec<String>,
    pub unit: Unit,
}

/// `names`: the metrics; if empty, those of both sides' program.
pub(super) fn of_sides(a: &str, b: &str, stored: &mut Stored, names: &[String], within: f64) -> Result<Sides> {
    let a = Input::read(a, stored, names)?;
    let b = Input::read(b, stored, names)?;
    let of_program = a.of_program();
    let is_of_program = of_program.is_some();
    let named = |name: &String| Metric::named(name, is_of_program);
    let metrics = match (names, of_program) {
        ([], Some(all)) => all,
        ([], None) => vec![Metric::Iops],
        (names, _) => names.iter().map(named).collect::<std::result::Result<_, _>>().map_err(unknown_metric)?,
    };
    let Matched { pairs, left_over } = matched(&a, &b)?;
    pairs.iter().try_for_each(|p| a.apart(&b, p.a, p.b))?;
    let mut all: Vec<Comparison> = metrics.iter().flat_map(|m| pairs.iter().map(|p| one(*m, &a, &b, p))).collect();
    together(&mut all, within);
    let first = pairs.first().and_then(|p| p.a.side(&a.text).repeats.first().map(|r| Unit::of(&r.measurement)));
    Ok(Sides { all, left_over, unit: first.unwrap_or(Unit::Io) })
}

pub(super) fn unknown_metric(why: String) -> Error {
    Error::input(why, "specify one of these with --metric")
}

fn one(metric: Metric, a: &Input, b: &Input, pair: &Pair<'_>) -> Comparison {
    let interleaved = a.is_of_one_run_with(b);
    let floors = [a.noise_floor(metric, pair.a), b.noise_floor(metric, pair.b)];
    let floor = floors.into_iter().flatten().reduce(f64::max);
    let (of_a, of_b) = (pair.a.side(&a.text), pair.b.side(&b.text));
    let mut c = undecided(metric, &of_a, &of_b, interleaved, floor);
    c.at = pair.at.clone();
    if !interleaved {
        c.reasons.extend(differences(&of_a, &of_b));
    }
    forbid(&mut c, [pair.a, pair.b].into_iter().flat_map(Cell::failures).cloned().collect());
    c
}
