//! What was measured: a value of each candidate in each block, as a logarithm, more being better.

use super::sequence;
use crate::middle::median;

/// Residuals beyond so many standard deviations are left out.
pub(super) const FAR: f64 = 3.5;

/// Degrees of freedom that the spread of all candidates lends to that of one pair.
pub(super) static LENT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(8);

#[derive(Debug, Clone)]
pub struct Table {
    /// By block, then candidate.
    values: Vec<Vec<Option<f64>>>,
    candidates: usize,
}

/// How two candidates compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    pub log: f64,
    pub error: f64,
    pub n: usize,
    pub df: f64,
}

#[derive(Debug, Clone)]
pub struct Fit {
    kept: Vec<Vec<Option<f64>>>,
    pub effects: Vec<f64>,
    pub variance: f64,
    pub df: f64,
    own: Vec<(f64, f64)>,
}

impl Table {
    pub fn new(candidates: usize) -> Self {
        Self { values: Vec::new(), candidates }
    }

    pub fn record(&mut self, block: usize, candidate: usize, log: Option<f64>) {
        if self.values.len() <= block {
            self.values.resize(block + 1, vec![None; self.candidates]);
        }
        self.values[block][candidate] = log;
    }

    pub fn fit(&self) -> Fit {
        let k = self.candidates;
        let mut of_block = vec![0.0; self.values.len()];
        let mut effects = vec![0.0; k];
        let mut kept = self.values.clone();
        for _ in 0..3 {
            for (block, row) in kept.iter().enumerate() {
                of_block[block] = middle(row.iter().zip(&effects).filter_map(|(x, e)| Some((*x)? - e)));
            }
            for (i, effect) in effects.iter_mut().enumerate() {
                *effect = middle(kept.iter().zip(&of_block).filter_map(|(row, b)| Some(row[i]? - b)));
            }
        }
        let mut scale = vec![f64::INFINITY; k];
        let (mut variance, mut df) = (0.0f64, 0.0f64);
        for round in 0..4 {
            // Residuals of everything around the fit of what was kept.
            let residual = |block: usize, i: usize| Some(self.values[block][i]? - of_block[block] - effects[i]);
            let in_block: Vec<f64> = self.values.iter().map(|r| r.iter().flatten().count() as f64).collect();
            let of_arm: Vec<f64> =
                (0..k).map(|i| self.values.iter().filter(|r| r[i].is_some()).count() as f64).collect();
            let scaled = |block: usize, i: usize| {
                let part = (1.0 - 1.0 / in_block[block]) * (1.0 - 1.0 / of_arm[i]);
                Some(residual(block, i)?.abs() / part.sqrt()).filter(|_| part > 0.0)
            };
            let blocks = self.values.len();
            if round == 0 {
                let all: Vec<f64> = (0..blocks)
                    .flat_map(|b| (0..k).filter_map(move |i| Some((b, i))))
                    .filter_map(|(b, i)| scaled(b, i))
                    .filter(|x| *x > 0.0)
                    .collect();
                let common = 1.4826 * middle(all.iter().copied());
                scale.fill(common);
            } else {
                let common = variance.sqrt();
                for i in 0..k {
                    let c: f64 = std::env::var("INFL").ok().and_then(|v| v.parse().ok()).unwrap_or(0.0);
                    let own = 1.4826 * middle((0..blocks).filter_map(|b| scaled(b, i))) * (1.0 + c / of_arm[i].sqrt());
                    scale[i] = common.max(own);
                }
            }
            kept = self.values.clone();
            for b in 0..blocks {
                for i in 0..k {
                    if scaled(b, i).is_some_and(|x| {
                        x > std::env::var("FAR").ok().and_then(|v| v.parse().ok()).unwrap_or(FAR) * scale[i]
                    }) {
                        kept[b][i] = None;
                    }
                }
            }
            for _ in 0..4 {
                for (b, row) in kept.iter().enumerate() {
                    of_block[b] = mean(row.iter().zip(&effects).filter_map(|(x, e)| Some((*x)? - e)), of_block[b]);
                }
                for (i, effect) in effects.iter_mut().enumerate() {
                    *effect = mean(kept.iter().zip(&of_block).filter_map(|(row, b)| Some(row[i]? - b)), *effect);
                }
            }
            let n = kept.iter().flatten().flatten().count() as f64;
            let used_blocks = kept.iter().filter(|r| r.iter().flatten().count() > 0).count() as f64;
            let used_arms = (0..k).filter(|i| kept.iter().any(|r| r[*i].is_some())).count() as f64;
            df = n - used_blocks - used_arms + 1.0;
            let squares: f64 = kept
                .iter()
                .zip(&of_block)
                .flat_map(|(row, b)| row.iter().zip(&effects).filter_map(move |(x, e)| Some(((*x)? - b - e).powi(2))))
                .sum();
            variance = if df > 0.0 { squares / df } else { 0.0 };
        }
        let all = kept.iter().flatten().flatten().count() as f64;
        let own = (0..k)
            .map(|i| {
                let mut n = 0.0;
                let mut ss = 0.0;
                for (b, row) in kept.iter().enumerate() {
                    if let Some(x) = row[i] {
                        n += 1.0;
                        ss += (x - of_block[b] - effects[i]).powi(2);
                    }
                }
                (ss, n * df / all)
            })
            .collect();
        Fit { kept, effects, variance, df, own }
    }
}

impl Fit {
    /// How much better `a` is than `b`.
    pub fn pair(&self, a: usize, b: usize) -> Option<Pair> {
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for row in &self.kept {
            if let (Some(x), Some(y)) = (row[a], row[b]) {
                let d = x - y;
                n += 1.0;
                sum += d;
                squares += d * d;
            }
        }
        if n < 2.0 {
            return None;
        }
        let log = sum / n;
        let own = (squares - n * log * log).max(0.0);
        let _ = squares;
        let all = self.variance * self.df;
        let others_df = self.df - self.own[a].1 - self.own[b].1;
        let others = if others_df > 0.5 { (all - self.own[a].0 - self.own[b].0).max(0.0) / others_df } else { 0.0 };
        let lent = (LENT.load(std::sync::atomic::Ordering::Relaxed) as f64).min(others_df.max(0.0));
        let c: f64 = std::env::var("APART").ok().and_then(|v| v.parse().ok()).unwrap_or(2.0);
        let of = |i: usize| {
            let (ss, df) = self.own[i];
            let lent = lent.min(df * std::env::var("RATIO").ok().and_then(|v| v.parse().ok()).unwrap_or(100.0));
            if lent < 0.5 || ss / df > c * others {
                (ss / df, df)
            } else {
                ((ss + lent * others) / (df + lent), df + lent)
            }
        };
        let ((va, fa), (vb, fb)) = (of(a), of(b));
        let variance = va + vb;
        let df = variance * variance / (va * va / fa + vb * vb / fb);
        Some(Pair { log, error: (variance / n).sqrt(), n: n as usize, df })
    }
}

impl Pair {
    pub fn evidence(&self) -> f64 {
        sequence::evidence(self.log / self.error, self.n as f64, self.df)
    }
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = values.collect();
    median(all).unwrap_or(0.0)
}

fn mean(values: impl Iterator<Item = f64>, otherwise: f64) -> f64 {
    let (n, sum) = values.fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + x));
    if n > 0.0 { sum / n } else { otherwise }
}
