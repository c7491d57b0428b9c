//! Resuming a search.

use super::*;
use crate::plan::tests::of_a_program;
use iotrail_schema::program_record::{Legal, TriedArm};
use iotrail_schema::search_record::{Constraint, SearchRecord};

/// Three arms in at most 40 blocks; the second arm is the best.
pub(super) fn search_of_three() -> Plan {
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
        left_out: vec![],
        found: None,
    });
    plan
}

/// A cell's `n`th measurement; deterministic.
fn nth(cell: u32, n: u32) -> Measured {
    let noise = 0.004 * f64::from((7 * n + 3 * cell + n * cell) % 11) + 0.03 * f64::from(n % 3);
    let iops = 1e5 * [1.0, 1.04, 0.8][cell as usize - 1] * (1.0 + noise);
    Measured { measurement: Measurement { iops: Some(iops), ..sample::measurement() }, ..measured(false) }
}

#[test]
fn a_resumed_search_equals_an_uninterrupted_one() {
    let plan = search_of_three();
    let iops = |store: &Store, run: i64| -> Vec<Vec<f64>> {
        let record = store.load(run).unwrap().unwrap();
        record.cells.iter().map(|c| c.measurements.all().iter().filter_map(|m| m.iops).collect()).collect()
    };
    // Records each measurement and interrupts the `stop_at`th.
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
    // One arm was removed before the end.
    assert!((6..40).contains(&end.blocks) && order.len() < 3 * end.blocks, "{end:?}");
    let values = iops(&store, whole.run);
    // Between two blocks, within an early block, and within a block after the first removal.
    for stop_at in [9, 4, order.len() - 3] {
        let (dir, mut store) = fresh();
        let begun = start(&plan, 7, &mut store).unwrap();
        let (outcome, first) = go_on(&mut store, &begun, Some(stop_at));
        assert_eq!((outcome, first.len()), (Outcome::Interrupted, stop_at));
        let stopped = search::state(&store.load(begun.run).unwrap().unwrap()).unwrap();
        assert!(stopped.ended.is_none() && stopped.measurements <= stop_at as u64, "{stopped:?}");
        // Simulates a new process.
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
fn a_hung_arm_excludes_all_arms_that_share_its_settings() {
    let mut plan = of_a_program();
    plan.search = search_of_three().search;
    plan.tried = plan
        .arms
        .iter()
        .map(|name| TriedArm {
            name: name.clone(),
            legal: Legal::Yes,
            reason: String::new(),
            rings: vec![],
            dropped: None,
            watched: None,
            hang: None,
        })
        .collect();
    plan.repeats = 4;
    let (_dir, mut store) = fresh();
    let started = start(&plan, 7, &mut store).unwrap();
    let mut ran: Vec<u32> = Vec::new();
    let mut measure = |cell: &Cell| {
        ran.push(cell.number);
        match (cell.number, ran.len() > plan.cells.len()) {
            (3, true) => Err(Error::machine("true", "see").because(Hung { why: "it hung".into(), waited_ns: 7 })),
            _ => Ok(measured(false)),
        }
    };
    let outcome = untold(&plan, &started, &mut store, &AtomicBool::new(false), &mut measure).unwrap();
    assert_eq!(outcome, Outcome::Finished);
    let times = |cell: u32| ran.iter().filter(|c| **c == cell).count();
    assert_eq!([1, 2, 3, 6].map(times), [4, 4, 2, 4], "{ran:?}");
    let after = ran.iter().rposition(|c| *c == 3).unwrap();
    assert!(!ran[after..].contains(&4) && !ran[after..].contains(&5), "{ran:?}");
    let record = store.load(started.run).unwrap().unwrap();
    let hung: Vec<(&str, &str)> =
        record.tried.iter().filter_map(|t| Some((t.name.as_str(), t.hang.as_ref()?.arm.as_str()))).collect();
    assert_eq!(hung, [("sqpoll", "sqpoll"), ("sqpoll · cpus 0", "sqpoll"), ("sqpoll sq-cpu 0", "sqpoll")]);
    assert_eq!(search::state(&record).unwrap().set(), [0, 1, 5]);
}

#[test]
fn a_search_is_not_resumed_with_another_objective_or_constraint() {
    let (_dir, mut store) = fresh();
    let mut plan = search_of_three();
    let started = start(&plan, 7, &mut store).unwrap();
    store.save(started.run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
    plan.search.as_mut().unwrap().budget_s = 1.0;
    assert!(resume(&plan, &store, None).is_ok(), "a larger budget does not change the search");
    plan.search.as_mut().unwrap().second = Some("cpu_per_io".into());
    let e = resume(&plan, &store, None).unwrap_err().to_string();
    assert!(e.contains("objective was iops and is now iops,cpu_per_io"), "{e}");
    let broken =
        Constraint { metric: "latency_p99".into(), below: true, limit: 1e6, inclusive: false, text: "p99<1ms".into() };
    plan.search.as_mut().unwrap().second = None;
    plan.search.as_mut().unwrap().constraints.push(broken);
    let e = resume(&plan, &store, None).unwrap_err().to_string();
    assert!(e.contains("constraints was none and is now p99<1ms"), "{e}");
}
