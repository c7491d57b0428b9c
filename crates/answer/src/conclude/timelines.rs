//! How completions reach a thread that requests them (IORING_ENTER_GETEVENTS), by cell: the delivery path or the waker,
//! and the delay.

use super::part::{Part, find};
use crate::timelines::{PathSummary, Timeline, WAYS, does, way};
use iotrail_base::words::{list, percent, span};

/// Ways with a smaller share have no details, nor do delivery paths with less than 5 % of a way's completions.
const WORTH_SAYING: f64 = 0.02;

pub fn ways(part: &Part<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for row in &part.group.rows {
        let of = |arm: &str| {
            let cell = find(row, arm)?;
            let ways = WAYS
                .iter()
                .filter_map(|t| Some((*t, way(&cell.measurements.all(), *t)?)))
                .filter(|(_, w)| w.share > 0.0);
            let ways: Vec<String> = ways.map(|(t, w)| one(t, &w)).collect();
            (!ways.is_empty()).then(|| list(&ways))
        };
        out.extend(part.by_arm(&format!("GETEVENTS{}", part.at_row(row)), of));
    }
    out
}

/// `sleeps 28 % (woken by irq 36 vda on CPU 1, 20.0 µs after ready)`.
fn one(timeline: Timeline, way: &PathSummary) -> String {
    let mut told = Vec::new();
    if way.share >= WORTH_SAYING {
        let text = |(who, share): &(String, f64)| match *share > 0.995 {
            true => who.clone(),
            false => format!("{who} {}", percent(*share)),
        };
        let by: Vec<String> = way.by.iter().filter(|(_, share)| *share >= 0.05).take(3).map(text).collect();
        match timeline {
            Timeline::Ready => {}
            Timeline::Slept => told.push(format!("woken by {}", list(&by))),
            Timeline::Before | Timeline::Else => told.push(format!("by {}", list(&by))),
        }
        told.extend(way.delay_p50_ns.map(|ns| format!("{} after ready", span(ns as f64))));
    }
    let told = if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) };
    format!("{} {}{told}", does(timeline), percent(way.share))
}
