//! Simulated searches for the front of two objectives. Table of docs/method.md: `cargo test -p iotrail-stats fronts --
//! --ignored --nocapture`.

use super::simulated::{World, best_of};
use super::*;
use crate::{bootstrap, holm};

const BLOCKS: usize = 40;
/// Largest loss that does not count.
const THRESHOLD: f64 = 0.02;

type Levels = Vec<[f64; 2]>;

/// Three members, and five that lose at least 5 % to a member in one objective without gaining in the other.
fn three_of_eight() -> Levels {
    let times: [[f64; 2]; 8] =
        [[1.0, 1.0], [1.3, 0.8], [1.15, 1.1], [1.0, 1.2], [1.1, 1.05], [1.3, 0.75], [0.8, 0.9], [1.2, 0.8]];
    times.iter().map(|both| both.map(f64::ln)).collect()
}

/// The true members: candidates that no other one dominates.
fn members(levels: &Levels) -> Vec<usize> {
    let loss = THRESHOLD.ln_1p();
    let dominates = |a: [f64; 2], b: [f64; 2]| (0..2).any(|o| a[o] > b[o] && a[1 - o] >= b[1 - o] - loss);
    (0..levels.len()).filter(|b| !levels.iter().any(|a| dominates(*a, levels[*b]))).collect()
}

/// Generates both objectives of a measurement, which share half of the noise variance.
struct Both {
    of: [World; 2],
}

impl Both {
    fn new(seed: u64, levels: &Levels, noise: f64) -> Self {
        let of = |o: usize| World::new(2 * seed + o as u64, levels.iter().map(|l| l[o]).collect(), noise / 2f64.sqrt());
        Self { of: [of(0), of(1)] }
    }

    fn block(&mut self) {
        self.of.iter_mut().for_each(World::block);
    }

    /// In the first objective larger is better, in the second smaller.
    fn values(&mut self, i: usize, noise: f64) -> [f64; 2] {
        let common = (noise / 2f64.sqrt() * self.of[0].random.normal()).exp();
        let [first, second] = &mut self.of;
        let (a, b) = (first.value(i), second.value(i));
        [a * common, 1.0 / (b * common)]
    }

    fn searched(&mut self, candidates: usize, noise: f64, blocks: usize, seed: u64) -> Search {
        let options = Options { max_blocks: blocks, threshold: THRESHOLD, ..options(usize::MAX) };
        let mut search = Search::of_two(candidates, 0.05, options, Better::Less, seed);
        while let Some(block) = search.next_block() {
            self.block();
            for i in block.order {
                let values = self.values(i, noise);
                (0..2).for_each(|o| search.record_of(o, block.number, i, values[o]));
            }
        }
        search
    }
}

#[derive(Debug, Default)]
struct Outcome {
    /// Share of searches in which all true members remain.
    held: usize,
    /// Searches in which only the true members remain.
    exact: usize,
    left: usize,
    settled: usize,
    measurements: usize,
}

fn outcome(levels: &Levels, noise: f64, searches: u64) -> Outcome {
    let truth = members(levels);
    let mut all = Outcome::default();
    for seed in 1..=searches {
        let search = Both::new(seed, levels, noise).searched(levels.len(), noise, BLOCKS, seed);
        let left = search.survivors();
        all.held += usize::from(truth.iter().all(|i| left.contains(i)));
        all.exact += usize::from(left == truth);
        all.left += left.len();
        all.settled += usize::from(search.finished() != Some(Ended::Budget));
        all.measurements += search.measurements();
    }
    all
}

/// Whether the leaders of both objectives show an improvement over the first candidate in any objective, in fresh
/// blocks.
fn claims(seed: u64, candidates: usize, noise: f64) -> bool {
    let levels = vec![[0.0; 2]; candidates];
    let mut world = Both::new(seed, &levels, noise);
    let search = world.searched(candidates, noise, 12, seed);
    let mut leaders = vec![search.leader_of(0).unwrap(), search.leader_of(1).unwrap(), best_of(candidates)];
    leaders.sort_unstable();
    leaders.dedup();
    leaders.retain(|i| *i != 0);
    let mut fresh = vec![[Vec::new(), Vec::new()]; candidates];
    for _ in 0..12 {
        world.block();
        for i in [0].iter().chain(&leaders) {
            let values = world.values(*i, noise);
            (0..2).for_each(|o| fresh[*i][o].push(values[o]));
        }
    }
    let of = |i: &usize| [0, 1].map(|o| bootstrap::paired(&fresh[0][o], &fresh[*i][o]).unwrap().interval.unwrap());
    let intervals: Vec<_> = leaders.iter().map(of).collect();
    let p: Vec<f64> = intervals.iter().flatten().map(|i| i.p).collect();
    let better: Vec<bool> = intervals.iter().flat_map(|[a, b]| [a.lo > 1.01, b.hi < 1.0 / 1.01]).collect();
    holm::adjusted(&p).iter().zip(better).any(|(p, better)| *p < 0.05 && better)
}

#[test]
fn all_true_front_members_are_kept_in_95_of_100_searches() {
    let levels = three_of_eight();
    assert_eq!(members(&levels), [1, 2, 3]);
    let found = outcome(&levels, 0.01, 100);
    assert!(found.held >= 95 && found.exact >= 80 && found.settled >= 80, "{found:?}");
    // Equal candidates are all members.
    let equals = outcome(&vec![[0.0; 2]; 3], 0.03, 100);
    assert!(equals.held >= 95 && equals.left >= 290, "{equals:?}");
}

#[test]
fn equal_candidates_show_a_gain_in_at_most_5_of_100_searches() {
    let claimed = (1..=100).filter(|seed| claims(*seed, 8, 0.03)).count();
    assert!(claimed <= 5, "{claimed}");
}

#[test]
fn a_removed_candidate_dominates_no_other() {
    for second in [None, Some(Better::More)] {
        let options = Options { max_blocks: 30, ..options(usize::MAX) };
        let mut search = match second {
            None => Search::new(4, 0.05, options, 1),
            Some(second) => Search::of_two(4, 0.05, options, second, 1),
        };
        while let Some(block) = search.next_block() {
            for i in block.order {
                let value = if i == 1 { 3.0 } else { 1.0 } * noise(block.number, i);
                (0..1 + usize::from(second.is_some())).for_each(|o| search.record_of(o, block.number, i, value));
            }
            if block.number == 2 {
                search.remove(1);
            }
        }
        assert_eq!(search.survivors(), [0, 2, 3], "{second:?}");
    }
}

#[test]
#[ignore = "a table; takes minutes"]
fn print_the_table_of_fronts() {
    let row = |name: &str, levels: &Levels, noise: f64| {
        let searches = 1000;
        let o = outcome(levels, noise, searches);
        let of = |x: usize| 100.0 * x as f64 / searches as f64;
        println!(
            "| {name} | {:.0} % | {:.1} | {:.1} | {:.2} | {:.1} | {:.0} |",
            100.0 * noise,
            of(o.held),
            of(o.exact),
            o.left as f64 / searches as f64,
            of(o.settled),
            o.measurements as f64 / searches as f64
        );
    };
    for noise in [0.01, 0.02, 0.03, 0.05] {
        row("3 members among 8", &three_of_eight(), noise);
        for candidates in [2, 4, 8, 16] {
            row(&format!("{candidates} equals"), &vec![[0.0; 2]; candidates], noise);
        }
        let claimed = (1..=1000).filter(|seed| claims(*seed, 8, noise)).count();
        println!("noise {noise}: {claimed} of 1000 searches among 8 equals claim an improvement");
    }
}
