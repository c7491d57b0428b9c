//! The state of a search for the best candidate, from its stored run: remaining candidates, leader, violated
//! constraints. Depends only on the run's measurements, so an interrupted search continues as if it had not been
//! interrupted.

mod front;

use crate::compare::{Metric, metrics};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CellRecord, RunRecord};
use iotrail_schema::search_record::{Constraint, Ended, SearchRecord};
use iotrail_stats::search::{Better, Options, Search};

/// Probability that a complete search removes the best candidate.
const ALPHA: f64 = 0.05;
/// Candidates within this share of the leader are equal; a confirmed advantage must exceed half of it.
pub const MATTERS: f64 = 0.02;
/// If candidates may beat the current configuration by more than this, the answer is still open.
pub const TOLD: f64 = 0.1;
/// Minimum number of violating measurements for a constraint to count as violated.
const BROKEN: usize = 3;

/// The state of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// One entry per arm.
    pub alive: Vec<bool>,
    /// The arm with the best mean of the first objective.
    pub leader: usize,
    /// For two objectives: the arms to confirm in fresh blocks. Empty if the current configuration is indistinguishable
    /// from the best.
    pub picks: Vec<usize>,
    /// Upper bound on a remaining candidate's advantage over the first arm in any objective, as a factor less 1; from
    /// simultaneous intervals.
    pub most_better: f64,
    pub ended: Option<Ended>,
    /// Blocks needed to distinguish every candidate from the first arm, or to show that it is within 10 %. `None` if
    /// unknown.
    pub deciding_blocks: Option<usize>,
    /// Complete blocks.
    pub blocks: usize,
    /// Per arm, the violated constraint.
    pub broken: Vec<Option<String>>,
    /// Measurements in complete blocks.
    pub measurements: u64,
}

impl State {
    /// Indices of the remaining arms.
    pub fn set(&self) -> Vec<usize> {
        (0..self.alive.len()).filter(|i| self.alive[*i]).collect()
    }

    /// Number of remaining candidates besides the first arm if the search ended undecided, so that one of them may beat
    /// it by more than [`TOLD`]; otherwise 0.
    pub fn undecided(&self) -> usize {
        let is_open = matches!(self.ended, None | Some(Ended::Budget | Ended::Stopped)) && self.most_better > TOLD;
        if is_open { self.set().into_iter().filter(|i| *i != 0).count() } else { 0 }
    }
}

/// The value of an objective: a metric, or `cpus` for the CPUs in use.
pub fn figure(name: &str, m: &Measurement) -> Option<f64> {
    name.parse::<Metric>().ok()?.of(m)
}

/// CPU time divided by wall time.
pub const CPUS: &str = "cpus";

/// Whether more is better.
pub fn more_is_better(name: &str) -> bool {
    name.parse::<Metric>().is_ok_and(Metric::higher_is_better)
}

