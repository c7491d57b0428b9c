//! How long requests took, and in which parts.

use crate::terminal::measured;
use iotrail_base::words::{count, plural, span};
use iotrail_schema::measurement::{Followed, Latency, StageRecord, Waits};
use iotrail_schema::trace_record::Total;

/// The parts of the mean latency, and quantiles of the last one. `followed`: requests that could have such parts.
pub fn stages(stages: Option<&StageRecord>, followed: u64, waits: Option<&Waits>, total: &Total) -> Vec<String> {
    let mut items = measured::stages(stages, total.followed.is_sample());
    let Some(s) = stages.filter(|_| !items.is_empty()) else { return items };
    let delay = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} {}", span(ns as f64)));
    let delays: Vec<String> =
        [delay("p50", s.delivery_delay_ns.p50), delay("p99", s.delivery_delay_ns.p99)].into_iter().flatten().collect();
    if !delays.is_empty() {
        items.push(format!("delivery delay {}", delays.join(", ")));
    }
    let without = followed.saturating_sub(waits.map_or(0, |w| w.requests)).saturating_sub(s.completions);
    if without as f64 > WITHOUT_STAGES * followed as f64 {
        let unseen = if total.sampled_events.is_some() { ", or not looked at by the block layer's probes" } else { "" };
        let (without, followed) = (count(without as f64), count(followed as f64));
        items
            .push(format!("the other {without} of {followed} followed have none: done at once or by a worker{unseen}"));
    }
    items
}

/// Fewer than one in ten without stages change little of what the stages say of all.
const WITHOUT_STAGES: f64 = 0.1;

/// What the mean latency, the stages and the order of submission are not of.
pub fn waits(waits: Option<&Waits>) -> Vec<String> {
    let Some(w) = waits else { return Vec::new() };
    let requests = match w.estimated_ci95 {
        Some([lo, hi]) if hi - lo >= 1.0 => {
            format!("{} to {} requests ({} followed)", count(lo.round()), count(hi.round()), w.requests)
        }
        _ => plural(w.estimated as usize, "request"),
    };
    vec![format!("{requests} open for {} on average", span(w.mean_ns)), "in no mean and no order".into()]
}

pub fn latency(l: &Latency, followed: &Followed) -> Vec<String> {
    if l.count == 0 { Vec::new() } else { measured::latency(l, followed.is_sample()) }
}
