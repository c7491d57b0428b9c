//! Draft.
mod sequence;
#[cfg(test)]
mod simulated;
mod table;

pub use self::table::{Fit, Pair, Table};
use super::random::Random;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub threshold: f64,
    pub min_blocks: usize,
    pub max_blocks: usize,
    pub budget: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    OneLeft,
    Equivalent,
    Budget,
}

pub struct Search {
    table: Table,
    alive: Vec<bool>,
    alpha: f64,
    options: Options,
    random: Random,
    blocks: usize,
    pub used: usize,
    finished: Option<Reason>,
    leader: usize,
}

impl Search {
    pub fn new(candidates: usize, alpha: f64, options: Options, seed: u64) -> Self {
        Self {
            table: Table::new(candidates),
            alive: vec![true; candidates],
            alpha,
            options,
            random: Random::new(seed),
            blocks: 0,
            used: 0,
            finished: None,
            leader: 0,
        }
    }
    pub fn survivors(&self) -> Vec<usize> {
        (0..self.alive.len()).filter(|i| self.alive[*i]).collect()
    }
    pub fn leader(&self) -> usize {
        self.leader
    }
    pub fn finished(&self) -> Option<Reason> {
        self.finished
    }
    pub fn blocks(&self) -> usize {
        self.blocks
    }
    pub fn next_block(&mut self) -> Option<Vec<usize>> {
        if self.blocks >= self.options.min_blocks {
            self.judge();
        }
        let mut order = self.survivors();
        if self.finished.is_none()
            && (self.used + order.len() > self.options.budget || self.blocks >= self.options.max_blocks)
        {
            self.finished = Some(Reason::Budget);
        }
        if self.finished.is_some() {
            return None;
        }
        for i in (1..order.len()).rev() {
            order.swap(i, self.random.below(i as u64 + 1) as usize);
        }
        self.blocks += 1;
        self.used += order.len();
        Some(order)
    }
    pub fn record(&mut self, block: usize, i: usize, value: Option<f64>) {
        self.table.record(block, i, value.map(f64::ln));
    }
    pub fn drop_out(&mut self, i: usize) {
        self.alive[i] = false;
    }
    fn judge(&mut self) {
        let fit = self.table.fit();
        let k = self.alive.len();
        let needed = (k - 1) as f64 / self.alpha;
        let beaten: Vec<usize> = self
            .survivors()
            .into_iter()
            .filter(|i| {
                let sum: f64 = (0..k).filter(|j| j != i).map(|j| fit.pair(j, *i).map_or(1.0, |p| p.evidence())).sum();
                sum >= needed
            })
            .collect();
        // The one of the largest effect stays, whatever.
        let best = |of: &[usize]| of.iter().copied().max_by(|a, b| fit.effects[*a].total_cmp(&fit.effects[*b]));
        let rest: Vec<usize> = self.survivors().into_iter().filter(|i| !beaten.contains(i)).collect();
        let rest = if rest.is_empty() { vec![best(&self.survivors()).unwrap()] } else { rest };
        for i in 0..k {
            self.alive[i] = rest.contains(&i);
        }
        self.leader = best(&rest).unwrap();
        if rest.len() == 1 {
            self.finished = Some(Reason::OneLeft);
            return;
        }
        let band = self.options.threshold.ln_1p();
        let within = rest.iter().all(|i| {
            *i == self.leader
                || fit.pair(*i, self.leader).is_some_and(|p| {
                    sequence::reach(p.n as f64, p.df, needed).is_some_and(|t| p.log.abs() + t * p.error <= band)
                })
        });
        if within {
            self.finished = Some(Reason::Equivalent);
        }
    }
}
