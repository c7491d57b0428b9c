//! What a run's numbers say, in a few sentences. Every sentence is made from the medians and comparisons of the run at hand;
//! what they don't show is not said, and what could not be tested is.

mod against;
mod delays;
mod kicks;
#[cfg(test)]
mod made_net_runs;
#[cfg(test)]
mod made_runs;
mod mode_switches;
mod net;
mod order;
mod placement;
mod punts;
mod shares;
mod timelines;
mod wakeups;

use super::finding::{tick_rate, why_the_tick};
use super::group::{Group, Row, groups, row_axis, untestable, vehicle_shares};
use super::spread::{Spread, over_repeats};
use super::unit::Unit;
use super::verdicts::{arm_by_arm, caveat, row_by_row};
use iotrail_base::words::{count, list, percent, plural, span, three_digits};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CellRecord, RunRecord, Table, VARIANT};
use iotrail_schema::vehicle::Vehicle;

/// What the last conclusion is about.
const WHOLE_RUN: &str = "the whole run";

/// Sentences about one group of cells, or about [the whole run](WHOLE_RUN).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Conclusion {
    /// The group of cells: `cpus irq · wait peek`; empty where the run has one group.
    pub about: String,
    /// What is concluded.
    pub sentences: Vec<String>,
}

/// All that is concluded, group by group, then what holds for the whole run.
pub fn conclude(run: &RunRecord) -> Vec<Conclusion> {
    let rows = row_axis(run);
    let mut all = match run.table {
        Table::Delivery => of_groups(groups(run, rows), |g| delivery(run, rows, g)),
        Table::Cost => of_groups(groups(run, None), |g| cost(run, g)),
        Table::Placement => of_groups(groups(run, rows), |g| placement::conclude(run, rows, g)),
        Table::ModeSwitches => of_groups(groups(run, rows), |g| mode_switches::conclude(run, rows, g)),
        Table::Delays => of_groups(groups(run, rows), |g| delays::conclude(run, rows, g)),
        Table::Timelines => of_groups(groups(run, rows), |g| timelines::conclude(run, rows, g)),
        Table::Shares => of_groups(groups(run, rows), |g| shares::conclude(run, rows, g)),
        Table::Wakeups => of_groups(groups(run, rows), |g| wakeups::conclude(run, rows, g)),
        Table::Punts => of_groups(groups(run, rows), |g| punts::conclude(run, rows, g)),
        Table::Kicks => of_groups(groups(run, rows), |g| kicks::conclude(run, rows, g)),
        Table::Net => of_groups(groups(run, rows), |g| net::conclude(run, rows, g)),
        Table::Order => of_groups(groups(run, None), |g| order::conclude(run, g)),
        Table::Program => of_groups(groups(run, rows), |g| row_by_row(run, rows, g)),
    };
    let mut whole = Vec::new();
    if let Some(found) = &run.corruption {
        whole.push(format!("{found}. The run ended there; the measurements before it are kept."));
    }
    if run.done() < run.planned() {
        whole.push(format!("{} of {} measurements are done: what is said holds for these.", run.done(), run.planned()));
    }
    for (reason, common, cells) in untestable(run) {
        let common = if common.is_empty() { String::new() } else { format!(" ({common})") };
        whole.push(format!("Not testable here: {}{common}: {reason}.", plural(cells, "cell")));
    }
    whole.extend(unwatched(run));
    whole.extend(caveat(run));
    if !whole.is_empty() {
        all.push(Conclusion { about: WHOLE_RUN.into(), sentences: whole });
    }
    all
}

fn of_groups(groups: Vec<Group<'_>>, say: impl Fn(&Group<'_>) -> Vec<String>) -> Vec<Conclusion> {
    let conclude = |g: &Group<'_>| Conclusion { about: g.title.clone(), sentences: say(g) };
    groups.iter().map(conclude).filter(|c| !c.sentences.is_empty()).collect()
}

/// Other doubts are the measurements' own warnings (`doubt.rs`).
fn unwatched(run: &RunRecord) -> Option<String> {
    let all = run.cells.iter().flat_map(|c| &c.measurements);
    let said = match all.filter(|m| m.probe.mode == "off").count() {
        0 => return None,
        1 => "1 measurement was".into(),
        n => format!("{n} measurements were"),
    };
    Some(format!("{said} not watched: what delivered completions there is not known."))
}

fn iops(cell: &CellRecord) -> Option<Spread> {
    Spread::of(cell.measurements.iter().map(|m| m.iops))
}

fn elapsed(cell: &CellRecord) -> Option<Spread> {
    Spread::of(cell.measurements.iter().map(|m| m.elapsed_ns as f64))
}

/// ` at depth 1`, ` for sqpoll` where the rows are variants, or nothing where there is no such parameter.
fn at(rows: Option<&str>, values: &[String]) -> String {
    match rows {
        Some(VARIANT) => format!(" for {}", list(values)),
        Some(axis) => format!(" at {axis} {}", list(values)),
        None => String::new(),
    }
}

fn delivery(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = row_by_row(run, rows, group);
    for arm in &run.arms {
        out.extend(carried(run, arm, rows, group));
    }
    for arm in &run.arms {
        out.extend(at_the_tick(arm, rows, group));
    }
    out
}

