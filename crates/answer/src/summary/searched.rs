//! Shared by the heads of a search and of its confirmation: the objectives, the search method, the adoption effort.

use super::change::{called, range};
use super::effect::{Effect, of_arm};
use super::served;
use crate::compare::{Metric, metrics};
use crate::search;
use crate::unit::Unit;
use iotrail_base::words::{bytes, list, plural};
use iotrail_schema::comparison::Verdict;
use iotrail_schema::measurement::Rw;
use iotrail_schema::run_record::{CellRecord, RunRecord};
use iotrail_schema::search_record::{Constraint, Ended, SearchOutcome, SearchRecord};

/// Maximum candidates named besides the recommended one.
pub(super) const BESIDE: usize = 4;

/// A run's objectives with their names.
pub(super) struct Searched<'r> {
    pub(super) search: &'r SearchRecord,
    /// The objectives that this version knows.
    pub(super) metrics: Vec<Metric>,
    /// Wording in the middle of a sentence.
    pub(super) names: Vec<String>,
}

impl<'r> Searched<'r> {
    pub(super) fn of(run: &RunRecord, search: &'r SearchRecord) -> Self {
        // Registers the program's own metrics.
        metrics(run);
        let known: Vec<Metric> = search.objectives().filter_map(|name| name.parse().ok()).collect();
        let name = |name: &str| match name.parse() {
            Ok(metric) => called(metric, Unit::of_run(run)),
            Err(_) => name.to_owned(),
        };
        Self { search, metrics: known, names: search.objectives().map(name).collect() }
    }
}

/// Metrics that the arm worsens, except these.
pub(super) fn price(run: &RunRecord, arm: &str, but: &[Metric]) -> String {
    let unit = Unit::of_run(run);
    let worse = metrics(run).into_iter().filter(|m| !but.contains(m)).filter_map(|metric| {
        let effects = of_arm(run, metric, arm);
        let worse = effects.iter().find(|e| e.c.verdict == Verdict::Slower)?;
        Some(range(metric, unit, &[worse], true))
    });
    let worse: Vec<String> = worse.collect();
    if worse.is_empty() { String::new() } else { format!(", at the cost of {}", list(&worse)) }
}

/// Describes a program by its command, and a load by its options.
pub(super) fn of_what(run: &RunRecord) -> Option<String> {
    let m = run.first()?;
    if let Some(program) = &m.program {
        return Some(format!("as-is: {}", program.argv.join(" ")));
    }
    if let Some(net) = &m.net {
        return Some(format!("as-is: {}", served::words(net)));
    }
    let l = &m.load;
    let mut words = vec![format!("{} {}", l.engine, l.rw)];
    if l.rw != Rw::Nop {
        words[0] += &format!(" of {}, {}", bytes(l.bs), if l.direct { "direct" } else { "cached" });
    }
    words.extend([format!("depth {}", l.depth), format!("wait {}", l.wait)]);
    words.extend(l.cpus_requested.as_ref().map(|cpus| format!("cpus {cpus}")));
    words.extend(l.file.clone());
    Some(format!("as-is: {}", words.join(", ")))
}

/// `searched 16 candidates with 96 measurements (run 7; …); undecided against c1, the leader: …`. `gain`: the most that
/// the other candidates can gain over the current configuration, if that is the reason to keep it.
pub(super) fn how_found(
    found: &SearchOutcome,
    others: &[String],
    search: &SearchRecord,
    gain: Option<String>,
) -> String {
    let ended = match found.ended {
        Ended::OneLeft if found.set.is_empty() => "none remained",
        Ended::OneLeft => "one remained",
        Ended::Equivalent => "the remaining candidates are equivalent",
        Ended::Settled => "no remaining candidate beats another in both",
        Ended::Budget => "its time or block budget was exhausted",
        Ended::Stopped => "it was stopped",
    };
    let effort = |name: &String| {
        let effort = search.candidates.iter().find(|c| c.name == *name).map(|c| format!(" ({})", c.effort.words()));
        name.clone() + &effort.unwrap_or_default()
    };
    let are = match (found.ended, gain) {
        _ if search.second.is_some() => "also unbeaten".to_owned(),
        (_, Some(gain)) => gain,
        (Ended::Budget | Ended::Stopped, None) => format!("undecided against {}, the leader", found.leader),
        _ => "within 2 % of the best".to_owned(),
    };
    let is_other = |name: &&String| !are.starts_with("undecided") || **name != found.leader;
    let others: Vec<&String> = others.iter().filter(is_other).collect();
    let mut named: Vec<String> = others.iter().take(BESIDE).map(|name| effort(name)).collect();
    if others.len() > BESIDE {
        named.push(format!("{} more", others.len() - BESIDE));
    }
    let beside = if named.is_empty() { String::new() } else { format!("; {are}: {}", list(&named)) };
    format!(
        "searched {} with {} (run {}; {ended}){beside}",
        plural(found.compared as usize, "candidate"),
        plural(found.measurements as usize, "measurement"),
        found.run
    )
}

/// `15 of 18 candidates are undecided after 2 blocks`: only if most candidates are undecided.
pub(super) fn undecided(found: &SearchOutcome, of: usize) -> String {
    let are = if found.undecided == 1 { "is" } else { "are" };
    let blocks = plural(found.blocks as usize, "block");
    format!("{} of {} {are} undecided after {blocks}", found.undecided, plural(of, "candidate"))
}

/// The budget needed for a decision.
pub(super) fn search_longer(found: &SearchOutcome) -> String {
    match found.decides_s {
        Some(s) => {
            format!("search for longer: --budget {s:.0}s is enough if the spread of the measurements stays the same")
        }
        None if found.blocks < 2 => "search for longer: use a longer --budget; two blocks show how long a decision takes".into(),
        None => "use a longer --runtime (for a program, a longer run), or stop other work: the spread is too large for a search to decide".into(),
    }
}

/// Measurements without probes, which lack the reasons.
pub(super) fn unwatched(e: &Effect<'_>) -> bool {
    is_unwatched(e.b)
}

fn is_unwatched(cell: &CellRecord) -> bool {
    cell.params.get("trace").and_then(|v| v.as_str()) != Some("auto")
}

/// The constraint that this arm violates in the fresh blocks.
pub(super) fn breaks(run: &RunRecord, search: &SearchRecord, arm: &str) -> Option<String> {
    let cell = run.cells.iter().find(|c| c.arm() == arm && is_unwatched(c))?;
    search::breaks(search, cell, cell.measurements.len())
}

/// Constraints whose metric no measurement has.
pub(super) fn unchecked<'r>(run: &'r RunRecord, search: &'r SearchRecord) -> impl Iterator<Item = String> + 'r {
    let is_known = move |c: &Constraint| run.measurements().any(|m| search::figure(&c.metric, &m).is_some());
    let unknown = search.constraints.iter().filter(move |c| run.done() > 0 && !is_known(c));
    unknown.map(|c| format!("{} was not checked: no measurement has {}", c.text, c.metric))
}

/// `c1 keeps p99<2ms, which c0 breaks, in 12 fresh blocks`, for two arms; `None` if the current configuration meets all
/// constraints, or the other arm violates one too.
pub(super) fn keeps(run: &RunRecord, search: &SearchRecord, (base, arm): (&str, &str), fresh: &str) -> Option<String> {
    let text = breaks(run, search, base).filter(|_| breaks(run, search, arm).is_none())?;
    Some(format!("{arm} keeps {text}, which {base} breaks, {fresh}"))
}
