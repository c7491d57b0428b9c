//! The self-check: recorded values compared with replayed values.

use std::collections::BTreeMap;

use super::measure::Round;
use iotrail_replay::observed::Observed;
use iotrail_schema::replay_record::Fidelity;
use iotrail_stats::middle::median;
use iotrail_stats::student::interval_of_mean;

/// A metric of a recording.
type Figure = (&'static str, fn(&Observed) -> Option<f64>);

const FIGURES: [Figure; 5] = [
    ("iops", iops),
    ("latency_p50", |o| o.sums.latencies.latency(1).p50.map(|ns| ns as f64)),
    ("latency_p99", |o| o.sums.latencies.latency(1).p99.map(|ns| ns as f64)),
    ("in_flight", in_flight),
    ("calls_per_io", |o| (o.sums.ios > 0).then(|| o.sums.calls as f64 / o.sums.ios as f64)),
];

/// `checks`: unchanged replays, recorded like the program was.
pub(super) fn of(observed: &Observed, checks: &[Observed]) -> BTreeMap<String, Fidelity> {
    let one = |(name, figure): &Figure| {
        // An imported log contains only requests.
        let recorded = figure(observed).filter(|_| !observed.doubts.imported);
        let runs: Option<Vec<f64>> = checks.iter().map(figure).collect();
        (name.to_string(), fidelity(recorded, runs.as_deref().unwrap_or_default()))
    };
    FIGURES.iter().map(one).collect()
}

/// Duration of a recorded replay divided by that of a replay without probes, by which the self-check's error grows for
/// the latter.
pub(super) fn slowdown(checks: &[Observed], unchanged: &Round) -> Option<f64> {
    let recorded = median(checks.iter().filter_map(iops))?;
    Some(unchanged.median(|run| run.measurement.iops)? / recorded)
}

/// The replayed value is a geometric mean; the error is its ratio to the recorded value, less 1.
fn fidelity(recorded: Option<f64>, runs: &[f64]) -> Fidelity {
    let recorded_once = recorded.filter(|r| *r > 0.0 && runs.iter().all(|x| *x > 0.0));
    let logs: Option<Vec<f64>> = recorded_once.map(|recorded| runs.iter().map(|x| (x / recorded).ln()).collect());
    let mean = logs.as_ref().filter(|logs| !logs.is_empty()).map(|logs| logs.iter().sum::<f64>() / logs.len() as f64);
    let error = mean.map(f64::exp_m1);
    let replayed =
        recorded.zip(mean).map(|(recorded, mean)| recorded * mean.exp()).or_else(|| median(runs.iter().copied()));
    let ci95 = logs.and_then(|logs| interval_of_mean(&logs)).map(|ends| ends.map(f64::exp_m1));
    Fidelity { recorded, replayed, error, ci95 }
}

pub(super) fn iops(o: &Observed) -> Option<f64> {
    (o.elapsed_ns > 0 && o.sums.ios > 0).then(|| o.sums.ios as f64 * 1e9 / o.elapsed_ns as f64)
}

/// By Little's law: the sum of latencies divided by time.
fn in_flight(o: &Observed) -> Option<f64> {
    let latency = o.sums.latencies.latency(1);
    (o.elapsed_ns > 0).then(|| Some(latency.mean? * latency.count as f64 / o.elapsed_ns as f64))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replay_error_is_the_mean_ratio_minus_1_with_its_interval() {
        let f = fidelity(Some(100.0), &[110.0, 110.0, 110.0]);
        let near = |x: Option<f64>, value: f64| (x.unwrap() - value).abs() < 1e-9;
        assert!(near(f.recorded, 100.0) && near(f.replayed, 110.0) && near(f.error, 0.1));
        assert!(near(f.ci95.map(|c| c[0]), 0.1) && near(f.ci95.map(|c| c[1]), 0.1));
        let outlier = fidelity(Some(1.0), &[1.0, 1.0, 8.0]);
        assert!(near(outlier.replayed, 2.0) && near(outlier.error, 1.0), "the value and its error agree");
        assert_eq!(fidelity(None, &[1.0]).error, None);
        assert_eq!((fidelity(Some(1.0), &[]).error, fidelity(Some(0.0), &[1.0]).error), (None, None));
    }
}
