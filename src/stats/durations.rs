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

/// Nanoseconds; error and range are the histogram's (`stats::histogram`). Memory: 8 bytes a value up to [`FEW`], then
/// [`histogram::BYTES`].
#[derive(Debug, Clone)]
pub enum Durations {
    Few(Vec<u64>),
    Many(Histogram<u64>),
}

impl Default for Durations {
    fn default() -> Self {
        Durations::Few(vec![])
    }
}

impl Durations {
    pub fn take(&mut self, ns: u64) {
        match self {
            Durations::Many(histogram) => histogram.saturating_record(ns.max(1)),
            Durations::Few(values) => {
                values.push(ns);
                if values.len() > FEW {
                    *self = Durations::Many(of(values, histogram::new()));
                }
            }
        }
    }

    pub fn add(&mut self, other: &Durations) {
        match (&mut *self, other) {
            (_, Durations::Few(values)) => values.iter().for_each(|ns| self.take(*ns)),
            (Durations::Few(values), Durations::Many(theirs)) => *self = Durations::Many(of(values, theirs.clone())),
            // The same bounds and digits on both sides.
            (Durations::Many(ours), Durations::Many(theirs)) => ours.add(theirs).expect("histograms of one kind"),
        }
    }

    pub fn latency(&self) -> Latency {
        match self {
            Durations::Few(values) if values.is_empty() => Latency::default(),
            Durations::Few(values) => quantile::summary(&of(values, histogram::new())),
            Durations::Many(histogram) => quantile::summary(histogram),
        }
    }

    /// `None`: there are none.
    pub fn delay(&self) -> Option<Delay> {
        let Latency { count, p50, p90, p99, max, .. } = self.latency();
        (count > 0).then(|| Delay { p50, p99, max, count: Some(count), p90, over_1ms: Some(self.over(LONG_NS)) })
    }

    /// Counted by upper bounds, which rise. Counts and sum are the histogram's whatever the number, so that none is ever less with more
    /// values.
    pub fn buckets(&self, bounds_ns: &[u64]) -> Buckets {
        let many;
        let histogram = match self {
            Durations::Few(values) => {
                many = of(values, histogram::new());
                &many
            }
            Durations::Many(histogram) => histogram,
        };
        let mut out = Buckets { count: histogram.len(), sum_ns: 0, counts: vec![0; bounds_ns.len() + 1] };
        for bucket in histogram.iter_recorded() {
            let ns = histogram.lowest_equivalent(bucket.value_iterated_to());
            out.sum_ns = out.sum_ns.saturating_add(ns.saturating_mul(bucket.count_at_value()));
            out.counts[bounds_ns.partition_point(|bound| *bound < ns)] += bucket.count_at_value();
        }
        out
    }

    /// How many are longer. Of many, to the histogram's error.
    fn over(&self, ns: u64) -> u64 {
        match self {
            Durations::Few(values) => values.iter().filter(|v| **v > ns).count() as u64,
            Durations::Many(histogram) => histogram.count_between(ns + 1, u64::MAX),
        }
    }
}

/// The histogram, with these values in it too.
fn of(values: &[u64], mut histogram: Histogram<u64>) -> Histogram<u64> {
    values.iter().for_each(|ns| histogram.saturating_record((*ns).max(1)));
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
                one.take(ns)
            } else {
                other.take(ns)
            }
            all.record(ns).unwrap();
        }
        assert!(matches!((&one, &other), (Durations::Few(_), Durations::Many(_))));
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
}
