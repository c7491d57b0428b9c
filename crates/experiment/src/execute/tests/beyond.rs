//! Additional measurements after disturbances.

use super::*;
use iotrail_schema::measurement::Warning;
use iotrail_schema::run_record::RunRecord;

/// Executes the plan on a machine that `is_disturbed` describes. Returns the stored run, the number of measurements,
/// and the progress messages about added blocks.
fn on(plan: &Plan, is_disturbed: &dyn Fn(usize, u32) -> bool) -> (RunRecord, usize, Vec<(usize, u32, u32)>) {
    let (_dir, mut store) = fresh();
    let started = start(plan, 7, &mut store).unwrap();
    let (mut made, mut added) = (0, Vec::new());
    let mut measure = |cell: &Cell| {
        made += 1;
        Ok(if is_disturbed(made, cell.number) { disturbed() } else { measured(false) })
    };
    let mut tell = |s: Step<'_>| {
        if let Step::Added { planned, repeats, of_plan } = s {
            added.push((planned, repeats, of_plan));
        }
    };
    let stop = AtomicBool::new(false);
    let execution =
        Execution { plan, started: &started, store: &mut store, stop: &stop, measure: &mut measure, tell: &mut tell };
    assert_eq!(execute(execution).unwrap(), Outcome::Finished);
    (store.load(started.run).unwrap().unwrap(), made, added)
}

fn disturbed() -> Measured {
    let mut one = measured(false);
    one.measurement.warnings.push(Warning::new("steal", "the hypervisor took 20 % of the time of CPU 0", ""));
    one
}

fn still_disturbed(record: &RunRecord) -> usize {
    record.measurements().filter(|m| is_disturbed(m)).count()
}

#[test]
fn a_measurement_disturbed_once_is_repeated_without_additional_blocks() {
    let plan = two_by_two();
    let (record, made, added) = on(&plan, &|_, _| false);
    assert_eq!((record.done(), made, added), (12, 12, vec![]));
    let (record, made, added) = on(&plan, &|n, _| [2, 7, 12].contains(&n));
    assert_eq!((record.done(), record.planned(), made, added), (12, 12, 15, vec![]));
    assert_eq!((still_disturbed(&record), record.added_blocks()), (0, 0));
    assert_eq!(record.measurements().map(|m| m.thrown_away).sum::<u32>(), 3);
}

#[test]
fn a_permanently_disturbed_search_repeats_three_measurements_per_block() {
    let plan = Plan { repeats: 2, ..super::of_a_search::search_of_three() };
    let (record, made, _) = on(&plan, &|_, _| true);
    assert_eq!((record.done(), made), (6, 2 * (3 + 3)));
}

#[test]
fn permanent_disturbance_adds_blocks_instead_of_repetitions() {
    // After three of six allowed repetitions, repeating is found useless; the remaining three plus a quarter of a block
    // make one block.
    let plan = two_by_two();
    let (record, made, added) = on(&plan, &|_, _| true);
    assert_eq!((made, added), (12 + 3 + 4, vec![(16, 4, 3)]));
    assert_eq!((record.repeats, record.blocks(), record.added_blocks()), (3, 4, 1));
    assert_eq!((record.done(), record.planned(), still_disturbed(&record)), (16, 16, 16));
    assert!(record.cells.iter().all(|c| c.measurements.len() == 4));
    // Twice the blocks allow twice the repetitions.
    let six = Plan { repeats: 6, ..two_by_two() };
    let (record, made, added) = on(&six, &|_, _| true);
    assert_eq!((record.done(), made, added), (32, 24 + 3 + 8, vec![(32, 8, 6)]));
    assert!(made as f64 <= 24.0 * (1.0 + most_beyond(&six)), "{made}");
    // With a single repeat, the allowance is less than a block.
    let one = Plan { repeats: 1, ..two_by_two() };
    let (record, made, added) = on(&one, &|_, _| true);
    assert_eq!((record.done(), made, added), (4, 6, vec![]));
}

#[test]
fn disturbance_of_some_cells_adds_blocks_for_all_cells() {
    let plan = Plan { repeats: 4, ..two_by_two() };
    let (record, made, added) = on(&plan, &|_, cell| cell > 2);
    assert_eq!((made, added), (16 + 3 + 4, vec![(20, 5, 4)]));
    assert_eq!(still_disturbed(&record), 10);
}

#[test]
fn a_single_burst_adds_no_block() {
    let plan = two_by_two();
    // Disturbs the first two measurements and all three repetitions; 2 of 12 are disturbed at the end.
    let (record, made, added) = on(&plan, &|n, _| [1, 2, 5, 6, 7].contains(&n));
    assert_eq!((record.done(), made, added, still_disturbed(&record)), (12, 15, vec![], 2));
}

#[test]
fn a_stopping_rule_prevents_additional_blocks() {
    // No interval is that narrow.
    let stop = Some(Stop { within: -1.0, at_least: 2, budget_s: None });
    let plan = Plan { stop, ..two_by_two() };
    let (record, made, added) = on(&plan, &|_, _| true);
    assert_eq!((record.done(), made, added, most_beyond(&plan)), (12, 12 + 3, vec![], 0.5));
}

#[test]
fn a_resumed_run_adds_the_same_blocks_as_an_uninterrupted_one() {
    let plan = two_by_two();
    let (whole, made, _) = on(&plan, &|_, _| true);
    for end in 1..=made {
        let (_dir, mut store) = fresh();
        let started = start(&plan, 7, &mut store).unwrap();
        let stop = AtomicBool::new(false);
        let mut n = 0;
        let mut measure = |_: &Cell| {
            n += 1;
            Ok(Measured { interrupted: n == end, ..disturbed() })
        };
        assert_eq!(untold(&plan, &started, &mut store, &stop, &mut measure).unwrap(), Outcome::Interrupted);
        let again = resume(&plan, &store, None).unwrap();
        assert_eq!((again.run, again.planned), (started.run, 12));
        assert_eq!(untold(&plan, &again, &mut store, &stop, &mut measure).unwrap(), Outcome::Finished, "{end}");
        let record = store.load(started.run).unwrap().unwrap();
        assert_eq!((record.done(), record.blocks()), (whole.done(), 4), "{end}");
        // The interrupted measurement was discarded.
        assert!(n <= made + 1, "{n} {end}");
    }
}
