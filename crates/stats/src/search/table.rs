//! Measured values per candidate and block, and the comparison of two candidates.
//!
//! **Model.** The logarithm of a value is the candidate's level plus the block's level plus noise. Two candidates are
//! compared by the mean of their differences over the blocks that contain both: the block level, which is the drift,
//! cancels.
//!
//! **Outliers.** A value that deviates from its two levels by more than [`FAR`] standard deviations is left out. The
//! standard deviation is that of all kept values, or the candidate's own (median absolute deviation) if larger. Both
//! are widened, by 1 + 1/√df and 1 + 1/√n, because few values look alike by chance. So a rare stall costs one value and
//! decides nothing. [`Fit::left_out`] counts outliers, because frequent stalls of a candidate are a finding of their
//! own.
//!
//! **Pairs.** Two candidates are compared by their differences, with the differences' own variance, which is correct
//! however unequally the candidates vary. Outliers are left out again, by the distance of a difference from the median
//! difference, since both signs are equally likely for equal candidates. The remaining values vary less than the true
//! noise, so the variance is divided by the square of the remaining share.
//!
//! **Memory.** Two tables of 16 bytes per value; a fit takes time proportional to the number of values.

use super::sequence;
use crate::middle::{deviation, median};

/// Values that deviate by more than this many standard deviations are left out.
const FAR: f64 = 3.0;

/// Whether larger or smaller values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}

type Row = Vec<Option<f64>>;

/// Values of all candidates, block by block.
#[derive(Debug, Clone)]
pub struct Table {
    better: Better,
    candidates: usize,
    /// Logarithms, where larger is better.
    rows: Vec<Row>,
}

/// Levels and spreads of all candidates.
#[derive(Debug, Clone)]
pub struct Fit {
    rows: Vec<Row>,
    kept: Vec<Row>,
    left_out: Vec<usize>,
    /// Levels of blocks and candidates.
    levels: Levels,
    /// Sum of squared residuals and its degrees of freedom.
    spread: (f64, f64),
}

/// Factor by which one candidate is better than another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Advantage {
    pub ratio: f64,
    /// Infinite if there are too few blocks.
    pub lo: f64,
    pub hi: f64,
    /// Number of blocks with kept values of both.
    pub blocks: usize,
}

#[derive(Debug, Clone)]
struct Levels {
    blocks: Vec<f64>,
    candidates: Vec<f64>,
}

/// Mean of the differences between two candidates.
pub(super) struct Pair {
    pub(super) log: f64,
    pub(super) error: f64,
    n: usize,
    pub(super) df: f64,
}

impl Table {
    pub fn new(candidates: usize, better: Better) -> Self {
        Self { better, candidates, rows: Vec::new() }
    }

    /// A second value for the same cell replaces the first. A value that is not finite or not above 0 counts as
    /// missing.
    pub fn record(&mut self, block: usize, candidate: usize, value: f64) {
        if self.rows.len() <= block {
            self.rows.resize(block + 1, vec![None; self.candidates]);
        }
        let log = match self.better {
            Better::More => value.ln(),
            Better::Less => -value.ln(),
        };
        self.rows[block][candidate] = Some(log).filter(|x| x.is_finite());
    }

    pub fn fit(&self) -> Fit {
        let rows = &self.rows;
        let mut levels = Levels { blocks: vec![0.0; rows.len()], candidates: vec![0.0; self.candidates] };
        levels.sweep(rows, 3, median);
        // The median sweep leaves a residual of 0 per row and column, which must not count in the spread.
        let off = self.offs(&levels);
        let nonzero = off.iter().flatten().flatten().copied().filter(|x| *x > 0.0);
        let mut limits = vec![FAR * deviation(nonzero, 0.0).unwrap_or(0.0); self.candidates];
        let mut fit = self.within(levels, &off, &limits);
        for _ in 0..3 {
            let off = self.offs(&fit.levels);
            let (squares, df) = fit.spread;
            // Without widening, each round would leave out more values, and the rest would look more alike.
            let common = if df > 0.0 { (squares / df).sqrt() * (1.0 + 1.0 / df.sqrt()) } else { 0.0 };
            for (i, limit) in limits.iter_mut().enumerate() {
                let own: Vec<f64> = off.iter().filter_map(|row| row[i]).collect();
                let widened = 1.0 + 1.0 / (own.len() as f64).sqrt();
                *limit = FAR * deviation(own, 0.0).map_or(common, |own| common.max(own * widened));
            }
            fit = self.within(fit.levels, &off, &limits);
        }
        fit
    }

    /// Distance of each value from its levels, corrected for the value's own influence on them.
    fn offs(&self, levels: &Levels) -> Vec<Row> {
        let of_candidate: Vec<usize> =
            (0..self.candidates).map(|i| self.rows.iter().filter(|row| row[i].is_some()).count()).collect();
        let free = |n: usize| 1.0 - 1.0 / n as f64;
        let row = |(row, block): (&Row, &f64)| {
            let in_block = row.iter().flatten().count();
            let off = |(i, x): (usize, &Option<f64>)| {
                let part = free(in_block) * free(of_candidate[i]);
                Some((*x)? - block - levels.candidates[i]).filter(|_| part > 0.0).map(|r| r.abs() / part.sqrt())
            };
            row.iter().enumerate().map(off).collect()
        };
        self.rows.iter().zip(&levels.blocks).map(row).collect()
    }

