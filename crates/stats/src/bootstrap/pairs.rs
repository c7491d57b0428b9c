//! The median ratio of pairs.

use super::median::middle;
use super::statistic::Statistic;

/// Up to this many pairs, iterating over all means is faster than bisection.
const FEW: usize = 100;

/// The median ratio of pairs.
#[derive(Debug, Clone)]
pub(super) struct PairRatios {
    /// Logarithms of the ratios in ascending order, with the index of the pair.
    logs: Vec<(f64, usize)>,
    /// Means of all two ratios (including a ratio with itself) in ascending order, with the indices of their pairs.
    means: Vec<(f64, [u32; 2])>,
}

impl PairRatios {
    pub fn new(a: &[f64], b: &[f64]) -> Option<Self> {
        let log = |((a, b), pair): ((&f64, &f64), usize)| {
            Some(((b / a).ln(), pair)).filter(|(x, _)| *a > 0.0 && x.is_finite())
        };
        let logs = a.iter().zip(b).zip(0..).map(log).collect::<Option<Vec<_>>>();
        let mut logs = logs.filter(|logs| !logs.is_empty())?;
        logs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let with_later = |(i, (log, pair)): (usize, &(f64, usize))| {
            let of = |(other, with): &(f64, usize)| (mean(*log, *other), [*pair as u32, *with as u32]);
            logs[i..].iter().map(of).collect::<Vec<_>>()
        };
        let mut means: Vec<_> = logs.iter().enumerate().flat_map(with_later).collect();
        means.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Self { logs, means })
    }

    /// Number of means of two draws that are at most `limit`. `up_to`: cumulative multiplicities of the logarithms.
    fn not_above(&self, limit: f64, times: &[u32], up_to: &[u64]) -> u64 {
        let (mut count, mut end) = (0, self.logs.len());
        for (i, (log, pair)) in self.logs.iter().enumerate() {
            // A bound that is too large for this logarithm is too large for all later ones.
            while end > i && mean(*log, self.logs[end - 1].0) > limit {
                end -= 1;
            }
            if end <= i {
                break;
            }
            let drawn = u64::from(times[*pair]);
            count += drawn * (drawn + 1) / 2 + drawn * (up_to[end] - up_to[i + 1]);
        }
        count
    }

    /// The smallest mean that is at least as large as half of the means. If it splits an even number exactly in half:
    /// the middle between it and the next one.
    pub(super) fn bisected(&self, times: &[u32]) -> f64 {
        let mut up_to = vec![0; self.logs.len() + 1];
        for (i, (_, pair)) in self.logs.iter().enumerate() {
            up_to[i + 1] = up_to[i] + u64::from(times[*pair]);
        }
        let n = up_to[self.logs.len()];
        let all = n * (n + 1) / 2;
        let not_above = |mean: f64| self.not_above(mean, times, &up_to);
        let place = |is: &dyn Fn(u64) -> bool| self.means.partition_point(|(mean, _)| !is(not_above(*mean)));
        let lower = self.means[place(&|count| 2 * count >= all)].0;
        match not_above(lower) {
            half if 2 * half == all => mean(lower, self.means[place(&|count| count > half)].0),
            _ => lower,
        }
    }
}

pub(super) fn mean(a: f64, b: f64) -> f64 {
    (a + b) / 2.0
}

impl Statistic for PairRatios {
    fn repeats(&self) -> usize {
        self.logs.len()
    }

    /// Median of the means of all two draws.
    fn log(&self, times: &[u32]) -> f64 {
        if self.logs.len() > FEW {
            return self.bisected(times);
        }
        let drawn = |[i, j]: [u32; 2]| match times[i as usize] {
            own if i == j => own * (own + 1) / 2,
            own => own * times[j as usize],
        };
        let n: u32 = times.iter().sum();
        middle(self.means.iter().map(|(mean, of)| (*mean, drawn(*of))), n * (n + 1) / 2)
    }

    fn resolution(&self) -> f64 {
        0.0
    }
}
