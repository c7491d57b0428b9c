//! Ratio of two arms and its 95 % interval, from few repeats, by bootstrap.
//!
//! **Resampling.** If the arms were interleaved, complete blocks (*pairs*) are drawn, otherwise repeats of each side.
//!
//! **Statistic of a draw.** For pairs of values: the Hodges–Lehmann estimate on logarithms, which is the median of
//! their ratios and of the geometric means of all two ratios. Drift affects both arms of a pair and cancels in its
//! ratio. A ratio of the arms' medians would combine different blocks, and under drift more repeats would not make it
//! more precise. For unpaired values each side has its own estimate; with five or fewer repeats the means of the
//! logarithms are compared without resampling ([`apart()`]). For latencies: the ratio of a quantile of the merged
//! histograms of the drawn repeats.
//!
//! **Interval.** The standard error is the spread s of the draws on logarithms, times √(n/(n−1)), because n values vary
//! less about their own mean than about the true mean. s is itself estimated from few values, so the interval is log
//! ratio ± t·s with Student's t with n−1 degrees of freedom in place of the normal 1.96. If the 2.5 % and 97.5 %
//! percentiles of the draws are further apart, the interval extends to them; this happens if a single repeat decides a
//! tail. Percentiles alone would be too narrow: with 5 pairs they contain the true ratio in 87 % of cases. An exact
//! interval of order statistics does not exist below 6 pairs.
//!
//! **Error.** Simulated (`bootstrap/tests.rs`): with at least 2 pairs the interval contains the true ratio in at least
//! 94 % of cases, with normal, log-normal and heavier-tailed noise, outliers, or drift. Equal arms are thus reported as
//! different in at most about 5 %. Repeats are assumed to be independent, except for drift. With 2 or 3 pairs the
//! interval is wide. Resampling itself adds 2 % to the width; the same values yield the same interval.
//!
//! **Cost.** 2,000 draws, each a bisection: for n pairs of values among their n²/2 ratios, with a pass over the pairs
//! per step; for n histograms with 2n sums per step.

mod apart;
mod median;
mod merged;
mod pairs;
mod statistic;

pub use self::apart::apart;
pub use self::median::Median;
pub use self::merged::{Counts, MergedQuantile};
use self::pairs::PairRatios;
pub use self::statistic::Statistic;
use super::random::SplitMix64;
use super::student;

/// Minimum number of pairs, or of repeats per side, for an interval: a single value has no spread.
pub const FEWEST: usize = 2;

/// More repeats than any run makes.
const MOST: usize = 100_000;

/// Number of draws: s has an error of 1 / √(2·2,000), 1.6 %.
const DRAWS: usize = 2_000;

/// Ratio of b's value to a's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub ratio: f64,
    pub interval: Option<Interval>,
}

/// The 95 % interval of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub lo: f64,
    pub hi: f64,
    /// Probability of a difference at least this large if the arms are equal: the interval with this error probability
    /// ends exactly at 1.
    pub p: f64,
    /// Standard error of the ratio's logarithm and its degrees of freedom.
    standard_error: f64,
    df: f64,
}

/// For interleaved arms, where values with the same index form a pair. `None` if an arm has no values, or a value is
/// not positive.
pub fn paired(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let pairs = PairRatios::new(a, b)?;
    Some(of_blocks(pairs.repeats(), pairs.resolution(), |times| pairs.log(times)))
}

/// For latencies of interleaved arms with equal numbers of repeats.
pub fn paired_quantiles(a: &MergedQuantile, b: &MergedQuantile) -> Ratio {
    of_blocks(a.repeats().min(b.repeats()), a.resolution(), |times| b.log(times) - a.log(times))
}

fn of_blocks(n: usize, resolution: f64, log: impl Fn(&[u32]) -> f64) -> Ratio {
    let measured = log(&vec![1; n]);
    if n < FEWEST {
        return Ratio { ratio: measured.exp(), interval: None };
    }
    let logs = draws(&mut SplitMix64::new(0), n, log);
    let error = deviation(&logs) * inflated(n);
    Ratio { ratio: measured.exp(), interval: Some(interval(measured, logs, error, n as f64 - 1.0, resolution)) }
}

/// Value and interval of one side, by resampling its repeats.
pub fn alone(of: &impl Statistic) -> Ratio {
    of_blocks(of.repeats(), of.resolution(), |times| of.log(times))
}

