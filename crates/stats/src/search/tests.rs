use super::*;

mod fronts;
mod simulated;

fn options(budget: usize) -> Options {
    Options::new(Better::More, budget)
}

/// Runs a search on the values `value(block, candidate)`.
fn run(mut search: Search, value: impl Fn(usize, usize) -> f64) -> Search {
    while let Some(block) = search.next_block() {
        for i in block.order {
            search.record(block.number, i, value(block.number, i));
        }
    }
    search
}

/// Deterministic noise of about 1 %.
fn noise(block: usize, candidate: usize) -> f64 {
    1.0 + 0.01 * ((block * 7 + candidate * 3 + block * candidate) as f64 * 2.4).sin()
}

#[test]
fn the_best_candidate_is_found_in_either_direction() {
    let levels = [100.0, 80.0, 120.0, 90.0];
    let value = |block: usize, i: usize| levels[i] * noise(block, i);
    for (better, best) in [(Better::More, 2), (Better::Less, 1)] {
        let search = run(Search::new(4, 0.05, Options::new(better, 1000), 1), value);
        assert_eq!((search.finished(), search.survivors()), (Some(Ended::OneLeft), &[best][..]));
        assert_eq!((search.leader(), search.measurements()), (Some(best), 23));
        let gain = search.advantage(best, 0).unwrap();
        let truth = if better == Better::More { 1.2 } else { 1.25 };
        assert!(gain.lo < truth && truth < gain.hi && gain.hi < 1.1 * truth && gain.blocks == 6, "{gain:?}");
    }
}

#[test]
fn each_block_has_each_survivor_once_in_seeded_order() {
    let orders = |seed| {
        let mut search = Search::new(8, 0.05, options(24), seed);
        std::iter::from_fn(|| search.next_block()).map(|b| b.order).collect::<Vec<_>>()
    };
    assert_eq!((orders(5), orders(5) == orders(6)), (orders(5), false));
    assert_eq!(orders(5).len(), 3);
    for mut order in orders(5) {
        order.sort();
        assert_eq!(order, (0..8).collect::<Vec<_>>());
    }
}

#[test]
fn a_search_ends_at_its_budget_its_last_block_or_equivalence() {
    let equal = |block: usize, i: usize| 1000.0 * noise(block, i);
    let by_budget = run(Search::new(5, 0.05, options(33), 1), equal);
    assert_eq!((by_budget.finished(), by_budget.measurements()), (Some(Ended::Budget), 30));
    let by_blocks = run(Search::new(5, 0.05, Options { max_blocks: 4, ..options(1000) }, 1), equal);
    assert_eq!((by_blocks.finished(), by_blocks.measurements()), (Some(Ended::Budget), 20));
    let band = Options { threshold: 0.03, ..options(1000) };
    let by_band = run(Search::new(5, 0.05, band, 1), equal);
    assert_eq!((by_band.finished(), by_band.survivors().len()), (Some(Ended::Equivalent), 5));
    assert!(by_band.measurements() < 100, "{}", by_band.measurements());
    // Without noise, values certainly differ or are certainly equal.
    let same = run(Search::new(3, 0.05, options(1000), 1), |_, _| 7.0);
    assert_eq!((same.finished(), same.measurements()), (Some(Ended::Equivalent), 18));
    let apart = run(Search::new(3, 0.05, options(1000), 1), |_, i| 7.0 + i as f64);
    assert_eq!((apart.finished(), apart.survivors(), apart.measurements()), (Some(Ended::OneLeft), &[2][..], 15));
}

#[test]
fn a_missing_value_affects_only_its_own_pairs() {
    let levels = [100.0, 120.0, 100.0];
    let mut search = Search::new(3, 0.05, options(1000), 3);
    while let Some(block) = search.next_block() {
        for i in block.order {
            // The last candidate never yields a value; the second fails in every third block.
            let failed = i == 2 || i == 1 && block.number % 3 == 0;
            search.record(block.number, i, if failed { 0.0 } else { levels[i] * noise(block.number, i) });
        }
        if block.number == 20 {
            search.remove(2);
        }
    }
    assert_eq!((search.finished(), search.survivors()), (Some(Ended::OneLeft), &[1][..]));
    assert_eq!(search.advantage(1, 2), None);
    assert_eq!(search.fit().level(2), None);
    let none = run(Search::new(2, 0.05, options(20), 3), |_, _| f64::NAN);
    assert_eq!((none.finished(), none.leader(), none.survivors()), (Some(Ended::Budget), None, &[0, 1][..]));
}

#[test]
fn a_repeated_value_replaces_the_first() {
    let mut table = Table::new(2, Better::Less);
    for block in 0..6 {
        table.record(block, 0, 1e9);
        table.record(block, 0, 2.0 * noise(block, 0));
        table.record(block, 1, 1.0 * noise(block, 1));
    }
    let gain = table.fit().advantage(1, 0, 0.05).unwrap();
    assert!((1.96..2.04).contains(&gain.ratio) && gain.blocks == 6, "{gain:?}");
}

#[test]
fn drift_between_blocks_cancels_and_outliers_are_excluded() {
    let mut table = Table::new(4, Better::More);
    for block in 0..12 {
        for i in 0..4 {
            let stall = if (block, i) == (5, 3) { 0.6 } else { 1.0 };
            table.record(block, i, (1.0 + block as f64) * stall * if i == 3 { 1.05 } else { 1.0 } * noise(block, i));
        }
    }
    let fit = table.fit();
    let gain = fit.advantage(3, 0, 0.05).unwrap();
    assert_eq!(((0..4).map(|i| fit.left_out(i)).collect::<Vec<_>>(), gain.blocks), (vec![0, 0, 0, 1], 11));
    assert!((1.04..1.06).contains(&gain.ratio) && gain.lo > 1.02 && gain.hi < 1.08, "{gain:?}");
}
