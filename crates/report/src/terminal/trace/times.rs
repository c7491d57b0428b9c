//! Request latency and its parts.

use crate::terminal::measured;
use iotrail_base::words::{count, plural, span};
use iotrail_schema::measurement::{Followed, Latency, StageRecord, Waits};
use iotrail_schema::trace_record::Total;

/// The parts of mean latency, and quantiles of the last part. `followed`: number of traced requests.
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
        let unseen = if total.sampled_events.is_some() { ", or not sampled by the block layer's probes" } else { "" };
        let (without, followed) = (count(without as f64), count(followed as f64));
        items.push(format!(
            "the other {without} of {followed} traced have no stages: completed inline or by a worker{unseen}"
        ));
    }
    items
}

/// If a smaller share of requests lack stages, the stages represent all requests.
const WITHOUT_STAGES: f64 = 0.1;

/// Requests excluded from mean latency, stages and order.
pub fn waits(waits: Option<&Waits>) -> Vec<String> {
    let Some(w) = waits else { return Vec::new() };
    let requests = match w.estimated_ci95 {
        Some([lo, hi]) if hi - lo >= 1.0 => {
            format!("{} to {} requests ({} traced)", count(lo.round()), count(hi.round()), w.requests)
        }
        _ => plural(w.estimated as usize, "request"),
    };
    vec![format!("{requests} open for {} (mean)", span(w.mean_ns)), "excluded from means and order".into()]
}

pub fn latency(l: &Latency, followed: &Followed) -> Vec<String> {
    if l.count == 0 { Vec::new() } else { measured::latency(l, followed.is_sample()) }
}
