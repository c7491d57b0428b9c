//! A quantile of the merged histograms of the repeats.

use hdrhistogram::Histogram;
use unsigned_varint::{decode, encode};

use super::statistic::Statistic;
use crate::quantile::BEYOND;

/// Quantiles are the upper ends of histogram bins, so each side of the ratio has an error of at most 0.1 %.
const RESOLUTION: f64 = 0.001;

/// Latencies of one repeat: distinct values in ascending order, with their counts. Long runs keep one set per repeat,
/// so value differences and counts are stored as varints, which take about three bytes per pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts(Box<[u8]>);

impl Counts {
    pub fn of(histogram: &Histogram<u64>) -> Self {
        // A latency of 0 has no logarithm, and the clock cannot distinguish it from 1 ns.
        let recorded =
            histogram.iter_recorded().map(|v| (v.value_iterated_to().max(1), v.count_since_last_iteration()));
        Self::packed(recorded)
    }

    /// Merges several repeats.
    pub fn merged(several: &[&Counts]) -> Self {
        let mut all: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        for (value, count) in several.iter().flat_map(|c| c.iter()) {
            *all.entry(value).or_default() += count;
        }
        Self::packed(all.into_iter())
    }

    fn packed(rising: impl Iterator<Item = (u64, u64)>) -> Self {
        let (mut bytes, mut before) = (Vec::new(), 0);
        let mut buffer = encode::u64_buffer();
        for (value, count) in rising {
            bytes.extend_from_slice(encode::u64(value - before, &mut buffer));
            bytes.extend_from_slice(encode::u64(count, &mut buffer));
            before = value;
        }
        Self(bytes.into())
    }

    /// Values and how often each was recorded, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let (mut rest, mut value) = (&self.0[..], 0);
        std::iter::from_fn(move || {
            let (step, counted) = decode::u64(rest).ok()?;
            let (count, after) = decode::u64(counted).ok()?;
            rest = after;
            value += step;
            Some((value, count))
        })
    }
}

/// A quantile of the merged histograms of the repeats.
#[derive(Debug, Clone)]
pub struct MergedQuantile {
    q: f64,
    /// Distinct values of all repeats in ascending order.
    values: Vec<u64>,
    /// Per value and repeat: number of samples not above the value.
    up_to: Vec<u64>,
    repeats: usize,
}

impl MergedQuantile {
    /// `None` if a repeat has no samples, or all together have too few for this quantile (`stats::quantile`).
    pub fn new(repeats: &[&Counts], q: f64) -> Option<Self> {
        let mut values: Vec<u64> = Vec::new();
        for counts in repeats {
            // Deduplicated after each repeat, so that the list stays short: most repeats have the same values.
            values.extend(counts.iter().map(|(value, _)| value));
            values.sort();
            values.dedup();
        }
        let n = repeats.len();
        let mut up_to = vec![0; values.len() * n];
        for (i, counts) in repeats.iter().enumerate() {
            let (mut sum, mut next) = (0, counts.iter().peekable());
            for (row, value) in values.iter().enumerate() {
                while let Some((_, count)) = next.next_if(|(v, _)| *v <= *value) {
                    sum += count;
                }
                up_to[row * n + i] = sum;
            }
            if sum == 0 {
                return None;
            }
        }
        let all: u64 = up_to.iter().rev().take(n).sum();
        let enough = all as f64 * (1.0 - q).min(q) + 1e-6 >= BEYOND;
        enough.then_some(Self { q, values, up_to, repeats: n })
    }
}

impl Statistic for MergedQuantile {
    fn repeats(&self) -> usize {
        self.repeats
    }

    fn log(&self, times: &[u32]) -> f64 {
        let n = self.repeats;
        let not_above = |row: usize| -> u64 {
            let of_row = &self.up_to[row * n..(row + 1) * n];
            of_row.iter().zip(times).map(|(count, times)| count * u64::from(*times)).sum()
        };
        let wanted = ((self.q * not_above(self.values.len() - 1) as f64).ceil() as u64).max(1);
        // Finds the first row that is not below the quantile.
        let (mut low, mut high) = (0, self.values.len() - 1);
        while low < high {
            let middle = (low + high) / 2;
            if not_above(middle) < wanted { low = middle + 1 } else { high = middle }
        }
        (self.values[low] as f64).ln()
    }

    fn resolution(&self) -> f64 {
        RESOLUTION
    }
}
