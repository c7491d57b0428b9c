//! Search for the best of a few candidates. Each block measures every remaining candidate once; after a block,
//! candidates that are certainly not the best are dropped.
//!
//! **Elimination.** For a candidate i, each other candidate j has the evidence E(j > i) that j is better
//! ([`sequence`]). When the mean over all other candidates reaches 1/α, i is dropped. A mean of e-processes is an
//! e-process under any dependence. So a candidate that no other one surpasses is ever dropped with a probability of at
//! most α. This is never weaker than dividing α by the number of others (Bonferroni). Evidence of candidates that have
//! been dropped still counts, but not that of candidates removed for another reason, because they cannot be adopted.
//!
//! **Two objectives** ([`Search::of_two`]) leave the front: a candidate is dropped when it is certainly dominated. See
//! [`two`].
//!
//! **The end**: one candidate remains; or each remaining candidate's interval against the leader is within the
//! practical threshold, each end at α / (candidates − 1); or the next block would exceed the budget. Any other stop,
//! such as an interrupt, also leaves a valid set.
//!
//! **The first candidate**, the current configuration, has no privilege: it is dropped when it is certainly worse. The
//! leader's advantage over it must be measured in fresh blocks ([`bootstrap::paired`](crate::bootstrap::paired)). The
//! leader was also selected for its luck, so its advantage in the search is overestimated on average.
//!
//! **Error.** Exact for Gaussian logarithms of known spreads. Simulated with outliers and unknown spreads:
//! `search/tests.rs`, docs/method.md.

mod front;
mod sequence;
mod table;
#[cfg(test)]
mod tests;
mod two;

pub use self::front::front;
pub use self::sequence::interval;
pub use self::table::{Advantage, Better, Fit, Table};
use self::two::Two;
use super::random::Random;
use iotrail_schema::search_record::Ended;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub better: Better,
    /// Candidates within this distance of the leader count as equally good: 0.01 is 1 %.
    pub threshold: f64,
    /// Number of blocks before the first decision.
    pub min_blocks: usize,
    pub max_blocks: usize,
    /// Maximum total number of measurements.
    pub budget: usize,
}

impl Options {
    /// Threshold 1 %, first decision after five blocks, limited only by the budget.
    pub fn new(better: Better, budget: usize) -> Self {
        Self { better, threshold: 0.01, min_blocks: 5, max_blocks: usize::MAX, budget }
    }
}

/// The next measurements: each candidate once, in this order.
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
    objectives: Vec<Objective>,
    survivors: Vec<usize>,
    /// Per candidate: removed for a reason other than its values.
    removed: Vec<bool>,
    candidates: usize,
    blocks: usize,
    measurements: usize,
    finished: Option<Ended>,
}

/// Values of one objective and their fit.
#[derive(Debug, Clone)]
struct Objective {
    table: Table,
    fit: Fit,
}

impl Search {
    /// `alpha`: probability that the best candidate is dropped.
    pub fn new(candidates: usize, alpha: f64, options: Options, seed: u64) -> Self {
        Self::of(&[options.better], candidates, alpha, options, seed)
    }

    /// Searches for the front of two objectives. `alpha`: probability that any member of the front is dropped.
    pub fn of_two(candidates: usize, alpha: f64, options: Options, second: Better, seed: u64) -> Self {
        Self::of(&[options.better, second], candidates, alpha, options, seed)
    }

    fn of(better: &[Better], candidates: usize, alpha: f64, options: Options, seed: u64) -> Self {
        let objective = |better: &Better| {
            let table = Table::new(candidates, *better);
            Objective { fit: table.fit(), table }
        };
        Self {
            options,
            alpha,
            random: Random::new(seed),
            objectives: better.iter().map(objective).collect(),
            removed: vec![false; candidates],
            survivors: (0..candidates).collect(),
            candidates,
            blocks: 0,
            measurements: 0,
            finished: None,
        }
    }

    /// Evaluates the recorded values and returns the next block; `None` if the search is over, for the reason in
    /// [`Search::finished`].
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

    /// Records a candidate's value in a block. Failed or disturbed measurements are not recorded; a repeated one
    /// replaces the first.
    pub fn record(&mut self, block: usize, candidate: usize, value: f64) {
        self.record_of(0, block, candidate, value);
    }

    /// The same for one of two objectives.
    pub fn record_of(&mut self, objective: usize, block: usize, candidate: usize, value: f64) {
        self.objectives[objective].table.record(block, candidate, value);
    }

