//! The search for the best of a few candidates: blocks in which each survivor is measured once, and after each block those are dropped
//! that are surely not the best.
//!
//! **Elimination.** For a candidate i, each other candidate j has the evidence E(j > i) that it is better ([`sequence`]). When the mean
//! of these over all other candidates reaches 1/α, i goes. A mean of e-processes is an e-process, however they depend on each other, so
//! a candidate that no other one surpasses is dropped at any block with a chance of α at most. It is never weaker than to divide α by
//! the number of others (Bonferroni), and evidence of candidates that went in the meantime still counts.
//!
//! **The end**: one is left; or each survivor's interval against the leader lies within the practical threshold, each end at
//! α / (candidates − 1); or the next block is beyond the budget. Any other stop, an interrupt too, leaves the survivors as valid.
//!
//! **The first candidate**, the configuration as it is, has no privilege: it goes when it is surely worse. How much better the leader is
//! than it has to come from fresh blocks ([`bootstrap::paired`](crate::bootstrap::paired)): the leader was chosen for its luck too, and
//! the advantage seen in the search is too large on average.
//!
//! **Error.** Exact for Gaussian logarithms of known spreads. Simulated with outliers and unknown spreads: `search/tests.rs`,
//! docs/method.md.

mod front;
mod sequence;
mod table;
#[cfg(test)]
mod tests;

pub use self::front::{Limit, at_least, at_most, front};
pub use self::sequence::interval;
pub use self::table::{Advantage, Better, Fit, Table};
use super::random::Random;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub better: Better,
    /// Survivors within this of the leader are as good: 0.01 is 1 %.
    pub threshold: f64,
    /// Nothing is judged before.
    pub min_blocks: usize,
    pub max_blocks: usize,
    /// Measurements in all.
    pub budget: usize,
}

impl Options {
    /// Within 1 %, judged from five blocks on, no end but the measurements'.
    pub fn new(better: Better, budget: usize) -> Self {
        Self { better, threshold: 0.01, min_blocks: 5, max_blocks: usize::MAX, budget }
    }
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    OneLeft,
    /// Every survivor is within the threshold of the leader.
    Equivalent,
    /// The next block would take more blocks or measurements than allowed.
    Budget,
}

/// What to measure next: each of the candidates once, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub number: usize,
    pub order: Vec<usize>,
}

#[derive(Debug, Clone)]
pub struct Search {
    options: Options,
    alpha: f64,
    random: Random,
    table: Table,
    fit: Fit,
    survivors: Vec<usize>,
    candidates: usize,
    blocks: usize,
    measurements: usize,
    finished: Option<Reason>,
}

impl Search {
    /// `alpha`: the chance that the best one is dropped.
    pub fn new(candidates: usize, alpha: f64, options: Options, seed: u64) -> Self {
        let table = Table::new(candidates, options.better);
        Self {
            options,
            alpha,
            random: Random::new(seed),
            fit: table.fit(),
            table,
            survivors: (0..candidates).collect(),
            candidates,
            blocks: 0,
            measurements: 0,
            finished: None,
        }
    }

    /// Judges what was recorded, and asks for the next block. `None`: the search is over, for the reason in [`Search::finished`].
    pub fn next_block(&mut self) -> Option<Block> {
        if self.finished.is_none() {
            self.finished = self.judge();
        }
        if self.finished.is_some() {
            return None;
        }
        let mut order = self.survivors.clone();
        for i in (1..order.len()).rev() {
            order.swap(i, self.random.below(i as u64 + 1) as usize);
        }
        let number = self.blocks;
        self.blocks += 1;
        self.measurements += order.len();
        Some(Block { number, order })
    }

    /// A value of a candidate in a block. One that failed or was disturbed is not recorded; one that was made again replaces the first.
    pub fn record(&mut self, block: usize, candidate: usize, value: f64) {
        self.table.record(block, candidate, value);
    }

    /// Drops a candidate for another reason: it can't be measured, or breaks a limit.
    pub fn remove(&mut self, candidate: usize) {
        self.survivors.retain(|i| *i != candidate);
    }

    /// Those not dropped as of the last block that was judged, in the order of their numbers.
    pub fn survivors(&self) -> &[usize] {
        &self.survivors
    }

    /// The survivor that seems best. `None`: none has a value.
    pub fn leader(&self) -> Option<usize> {
        let level = |i: usize| self.fit.level(i).map(|level| (i, level));
        let levels = self.survivors.iter().filter_map(|i| level(*i));
        levels.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(i, _)| i)
    }

    pub fn finished(&self) -> Option<Reason> {
        self.finished
    }

    /// Measurements that were asked for.
    pub fn measurements(&self) -> usize {
        self.measurements
    }

    /// How many times as good `a` is as `b`. All intervals of one candidate hold together, at all blocks: each end has α divided by the
    /// number of others.
    pub fn advantage(&self, a: usize, b: usize) -> Option<Advantage> {
        self.fit.advantage(a, b, self.alpha / self.others())
    }

    /// Levels, outliers and intervals as of the last block that was judged.
    pub fn fit(&self) -> &Fit {
        &self.fit
    }

    fn others(&self) -> f64 {
        (self.candidates.max(2) - 1) as f64
    }

    fn judge(&mut self) -> Option<Reason> {
        self.fit = self.table.fit();
        let judged = self.blocks >= self.options.min_blocks;
        if judged {
            self.eliminate();
        }
        if self.survivors.len() <= 1 {
            return Some(Reason::OneLeft);
        }
        if judged && self.all_equivalent() {
            return Some(Reason::Equivalent);
        }
        let beyond = self.measurements.saturating_add(self.survivors.len()) > self.options.budget;
        (beyond || self.blocks >= self.options.max_blocks).then_some(Reason::Budget)
    }

    fn eliminate(&mut self) {
        let Some(leader) = self.leader() else { return };
        let surpassed = |i: usize| {
            let others = (0..self.candidates).filter(|j| *j != i);
            others.map(|j| self.fit.evidence(j, i)).sum::<f64>() >= self.others() / self.alpha
        };
        let stay: Vec<usize> = self.survivors.iter().copied().filter(|i| *i == leader || !surpassed(*i)).collect();
        self.survivors = stay;
    }

    fn all_equivalent(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let most = 1.0 + self.options.threshold;
        let within = |i: usize| self.advantage(i, leader).is_some_and(|a| a.lo >= 1.0 / most && a.hi <= most);
        self.survivors.iter().all(|i| *i == leader || within(*i))
    }
}
