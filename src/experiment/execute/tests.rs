use super::*;
use crate::experiment::plan::tests::two_by_two;
use iotrail_schema::search_record::{Constraint, SearchRecord};
use iotrail_testing::sample;

fn fresh() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
    (dir, store)
}

fn measured(interrupted: bool) -> Measured {
    Measured { measurement: sample::measurement(), histogram: sample::histogram(), samples: vec![], interrupted }
}

/// Executes what is to come, and nobody is told of it.
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
fn an_interrupted_run_keeps_what_is_whole_and_resumes_with_the_rest_in_the_same_order() {
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
    assert!(resume(&plan, &store, None).unwrap_err().to_string().contains("waits to be resumed"));
}

#[test]
fn a_run_is_not_resumed_under_another_plan_or_kernel() {
    let (_dir, mut store) = fresh();
    let mut plan = two_by_two();
    let started = start(&plan, 7, &mut store).unwrap();
    store.save(started.run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
    let e = resume(&plan, &store, Some("7.2.0")).unwrap_err().to_string();
    assert!(e.contains("measured on kernel 6.18.0, and this is 7.2.0"), "{e}");
    plan.repeats = 4;
    let e = resume(&plan, &store, None).unwrap_err();
    assert!(e.to_string().contains("repeats was 3 and is 4"), "{e}");
    assert_eq!(e.exit_status(), 2);
}

#[test]
fn what_the_machine_refuses_is_noted_and_the_rest_is_measured() {
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
fn somebody_elses_change_ends_the_run_and_leaves_no_cell_untestable() {
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
fn corruption_ends_the_run_and_what_was_measured_before_stays_with_it() {
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
        assert!(resume(&plan, &store, None).is_err(), "it has ended");
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
fn a_fault_of_ours_ends_the_run_and_says_nothing_of_the_cell() {
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
fn what_a_cell_measured_before_it_was_refused_counts_as_planned() {
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
fn all_arms_of_a_block_have_one_seed_and_another_run_of_the_same_seed_has_the_same() {
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
fn wrong_input_ends_the_run_and_a_machine_that_can_do_nothing_is_an_error() {
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
    let mut never = |_: &Cell| -> Result<Measured> { unreachable!("nothing is to be measured") };
    let outcome = untold(&plan, &started, &mut store, &stop, &mut never).unwrap();
    assert_eq!(outcome, Outcome::Interrupted);
}

/// Three arms, in 40 blocks at most; the second is the best.
fn search_of_three() -> Plan {
    let mut plan = two_by_two();
    plan.cells.truncate(2);
    let mut third = plan.cells[1].clone();
    third.number = 3;
    third.params.insert(ARM.into(), "sqpoll".into());
    plan.cells.push(third);
    plan.arms.push("sqpoll".into());
    plan.repeats = 40;
    plan.search = Some(SearchRecord {
        objective: "iops".into(),
        second: None,
        constraints: vec![],
        budget_s: 3600.0,
        candidates: vec![],
        found: None,
    });
    plan
}

/// The `n`th measurement of a cell, as it is each time that it is made.
fn nth(cell: u32, n: u32) -> Measured {
    let noise = 0.004 * f64::from((7 * n + 3 * cell + n * cell) % 11) + 0.03 * f64::from(n % 3);
    let iops = 1e5 * [1.0, 1.04, 0.8][cell as usize - 1] * (1.0 + noise);
    Measured { measurement: Measurement { iops, ..sample::measurement() }, ..measured(false) }
}

#[test]
fn a_search_that_was_interrupted_goes_on_as_if_it_had_not_been() {
    let plan = search_of_three();
    let iops = |store: &Store, run: i64| -> Vec<Vec<f64>> {
        let record = store.load(run).unwrap().unwrap();
        record.cells.iter().map(|c| c.measurements.iter().map(|m| m.iops).collect()).collect()
    };
    // Each measurement in its order; the `stop_at`th is cut short.
    let go_on = |store: &mut Store, started: &Started, stop_at: Option<usize>| {
        let mut counts: Vec<u32> = iops(store, started.run).iter().map(|of| of.len() as u32).collect();
        let mut order = Vec::new();
        let mut measure = |cell: &Cell| {
            if Some(order.len()) == stop_at {
                return Ok(measured(true));
            }
            order.push(cell.number);
            counts[cell.number as usize - 1] += 1;
            Ok(nth(cell.number, counts[cell.number as usize - 1]))
        };
        let outcome = untold(&plan, started, store, &AtomicBool::new(false), &mut measure).unwrap();
        (outcome, order)
    };
    let (_dir, mut store) = fresh();
    let whole = start(&plan, 7, &mut store).unwrap();
    let (outcome, order) = go_on(&mut store, &whole, None);
    assert_eq!(outcome, Outcome::Finished);
    let end = search::state(&store.load(whole.run).unwrap().unwrap()).unwrap();
    assert_eq!((end.set(), end.measurements), (vec![1], order.len() as u64));
    // Someone went before the end.
    assert!((6..40).contains(&end.blocks) && order.len() < 3 * end.blocks, "{end:?}");
    let values = iops(&store, whole.run);
    // Between two blocks, in one of the first, and in one after the first was taken out.
    for stop_at in [9, 4, order.len() - 3] {
        let (dir, mut store) = fresh();
        let begun = start(&plan, 7, &mut store).unwrap();
        let (outcome, first) = go_on(&mut store, &begun, Some(stop_at));
        assert_eq!((outcome, first.len()), (Outcome::Interrupted, stop_at));
        let stopped = search::state(&store.load(begun.run).unwrap().unwrap()).unwrap();
        assert!(stopped.ended.is_none() && stopped.measurements <= stop_at as u64, "{stopped:?}");
        // Another process.
        drop(store);
        let mut store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
        let again = resume(&plan, &store, Some("6.18.0")).unwrap();
        assert_eq!((again.run, again.seed), (begun.run, 7));
        assert_eq!(search::state(&store.load(begun.run).unwrap().unwrap()), Some(stopped));
        let (outcome, rest) = go_on(&mut store, &again, None);
        assert_eq!((outcome, [first, rest].concat()), (Outcome::Finished, order.clone()), "stopped at {stop_at}");
        assert_eq!(iops(&store, begun.run), values);
        assert_eq!(search::state(&store.load(begun.run).unwrap().unwrap()), Some(end.clone()));
    }
}

#[test]
fn a_search_is_not_resumed_for_another_objective() {
    let (_dir, mut store) = fresh();
    let mut plan = search_of_three();
    let started = start(&plan, 7, &mut store).unwrap();
    store.save(started.run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
    plan.search.as_mut().unwrap().budget_s = 1.0;
    assert!(resume(&plan, &store, None).is_ok(), "more time is no other search");
    plan.search.as_mut().unwrap().second = Some("cpu_per_io".into());
    let e = resume(&plan, &store, None).unwrap_err().to_string();
    assert!(e.contains("objective was iops and is iops,cpu_per_io"), "{e}");
    let broken = Constraint { metric: "latency_p99".into(), below: true, limit: 1e6, text: "p99<1ms".into() };
    plan.search.as_mut().unwrap().second = None;
    plan.search.as_mut().unwrap().constraints.push(broken);
    let e = resume(&plan, &store, None).unwrap_err().to_string();
    assert!(e.contains("constraints was none and is p99<1ms"), "{e}");
}