    /// Drops a candidate for another reason: it cannot be measured, or violates a limit.
    pub fn remove(&mut self, candidate: usize) {
        self.removed[candidate] = true;
        self.survivors.retain(|i| *i != candidate);
    }

    /// Candidates that remained after the last evaluated block, by number.
    pub fn survivors(&self) -> &[usize] {
        &self.survivors
    }

    /// The survivor with the best estimate in the first objective; `None` if none has a value.
    pub fn leader(&self) -> Option<usize> {
        self.leader_of(0)
    }

    pub fn leader_of(&self, objective: usize) -> Option<usize> {
        let level = |i: usize| self.objectives[objective].fit.level(i).map(|level| (i, level));
        let levels = self.survivors.iter().filter_map(|i| level(*i));
        levels.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(i, _)| i)
    }

    pub fn finished(&self) -> Option<Ended> {
        self.finished
    }

    /// Number of measurements requested so far.
    pub fn measurements(&self) -> usize {
        self.measurements
    }

    /// Factor by which `a` is better than `b` in the first objective. All intervals of one candidate have simultaneous
    /// coverage over all blocks: each end has α divided by the number of other candidates.
    pub fn advantage(&self, a: usize, b: usize) -> Option<Advantage> {
        self.advantage_of(0, a, b)
    }

    /// The same in either objective. The intervals of both objectives also have simultaneous coverage.
    pub fn advantage_of(&self, objective: usize, a: usize, b: usize) -> Option<Advantage> {
        self.objectives[objective].fit.advantage(a, b, self.alpha / self.others() / self.objectives.len() as f64)
    }

    /// Number of blocks after which the interval of `a`'s advantage over `b` extends by at most `width` to either side
    /// (0.1: 10 %), if values continue to vary as they did; `None` if fewer than two blocks have both, or 10,000 do not
    /// suffice.
    pub fn blocks_until(&self, objective: usize, (a, b): (usize, usize), width: f64) -> Option<usize> {
        let needed = self.others() * self.objectives.len() as f64 / self.alpha;
        self.objectives[objective].fit.blocks_until(a, b, needed, width)
    }

    /// Levels, outliers and intervals of the first objective after the last evaluated block.
    pub fn fit(&self) -> &Fit {
        self.fit_of(0)
    }

    pub fn fit_of(&self, objective: usize) -> &Fit {
        &self.objectives[objective].fit
    }

    fn others(&self) -> f64 {
        (self.candidates.max(2) - 1) as f64
    }

    fn judge(&mut self) -> Option<Ended> {
        self.objectives.iter_mut().for_each(|objective| objective.fit = objective.table.fit());
        let judged = self.blocks >= self.options.min_blocks;
        if judged {
            self.eliminate();
        }
        if self.survivors.len() <= 1 {
            return Some(Ended::OneLeft);
        }
        let decided = match self.two() {
            None => (judged && self.all_equivalent()).then_some(Ended::Equivalent),
            Some(two) => {
                (judged && two.is_settled(&self.survivors, self.others() / self.alpha)).then_some(Ended::Settled)
            }
        };
        let beyond = self.measurements.saturating_add(self.survivors.len()) > self.options.budget;
        decided.or((beyond || self.blocks >= self.options.max_blocks).then_some(Ended::Budget))
    }

    fn two(&self) -> Option<Two<'_>> {
        let [first, second] = &self.objectives[..] else { return None };
        Some(Two { fits: [&first.fit, &second.fit], threshold: self.options.threshold })
    }

    fn eliminate(&mut self) {
        let Some(leader) = self.leader() else { return };
        let stays = |i: &usize| match self.two() {
            None => *i == leader || self.evidence(*i, |j| self.fit().evidence(j, *i, 0.0)) < self.others() / self.alpha,
            // All remaining candidates may be members, and each has its own error probability.
            Some(two) => {
                let needed = self.others() * self.survivors.len() as f64 / self.alpha;
                !two.has_better(*i, &self.survivors) || self.evidence(*i, |j| two.evidence(j, *i)) < needed
            }
        };
        self.survivors = self.survivors.iter().copied().filter(stays).collect();
    }

    /// Evidence against a candidate, summed over all others.
    fn evidence(&self, candidate: usize, of: impl Fn(usize) -> f64) -> f64 {
        (0..self.candidates).filter(|j| *j != candidate && !self.removed[*j]).map(of).sum()
    }

    fn all_equivalent(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let most = 1.0 + self.options.threshold;
        let within = |i: usize| self.advantage(i, leader).is_some_and(|a| a.lo >= 1.0 / most && a.hi <= most);
        self.survivors.iter().all(|i| *i == leader || within(*i))
    }
}
