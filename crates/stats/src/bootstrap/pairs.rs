//! The middle of the ratios of pairs.

use super::statistic::Statistic;

/// The middle of the ratios of pairs.
#[derive(Debug, Clone)]
pub(super) struct PairRatios {
    /// Logarithms of the ratios, rising, with the pairs that they are of.
    logs: Vec<(f64, usize)>,
    /// The means of all two of them (twice the same too), rising.
    means: Vec<f64>,
}

impl PairRatios {
    pub fn new(a: &[f64], b: &[f64]) -> Option<Self> {
        let log = |((a, b), pair): ((&f64, &f64), usize)| {
            Some(((b / a).ln(), pair)).filter(|(x, _)| *a > 0.0 && x.is_finite())
        };
        let logs = a.iter().zip(b).zip(0..).map(log).collect::<Option<Vec<_>>>();
        let mut logs = logs.filter(|logs| !logs.is_empty())?;
        logs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let with_later = |i: usize| logs[i..].iter().map(move |(other, _)| *other);
        let mut means: Vec<f64> = (0..logs.len())
            .flat_map(|i| with_later(i).map(|other| mean(logs[i].0, other)).collect::<Vec<_>>())
            .collect();
        means.sort_by(f64::total_cmp);
        Some(Self { logs, means })
    }

    /// Of the means of all two draws, how many are not above `limit`. `up_to`: how often the first so many logarithms were drawn.
    fn not_above(&self, limit: f64, times: &[u32], up_to: &[u64]) -> u64 {
        let (mut count, mut end) = (0, self.logs.len());
        for (i, (log, pair)) in self.logs.iter().enumerate() {
            // What is too much with this one is so with each that follows.
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
}

pub(super) fn mean(a: f64, b: f64) -> f64 {
    (a + b) / 2.0
}

impl Statistic for PairRatios {
    fn repeats(&self) -> usize {
        self.logs.len()
    }

    /// The median of the means of all two draws: the first mean that at least half of them are not above; and of an even number that
    /// it parts in two halves, the middle between it and the next one that was drawn.
    fn log(&self, times: &[u32]) -> f64 {
        let mut up_to = vec![0; self.logs.len() + 1];
        for (i, (_, pair)) in self.logs.iter().enumerate() {
            up_to[i + 1] = up_to[i] + u64::from(times[*pair]);
        }
        let n = up_to[self.logs.len()];
        let all = n * (n + 1) / 2;
        let not_above = |mean: f64| self.not_above(mean, times, &up_to);
        let first = |is: &dyn Fn(u64) -> bool| self.means[self.means.partition_point(|m| !is(not_above(*m)))];
        let lower = first(&|count| 2 * count >= all);
        match not_above(lower) {
            half if 2 * half == all => mean(lower, first(&|count| count > half)),
            _ => lower,
        }
    }

    fn resolution(&self) -> f64 {
        0.0
    }
}
