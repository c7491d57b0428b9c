mod beyond;
mod of_a_search;

use super::*;
use crate::plan::tests::two_by_two;
use iotrail_testing::sample;

fn fresh() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
    (dir, store)
}

fn measured(interrupted: bool) -> Measured {
    Measured { measurement: sample::measurement(), histogram: sample::histogram(), samples: vec![], interrupted }
}

/// Executes the remaining slots without reporting progress.
fn untold(
    plan: &Plan,
    started: &Started,
    store: &mut Store,
    stop: &AtomicBool,
    measure: &mut dyn FnMut(&Cell) -> Result<Measured>,
) -> Result<Outcome> {
    execute(Execution { plan, started, store, stop, measure, tell: &mut |_| {} })
}

#[test]
fn an_interrupted_run_keeps_complete_measurements_and_resumes_in_order() {
    let (_dir, mut store) = fresh();
    let plan = two_by_two();
    let started = start(&plan, 7, &mut store).unwrap();
    assert_eq!((started.planned, started.slots.len()), (12, 12));
    let stop = AtomicBool::new(false);
    let mut n = 0;
    let mut measure = |_: &Cell| {
        n += 1;
        Ok(measured(n == 6))
    };
    let outcome = untold(&plan, &started, &mut store, &stop, &mut measure).unwrap();
    assert_eq!(outcome, Outcome::Interrupted);
    let record = store.load(started.run).unwrap().unwrap();
    assert_eq!((record.done(), record.planned(), record.finished_unix_s), (5, 12, None));

    let again = resume(&plan, &store, Some("6.18.0")).unwrap();
    assert_eq!((again.run, again.seed, again.planned), (started.run, 7, 12));
    assert_eq!(again.slots, started.slots[5..]);
    let mut seen = Vec::new();
    let mut tell = |s: Step<'_>| {
        if let Step::Begins { done, cell, repeat, .. } = s {
            seen.push((done, Slot { cell: cell.number, repeat }));
        }
    };
    let outcome = execute(Execution {
        plan: &plan,
        started: &again,
        store: &mut store,
        stop: &stop,
        measure: &mut |_| Ok(measured(false)),
        tell: &mut tell,
    })
    .unwrap();
    assert_eq!(outcome, Outcome::Finished);
    assert_eq!(seen.first(), Some(&(5, started.slots[5])));
    assert_eq!(seen.len(), 7);
    let record = store.load(started.run).unwrap().unwrap();
    assert_eq!(record.done(), 12);
    assert!(record.finished_unix_s.is_some());
    assert!(resume(&plan, &store, None).unwrap_err().to_string().contains("no unfinished run of "));
}

