//! The mean over all items from a weighted sample. The weight is the inverse of the sampling probability
//! (Horvitz–Thompson).
//!
//! **Interval.** It covers the sampling error only: the mean over all items of this span, not of another span. The
//! variance is that of a ratio estimator: the sum of w(w − 1)(x − m)² divided by the squared sum of weights. An item of
//! weight 1 contributes nothing. Latencies are skewed, and the symmetric interval of such a sample misses the mean on
//! its upper side: in one of ten cases for 500 log-normal values (σ = 1.5). It is therefore corrected for skewness
//! (Hall, "On the removal of skewness by transformation", 1992), with Student's t for few sampled items among many
//! known ones. This only needs three sums of powers: no resampling, and sums can be added.
//!
//! **Unseen values.** If n items were sampled, up to a share of 3 / n of all items may be in a range without samples,
//! in 95 of 100 cases (the rule of three). The ends are moved as if that share were as slow as the slowest sample, and
//! as fast as the fastest.
//!
//! **Error.** Simulated (`mean_tests.rs`): with [`ENOUGH`] items the interval contains the mean in at least 95 of 100
//! cases, for exponential distributions, log-normal ones up to σ = 2 (where the slowest hundredth has more than a third
//! of the sum), and with one item in a hundred slower by a factor of 100, or of 10 and exponential. For a tail without
//! a variance (Pareto, α = 1.5) it is 94. With fewer items the mean may be far off without any indication: with 160,
//! one sample in five contains none of the slow hundredth. There is then no interval. A sample of n does not show
//! values that are far slower and rarer than one in n.

use super::student;

/// Minimum effective sample size (Kish: number of equally weighted items that would vary as much) for an interval. The
/// 99 % quantile needs the same number, because the error of a mean comes from values above it.
pub(crate) const ENOUGH: f64 = 500.0;

/// Times n: the largest share that is missing from a sample of n with probability 0.05 (−ln 0.05).
const UNMET: f64 = 3.0;

/// With more degrees of freedom, Student's t equals the normal quantile to 1 %.
const DEGREES: u64 = 200;

/// Sums over the items.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mean {
    /// Sums of weights, squared weights, and weighted values.
    weights: f64,
    squares: f64,
    sum: f64,
    /// Number of items with a weight above 1.
    sampled: u64,
    heaviest: u32,
    /// Sums of w(w − 1) x⁰ to x².
    spread: [f64; 3],
    /// Sums of w(w − 1)(w − 2) x⁰ to x³.
    skew: [f64; 4],
    /// Smallest and largest value; `None` without items.
    ends: Option<(f64, f64)>,
}

impl Mean {
    /// `weight`: at least 1.
    pub fn take(&mut self, value: f64, weight: u32) {
        let w = f64::from(weight);
        self.weights += w;
        self.squares += w * w;
        self.sum += w * value;
        self.ends = wider(self.ends, Some((value, value)));
        if weight <= 1 {
            return;
        }
        self.sampled += 1;
        self.heaviest = self.heaviest.max(weight);
        let mut power = w * (w - 1.0);
        for sum in &mut self.spread {
            *sum += power;
            power *= value;
        }
        let mut power = w * (w - 1.0) * (w - 2.0);
        for sum in &mut self.skew {
            *sum += power;
            power *= value;
        }
    }

    pub fn add(&mut self, other: &Mean) {
        self.weights += other.weights;
        self.squares += other.squares;
        self.sum += other.sum;
        self.sampled += other.sampled;
        self.heaviest = self.heaviest.max(other.heaviest);
        self.spread.iter_mut().zip(other.spread).for_each(|(sum, n)| *sum += n);
        self.skew.iter_mut().zip(other.skew).for_each(|(sum, n)| *sum += n);
        self.ends = wider(self.ends, other.ends);
    }

    /// `None` without items.
    pub fn mean(&self) -> Option<f64> {
        (self.weights > 0.0).then(|| self.sum / self.weights)
    }

    /// Number of equally weighted items that would vary as much (Kish).
    pub fn effective(&self) -> f64 {
        if self.squares > 0.0 { self.weights * self.weights / self.squares } else { 0.0 }
    }

    /// 95 % interval of the mean over all items if 1 in `one_in` of the sampled ones was taken; 1: nothing was left
    /// out, and both ends are the mean. `None` with too few items.
    pub fn interval(&self, one_in: u32) -> Option<[f64; 2]> {
        let (mean, (least, greatest)) = (self.mean()?, self.ends?);
        let one_in = one_in.max(self.heaviest);
        if one_in <= 1 {
            return Some([mean; 2]);
        }
        if self.effective() < ENOUGH {
            return None;
        }
        let (error, skewness) = self.error(mean);
        let t = student::quantile(0.975, self.sampled.saturating_sub(1).min(DEGREES) as f64);
        let unmet = UNMET * f64::from(one_in) / self.weights;
        let lo = mean - error * bent(t, skewness) - unmet * (mean - least);
        let hi = mean - error * bent(-t, skewness) + unmet * (greatest - mean);
        Some([lo.max(0.0).min(mean), hi])
    }

    /// Standard error of the mean, and the skewness of its error.
    fn error(&self, mean: f64) -> (f64, f64) {
        let [s0, s1, s2] = self.spread;
        let squares = s2 - 2.0 * mean * s1 + mean * mean * s0;
        // Equal values differ by rounding.
        if squares <= 1e-9 * mean * mean * s0 {
            return (0.0, 0.0);
        }
        let [k0, k1, k2, k3] = self.skew;
        let cubes = k3 - 3.0 * mean * k2 + 3.0 * mean * mean * k1 - mean.powi(3) * k0;
        let few = self.sampled as f64 / self.sampled.saturating_sub(1).max(1) as f64;
        ((squares * few).sqrt() / self.weights, cubes / squares.powf(1.5))
    }
}

/// The score in a distribution with this skewness that corresponds to `z` in one without: Hall's transformation,
/// inverted.
fn bent(z: f64, skewness: f64) -> f64 {
    if skewness.abs() < 1e-6 {
        return z;
    }
    3.0 / skewness * ((1.0 + skewness * (z - skewness / 6.0)).cbrt() - 1.0)
}

fn wider(a: Option<(f64, f64)>, b: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (some, none) => some.or(none),
    }
}

#[cfg(test)]
#[path = "mean_tests.rs"]
mod tests;
