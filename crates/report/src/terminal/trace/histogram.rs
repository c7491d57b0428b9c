//! Text histograms of latencies, and the number of requests in flight.

use std::collections::BTreeMap;

use crate::terminal::layout::Screen;
use crate::terminal::style::Style;
use iotrail_answer::histogram::powers;
use iotrail_base::words::{UNKNOWN, span};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::trace_record::{LatencyHistogram, TraceRecord};

/// How histograms are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistogramBy {
    Opcode,
    Path,
}

/// Length of the longest bar.
const BAR: usize = 40;
/// Below this ratio, the mean in flight and the configured depth disagree.
const FAR: f64 = 0.5;

pub fn screen(t: &TraceRecord, by: HistogramBy, style: Style) -> Screen {
    let mut out = Screen::new(style);
    let name = |h: &LatencyHistogram| match by {
        HistogramBy::Opcode => h.opcode.clone(),
        HistogramBy::Path => h.vehicle.map_or(UNKNOWN, DeliveryPath::name).to_owned(),
    };
    let mut all: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
    for histogram in &t.total.latency_histograms {
        let sums = all.entry(name(histogram)).or_default();
        histogram.buckets.iter().for_each(|b| *sums.entry(b.at_least_ns).or_default() += b.requests);
    }
    for (name, buckets) in &all {
        out.blank();
        one(&mut out, name, buckets);
    }
    if all.is_empty() {
        out.blank();
        out.sentence("no histogram: no request was traced from submission to posting");
    }
    in_flight(&mut out, t);
    out
}

fn one(out: &mut Screen, name: &str, buckets: &BTreeMap<u64, u64>) {
    let most = buckets.values().copied().max().unwrap_or(1).max(1);
    out.line(&format!("{name:<23} : {:<8} distribution", "count"));
    for at in powers(buckets.keys().copied()) {
        let n = buckets.get(&at).copied().unwrap_or(0);
        let stars = (n as f64 / most as f64 * BAR as f64).round() as usize;
        // Even a count of 1 gets a visible bar.
        let bar = "*".repeat(stars.max(usize::from(n > 0)));
        let range = format!("{:>9} -> {:<9}", span(at as f64), span(at.saturating_mul(2).max(1) as f64));
        out.line(&format!("{range:<23} : {n:<8} |{bar:<BAR$}|"));
    }
}

/// By Little's law: completions per second times mean latency.
fn in_flight(out: &mut Screen, t: &TraceRecord) {
    let Some(requests) = t.account.as_ref().and_then(|account| account.requests.as_ref()) else { return };
    let active = t.rings.iter().filter_map(|ring| ring.active_ns).max().unwrap_or(t.total.elapsed_ns);
    let mean = requests.latency_sum_ns as f64 / active.max(1) as f64;
    let rings: Vec<u32> =
        t.rings.iter().filter(|r| r.use_of.is_none() && r.completions > 0).map(|r| r.sq_entries).collect();
    let allowed: u64 = rings.iter().map(|entries| u64::from(*entries)).sum();
    out.blank();
    let text = format!("mean {mean:.1}, by Little's law (requests per second × mean latency)");
    let depth = match allowed {
        0 => Vec::new(),
        n if mean < FAR * n as f64 => {
            vec![format!("the submission queues hold {n}: the program does not keep them full")]
        }
        n => vec![format!("the submission queues hold {n}")],
    };
    out.field("in flight", &[vec![text], depth].concat());
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trace_record::LatencyBucket;
    use iotrail_testing::trace::clean;

    #[test]
    fn each_opcode_or_delivery_path_has_a_histogram() {
        let mut t = clean();
        let histogram = |opcode: &str, vehicle, buckets: &[(u64, u64)]| LatencyHistogram {
            opcode: opcode.into(),
            vehicle,
            buckets: buckets.iter().map(|(at, n)| LatencyBucket { at_least_ns: *at, requests: *n }).collect(),
        };
        t.total.latency_histograms = vec![
            histogram("read", Some(DeliveryPath::Enter), &[(65_536, 1_000), (262_144, 500)]),
            histogram("read", Some(DeliveryPath::Inline), &[(65_536, 1)]),
            histogram("write", None, &[(1024, 1)]),
        ];
        let text = screen(&t, HistogramBy::Opcode, Style::PLAIN).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.iter().filter(|l| l.contains("distribution")).count(), 2);
        assert!(lines.iter().any(|l| l.contains("1001") && l.contains(&format!("|{}|", "*".repeat(40)))), "{text}");
        assert!(lines.iter().any(|l| l.contains("131 µs -> 262 µs") && l.contains(": 0 ")), "{text}");
        let text = screen(&t, HistogramBy::Path, Style::PLAIN).to_string();
        assert!(text.contains("\nenter ") && text.contains("\ninline ") && text.contains("\n– "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