#[test]
fn a_run_is_not_resumed_with_another_plan_or_kernel() {
    let (_dir, mut store) = fresh();
    let mut plan = two_by_two();
    let started = start(&plan, 7, &mut store).unwrap();
    store.save(started.run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
    let e = resume(&plan, &store, Some("7.2.0")).unwrap_err().to_string();
    assert!(e.contains("measured on kernel 6.18.0, and this kernel is 7.2.0"), "{e}");
    plan.repeats = 4;
    let e = resume(&plan, &store, None).unwrap_err();
    assert!(e.to_string().contains("repeats was 3 and is now 4"), "{e}");
    assert_eq!(e.exit_status(), 2);
}

#[test]
fn untestable_cells_are_recorded_and_the_others_are_measured() {
    let (_dir, mut store) = fresh();
    let plan = two_by_two();
    let started = start(&plan, 1, &mut store).unwrap();
    let mut tries = 0;
    let mut measure = |cell: &Cell| {
        if cell.load.storage().is_some_and(|l| l.depth == 4 && l.ring == "coop_taskrun") {
            tries += 1;
            return Err(Error::machine("the kernel refuses it", "use a newer one"));
        }
        Ok(measured(false))
    };
    let stop = AtomicBool::new(false);
    let outcome = untold(&plan, &started, &mut store, &stop, &mut measure).unwrap();
    assert_eq!((outcome, tries), (Outcome::Finished, 1));
    let record = store.load(started.run).unwrap().unwrap();
    assert_eq!((record.done(), record.planned()), (9, 9));
    let refused: Vec<_> = record.cells.iter().filter_map(|c| c.untestable.as_deref()).collect();
    assert_eq!(refused, ["the kernel refuses it; use a newer one"]);
}

#[test]
fn a_resumed_run_retries_failed_cells() {
    let (_dir, mut store) = fresh();
    let plan = two_by_two();
    let started = start(&plan, 1, &mut store).unwrap();
    let stop = AtomicBool::new(false);
    let mut n = 0;
    // Two cells fail in the second block; one of them fails again later.
    let mut measure = |cell: &Cell| {
        n += 1;
        match (n, cell.number) {
            (5.., 2 | 3) => Err(Error::machine("its server is gone", "start it")),
            (9, _) => Ok(measured(true)),
            _ => Ok(measured(false)),
        }
    };
    assert_eq!(untold(&plan, &started, &mut store, &stop, &mut measure).unwrap(), Outcome::Interrupted);
    let told = |store: &Store| {
        let record = store.load(started.run).unwrap().unwrap();
        record.cells.iter().map(|c| (c.measurements.len(), c.untestable.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(told(&store)[1..3], [(1, true), (1, true)]);
    let again = resume(&plan, &store, None).unwrap();
    let mut measure = |cell: &Cell| match cell.number {
        3 => Err(Error::machine("its server is gone", "start it")),
        _ => Ok(measured(false)),
    };
    assert_eq!(untold(&plan, &again, &mut store, &stop, &mut measure).unwrap(), Outcome::Finished);
    assert_eq!(told(&store), [(3, false), (3, false), (1, true), (3, false)]);
}

#[test]
fn a_foreign_change_of_settings_stops_the_run_without_untestable_cells() {
    let (_dir, mut store) = fresh();
    let plan = two_by_two();
    let started = start(&plan, 1, &mut store).unwrap();
    let stop = AtomicBool::new(false);
    let mut n = 0;
    let mut measure = |_: &Cell| {
        n += 1;
        if n == 4 { Err(Error::disturbed("somebody else has changed it", "stop that")) } else { Ok(measured(false)) }
    };
    let e = untold(&plan, &started, &mut store, &stop, &mut measure).unwrap_err();
    assert_eq!((e.kind, e.exit_status()), (Kind::Disturbed, 3));
    let record = store.load(started.run).unwrap().unwrap();
    assert_eq!((record.done(), record.planned(), record.finished_unix_s), (3, 12, None));
    let again = resume(&plan, &store, None).unwrap();
    assert_eq!(again.slots, started.slots[3..]);
    let outcome = untold(&plan, &again, &mut store, &stop, &mut |_| Ok(measured(false))).unwrap();
    assert_eq!(outcome, Outcome::Finished);
    assert_eq!(store.load(started.run).unwrap().unwrap().done(), 12);
}

#[test]
fn data_corruption_ends_the_run_and_keeps_earlier_measurements() {
    for good in [0, 5] {
        let (_dir, mut store) = fresh();
        let plan = two_by_two();
        let started = start(&plan, 1, &mut store).unwrap();
        let mut n = 0;
        let mut measure = |_: &Cell| {
            n += 1;
            match n > good {
                true => Err(Error::corruption(corruption())),
                false => Ok(measured(false)),
            }
        };
        let outcome = untold(&plan, &started, &mut store, &AtomicBool::new(false), &mut measure).unwrap();
        assert_eq!((outcome, n), (Outcome::Corrupted, good + 1));
        let record = store.load(started.run).unwrap().unwrap();
        assert_eq!((record.done(), record.planned()), (good, 12));
        let found = record.corruption.unwrap();
        assert_eq!(found, Corruption { cell: Some(started.slots[good].cell), ..corruption() });
        assert!(found.to_string().starts_with("DATA CORRUPTION in /data/x: 3 blocks wrong; first at offset 8704: "));
        let listed = store.list().unwrap().remove(0);
        assert_eq!((listed.done, listed.planned, listed.corruption), (good as u64, 12, Some(found)));
        assert!(record.cells.iter().all(|c| c.untestable.is_none()));
        assert!(resume(&plan, &store, None).is_err(), "the run has ended");
    }
}

fn corruption() -> Corruption {
    Corruption {
        file: "/data/x".into(),
        offset: 8704,
        expected: "00".into(),
        found: "01".into(),
        blocks: 3,
        block_bytes: 4096,
        cell: None,
    }
}

#[test]
fn an_internal_error_ends_the_run_without_an_untestable_cell() {
    let (_dir, mut store) = fresh();
    let plan = two_by_two();
    let started = start(&plan, 1, &mut store).unwrap();
    let mut n = 0;
    let mut measure = |_: &Cell| {
        n += 1;
        if n == 3 { Err(Error::internal("a load thread panicked")) } else { Ok(measured(false)) }
    };
    let e = untold(&plan, &started, &mut store, &AtomicBool::new(false), &mut measure).unwrap_err();
    assert_eq!(e.exit_status(), 70);
    let record = store.load(started.run).unwrap().unwrap();
    assert_eq!((record.done(), record.planned(), record.finished_unix_s), (2, 12, None));
    assert!(record.cells.iter().all(|c| c.untestable.is_none()));
}

#[test]
fn measurements_before_a_cell_failure_count_as_planned() {
    let (_dir, mut store) = fresh();
    let plan = two_by_two();
    let started = start(&plan, 1, &mut store).unwrap();
    let mut n = 0;
    let mut measure = |_: &Cell| {
        n += 1;
        if n > 5 { Err(Error::machine("the device is gone", "")) } else { Ok(measured(false)) }
    };
    let outcome = untold(&plan, &started, &mut store, &AtomicBool::new(false), &mut measure).unwrap();
    let record = store.load(started.run).unwrap().unwrap();
    assert_eq!((outcome, record.done(), record.planned()), (Outcome::Finished, 5, 5));
}

#[test]
fn all_arms_of_a_block_share_a_seed_derived_from_the_runs_seed() {
    let seeds = |seed| {
        let (_dir, mut store) = fresh();
        let plan = two_by_two();
        let started = start(&plan, seed, &mut store).unwrap();
        let mut seen = Vec::new();
        let mut measure = |cell: &Cell| {
            seen.extend(cell.load.storage().and_then(|l| l.seed));
            Ok(measured(false))
        };
        untold(&plan, &started, &mut store, &AtomicBool::new(false), &mut measure).unwrap();
        seen
    };
    let one = seeds(7);
    assert!(one.chunks(4).all(|block| block.iter().all(|s| *s == block[0])), "{one:?}");
    let blocks: HashSet<u32> = one.iter().copied().collect();
    assert_eq!((one.len(), blocks.len()), (12, 3));
    assert_eq!(seeds(7), one);
    assert_ne!(seeds(8), one);
}

#[test]
fn invalid_input_or_the_lack_of_testable_cells_ends_the_run() {
    let (_dir, mut store) = fresh();
    let plan = two_by_two();
    let stop = AtomicBool::new(false);
    let started = start(&plan, 1, &mut store).unwrap();
    let mut bad = |_: &Cell| Err(Error::input("the file is too small", "use another"));
    let e = untold(&plan, &started, &mut store, &stop, &mut bad).unwrap_err();
    assert_eq!(e.exit_status(), 2);
    assert_eq!(store.load(started.run).unwrap(), None);
    let started = start(&plan, 1, &mut store).unwrap();
    let mut refused = |_: &Cell| Err(Error::machine("io_uring is disabled", "sysctl"));
    let e = untold(&plan, &started, &mut store, &stop, &mut refused).unwrap_err();
    assert_eq!(e.exit_status(), 3);
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn a_stop_before_the_first_cell_measures_nothing() {
    let (_dir, mut store) = fresh();
    let plan = two_by_two();
    let started = start(&plan, 1, &mut store).unwrap();
    let stop = AtomicBool::new(true);
    let mut never = |_: &Cell| -> Result<Measured> { unreachable!("no slot is left") };
    let outcome = untold(&plan, &started, &mut store, &stop, &mut never).unwrap();
    assert_eq!(outcome, Outcome::Interrupted);
}