/// Computed from the run's complete blocks. `None` for runs that are not searches, for example confirmations.
pub fn state(run: &RunRecord) -> Option<State> {
    let search = run.search.as_ref().filter(|search| search.is_search())?;
    // Registers the program's own metrics.
    metrics(run);
    let cells: Vec<Option<&CellRecord>> =
        run.arms.iter().map(|arm| run.cells.iter().find(|c| c.arm() == arm)).collect();
    // Failed candidates. Their earlier measurements count, because candidates that they beat end in those blocks.
    let is_lost = |i: usize| cells[i].is_none_or(|cell| cell.untestable.is_some());
    let max_blocks = run.repeats.max(1) as usize;
    let better = |name: &str| if more_is_better(name) { Better::More } else { Better::Less };
    let options = Options { max_blocks, threshold: MATTERS, ..Options::new(better(&search.objective), usize::MAX) };
    let seed = u64::from(run.seed);
    let mut statistics = match &search.second {
        None => Search::new(run.arms.len(), ALPHA, options, seed),
        Some(second) => Search::of_two(run.arms.len(), ALPHA, options, better(second), seed),
    };
    let (mut broken, mut blocks, mut measurements) = (vec![None; run.arms.len()], 0, 0);
    let never = |i: &usize| is_lost(*i) && cells[*i].is_none_or(|cell| cell.measurements.is_empty());
    (0..cells.len()).filter(never).for_each(|i| statistics.remove(i));
    // A complete block has all cells.
    let objectives = |m: &Measurement| search.objectives().map(|name| figure(name, m)).collect::<Vec<_>>();
    let of_cell = |cell: &CellRecord| cell.measurements.all().iter().map(objectives).collect::<Vec<_>>();
    let measured: Vec<Vec<Vec<Option<f64>>>> = cells.iter().map(|cell| cell.map(of_cell).unwrap_or_default()).collect();
    while let Some(mut block) = statistics.next_block() {
        let at = |i: usize| measured[i].get(block.number);
        let failed = |i: &usize| is_lost(*i) && at(*i).is_none();
        block.order.iter().copied().filter(failed).for_each(|i| statistics.remove(i));
        block.order.retain(|i| !failed(i));
        if block.order.iter().any(|i| at(*i).is_none()) {
            break;
        }
        for i in &block.order {
            for (objective, value) in at(*i).into_iter().flatten().enumerate() {
                if let Some(value) = value.filter(|x| *x > 0.0) {
                    statistics.record_of(objective, block.number, *i, value);
                }
            }
        }
        blocks = block.number + 1;
        measurements += block.order.len() as u64;
        for i in block.order {
            if let Some(text) = cells[i].and_then(|cell| breaks(search, cell, blocks)) {
                statistics.remove(i);
                broken[i] = Some(text);
            }
        }
    }
    // A candidate may have failed in an incomplete block.
    (0..cells.len()).filter(|i| is_lost(*i)).for_each(|i| statistics.remove(i));
    let survivors = statistics.survivors();
    let pairs = (0..search.objectives().count()).flat_map(|objective| survivors.iter().map(move |i| (objective, *i)));
    // Without an interval (as after one block), any advantage is possible.
    let than_now = |(objective, i)| statistics.advantage_of(objective, i, 0).map_or(f64::INFINITY, |a| a.hi - 1.0);
    let pairs: Vec<(usize, usize)> = pairs.filter(|(_, i)| *i != 0).collect();
    let most = pairs.iter().copied().map(than_now);
    let until = pairs.iter().map(|(objective, i)| statistics.blocks_until(*objective, (*i, 0), TOLD));
    let deciding_blocks = until.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
    Some(State {
        alive: (0..run.arms.len()).map(|i| survivors.contains(&i)).collect(),
        leader: statistics.leader().unwrap_or(0),
        picks: search.second.as_ref().map(|_| front::picks(&statistics, search)).unwrap_or_default(),
        most_better: most.max_by(f64::total_cmp).map_or(0.0, |x| x.max(0.0)),
        ended: statistics.finished(),
        deciding_blocks,
        blocks,
        broken,
        measurements,
    })
}

/// The constraint that a candidate violates in its first blocks: in most of its measurements and at least three.
pub fn breaks(search: &SearchRecord, cell: &CellRecord, blocks: usize) -> Option<String> {
    let broken = |c: &&Constraint| {
        let all = cell.measurements.all();
        let known = all.iter().take(blocks).filter_map(|m| figure(&c.metric, m));
        let (mut bad, mut all) = (0, 0);
        for x in known {
            all += 1;
            bad += usize::from(!keeps(c, x));
        }
        bad >= BROKEN && 4 * bad >= 3 * all
    };
    search.constraints.iter().find(broken).map(|c| c.text.clone())
}

fn keeps(c: &Constraint, x: f64) -> bool {
    c.inclusive && x == c.limit || if c.below { x < c.limit } else { x > c.limit }
}

/// Synthetic searches.
#[cfg(test)]
pub mod made {
    use super::*;
    use iotrail_schema::run_record::ARM;
    use iotrail_schema::search_record::{Candidate, Effort, SearchOutcome};
    use iotrail_stats::random::Random;
    use iotrail_testing::sample;

    /// A search's outcome before any result is known.
    pub fn found() -> SearchOutcome {
        SearchOutcome {
            run: 0,
            set: vec![],
            leader: String::new(),
            measurements: 0,
            compared: 0,
            ended: Ended::Budget,
            blocks: 0,
            undecided: 0,
            decides_s: None,
        }
    }

