//! A histogram whose memory is there before the first value: 64 buckets in each power of two, an error of 0.8 % at most.

use hdrhistogram::Histogram;

use iotrail_stats::histogram;

/// Buckets in a power of two, as an exponent.
const FINE: u32 = 6;
/// Values from 2^40 ns (18 minutes) on share the last bucket.
const POWERS: u32 = 40;
const BUCKETS: usize = ((POWERS - FINE + 1) << FINE) as usize;

/// Durations in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies {
    counts: Box<[u32]>,
    count: u64,
    sum_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), count: 0, sum_ns: 0 }
    }
}

impl Latencies {
    #[inline]
    pub fn take(&mut self, ns: u64) {
        let bucket = bucket(ns);
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    pub fn add(&mut self, other: &Latencies) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine = mine.saturating_add(*theirs));
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The share of values below `ns`; `None`: it is empty.
    pub fn share_below(&self, ns: u64) -> Option<f64> {
        let below: u64 = self.counts[..bucket(ns)].iter().map(|n| u64::from(*n)).sum();
        (self.count > 0).then(|| below as f64 / self.count as f64)
    }

    pub fn histogram(&self) -> Histogram<u64> {
        let mut all = histogram::new();
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            all.saturating_record_n(middle(bucket), u64::from(*count));
        }
        all
    }
}

/// Below 2^FINE each value has its own bucket.
#[inline]
fn bucket(ns: u64) -> usize {
    let power = 63 - (ns | 1).leading_zeros();
    if power < FINE {
        return ns as usize;
    }
    let fine = (ns >> (power - FINE)) as usize & ((1 << FINE) - 1);
    ((((power - FINE + 1) as usize) << FINE) + fine).min(BUCKETS - 1)
}

fn middle(bucket: usize) -> u64 {
    let (row, fine) = ((bucket >> FINE) as u32, (bucket & ((1 << FINE) - 1)) as u64);
    match row {
        0 => fine,
        row => (((1 << FINE) + fine) << (row - 1)) + ((1u64 << (row - 1)) >> 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_values_within_one_percent_of_its_middle() {
        for ns in (0..200).chain([999, 1_000_000, 123_456_789, (1 << 40) - 1]) {
            let middle = middle(bucket(ns));
            assert!(middle.abs_diff(ns) as f64 <= ns as f64 * 0.01 + 0.5, "{ns} in the bucket of {middle}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_histogram_has_every_value() {
        let mut all = Latencies::default();
        (0..1000).for_each(|ns| all.take(ns * 100));
        assert_eq!((all.count(), all.sum_ns(), all.histogram().len()), (1000, 49_950_000, 1000));
        assert_eq!(all.share_below(50_000).map(|s| (s * 100.0).round()), Some(50.0));
        assert_eq!(Latencies::default().share_below(1), None);
    }
}
