//! The median of one value per repeat.

use super::statistic::Statistic;

/// Median of ascending values with multiplicities that add up to `n`; if `n` is even, the mean of the middle two.
pub(super) fn middle(rising: impl Iterator<Item = (f64, u32)>, n: u32) -> f64 {
    let (mut seen, mut lower) = (0, None);
    for (value, times) in rising.filter(|(_, times)| *times > 0) {
        if let Some(lower) = lower {
            return (lower + value) / 2.0;
        }
        seen += times;
        if 2 * seen > n {
            return value;
        }
        lower = (2 * seen == n).then_some(value);
    }
    lower.unwrap_or(f64::NAN)
}

/// The median of one value per repeat.
#[derive(Debug, Clone)]
pub struct Median {
    /// Sorted values, each with the index of its repeat.
    sorted: Vec<(f64, usize)>,
}

impl Median {
    /// `None` if `values` is empty, or a value has no logarithm.
    pub fn new(values: &[f64]) -> Option<Self> {
        if values.is_empty() || !values.iter().all(|x| x.is_finite() && *x > 0.0) {
            return None;
        }
        let mut sorted: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Self { sorted })
    }
}

impl Statistic for Median {
    fn repeats(&self) -> usize {
        self.sorted.len()
    }

    fn log(&self, times: &[u32]) -> f64 {
        middle(self.sorted.iter().map(|(value, repeat)| (*value, times[*repeat])), times.iter().sum()).ln()
    }

    fn resolution(&self) -> f64 {
        0.0
    }
}
