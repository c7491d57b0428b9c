//! One set of spans, of which there may be thousands, most of them small.

use hdrhistogram::Histogram;

use crate::measurement::{Delay, Latency};
use crate::stats::{histogram, quantile};

/// So many values are kept as they are; only more of them are worth a histogram's memory.
const FEW: usize = 512;

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
        if let Durations::Few(values) = self {
            if values.len() < FEW {
                values.push(ns);
                return;
            }
            *self = Durations::Many(self.histogram());
        }
        if let Durations::Many(histogram) = self {
            histogram.saturating_record(ns.max(1));
        }
    }

    pub fn add(&mut self, other: &Durations) {
        match other {
            Durations::Few(values) => values.iter().for_each(|ns| self.take(*ns)),
            Durations::Many(theirs) => {
                let mut ours = self.histogram();
                // The same bounds and digits on both sides.
                ours.add(theirs).expect("histograms of one kind");
                *self = Durations::Many(ours);
            }
        }
    }

    fn histogram(&self) -> Histogram<u64> {
        match self {
            Durations::Few(values) => {
                let mut histogram = histogram::new();
                values.iter().for_each(|ns| histogram.saturating_record((*ns).max(1)));
                histogram
            }
            Durations::Many(histogram) => histogram.clone(),
        }
    }

    pub fn latency(&self) -> Latency {
        match self {
            Durations::Few(values) if values.is_empty() => Latency::default(),
            Durations::Few(_) => quantile::summary(&self.histogram()),
            Durations::Many(histogram) => quantile::summary(histogram),
        }
    }

    /// `None`: there are none.
    pub fn delay(&self) -> Option<Delay> {
        let Latency { count, p50, p99, max, .. } = self.latency();
        (count > 0).then_some(Delay { p50, p99, max })
    }
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
        assert_eq!(sum.delay(), Some(Delay { p50: Some(500), p99: Some(990), max: Some(1000) }));
        assert_eq!((Durations::default().latency(), Durations::default().delay()), (Latency::default(), None));
    }
}
