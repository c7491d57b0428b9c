//! Recorded figures against replayed ones: the self-check.

use std::collections::BTreeMap;

use super::measure::{Round, Run};
use iotrail_replay::latencies::Latencies;
use iotrail_replay::observed::Observed;
use iotrail_schema::replay_record::Fidelity;
use iotrail_stats::middle::median;
use iotrail_stats::quantile;
use iotrail_stats::student::interval_of_mean;

/// One figure: of the recording, and of a replay.
type Figure = (&'static str, fn(&Observed) -> Option<f64>, fn(&Run) -> Option<f64>);

const FIGURES: [Figure; 5] = [
    ("iops", |o| per_second(o.sums.ios, o.elapsed_ns), |r| r.measurement.iops),
    ("latency_p50", |o| p50(&o.sums.latencies), |r| p50(&r.in_order)),
    ("latency_p99", |o| p99(&o.sums.latencies), |r| p99(&r.in_order)),
    ("in_flight", |o| in_flight(&o.sums.latencies, o.elapsed_ns), |r| in_flight(&r.in_order, r.measurement.elapsed_ns)),
    (
        "calls_per_io",
        |o| (o.sums.ios > 0).then(|| o.sums.calls as f64 / o.sums.ios as f64),
        |r| r.measurement.per_io.syscalls,
    ),
];

pub(super) fn of(observed: &Observed, unchanged: &Round) -> BTreeMap<String, Fidelity> {
    let one = |(name, recorded, replayed): &Figure| {
        // An imported log has requests only.
        let recorded = recorded(observed).filter(|_| !observed.doubts.imported);
        let runs: Option<Vec<f64>> = unchanged.runs.iter().map(replayed).collect();
        (name.to_string(), fidelity(recorded, runs.as_deref().unwrap_or_default()))
    };
    FIGURES.iter().map(one).collect()
}

fn fidelity(recorded: Option<f64>, runs: &[f64]) -> Fidelity {
    let replayed = median(runs.iter().copied());
    let ratios = recorded.filter(|r| *r > 0.0 && runs.iter().all(|x| *x > 0.0));
    let logs: Option<Vec<f64>> = ratios.map(|recorded| runs.iter().map(|x| (x / recorded).ln()).collect());
    let error = logs.as_ref().filter(|logs| !logs.is_empty()).map(|logs| {
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        mean.exp_m1()
    });
    let ci95 = logs.and_then(|logs| interval_of_mean(&logs)).map(|ends| ends.map(f64::exp_m1));
    Fidelity { recorded, replayed, error, ci95 }
}

fn per_second(n: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| n as f64 * 1e9 / ns as f64)
}

/// By Little's law: the sum of latencies over the time.
fn in_flight(latencies: &Latencies, elapsed_ns: u64) -> Option<f64> {
    (elapsed_ns > 0 && latencies.count() > 0).then(|| latencies.sum_ns() as f64 / elapsed_ns as f64)
}

fn p50(latencies: &Latencies) -> Option<f64> {
    quantile::summary(&latencies.histogram()).p50.map(|ns| ns as f64)
}

fn p99(latencies: &Latencies) -> Option<f64> {
    quantile::summary(&latencies.histogram()).p99.map(|ns| ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_mean_ratio_less_1_with_its_interval() {
        let f = fidelity(Some(100.0), &[110.0, 110.0, 110.0]);
        assert_eq!((f.replayed, f.recorded), (Some(110.0), Some(100.0)));
        let near = |x: Option<f64>| (x.unwrap() - 0.1).abs() < 1e-9;
        assert!(near(f.error) && near(f.ci95.map(|c| c[0])) && near(f.ci95.map(|c| c[1])));
        assert_eq!(fidelity(None, &[1.0]).error, None);
        assert_eq!((fidelity(Some(1.0), &[]).error, fidelity(Some(0.0), &[1.0]).error), (None, None));
    }
}
