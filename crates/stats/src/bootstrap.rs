//! The ratio of two arms and its 95 % interval, from few repeats, by drawing the repeats again and again from themselves.
//!
//! **What is drawn** are whole blocks where the arms were interleaved (*pairs*), else the repeats of each side by themselves.
//!
//! **What is taken of each draw.** Of pairs of numbers, the middle of their ratios: the median over all ratios, and over the
//! geometric means of all two of them (Hodges and Lehmann's estimate, on logarithms). What drifts falls on both arms of a pair and
//! cancels in its ratio; a ratio of the arms' medians would take the two from different blocks, and under drift more repeats would
//! not make it surer. Of unpaired numbers, the ratio of the medians. Of latencies, the ratio of a quantile of the drawn repeats'
//! merged histograms.
//!
//! **The interval.** The spread of what the draws give, s, on logarithms, is the standard error, once it is made √(n/(n−1)) times
//! as large: n values vary less about their own middle than about the true one. That s is itself known from few values, so the
//! interval is log ratio ± t·s with Student's t of n−1 degrees of freedom, not the normal's 1.96. Where the draws reach further
//! (2.5 % and 97.5 % of them), as they do when one repeat in many decides a tail, so does the interval. Percentiles alone would be
//! too narrow: of 5 pairs they hold the truth in 87 % of cases. An exact interval of order statistics does not exist below 6
//! pairs.
//!
//! **Error.** Simulated (`bootstrap_tests.rs`): the interval holds the true ratio in at least 94 % of cases from 2 pairs on,
//! whether repeats vary normally, log-normally, with tails heavier than that, with outliers, or drift; so two arms that are the
//! same are called different in about 5 % at most. Repeats are taken to be independent but for what drifts. Of 2 or 3 pairs the
//! interval is wide, as it has to be. The drawing itself adds 2 % of the width; the same values give the same interval.
//!
//! **Cost.** 2,000 draws, each a bisection: of n pairs of numbers among their n²/2 ratios, with a walk along the pairs at each step; of n
//! histograms, with 2n sums at each.

use hdrhistogram::Histogram;

use super::quantile::BEYOND;
use super::random::SplitMix64;
use super::student;

/// Pairs, or repeats of each side, below which there is no interval: one value has no spread.
pub const FEWEST: usize = 2;

/// Repeats that nobody makes.
const MOST: usize = 100_000;

/// Draws: s errs by 1 / √(2·2,000), 1.6 %.
const DRAWS: usize = 2_000;

/// A quantile of a histogram is a bin's upper end: right within 0.1 % on either side of the ratio.
const RESOLUTION: f64 = 0.001;

/// A number of one side, of its repeats drawn some times each.
pub trait Statistic {
    /// How many repeats there are.
    fn repeats(&self) -> usize;

    /// Its logarithm, where repeat i was drawn `times[i]` times; not all are 0.
    fn log(&self, times: &[u32]) -> f64;

    /// The relative error that the number has however many repeats there are.
    fn resolution(&self) -> f64;
}

/// The middle of the ratios of pairs.
#[derive(Debug, Clone)]
struct PairRatios {
    /// Logarithms of the ratios, rising, with the pairs that they are of.
    logs: Vec<(f64, usize)>,
    /// The means of all two of them (twice the same too), rising.
    means: Vec<f64>,
}