fn find<'a>(row: &Row<'a>, arm: &str) -> Option<&'a CellRecord> {
    row.cells.iter().find(|c| c.arm() == arm).copied()
}

/// Which vehicle carried most of an arm's completions, and the kicks that came with them.
fn carried(run: &RunRecord, arm: &str, rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let mut most: Vec<(Vehicle, Vec<String>, Vec<f64>)> = Vec::new();
    let mut kicks = Vec::new();
    for row in &group.rows {
        let Some(cell) = find(row, arm) else { continue };
        if let Some((vehicle, share)) = vehicle_shares(&cell.measurements).first() {
            match most.iter_mut().find(|(v, _, _)| v == vehicle) {
                Some((_, at, shares)) => {
                    at.push(row.value.clone());
                    shares.push(*share);
                }
                None => most.push((*vehicle, vec![row.value.clone()], vec![*share])),
            }
        }
        kicks.extend(over_repeats(cell, |m| m.per_io.kicks));
    }
    if most.is_empty() {
        return None;
    }
    let alone = most.len() == 1;
    let parts = most.iter().map(|(vehicle, values, shares)| {
        let place = if alone { String::new() } else { at(rows, values) };
        let (low, high) = shares.iter().fold((1.0f64, 0.0f64), |(l, h), s| (l.min(*s), h.max(*s)));
        let (low, high) = (percent(low), percent(high));
        let share = if low == high { high } else { format!("{} to {high}", low.trim_end_matches(" %")) };
        format!("{vehicle} ({share}){place}")
    });
    let parts = list(&parts.collect::<Vec<_>>());
    let kicks = Spread::of(kicks).map(|s| {
        let (low, high) = (format!("{:.2}", s.min), format!("{:.2}", s.max));
        let range = if low == high { low } else { format!("{low} to {high}") };
        format!("; {range} kicks per {}", Unit::of_run(run).one())
    });
    Some(format!("Most completions of {arm} were delivered by {parts}{}.", kicks.unwrap_or_default()))
}

/// Where the timer tick carried most: how the rate compares with the tick's, and why.
fn at_the_tick(arm: &str, rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let mut parts = Vec::new();
    let mut why: Option<&Measurement> = None;
    for row in &group.rows {
        let Some(cell) = find(row, arm) else { continue };
        if vehicle_shares(&cell.measurements).first().is_none_or(|(v, _)| *v != Vehicle::TimerTick) {
            continue;
        }
        let (Some(rate), Some(m)) = (iops(cell), cell.measurements.first()) else { continue };
        why = why.or(Some(m));
        let ticks = Spread::over(cell, tick_rate);
        let against = match ticks {
            Some(t) => format!(
                "{} I/Os and {} ticks a second, {} a tick,",
                count(rate.median.round()),
                count(t.median.round()),
                three_digits(rate.median / t.median)
            ),
            None => format!("{} I/Os a second", count(rate.median.round())),
        };
        parts.push(format!("{against}{}", at(rows, std::slice::from_ref(&row.value))));
    }
    let m = why?;
    Some(format!("With {arm} completions wait for the timer tick ({}): {}.", parts.join("; "), why_the_tick(m)))
}

/// Which arm took least for all requests, how they compare, and where each arm's time went.
fn cost(run: &RunRecord, group: &Group<'_>) -> Vec<String> {
    let cells: Vec<&CellRecord> = group.rows.iter().flat_map(|r| r.cells.iter().copied()).collect();
    let by_time = cells.iter().filter_map(|c| Some((*c, elapsed(c)?)));
    let Some((least, time)) = by_time.min_by(|a, b| a.1.median.total_cmp(&b.1.median)) else { return Vec::new() };
    let mut out = vec![format!(
        "{} has the least median: {} ({} to {} in {}).",
        least.arm(),
        span(time.median),
        span(time.min),
        span(time.max),
        plural(time.repeats, "repeat")
    )];
    out.extend(arm_by_arm(run, group));
    out.extend(largest_phases(&cells));
    out
}

/// The phase that takes most of each arm's time.
fn largest_phases(cells: &[&CellRecord]) -> Option<String> {
    let mut by_phase: Vec<(&str, Vec<String>)> = Vec::new();
    for cell in cells {
        let median = |f: fn(&Measurement) -> f64| Spread::of(cell.measurements.iter().map(f)).map(|s| s.median);
        let phases = [
            ("submit", median(|m| m.phases.submit)),
            ("poll", median(|m| m.phases.poll)),
            ("clear", median(|m| m.phases.clear)),
            ("other", median(|m| m.phases.other)),
        ];
        let known = phases.into_iter().filter_map(|(name, share)| Some((name, share?)));
        let Some((name, share)) = known.max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        let arm = format!("{} {}", cell.arm(), percent(share));
        match by_phase.iter_mut().find(|(n, _)| *n == name) {
            Some((_, arms)) => arms.push(arm),
            None => by_phase.push((name, vec![arm])),
        }
    }
    let parts: Vec<String> = by_phase.iter().map(|(name, arms)| format!("{name} for {}", list(arms))).collect();
    (!parts.is_empty()).then(|| format!("Most of the time goes to {}.", parts.join("; ")))
}

#[cfg(test)]
#[path = "conclude_tests.rs"]
mod tests;
