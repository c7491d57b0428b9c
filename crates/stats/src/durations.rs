//! Sets of durations. There may be thousands of sets, most of them small.

use hdrhistogram::Histogram;

use super::mean::Mean;
use super::sparse::Sparse;
use super::{histogram, quantile};
use iotrail_schema::measurement::{Delay, Latency};
use iotrail_schema::metrics_record::Buckets;

/// Up to this many distinct values are stored individually. Only larger sets justify a histogram's memory.
const FEW: usize = 8192;

/// Longer delivery delays are counted separately. This is the period of the fastest tick, and far above a normal
/// delivery time.
const LONG_NS: u64 = 1_000_000;

/// Durations in ns with weights (the number of requests that each represents). Error and range are those of
/// `stats::histogram`. Mean, quantiles and buckets are weighted; counts, minimum and maximum are those of the samples.
/// Memory: 8 or 10 bytes per distinct value up to [`FEW`], then 264 KiB.
#[derive(Debug, Clone, Default)]
pub struct Durations {
    values: Values,
    count: u64,
    /// Number of values above [`LONG_NS`].
    long: u64,
    mean: Mean,
}

#[derive(Debug, Clone)]
enum Values {
    Few(Sparse),
    Many(Histogram<u64>),
}

impl Default for Values {
    fn default() -> Self {
        Values::Few(Sparse::default())
    }
}

impl Values {
    fn take(&mut self, ns: u64, weight: u64) {
        match self {
            Values::Many(histogram) => histogram.saturating_record_n(ns.max(1), weight),
            Values::Few(values) => {
                values.take(ns, weight);
                if values.len() > FEW {
                    *self = Values::Many(of(values, histogram::new()));
                }
            }
        }
    }
}

impl Durations {
    /// `weight`: at least 1.
    pub fn take(&mut self, ns: u64, weight: u32) {
        let weight = weight.max(1);
        self.values.take(ns, weight.into());
        self.count += 1;
        self.long += u64::from(ns > LONG_NS);
        self.mean.take(ns as f64, weight);
    }

    pub fn add(&mut self, other: &Durations) {
        self.count += other.count;
        self.long += other.long;
        self.mean.add(&other.mean);
        match (&mut self.values, &other.values) {
            (ours, Values::Few(theirs)) => theirs.iter().for_each(|(ns, weight)| ours.take(ns, weight)),
            (Values::Few(ours), Values::Many(theirs)) => self.values = Values::Many(of(ours, theirs.clone())),
            // Both sides have the same bounds and digits.
            (Values::Many(ours), Values::Many(theirs)) => ours.add(theirs).expect("histograms of one kind"),
        }
    }

    /// `one_in`: sampled 1 in this many; 1: nothing was left out.
    pub fn latency(&self, one_in: u32) -> Latency {
        // At most the number of samples.
        let effective = self.mean.effective();
        let latency = match &self.values {
            Values::Few(values) if values.is_empty() => return Latency::default(),
            Values::Few(values) => quantile::weighted(&of(values, histogram::new()), self.count, effective),
            Values::Many(histogram) => quantile::weighted(histogram, self.count, effective),
        };
        Latency { mean: self.mean.mean(), mean_ci95: self.mean.interval(one_in), ..latency }
    }

    /// `None` if no value was added.
    pub fn delay(&self) -> Option<Delay> {
        let Latency { count, p50, p90, p99, max, .. } = self.latency(1);
        (count > 0).then_some(Delay { p50, p99, max, count: Some(count), p90, over_1ms: Some(self.long) })
    }

