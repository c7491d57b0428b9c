//! One set of spans, of which there may be thousands, most of them small.

use hdrhistogram::Histogram;

use super::{histogram, quantile};
use crate::measurement::{Delay, Latency};
use crate::metrics_record::Buckets;

/// So many values are kept as they are; only more of them are worth a histogram's memory.
const FEW: usize = 512;

/// A delivery delay above it is worth a column: the period of the fastest tick, and far above what delivery takes when nothing
/// is wrong.
const LONG_NS: u64 = 1_000_000;

/// Nanoseconds, each with the number of requests that it stands for; error and range are the histogram's (`stats::histogram`).
/// Mean, quantiles and buckets are of all that they stand for; counts, least and greatest of those that were taken. Memory: 16 bytes
/// a value up to [`FEW`], then [`histogram::BYTES`].
#[derive(Debug, Clone, Default)]
pub struct Durations {
    values: Values,
    count: u64,
    /// Of them, longer than [`LONG_NS`].
    long: u64,
    weights: f64,
    squares: f64,
}

#[derive(Debug, Clone)]
enum Values {
    Few(Vec<(u64, u32)>),
    Many(Histogram<u64>),
}

impl Default for Values {
    fn default() -> Self {
        Values::Few(vec![])
    }
}

impl Values {
    fn take(&mut self, ns: u64, weight: u32) {
        match self {
            Values::Many(histogram) => histogram.saturating_record_n(ns.max(1), weight.into()),
            Values::Few(values) => {
                values.push((ns, weight));
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
        self.values.take(ns, weight);
        self.count += 1;
        self.long += u64::from(ns > LONG_NS);
        self.weights += f64::from(weight);
        self.squares += f64::from(weight) * f64::from(weight);
    }

    pub fn add(&mut self, other: &Durations) {
        self.count += other.count;
        self.long += other.long;
        self.weights += other.weights;
        self.squares += other.squares;
        match (&mut self.values, &other.values) {
            (ours, Values::Few(theirs)) => theirs.iter().for_each(|(ns, weight)| ours.take(*ns, *weight)),
            (Values::Few(ours), Values::Many(theirs)) => self.values = Values::Many(of(ours, theirs.clone())),
            // The same bounds and digits on both sides.
            (Values::Many(ours), Values::Many(theirs)) => ours.add(theirs).expect("histograms of one kind"),
        }
    }

    pub fn latency(&self) -> Latency {
        // By Kish; never more than were taken.
        let effective = if self.squares > 0.0 { self.weights * self.weights / self.squares } else { 0.0 };
        match &self.values {
            Values::Few(values) if values.is_empty() => Latency::default(),
            Values::Few(values) => quantile::weighted(&of(values, histogram::new()), self.count, effective),
            Values::Many(histogram) => quantile::weighted(histogram, self.count, effective),
        }
    }

    /// `None`: there are none.
    pub fn delay(&self) -> Option<Delay> {
        let Latency { count, p50, p90, p99, max, .. } = self.latency();
        (count > 0).then_some(Delay { p50, p99, max, count: Some(count), p90, over_1ms: Some(self.long) })
    }

    /// What they stand for, counted by upper bounds, which rise. Counts and sum are the histogram's whatever the number, so that none is
    /// ever less with more values.
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

/// The histogram, with these values in it too.
fn of(values: &[(u64, u32)], mut histogram: Histogram<u64>) -> Histogram<u64> {
    values.iter().for_each(|(ns, weight)| histogram.saturating_record_n((*ns).max(1), (*weight).into()));
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_say_the_same() {
        let (mut one, mut other, mut all) = (Durations::default(), Durations::default(), histogram::new());
        for ns in 1..=1000 {
            if ns <= 300 {
                one.take(ns, 1)
            } else {
                other.take(ns, 1)
            }
            all.record(ns).unwrap();
        }
        assert!(matches!((&one.values, &other.values), (Values::Few(_), Values::Many(_))));
        let mut sum = one.clone();
        sum.add(&other);
        other.add(&one);
        assert_eq!((sum.latency(), other.latency()), (quantile::summary(&all), quantile::summary(&all)));
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
            let n = durations.latency().count;
            assert_eq!((count, sum_ns), (n, n * (n + 1) / 2));
            assert_eq!(counts, [100, 150, n - 250]);
        }
        assert_eq!((Durations::default().latency(), Durations::default().delay()), (Latency::default(), None));
    }

    #[test]
    fn each_value_counts_as_often_as_it_stands_for() {
        let mut all = Durations::default();
        (0..48).for_each(|_| all.take(100, 1));
        assert_eq!((all.latency().count, all.latency().mean, all.latency().p50), (48, Some(100.0), Some(100)));
        // Ten slow ones that stand for a thousand.
        (0..10).for_each(|_| all.take(2_000_000, 100));
        let l = all.latency();
        assert_eq!((l.count, l.min, l.p50), (58, Some(100), Some(2_000_895)), "as far as the histogram tells");
        assert!((l.mean.unwrap() / (2_000_000.0 * 1000.0 / 1048.0) - 1.0).abs() < 1e-3, "{l:?}");
        // 58 were taken, and they vary as 11 of one weight: no p90.
        assert_eq!((l.p90, l.p99), (None, None));
        assert_eq!(all.delay().map(|d| (d.count, d.over_1ms)), Some((Some(58), Some(10))));
        let b = all.buckets(&[1_000]);
        assert_eq!((b.count, b.counts), (1048, vec![48, 1000]));
    }
}