/// For sides measured at different times: drift between them affects the ratio but no interval.
pub fn unpaired(a: &impl Statistic, b: &impl Statistic) -> Ratio {
    let (n, m) = (a.repeats(), b.repeats());
    let measured = b.log(&vec![1; m]) - a.log(&vec![1; n]);
    if n.min(m) < FEWEST {
        return Ratio { ratio: measured.exp(), interval: None };
    }
    // Both sides draw from one random stream, so that equal sides have different draws.
    let mut random = SplitMix64::new(0);
    let of_a = draws(&mut random, n, |times| a.log(times));
    let of_b = draws(&mut random, m, |times| b.log(times));
    let (in_a, in_b) = ((deviation(&of_a) * inflated(n)).powi(2), (deviation(&of_b) * inflated(m)).powi(2));
    let df = student::welch(in_a, n, in_b, m);
    let logs = of_a.iter().zip(&of_b).map(|(a, b)| b - a).collect();
    let resolution = a.resolution().max(b.resolution());
    Ratio { ratio: measured.exp(), interval: Some(interval(measured, logs, (in_a + in_b).sqrt(), df, resolution)) }
}

/// Statistics of draws from `n` repeats.
fn draws(random: &mut SplitMix64, n: usize, of: impl Fn(&[u32]) -> f64) -> Vec<f64> {
    let mut times = vec![0; n];
    let mut draw = || {
        times.fill(0);
        for _ in 0..n {
            times[random.below(n as u64) as usize] += 1;
        }
        of(&times)
    };
    (0..DRAWS).map(|_| draw()).collect()
}

fn inflated(n: usize) -> f64 {
    (n as f64 / (n as f64 - 1.0)).sqrt()
}

fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt()
}

fn interval(log: f64, mut logs: Vec<f64>, standard_error: f64, df: f64, resolution: f64) -> Interval {
    let reach = student::quantile(0.975, df) * standard_error;
    let tail = DRAWS / 40;
    // The logarithm is only known to the resolution. Two equal values do not vary at all.
    let off = (log.abs() - resolution).max(0.0);
    let strays = if off > 0.0 { student::beyond(off / standard_error, df) } else { 1.0 };
    let across = logs.iter().filter(|x| x.signum() != log.signum() || x.abs() <= resolution).count();
    let p = strays.max((2.0 * across as f64 / DRAWS as f64).min(1.0));
    let mut drawn = |place: usize| *logs.select_nth_unstable_by(place, f64::total_cmp).1;
    let lo = (log - reach).min(drawn(tail)) - resolution;
    let hi = (log + reach).max(drawn(DRAWS - 1 - tail)) + resolution;
    Interval { lo: lo.exp(), hi: hi.exp(), p, standard_error, df }
}

impl Interval {
    /// Half-width of the interval, as a factor minus 1: 0.02 if the interval extends to 1.02 times the ratio. The more
    /// distant end counts.
    pub fn relative_half_width(&self, ratio: f64) -> f64 {
        (self.hi / ratio).max(ratio / self.lo) - 1.0
    }

    /// The difference, as a factor minus 1, that this number of repeats with this spread detects in 95 % of cases. A
    /// difference is detected if the interval excludes 1 and it exceeds `noise_floor`. Few repeats estimate their
    /// spread poorly, so the spread is assumed to be as large as in the upper 80 % bound.
    pub fn smallest_visible(&self, ratio: f64, noise_floor: f64) -> f64 {
        let needed = self.relative_half_width(ratio).max(noise_floor).ln_1p();
        let strays = student::quantile(0.95, self.df) * self.standard_error;
        ((needed + strays) * student::spread_at_most(self.df)).exp_m1()
    }

    /// Number of repeats with this spread that detect `difference` (a factor minus 1) in 95 % of cases; `None` if there
    /// would be more than [`MOST`], or if nothing varied.
    pub fn repeats_to_show(&self, repeats: usize, difference: f64) -> Option<usize> {
        let of_one = self.standard_error * (repeats as f64).sqrt() * student::spread_at_most(self.df);
        let shows = |n: usize| {
            let df = n as f64 - 1.0;
            let t = student::quantile(0.975, df) + student::quantile(0.95, df);
            t * of_one / (n as f64).sqrt() <= difference.ln_1p()
        };
        let (mut few, mut many) = (FEWEST - 1, FEWEST);
        while !shows(many) {
            (few, many) = (many, 2 * many);
            if many > MOST {
                return None;
            }
        }
        while many - few > 1 {
            let middle = (few + many) / 2;
            if shows(middle) { many = middle } else { few = middle }
        }
        (of_one > 0.0).then_some(many)
    }
}

#[cfg(test)]
mod tests;
