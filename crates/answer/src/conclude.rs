//! Conclusions from a run's numbers, in a few sentences. All tables share them: comparisons of the arms, metrics,
//! delivery paths. Questions specific to a table have a file each. Every sentence follows from this run's medians and
//! comparisons, and untested aspects are reported as such.

mod commits;
mod cost;
mod delays;
mod figures;
#[cfg(test)]
mod made_cpu_runs;
#[cfg(test)]
mod made_net_runs;
#[cfg(test)]
mod made_runs;
mod mode_switches;
mod most;
mod order;
mod part;
mod placement;
mod punts;
mod shares;
mod tick;
mod timelines;
mod wakeups;

use self::part::Part;
use super::group::{groups, untestable};
use super::table::Table;
use super::verdicts::{caveat, row_by_row};
use iotrail_base::words::{list, plural};
use iotrail_schema::run_record::RunRecord;

/// The subject of the last conclusion.
const WHOLE_RUN: &str = "the whole run";

/// A sender thread that runs or waits for a CPU for this share of its time is the bottleneck.
const BOUND: f64 = 0.9;

/// Sentences about one group of cells, or about the full run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Conclusion {
    /// The group of cells: `cpus irq · wait peek`; empty if the run has one group.
    pub about: String,
    /// The sentences.
    pub sentences: Vec<String>,
}

/// All conclusions: first by group, then for the full run.
pub fn conclude(run: &RunRecord) -> Vec<Conclusion> {
    let rows = Table::of(run).rows(run);
    let of_group = |group| {
        let part = Part { run, rows, group };
        Conclusion { about: part.group.title.clone(), sentences: of_part(&part) }
    };
    let whole = Conclusion { about: WHOLE_RUN.into(), sentences: of_whole(run) };
    groups(run, rows).into_iter().map(of_group).chain([whole]).filter(|c| !c.sentences.is_empty()).collect()
}

/// Breakdown of the time of one commit, if the run measures commits.
pub fn of_a_commit(run: &RunRecord) -> Option<String> {
    (run.table == "commits" && !run.is_emulated()).then(|| commits::first(run)).flatten()
}

fn of_part(part: &Part<'_>) -> Vec<String> {
    // On an emulated machine times are meaningless.
    let timed = !part.run.is_emulated();
    let of_table = match part.run.table.as_str() {
        "cost" if timed => cost::least(part).into_iter().collect(),
        "commits" if timed => commits::parts(part).into_iter().collect(),
        "placement" => placement::conclude(part),
        "mode_switches" => mode_switches::between_rows(part).into_iter().collect(),
        "delays" => delays::thresholds(part),
        "timelines" => timelines::ways(part),
        "shares" if timed => shares::conclude(part),
        "wakeups" if timed => wakeups::conclude(part),
        "punts" if timed => punts::cost(part).into_iter().collect(),
        "order" => order::conclude(part),
        _ => Vec::new(),
    };
    let compared = row_by_row(part.run, part.rows, &part.group);
    [compared, most::of(part), tick::of(part), of_table, figures::of(part)].concat()
}

fn of_whole(run: &RunRecord) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(found) = &run.corruption {
        out.push(format!("{found}. The run stopped there; the earlier measurements are kept."));
    }
    if run.done() < run.planned() {
        out.push(format!(
            "{} of {} measurements are complete: the conclusions cover only these.",
            run.done(),
            run.planned()
        ));
    }
    for (reason, common, cells) in untestable(run) {
        let common = if common.is_empty() { String::new() } else { format!(" ({common})") };
        out.push(format!("Not testable here: {}{common}: {reason}.", plural(cells, "cell")));
    }
    out.extend(unwatched(run));
    out.extend(sender_bound(run));
    out.extend(caveat(run));
    out
}

/// Other doubts are reported by the measurements' own warnings (`doubt.rs`).
fn unwatched(run: &RunRecord) -> Option<String> {
    let (said, whose) = match run.measurements().filter(|m| m.probe.mode == "off").count() {
        0 => return None,
        1 => ("1 measurement was".into(), "its"),
        n => (format!("{n} measurements were"), "their"),
    };
    Some(format!("{said} not traced, so {whose} delivery paths are unknown."))
}

/// A saturated sender measures its own rate.
fn sender_bound(run: &RunRecord) -> Option<String> {
    let (mut bound, mut all, mut arms) = (0, 0, Vec::new());
    for (cell, m) in part::cells(run).flat_map(|c| c.measurements.each().map(move |m| (c, m))) {
        all += 1;
        if m.net.as_ref().and_then(|net| net.sender.busiest_thread).is_some_and(|share| share >= BOUND) {
            bound += 1;
            arms.extend((!arms.iter().any(|a| a == cell.arm())).then(|| cell.arm().to_owned()));
        }
    }
    (bound > 0).then(|| {
        format!(
            "In {bound} of {} the sender was at its limit ({}). There, the requests per second show the sender's limit, which is a lower bound for \
             the server; the server's CPU time per request is unaffected.",
            plural(all, "measurement"),
            list(&arms)
        )
    })
}

#[cfg(test)]
#[path = "conclude_tests.rs"]
mod tests;
