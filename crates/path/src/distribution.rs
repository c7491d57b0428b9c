//! Latencies in powers of two, and completions over time, weighted. Pure.

use std::collections::BTreeMap;

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::trace_record::{LatencyBucket, LatencyHistogram, TimeSlice, Timeline};

/// Initial length of a slice. It doubles whenever there are more than [`SLICES`].
const SLICE_NS: u64 = 50_000_000;
const SLICES: usize = 240;

/// Latencies by delivery path and power of two: bin `i` is from 2^(i - 1) to 2^i, bin 0 is 0.
#[derive(Debug, Clone, Default)]
pub struct ByPath(BTreeMap<(Option<DeliveryPath>, u8), u64>);

impl ByPath {
    pub fn take(&mut self, path: Option<DeliveryPath>, latency_ns: u64, weight: u64) {
        *self.0.entry((path, (u64::BITS - latency_ns.leading_zeros()) as u8)).or_default() += weight;
    }

    pub fn records(&self, opcode: &str) -> Vec<LatencyHistogram> {
        let mut all: Vec<LatencyHistogram> = Vec::new();
        for (&(vehicle, power), &requests) in &self.0 {
            if all.last().is_none_or(|last| last.vehicle != vehicle) {
                all.push(LatencyHistogram { opcode: opcode.to_owned(), vehicle, buckets: Vec::new() });
            }
            let at_least_ns = if power == 0 { 0 } else { 1 << (power - 1) };
            if let Some(last) = all.last_mut() {
                last.buckets.push(LatencyBucket { at_least_ns, requests });
            }
        }
        all
    }
}

/// Completions over time, in a bounded number of slices.
#[derive(Debug, Clone, Default)]
pub struct Slices {
    /// Time of the first completion.
    began_ns: Option<u64>,
    slice_ns: u64,
    slices: Vec<Slice>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    completions: u64,
    requests: u64,
    latency_ns: u128,
    longest_ns: u64,
}

impl Slices {
    /// `latency_ns`: latency of the request if this completion ended it. Completions arrive almost in order; one that
    /// is older than the first is counted in the first slice.
    pub fn take(&mut self, at_ns: u64, latency_ns: Option<u64>, weight: u64) {
        let began_ns = *self.began_ns.get_or_insert(at_ns);
        self.slice_ns = self.slice_ns.max(SLICE_NS);
        let index = |slice_ns: u64| usize::try_from(at_ns.saturating_sub(began_ns) / slice_ns).unwrap_or(usize::MAX);
        while index(self.slice_ns) >= SLICES {
            self.slices = self.slices.chunks(2).map(|pair| pair.iter().fold(Slice::default(), Slice::sum)).collect();
            self.slice_ns *= 2;
        }
        let index = index(self.slice_ns);
        if self.slices.len() <= index {
            self.slices.resize(index + 1, Slice::default());
        }
        let slice = &mut self.slices[index];
        slice.completions += weight;
        if let Some(latency_ns) = latency_ns {
            slice.requests += weight;
            slice.latency_ns += u128::from(latency_ns) * u128::from(weight);
            slice.longest_ns = slice.longest_ns.max(latency_ns);
        }
    }

    pub fn record(&self) -> Option<Timeline> {
        let slice = |slice: &Slice| {
            let has_requests = slice.requests > 0;
            TimeSlice {
                completions: slice.completions,
                latency_mean_ns: has_requests.then(|| slice.latency_ns as f64 / slice.requests as f64),
                latency_max_ns: has_requests.then_some(slice.longest_ns),
            }
        };
        self.began_ns.map(|_| Timeline { slice_ns: self.slice_ns, slices: self.slices.iter().map(slice).collect() })
    }
}

impl Slice {
    fn sum(self, other: &Self) -> Self {
        Self {
            completions: self.completions + other.completions,
            requests: self.requests + other.requests,
            latency_ns: self.latency_ns + other.latency_ns,
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_grouped_by_path_into_powers_of_two() {
        let mut by_path = ByPath::default();
        for _ in 0..2 {
            for (ns, weight) in [(0, 1), (1, 2), (1023, 3), (1024, 4), (u64::MAX, 5)] {
                by_path.take(Some(DeliveryPath::Enter), ns, weight);
            }
            by_path.take(None, 1500, 7);
        }
        let records = by_path.records("read");
        let of = |i: usize| records[i].buckets.iter().map(|b| (b.at_least_ns, b.requests)).collect::<Vec<_>>();
        assert_eq!((records.len(), records[0].vehicle, of(0)), (2, None, vec![(1024, 14)]));
        assert_eq!(of(1), [(0, 2), (1, 4), (512, 6), (1024, 8), (1 << 63, 10)]);
    }

    #[test]
    fn timeline_slices_double_in_length_without_losing_completions() {
        let mut slices = Slices::default();
        assert!(slices.record().is_none());
        for i in 0..1000 {
            slices.take(5_000_000_000 + i * 100_000_000, Some(1000 * (i + 1)), 2);
        }
        slices.take(4_999_999_999, None, 1);
        let timeline = slices.record().unwrap();
        assert_eq!((timeline.slice_ns, timeline.slices.len()), (800_000_000, 125));
        assert_eq!(timeline.slices.iter().map(|s| s.completions).sum::<u64>(), 2001);
        let first = timeline.slices[0];
        assert_eq!((first.completions, first.latency_mean_ns, first.latency_max_ns), (17, Some(4500.0), Some(8000)));
    }
}