    /// The same for IOPS and CPU time per I/O, of which less is better.
    pub fn of_two(times: &[[f64; 2]], blocks: u32) -> RunRecord {
        let mut run = search(&times.iter().map(|both| both[0]).collect::<Vec<_>>(), 0);
        run.metrics.push("cpu_per_io".into());
        run.search.as_mut().unwrap().second = Some("cpu_per_io".into());
        measured(&mut run, times, blocks);
        run
    }

    /// Candidates `c0` (the current configuration), `c1`, … with these multiples of c0's IOPS, over this many blocks,
    /// with 2 % noise around a common drift. A candidate's measurements end with the block after which it is removed.
    pub fn search(times: &[f64], blocks: u32) -> RunRecord {
        let names: Vec<String> = (0..times.len()).map(|i| format!("c{i}")).collect();
        let efforts = [Effort::None, Effort::Lines, Effort::Flag, Effort::Setting, Effort::Redesign];
        let candidate = |(i, name): (usize, &String)| Candidate {
            name: name.clone(),
            effort: efforts[i % efforts.len()],
            how: vec![format!("write {name}")],
        };
        let cell = |(i, name): (usize, &String)| CellRecord {
            cell: i as u32 + 1,
            params: [(ARM.into(), name.as_str().into())].into_iter().collect(),
            untestable: None,
            measurements: Vec::new().into(),
        };
        let mut run = RunRecord {
            repeats: 40,
            seed: 7,
            axes: vec![ARM.into()],
            metrics: vec!["iops".into()],
            cells: names.iter().enumerate().map(cell).collect(),
            search: Some(SearchRecord {
                objective: "iops".into(),
                second: None,
                constraints: vec![],
                budget_s: 60.0,
                candidates: names.iter().enumerate().map(candidate).collect(),
                left_out: vec![],
                found: None,
            }),
            arms: names,
            ..sample::run()
        };
        measured(&mut run, &times.iter().map(|x| [*x, 1.0]).collect::<Vec<_>>(), blocks);
        run
    }

