//! What a run's numbers say, in a few sentences. They are the same for every table: how the arms compare, what its figures are, what
//! delivered the completions. What its question asks beyond that has a file for each table. Every sentence is made from the
//! medians and comparisons of the run at hand; what they don't show is not said, and what could not be tested is.

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

/// What the last conclusion is about.
const WHOLE_RUN: &str = "the whole run";

/// A sender's thread that is on its CPU, or waits for one, for so much of its time can do hardly more.
const BOUND: f64 = 0.9;

/// Sentences about one group of cells, or about the whole run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Conclusion {
    /// The group of cells: `cpus irq · wait peek`; empty where the run has one group.
    pub about: String,
    /// What is concluded.
    pub sentences: Vec<String>,
}

/// All that is concluded, group by group, then what holds for the whole run.
pub fn conclude(run: &RunRecord) -> Vec<Conclusion> {
    let rows = Table::of(run).rows(run);
    let of_group = |group| {
        let part = Part { run, rows, group };
        Conclusion { about: part.group.title.clone(), sentences: of_part(&part) }
    };
    let whole = Conclusion { about: WHOLE_RUN.into(), sentences: of_whole(run) };
    groups(run, rows).into_iter().map(of_group).chain([whole]).filter(|c| !c.sentences.is_empty()).collect()
}

fn of_part(part: &Part<'_>) -> Vec<String> {
    // Of an emulated machine times mean nothing.
    let timed = !part.run.is_emulated();
    let of_table = match part.run.table.as_str() {
        "cost" if timed => cost::least(part).into_iter().collect(),
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
        out.push(format!("{found}. The run ended there; the measurements before it are kept."));
    }
    if run.done() < run.planned() {
        out.push(format!("{} of {} measurements are done: what is said holds for these.", run.done(), run.planned()));
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

/// Other doubts are the measurements' own warnings (`doubt.rs`).
fn unwatched(run: &RunRecord) -> Option<String> {
    let said = match run.measurements().filter(|m| m.probe.mode == "off").count() {
        0 => return None,
        1 => "1 measurement was".into(),
        n => format!("{n} measurements were"),
    };
    Some(format!("{said} not watched: what delivered completions there is not known."))
}

/// Where the sender could do no more, its pace is what was measured.
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
            "In {bound} of {} the sender was at its limit ({}): their requests per second are what it could send, and at most a lower \
             bound of what the server could answer; the server's CPU time for each holds.",
            plural(all, "measurement"),
            list(&arms)
        )
    })
}

#[cfg(test)]
#[path = "conclude_tests.rs"]
mod tests;
