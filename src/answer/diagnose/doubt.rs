//! What the watching itself missed, so that nobody reads more into the figures than they hold.

use crate::answer::finding::{Finding, Severity};
use crate::answer::words::{count, percent};
use crate::trace_record::TraceRecord;

/// One in a thousand: less changes no figure that is shown.
const MATTERS: f64 = 0.001;

pub fn all(t: &TraceRecord) -> impl Iterator<Item = Finding> {
    [lost(t), untracked(t), unfollowed(t)].into_iter().flatten()
}

fn lost(t: &TraceRecord) -> Option<Finding> {
    let lost = t.total.probe.lost?;
    let share = lost as f64 / (t.total.ios + lost).max(1) as f64;
    if share < MATTERS {
        return None;
    }
    let text =
        format!("the probes lost {} events: the counts are too low by up to {}", count(lost as f64), percent(share));
    let evidence = [("lost", lost as f64), ("share", share)];
    Some(Finding::new("lost", Severity::Note, text, "repeat with less else running", &evidence))
}

fn untracked(t: &TraceRecord) -> Option<Finding> {
    let untracked = t.total.probe.untracked?;
    let share = untracked as f64 / (t.total.ios + untracked).max(1) as f64;
    if share < MATTERS {
        return None;
    }
    let text = format!("{} I/Os ({}) could not be followed to a vehicle", count(untracked as f64), percent(share));
    let remedy = "take the shares as those of the others; `iotrail check` lists what this machine lets be seen";
    Some(Finding::new("untracked", Severity::Note, text, remedy, &[("untracked", untracked as f64), ("share", share)]))
}

fn unfollowed(t: &TraceRecord) -> Option<Finding> {
    let f = &t.total.followed;
    let given_up = f.no_room + f.ring_buffer_full;
    let share = given_up as f64 / (f.completions + given_up).max(1) as f64;
    if share < MATTERS {
        return None;
    }
    let text = format!(
        "{} of the requests chosen to be followed were given up ({} for want of room, {} because the buffer to user space was \
         full): latencies and stages are those of the others",
        percent(share),
        count(f.no_room as f64),
        count(f.ring_buffer_full as f64)
    );
    let remedy = "follow fewer, one request in a larger number: then each has its place";
    let evidence = [("share", share), ("no_room", f.no_room as f64), ("ring_buffer_full", f.ring_buffer_full as f64)];
    Some(Finding::new("unfollowed", Severity::Note, text, remedy, &evidence))
}