    fn measured(run: &mut RunRecord, times: &[[f64; 2]], blocks: u32) {
        let mut random = Random::new(8);
        for _ in 0..blocks {
            let left = state(run).unwrap();
            if left.ended.is_some() {
                break;
            }
            // Sum of three uniform variables: approximately normal.
            let mut noise = || (0..3).map(|_| random.below(2001) as f64 / 1000.0 - 1.0).sum::<f64>();
            let drift = 1.0 + 0.1 * noise();
            for i in left.set() {
                let iops = 1e5 * times[i][0] * drift * (0.02 * noise()).exp();
                let mut m = Measurement { iops: Some(iops), ..sample::measurement() };
                if run.search.as_ref().unwrap().second.is_some() {
                    let cpu_ns = m.ios.unwrap() as f64 * 5e3 * times[i][1] * (0.02 * noise()).exp();
                    (m.cpu.user_ns, m.cpu.system_ns) = (Some(0), Some(cpu_ns as u64));
                    (m.cpu.sqpoll_ns, m.cpu.helpers_ns) = (Some(0), None);
                }
                run.cells[i].measurements.open().push(m);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made::search;
    use super::*;

    #[test]
    fn the_best_candidate_is_found_and_losers_are_no_longer_measured() {
        let run = search(&[1.0, 1.3, 0.7, 0.9], 40);
        let s = state(&run).unwrap();
        assert_eq!((s.set(), s.leader, s.ended), (vec![1], 1, Some(Ended::OneLeft)));
        let measured: Vec<usize> = run.cells.iter().map(|c| c.measurements.len()).collect();
        assert!(measured.iter().all(|n| *n <= measured[1]) && measured[1] < 20, "{measured:?}");
        assert_eq!(s.measurements as usize, measured.iter().sum::<usize>());
    }

    #[test]
    fn incomplete_blocks_and_untestable_candidates_are_ignored() {
        let mut run = search(&[1.0, 1.3, 1.3], 4);
        let before = state(&run).unwrap();
        assert_eq!((before.blocks, before.set()), (4, vec![0, 1, 2]));
        let again = run.cells[1].measurements.all()[0].clone();
        run.cells[1].measurements.open().push(again);
        assert_eq!(state(&run).unwrap(), before);
        run.cells[1].untestable = Some("not here".into());
        assert_eq!(state(&run).unwrap().set(), [0, 2]);
    }

    #[test]
    fn a_candidate_that_fails_late_does_not_reinstate_those_it_beat() {
        // The second candidate beats the third and fourth, which are no longer measured; the first and second continue.
        let mut run = search(&[1.0, 1.02, 0.9, 0.9], 12);
        let counts = |run: &RunRecord| run.cells.iter().map(|c| c.measurements.len()).collect::<Vec<_>>();
        let before = state(&run).unwrap();
        assert_eq!((before.set(), before.blocks), (vec![0, 1], 12));
        assert!(counts(&run)[2] < 12 && counts(&run)[3] < 12, "{:?}", counts(&run));
        // In the following block.
        run.cells[1].untestable = Some("it stalled".into());
        let last = run.cells[0].measurements.all()[0].clone();
        run.cells[0].measurements.open().push(last);
        let after = state(&run).unwrap();
        assert_eq!((after.set(), after.leader, after.ended), (vec![0], 0, Some(Ended::OneLeft)));
        assert_eq!((after.blocks, after.measurements), (13, before.measurements + 1));
        // In an incomplete block.
        run.cells[0].measurements.open().pop();
        let broken_off = state(&run).unwrap();
        assert_eq!((broken_off.set(), broken_off.blocks), (vec![0], 12));
    }

    #[test]
    fn no_candidate_is_excluded_after_one_block() {
        let s = state(&search(&[1.0, 0.7], 1)).unwrap();
        assert_eq!((s.blocks, s.set(), s.most_better), (1, vec![0, 1], f64::INFINITY));
    }

    #[test]
    fn a_candidate_that_violates_a_constraint_is_excluded() {
        let mut run = search(&[1.0, 2.0], 0);
        let constraint = |limit| Constraint {
            metric: "latency_p99".into(),
            below: true,
            limit,
            inclusive: false,
            text: "p99<1ms".into(),
        };
        run.search.as_mut().unwrap().constraints = vec![constraint(1e6)];
        for cell in &mut run.cells {
            let mut m = iotrail_testing::sample::measurement();
            m.latency_ns.p99 = Some(if cell.cell == 2 { 2_000_000 } else { 500_000 });
            m.iops = Some(f64::from(cell.cell) * 1e5);
            cell.measurements = vec![m; 3].into();
        }
        let s = state(&run).unwrap();
        assert_eq!((s.set(), s.broken[1].as_deref()), (vec![0], Some("p99<1ms")));
        // A value equal to the limit does not violate it.
        let mut broken = |text: &str, limit: f64| {
            let (below, inclusive) = (text.contains('<'), text.contains('='));
            let c = Constraint { metric: "latency_p99".into(), below, limit, inclusive, text: text.into() };
            run.search.as_mut().unwrap().constraints = vec![c];
            state(&run).unwrap().broken[1].is_some()
        };
        assert!(broken("p99<2ms", 2e6) && !broken("p99<=2ms", 2e6) && broken("p99<=1ms", 1e6));
        assert!(broken("p99>2ms", 2e6) && !broken("p99>=2ms", 2e6) && broken("p99>=3ms", 3e6));
        // CPUs in use: CPU time divided by wall time.
        let mut m = iotrail_testing::sample::measurement();
        (m.cpu.user_ns, m.cpu.system_ns, m.elapsed_ns) = (Some(500), Some(1000), 1000);
        assert_eq!(figure(CPUS, &m), Some(1.5));
        // The sum includes the SQPOLL threads' time, which must be known, and the helpers' time.
        m.load.ring.granted.push("sqpoll".into());
        assert_eq!(figure(CPUS, &m), None);
        (m.cpu.sqpoll_ns, m.cpu.helpers_ns) = (Some(900), Some(100));
        assert_eq!(figure(CPUS, &m), Some(2.5));
        m.program = Some(iotrail_schema::program_record::ProgramRecord::default().into());
        assert_eq!(figure(CPUS, &m), Some(1.5));
    }
}
