//! The largest part of an arm's completions, time or returns to user mode, by row.

use super::part::{Part, range};
use crate::group::vehicle_shares;
use crate::per_io;
use crate::spread::over_repeats;
use crate::timelines;
use iotrail_base::grouped::grouped;
use iotrail_base::words::{list, percent};
use iotrail_schema::measurement::Phases;
use iotrail_schema::run_record::CellRecord;

/// Parts with their shares.
type Parts = Vec<(&'static str, f64)>;
type OfCell = fn(&CellRecord) -> Parts;

pub fn of(part: &Part<'_>) -> Vec<String> {
    let of_table: Option<(&str, OfCell)> = match part.run.table.as_str() {
        "cost" if !part.run.is_emulated() => Some(("The largest part of the time goes to", phases)),
        "mode_switches" => Some(("Returns to user mode are mostly from", causes)),
        "timelines" => Some(("GETEVENTS mostly", ways)),
        _ => None,
    };
    let of_all: (&str, OfCell) = ("Completions were mostly delivered by", paths);
    of_table.into_iter().chain([of_all]).filter_map(|(what, of)| sentence(part, what, of)).collect()
}

/// `what enter with default (98 to 99.7 %) and coop (91 %); timer_tick (100 %) at depth 1 and enter (98 %) at depth 4 with peek.`
fn sentence(part: &Part<'_>, what: &str, of: OfCell) -> Option<String> {
    let of_arm = |arm: &String| largest(part, arm, of).map(|(text, share)| (text, (arm.clone(), share)));
    let said = grouped(part.run.arms.iter().filter_map(of_arm)).into_iter().map(|(text, arms)| {
        let (names, shares): (Vec<String>, Vec<String>) = arms.into_iter().unzip();
        if shares.iter().any(|s| *s != shares[0]) {
            let each: Vec<String> = names.iter().zip(&shares).map(|(name, share)| format!("{name}{share}")).collect();
            return format!("{text} with {}", list(&each));
        }
        let of_all = names.len() > 1 && names.len() == part.run.arms.len();
        text + &shares[0] + &if of_all { String::new() } else { format!(" with {}", list(&names)) }
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| format!("{what} {}.", said.join("; ")))
}

/// The largest part, with its share if all rows agree; otherwise `timer_tick (100 %) at depth 1 and enter (98 %) at
/// depth 4`.
fn largest(part: &Part<'_>, arm: &str, of: OfCell) -> Option<(String, String)> {
    let first = |cell: &CellRecord| of(cell).into_iter().filter(|p| p.1 > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
    let groups = part.in_groups(arm, |_, cell| first(cell), |a, b| a.0 == b.0, false);
    let share = |parts: &Parts| format!(" ({})", range(parts.iter().map(|p| p.1), percent));
    if let [(parts, _)] = &groups[..] {
        return Some((parts[0].0.into(), share(parts)));
    }
    let said: Vec<String> =
        groups.iter().map(|(parts, rows)| format!("{}{}{}", parts[0].0, share(parts), part.at(rows))).collect();
    (!said.is_empty()).then(|| (list(&said), String::new()))
}

/// In ascending order, so that `max_by` picks the first of equal parts.
fn paths(cell: &CellRecord) -> Parts {
    vehicle_shares(&cell.measurements.all()).into_iter().rev().map(|(v, share)| (v.name(), share)).collect()
}

fn ways(cell: &CellRecord) -> Parts {
    let of = |t| Some((timelines::does(t), timelines::way(&cell.measurements.all(), t)?.share));
    timelines::WAYS.into_iter().filter_map(of).collect()
}

fn phases(cell: &CellRecord) -> Parts {
    let median = |of: fn(&Phases) -> f64| over_repeats(cell, |m| m.phases.as_ref().map(of));
    let all = [
        ("submit", median(|p| p.submit)),
        ("poll", median(|p| p.poll)),
        ("clear", median(|p| p.clear)),
        ("other", median(|p| p.other)),
    ];
    all.into_iter().filter_map(|(name, share)| Some((name, share?))).collect()
}

fn causes(cell: &CellRecord) -> Parts {
    let all = over_repeats(cell, |m| m.per_io.mode_switches).filter(|n| *n > 0.0);
    let of = |cause| Some((cause, (over_repeats(cell, |m| per_io::mode_switches(m, cause))? / all?).min(1.0)));
    per_io::CAUSES.into_iter().filter_map(of).collect()
}
