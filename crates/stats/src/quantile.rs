//! Quantiles, if there are enough samples.

use hdrhistogram::Histogram;

use iotrail_schema::measurement::Latency;

/// Minimum number of samples beyond a quantile, on its thinner side.
pub(crate) const BEYOND: f64 = 5.0;

/// The value at `q` (0 to 1), with the histogram's error; `None` if fewer than [`BEYOND`] samples are expected beyond
/// it. p50 needs 10 samples, p99 500, p99.99 50,000.
pub fn quantile(histogram: &Histogram<u64>, q: f64) -> Option<u64> {
    of(histogram, q, histogram.len() as f64)
}

fn of(histogram: &Histogram<u64>, q: f64, samples: f64) -> Option<u64> {
    // In binary, 500 × (1 − 0.99) is slightly below 5.
    let beyond = samples * (1.0 - q).min(q) + 1e-6;
    (beyond >= BEYOND).then(|| histogram.value_at_quantile(q))
}

/// The record of a histogram of nanoseconds.
pub fn summary(histogram: &Histogram<u64>) -> Latency {
    weighted(histogram, histogram.len(), histogram.len() as f64)
}

/// The same for `count` weighted samples. `effective`: number of equally weighted samples that would vary as much
/// (Kish). Quantiles that need more are null.
pub(crate) fn weighted(histogram: &Histogram<u64>, count: u64, effective: f64) -> Latency {
    let some = !histogram.is_empty();
    let quantile = |histogram, q| of(histogram, q, effective);
    Latency {
        count,
        mean: some.then(|| histogram.mean()),
        mean_ci95: None,
        min: some.then(|| histogram.min()),
        p50: quantile(histogram, 0.5),
        p90: quantile(histogram, 0.9),
        p95: quantile(histogram, 0.95),
        p99: quantile(histogram, 0.99),
        p99_9: quantile(histogram, 0.999),
        p99_99: quantile(histogram, 0.9999),
        max: some.then(|| histogram.max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram;

    #[test]
    fn a_quantile_needs_five_samples_beyond_it() {
        let mut h = histogram::new();
        h.record_n(1000, 9).unwrap();
        assert_eq!(quantile(&h, 0.5), None);
        h.record(1000).unwrap();
        assert_eq!(quantile(&h, 0.5), Some(1000));
        h.record_n(1000, 489).unwrap();
        assert_eq!(quantile(&h, 0.99), None);
        h.record(1000).unwrap();
        assert_eq!(quantile(&h, 0.99), Some(1000));
        assert_eq!(quantile(&h, 0.999), None);
    }

    #[test]
    fn a_latency_summary_matches_known_values() {
        let mut h = histogram::new();
        for v in 1..=1000 {
            h.record(v).unwrap();
        }
        let s = summary(&h);
        assert_eq!(
            (s.count, s.min, s.p50, s.p90, s.p99, s.max),
            (1000, Some(1), Some(500), Some(900), Some(990), Some(1000))
        );
        assert_eq!(s.p99_9, None);
        assert_eq!(s.mean, Some(500.5));
        let none = summary(&histogram::new());
        assert_eq!(none, Latency::default());
    }
}