impl PairRatios {
    fn new(a: &[f64], b: &[f64]) -> Option<Self> {
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

fn mean(a: f64, b: f64) -> f64 {
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

/// The median of rising values, each there as often as it says, `n` in all; of an even number the mean of the two in the middle.
fn middle(rising: impl Iterator<Item = (f64, u32)>, n: u32) -> f64 {
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

/// The median of one number of each repeat.
#[derive(Debug, Clone)]
pub struct Median {
    /// Each with the repeat that it is of.
    sorted: Vec<(f64, usize)>,
}

impl Median {
    /// `None` where a value has no logarithm, or there are none.
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

/// One repeat's latencies: the different values, rising, and how often each was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts(Vec<(u64, u64)>);

impl Counts {
    pub fn of(histogram: &Histogram<u64>) -> Self {
        // A latency of 0 has no logarithm; the clock does not tell it from 1 ns.
        let recorded =
            histogram.iter_recorded().map(|v| (v.value_iterated_to().max(1), v.count_since_last_iteration()));
        Self(recorded.collect())
    }

    /// Of several measurements as if they were one.
    pub fn merged(several: &[&Counts]) -> Self {
        let mut all: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
        for (value, count) in several.iter().flat_map(|c| &c.0) {
            *all.entry(*value).or_default() += count;
        }
        Self(all.into_iter().collect())
    }
}

/// A quantile of the merged histograms of the repeats.
#[derive(Debug, Clone)]
pub struct MergedQuantile {
    q: f64,
    /// The different values of all repeats, rising.
    values: Vec<u64>,
    /// For each value, of each repeat, how many samples are not above it.
    up_to: Vec<u64>,
    repeats: usize,
}

impl MergedQuantile {
    /// `None` where a repeat has no samples, or all together have too few for this quantile (`stats::quantile`).
    pub fn new(repeats: &[&Counts], q: f64) -> Option<Self> {
        let mut values: Vec<u64> = repeats.iter().flat_map(|c| c.0.iter().map(|(value, _)| *value)).collect();
        values.sort_unstable();
        values.dedup();
        let n = repeats.len();
        let mut up_to = vec![0; values.len() * n];
        for (i, counts) in repeats.iter().enumerate() {
            let (mut sum, mut next) = (0, counts.0.iter().peekable());
            for (row, value) in values.iter().enumerate() {
                while let Some((_, count)) = next.next_if(|(v, _)| v <= value) {
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
        // The first row that is not below.
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

/// How many times as large b's number is as a's.
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
    /// How often equal arms would seem to differ as much, or more: what an interval that just reaches to 1 leaves out.
    pub p: f64,
    /// Of the ratio's logarithm, and the degrees of freedom that it is known with.
    standard_error: f64,
    df: f64,
}

/// Of numbers of arms that were interleaved: those at one place are a pair. `None` where one is not above 0, or there are none.
pub fn paired(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let pairs = PairRatios::new(a, b)?;
    Some(of_blocks(pairs.repeats(), pairs.resolution(), |times| pairs.log(times)))
}

/// Of latencies of arms that were interleaved. Both have as many repeats.
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

/// A side's own number, and its interval: what is drawn are its repeats.
pub fn alone(of: &impl Statistic) -> Ratio {
    of_blocks(of.repeats(), of.resolution(), |times| of.log(times))
}

/// Of sides that were measured apart: what drifted between them is in their difference and in no interval.
pub fn unpaired(a: &impl Statistic, b: &impl Statistic) -> Ratio {
    let (n, m) = (a.repeats(), b.repeats());
    let measured = b.log(&vec![1; m]) - a.log(&vec![1; n]);
    if n.min(m) < FEWEST {
        return Ratio { ratio: measured.exp(), interval: None };
    }
    // One stream after the other, so that equal sides are not drawn alike.
    let mut random = SplitMix64::new(0);
    let of_a = draws(&mut random, n, |times| a.log(times));
    let of_b = draws(&mut random, m, |times| b.log(times));
    let (in_a, in_b) = ((deviation(&of_a) * inflated(n)).powi(2), (deviation(&of_b) * inflated(m)).powi(2));
    // Welch and Satterthwaite.
    let df = (in_a + in_b).powi(2) / (in_a.powi(2) / (n as f64 - 1.0) + in_b.powi(2) / (m as f64 - 1.0));
    let df = if df.is_finite() { df } else { (n + m - 2) as f64 };
    let logs = of_a.iter().zip(&of_b).map(|(a, b)| b - a).collect();
    let resolution = a.resolution().max(b.resolution());
    Ratio { ratio: measured.exp(), interval: Some(interval(measured, logs, (in_a + in_b).sqrt(), df, resolution)) }
}

/// What the draws of `n` repeats give.
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
    // The logarithm itself is known within the resolution; of two that are the same nothing strays.
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
    /// Half of the interval as a factor less 1: 0.02 where it reaches to 1.02 times the ratio. The farther end, if one is.
    pub fn relative_half_width(&self, ratio: f64) -> f64 {
        (self.hi / ratio).max(ratio / self.lo) - 1.0
    }

    /// The difference, as a factor less 1, that this many repeats with this spread would show in 95 % of cases, where a difference
    /// counts that the interval keeps away from 1 and that is above `noise_floor`. Few repeats know their spread badly: it is
    /// taken to be as large as 80 % of such estimates allow.
    pub fn smallest_visible(&self, ratio: f64, noise_floor: f64) -> f64 {
        let needed = self.relative_half_width(ratio).max(noise_floor).ln_1p();
        let strays = student::quantile(0.95, self.df) * self.standard_error;
        ((needed + strays) * student::spread_at_most(self.df)).exp_m1()
    }

    /// How many repeats, each varying as those that this is of, would show `difference` (a factor less 1) in 95 % of cases; `None`:
    /// more than [`MOST`], or nothing varied.
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
#[path = "bootstrap_tests.rs"]
mod tests;
