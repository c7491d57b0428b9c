//! Whether asking for completions (IORING_ENTER_GETEVENTS) finds them there, runs task work and returns, or sleeps; and who wakes it.

use super::{at, find};
use crate::group::Group;
use crate::spread::over_repeats;
use crate::timelines::{Timeline, Way, way};
use crate::verdicts::row_by_row;
use iotrail_base::words::{list, per_io, percent, span};
use iotrail_schema::run_record::{CellRecord, RunRecord};

/// A way of less is not worth a sentence's part; one in twenty of a way's wakers neither.
const WORTH_SAYING: f64 = 0.02;

pub fn conclude(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out: Vec<String> = run.arms.iter().filter_map(|arm| in_short(arm, rows, group)).collect();
    for row in &group.rows {
        for arm in &run.arms {
            out.extend(find(row, arm).and_then(|cell| in_words(arm, cell, rows, &row.value)));
        }
    }
    out.extend(row_by_row(run, rows, group));
    out
}

const WAYS: [Timeline; 4] = [Timeline::Before, Timeline::Ready, Timeline::Slept, Timeline::Else];

fn name(timeline: Timeline) -> &'static str {
    match timeline {
        Timeline::Before => "finds them posted",
        Timeline::Ready => "runs task work and returns",
        Timeline::Slept => "sleeps",
        Timeline::Else => "leaves them to a thread of the kernel, or it is not told",
    }
}

fn ways(cell: &CellRecord) -> Option<Vec<(Timeline, Way)>> {
    WAYS.iter().map(|t| Some((*t, way(&cell.measurements, *t)?))).collect()
}

/// What it does for more than half of the completions, row by row.
fn in_short(arm: &str, rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let mut most: Vec<(Timeline, Vec<String>)> = Vec::new();
    for row in &group.rows {
        let Some(all) = find(row, arm).and_then(ways) else { continue };
        let Some((t, _)) = all.iter().find(|(_, way)| way.share > 0.5) else { continue };
        match most.iter_mut().find(|(seen, _)| seen == t) {
            Some((_, values)) => values.push(row.value.clone()),
            None => most.push((*t, vec![row.value.clone()])),
        }
    }
    let parts: Vec<String> = most.iter().map(|(t, values)| format!("{}{}", name(*t), at(rows, values))).collect();
    (!parts.is_empty()).then(|| format!("GETEVENTS with {arm}, for most completions: {}.", parts.join("; ")))
}

/// One cell's ways, with what carried them, after which delay, and by whom the job was woken.
fn in_words(arm: &str, cell: &CellRecord, rows: Option<&str>, value: &String) -> Option<String> {
    let all = ways(cell)?;
    let mut parts = Vec::new();
    for (timeline, w) in all.iter().filter(|(_, w)| w.share >= WORTH_SAYING) {
        let by: Vec<String> =
            w.by.iter()
                .filter(|(_, share)| *share >= 0.05)
                .take(3)
                .map(|(who, share)| if *share > 0.995 { who.clone() } else { format!("{who} {}", percent(*share)) })
                .collect();
        let delay = w.delay_p50_ns.map(|ns| format!(", {} after ready", span(ns as f64))).unwrap_or_default();
        let share = percent(w.share);
        parts.push(match timeline {
            Timeline::Before => format!("{share} were there before it asked (by {}{delay})", list(&by)),
            Timeline::Ready => format!("{share} it delivered itself and returned ({}after ready)", own(w.delay_p50_ns)),
            Timeline::Slept => format!("{share} it slept for, woken by {}{delay}", list(&by)),
            Timeline::Else => {
                format!("{share} a thread of the kernel delivered, or it is not told ({}{delay})", list(&by))
            }
        });
    }
    let rest: Vec<String> = all
        .iter()
        .filter(|(_, w)| w.share > 0.0 && w.share < WORTH_SAYING)
        .map(|(t, w)| format!("{} {}", name(*t), percent(w.share)))
        .collect();
    if !rest.is_empty() {
        parts.push(format!("rarely: {}", list(&rest)));
    }
    let median = |f: fn(&iotrail_schema::measurement::Measurement) -> Option<f64>| over_repeats(cell, f).map(per_io);
    let mut each = Vec::new();
    each.extend(median(|m| m.per_io.syscalls).map(|n| format!("{n} system calls")));
    each.extend(median(|m| m.per_io.context_switches).map(|n| format!("{n} sleeps")));
    each.extend(median(|m| m.per_io.kicks).map(|n| format!("{n} kicks")));
    let each = if each.is_empty() { String::new() } else { format!(" Per I/O: {}.", list(&each)) };
    let place = at(rows, std::slice::from_ref(value));
    (!parts.is_empty()).then(|| format!("{}{arm}: {}.{each}", title(&place), parts.join("; ")))
}

/// ` at depth 4` → `At depth 4, `.
fn title(place: &str) -> String {
    place.strip_prefix(" at ").map_or(String::new(), |rest| format!("At {rest}, "))
}

fn own(delay: Option<u64>) -> String {
    delay.map_or(String::new(), |ns| format!("{} ", span(ns as f64)))
}
