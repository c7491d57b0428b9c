//! A search for the best candidate, read from what is stored of its run: who is left, who leads, who broke a constraint. A run's
//! measurements decide alone, so that a search that was interrupted goes on as if it had not been.

use crate::compare::{Metric, metrics};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CellRecord, RunRecord};
use iotrail_schema::search_record::{Constraint, Ended, SearchRecord};
use iotrail_stats::search::{Options, Reason, Search};

/// Error probability of the whole search: that the best one is thrown out.
const ALPHA: f64 = 0.05;
/// Differences below it matter to nobody.
pub const MATTERS: f64 = 0.01;
/// Blocks before anyone is thrown out.
const AT_LEAST: usize = 3;
/// Of the measurements that a constraint is held against: so many have to break it, and no fewer than this.
const BROKEN: usize = 3;

/// How far a search is.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// By arm.
    pub alive: Vec<bool>,
    /// The best by its mean.
    pub leader: usize,
    pub ended: Option<Ended>,
    /// Whole blocks.
    pub blocks: usize,
    /// By arm: the constraint that it broke.
    pub broken: Vec<Option<String>>,
    /// Measurements of whole blocks.
    pub measurements: u64,
}

impl State {
    /// The arms that are left, by their numbers.
    pub fn set(&self) -> Vec<usize> {
        (0..self.alive.len()).filter(|i| self.alive[*i]).collect()
    }
}

/// What a search goes by: a metric, or `cpus`, the CPUs that are used.
pub fn figure(name: &str, m: &Measurement) -> Option<f64> {
    if name == CPUS {
        let cpu = m.cpu.user_ns.zip(m.cpu.system_ns).map(|(user, system)| user + system)?;
        return (m.elapsed_ns > 0).then(|| cpu as f64 / m.elapsed_ns as f64);
    }
    name.parse::<Metric>().ok()?.of(m)
}

/// CPUs used: CPU time by wall time.
pub const CPUS: &str = "cpus";

/// Whether more is better.
pub fn more_is_better(name: &str) -> bool {
    name != CPUS && name.parse::<Metric>().is_ok_and(Metric::higher_is_better)
}

/// Of the run's whole blocks. `None`: it searches for nothing, as a confirmation does.
pub fn state(run: &RunRecord) -> Option<State> {
    let search = run.search.as_ref().filter(|search| search.found.is_none())?;
    // The program's own become known by it.
    metrics(run);
    let cells: Vec<Option<&CellRecord>> =
        run.arms.iter().map(|arm| run.cells.iter().find(|c| c.arm() == arm && c.untestable.is_none())).collect();
    let max_blocks = run.repeats.max(1) as usize;
    let options =
        Options { threshold: MATTERS, min_blocks: AT_LEAST, max_blocks, budget: max_blocks * run.arms.len().max(1) };
    let mut statistics = Search::new(run.arms.len(), ALPHA, options, u64::from(run.seed));
    let mut state = State {
        alive: cells.iter().map(Option::is_some).collect(),
        leader: 0,
        ended: None,
        blocks: 0,
        broken: vec![None; run.arms.len()],
        measurements: 0,
    };
    for (i, _) in cells.iter().enumerate().filter(|(_, cell)| cell.is_none()) {
        statistics.drop_out(i);
    }
    let sign = if more_is_better(&search.objective) { 1 } else { -1 };
    while let Some(asked) = statistics.next_block() {
        let at = |i: usize| cells[i].and_then(|cell| cell.measurements.get(state.blocks));
        if asked.is_empty() || asked.iter().any(|i| at(*i).is_none()) {
            break;
        }
        for i in &asked {
            let value = at(*i).and_then(|m| figure(&search.objective, m)).filter(|x| *x > 0.0);
            statistics.record(state.blocks, *i, value.map(|x| x.powi(sign)));
            state.measurements += 1;
        }
        state.blocks += 1;
        for i in asked {
            if let Some(text) = cells[i].and_then(|cell| breaks(search, cell, state.blocks)) {
                statistics.drop_out(i);
                state.broken[i] = Some(text);
            }
        }
    }
    let survivors = statistics.survivors();
    state.alive = (0..run.arms.len()).map(|i| survivors.contains(&i)).collect();
    state.leader = statistics.leader();
    state.ended = statistics.finished().map(|reason| match reason {
        Reason::OneLeft => Ended::OneLeft,
        Reason::Equivalent => Ended::Equivalent,
        Reason::Budget => Ended::Budget,
    });
    Some(state)
}

/// The constraint that a candidate breaks: in most of its measurements, and in three at least.
fn breaks(search: &SearchRecord, cell: &CellRecord, blocks: usize) -> Option<String> {
    let broken = |c: &&Constraint| {
        let known = cell.measurements.iter().take(blocks).filter_map(|m| figure(&c.metric, m));
        let (mut bad, mut all) = (0, 0);
        for x in known {
            all += 1;
            bad += usize::from(if c.below { x >= c.limit } else { x <= c.limit });
        }
        bad >= BROKEN && 4 * bad >= 3 * all
    };
    search.constraints.iter().find(broken).map(|c| c.text.clone())
}