    /// Least-squares fit of the values that deviate by no more than their candidate's limit.
    fn within(&self, mut levels: Levels, off: &[Row], limits: &[f64]) -> Fit {
        let mut kept = self.rows.clone();
        let mut left_out = vec![0; self.candidates];
        for (row, off) in kept.iter_mut().zip(off) {
            for (i, x) in row.iter_mut().enumerate() {
                if off[i].is_some_and(|off| off > limits[i] * (1.0 + 1e-9) + 1e-12) {
                    *x = None;
                    left_out[i] += 1;
                }
            }
        }
        levels.sweep(&kept, 4, mean);
        let mut counts = vec![0.0; self.candidates];
        let mut squares = 0.0;
        for (row, block) in kept.iter().zip(&levels.blocks) {
            for (i, x) in row.iter().enumerate() {
                if let Some(x) = x {
                    counts[i] += 1.0;
                    squares += (x - block - levels.candidates[i]).powi(2);
                }
            }
        }
        let all: f64 = counts.iter().sum();
        let blocks = kept.iter().filter(|row| row.iter().any(Option::is_some)).count() as f64;
        let candidates = counts.iter().filter(|n| **n > 0.0).count() as f64;
        let spread = (squares, (all - blocks - candidates + 1.0).max(0.0));
        Fit { rows: self.rows.clone(), kept, left_out, levels, spread }
    }
}

impl Levels {
    /// Updates the block and candidate levels alternately, each from the residuals of the other.
    fn sweep(&mut self, rows: &[Row], times: usize, centre: impl Fn(Vec<f64>) -> Option<f64>) {
        for _ in 0..times {
            for (row, block) in rows.iter().zip(&mut self.blocks) {
                let left = row.iter().zip(&self.candidates).filter_map(|(x, level)| Some((*x)? - level));
                *block = centre(left.collect()).unwrap_or(*block);
            }
            for (i, level) in self.candidates.iter_mut().enumerate() {
                let left = rows.iter().zip(&self.blocks).filter_map(|(row, block)| Some(row[i]? - block));
                *level = centre(left.collect()).unwrap_or(*level);
            }
        }
    }
}

impl Fit {
    /// A candidate's level on a logarithmic scale, where larger is better; only differences are meaningful. `None` if
    /// no value was kept.
    pub fn level(&self, candidate: usize) -> Option<f64> {
        self.kept.iter().any(|row| row[candidate].is_some()).then(|| self.levels.candidates[candidate])
    }

    /// Number of the candidate's values left out as outliers.
    pub fn left_out(&self, candidate: usize) -> usize {
        self.left_out[candidate]
    }

    /// Factor by which `a` is better than `b`. Each end misses the true value, over all blocks so far, with a
    /// probability of at most `alpha`. `None` if fewer than two blocks have both.
    pub fn advantage(&self, a: usize, b: usize, alpha: f64) -> Option<Advantage> {
        let pair = self.pair(a, b)?;
        let reach = sequence::reach(pair.n as f64, pair.df, 1.0 / alpha).map_or(f64::INFINITY, |t| t * pair.error);
        let ratio = pair.log.exp();
        let (lo, hi) = ((pair.log - reach).exp(), (pair.log + reach).exp());
        Some(Advantage { ratio, lo, hi, blocks: pair.n })
    }

    /// See [`Search::blocks_until`](super::Search::blocks_until).
    pub(super) fn blocks_until(&self, a: usize, b: usize, needed: f64, width: f64) -> Option<usize> {
        let pair = self.pair(a, b)?;
        let had = pair.n as f64;
        let reaches = |n: usize| {
            let more = n as f64 / had;
            let reach = sequence::reach(n as f64, pair.df * more, needed);
            reach.is_some_and(|t| t * pair.error / more.sqrt() <= width.ln_1p())
        };
        let (mut low, mut high) = (1, 10_000);
        if !reaches(high) {
            return None;
        }
        while high - low > 1 {
            let middle = (low + high) / 2;
            if reaches(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// Evidence that the logarithm of `a`'s advantage over `b` is above `bound`; 1 if nothing is known.
    pub(super) fn evidence(&self, a: usize, b: usize, bound: f64) -> f64 {
        self.pair(a, b).map_or(1.0, |p| sequence::evidence((p.log - bound) / p.error, p.n as f64, p.df))
    }

    pub(super) fn pair(&self, a: usize, b: usize) -> Option<Pair> {
        let both: Vec<f64> = self.rows.iter().filter_map(|row| Some(row[a]? - row[b]?)).collect();
        let (all, centre) = (both.len() as f64, median(both.iter().copied())?);
        let limit = FAR * (1.0 + 1.0 / all.sqrt()) * deviation(both.iter().copied(), centre)?;
        let kept: Vec<f64> = both.into_iter().filter(|d| (d - centre).abs() <= limit * (1.0 + 1e-9) + 1e-12).collect();
        let (n, squares) = (kept.len(), |mean: f64| kept.iter().map(|d| (d - mean).powi(2)).sum::<f64>());
        if n < 2 {
            return None;
        }
        let (log, df) = (kept.iter().sum::<f64>() / n as f64, n as f64 - 1.0);
        let variance = squares(log) / df * (all / n as f64).powi(2);
        Some(Pair { log, error: (variance / n as f64).sqrt(), n, df })
    }
}

fn mean(values: Vec<f64>) -> Option<f64> {
    let n = values.len() as f64;
    (n > 0.0).then(|| values.iter().sum::<f64>() / n)
}