    /// Weighted counts by ascending upper bounds. Counts and sum always use the histogram's resolution, so that neither
    /// decreases as values are added.
    pub fn buckets(&self, bounds_ns: &[u64]) -> Buckets {
        let many;
        let histogram = match &self.values {
            Values::Few(values) => {
                many = of(values, histogram::new());
                &many
            }
            Values::Many(histogram) => histogram,
        };
        let mut out = Buckets { count: histogram.len(), sum_ns: 0, counts: vec![0; bounds_ns.len() + 1] };
        for bucket in histogram.iter_recorded() {
            let ns = histogram.lowest_equivalent(bucket.value_iterated_to());
            out.sum_ns = out.sum_ns.saturating_add(ns.saturating_mul(bucket.count_at_value()));
            out.counts[bounds_ns.partition_point(|bound| *bound < ns)] += bucket.count_at_value();
        }
        out
    }
}

/// Adds these values to a histogram.
fn of(values: &Sparse, mut histogram: Histogram<u64>) -> Histogram<u64> {
    values.iter().for_each(|(ns, weight)| histogram.saturating_record_n(ns, weight));
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_values_have_the_same_statistics() {
        let (mut one, mut other, mut all) = (Durations::default(), Durations::default(), histogram::new());
        for ns in 1..=1000 {
            if ns <= 300 {
                one.take(ns, 1)
            } else {
                other.take(ns, 1)
            }
            all.record(ns).unwrap();
        }
        let Values::Few(values) = &other.values else { panic!("few") };
        other.values = Values::Many(of(values, histogram::new()));
        let exact = Latency { mean_ci95: Some([500.5, 500.5]), ..quantile::summary(&all) };
        let mut sum = one.clone();
        sum.add(&other);
        other.add(&one);
        assert_eq!((sum.latency(1), other.latency(1)), (exact.clone(), exact));
        assert_eq!(
            sum.delay(),
            Some(Delay {
                p50: Some(500),
                p99: Some(990),
                max: Some(1000),
                count: Some(1000),
                p90: Some(900),
                over_1ms: Some(0)
            })
        );
        for durations in [&one, &sum] {
            let Buckets { count, sum_ns, counts } = durations.buckets(&[100, 250]);
            let n = durations.latency(1).count;
            assert_eq!((count, sum_ns), (n, n * (n + 1) / 2));
            assert_eq!(counts, [100, 150, n - 250]);
        }
        assert_eq!((Durations::default().latency(1), Durations::default().delay()), (Latency::default(), None));
    }

    #[test]
    fn many_different_values_are_stored_in_a_histogram() {
        let mut all = Durations::default();
        let is_many = |all: &Durations| matches!(all.values, Values::Many(_));
        (0..100_000).for_each(|n| all.take(1_000_000 + n * 10, 1));
        assert!(!is_many(&all), "one power of two: 1024 buckets");
        (11..20).for_each(|power| (0..1024).for_each(|n| all.take((1024 + n) << (power - 10), 1)));
        assert!(is_many(&all));
        assert_eq!(all.latency(1).count, 100_000 + 9 * 1024);
    }

    #[test]
    fn each_value_counts_by_its_weight() {
        let mut all = Durations::default();
        (0..48).for_each(|_| all.take(100, 1));
        assert_eq!((all.latency(100).count, all.latency(100).mean, all.latency(100).p50), (48, Some(100.0), Some(100)));
        // Ten slow values with a weight of 100 each.
        (0..10).for_each(|_| all.take(2_000_000, 100));
        let l = all.latency(100);
        assert_eq!((l.count, l.min, l.p50), (58, Some(100), Some(2_000_895)), "as far as the histogram tells");
        assert_eq!((l.mean, l.mean_ci95), (Some((4_800.0 + 2e9) / 1048.0), None), "too few tell how far it may be off");
        // 58 samples that vary like 11 equally weighted ones: no p90.
        assert_eq!((l.p90, l.p99), (None, None));
        assert_eq!(all.delay().map(|d| (d.count, d.over_1ms)), Some((Some(58), Some(10))));
        let b = all.buckets(&[1_000]);
        assert_eq!((b.count, b.counts), (1048, vec![48, 1000]));
    }
}
