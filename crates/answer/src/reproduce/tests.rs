//! Compares synthetic figures.

use iotrail_schema::run_record::{ARM, CellRecord};
use iotrail_testing::sample;
use serde_json::json;

use super::*;
use iotrail_schema::reproduction::LineOutcome;

/// A run with one cell per arm and these IOPS per repeat; kicks per I/O are 0.1 % of the IOPS.
fn run(arms: &[(&str, &[f64])]) -> RunRecord {
    let cell = |(number, (arm, iops)): (u32, &(&str, &[f64]))| {
        let one = |x: &f64| {
            let mut m = sample::measurement();
            m.warnings.clear();
            (m.iops, m.per_io.kicks) = (Some(*x), Some(*x / 1000.0));
            // One CPU was busy for 500 ms of 2 s.
            (m.cpu.user_ns, m.cpu.system_ns, m.elapsed_ns) = (Some(400_000_000), Some(100_000_000), 2_000_000_000);
            (m.load.jobs, m.load.cpus) = (1, vec![]);
            m
        };
        let params = [(ARM.to_owned(), (*arm).into())].into_iter().collect();
        CellRecord { cell: number, params, untestable: None, measurements: iops.iter().map(one).collect() }
    };
    RunRecord {
        run: 7,
        quick: false,
        axes: vec![ARM.into()],
        arms: arms.iter().map(|(arm, _)| (*arm).to_owned()).collect(),
        cells: (1..).zip(arms).map(cell).collect(),
        ..sample::run()
    }
}

const STEADY: &[f64] = &[1000.0, 1002.0, 998.0, 1001.0, 999.0, 1000.0];

/// IOPS at this factor of [`STEADY`].
fn steady(factor: f64) -> Vec<f64> {
    STEADY.iter().rev().map(|x| x * factor).collect()
}

fn seen(shape: serde_json::Value, run: &RunRecord) -> Observation {
    judged(&serde_json::from_value(shape).unwrap(), run, &|_, _| None)
}

fn ratio(published: [f64; 2]) -> serde_json::Value {
    json!({"ratio": {"metric": "iops", "a": {"arm": "a"}, "b": {"arm": "b"}, "published": published}})
}

#[test]
fn a_ratio_agrees_between_half_and_twice_the_published_effect() {
    let halved = run(&[("a", STEADY), ("b", &steady(0.5))]);
    let of = |published| seen(ratio(published), &halved);
    let half = of([4.0, 2.0]);
    assert_eq!((half.outcome, half.words.as_deref()), (LineOutcome::Agrees, Some("×0.500")));
    assert!(half.ci95.is_some_and(|[lo, hi]| lo < 0.5 && 0.5 < hi && hi / lo < 1.05), "{half:?}");
    // A factor of 1/4 agrees with ×0.06 to ×0.5; the measured value is at the edge.
    let edge = of([4.0, 1.0]);
    assert_eq!((edge.outcome, edge.reason.is_some()), (LineOutcome::Inconclusive, true));
    assert_eq!([of([4.0, 4.0]).outcome, of([4.0, 8.0]).outcome], [LineOutcome::Disagrees; 2]);
    // The published figures are reciprocals.
    let mut inverse = ratio([2.0, 4.0]);
    inverse["ratio"]["inverse"] = true.into();
    assert_eq!(seen(inverse, &halved).outcome, LineOutcome::Agrees);
}

#[test]
fn noisy_repeats_are_inconclusive_and_a_single_repeat_has_no_interval() {
    let noisy: &[f64] = &[1000.0, 3000.0, 400.0, 1500.0];
    let wide = seen(ratio([1.0, 1.0]), &run(&[("a", noisy), ("b", &noisy.iter().rev().copied().collect::<Vec<_>>())]));
    assert_eq!(wide.outcome, LineOutcome::Inconclusive);
    let once = seen(ratio([1.0, 1.0]), &run(&[("a", &[1000.0]), ("b", &[1000.0])]));
    assert_eq!((once.outcome, once.ci95, once.value), (LineOutcome::Inconclusive, None, Some(1.0)));
    // The control arm differs from its twin by 20 %, so the two sides may, too.
    let control = run(&[("a", STEADY), ("b", &steady(1.0)), ("control", &steady(1.2))]);
    assert_eq!(seen(ratio([1.0, 1.0]), &control).outcome, LineOutcome::Inconclusive);
}

#[test]
fn a_cpu_bound_claim_cannot_be_tested_by_a_load_that_waits() {
    let mut shape = ratio([1.0, 1.0]);
    shape["ratio"]["limit"] = "cpu".into();
    let mut run = run(&[("a", STEADY), ("b", &steady(1.0))]);
    let waits = seen(shape.clone(), &run);
    assert_eq!(waits.outcome, LineOutcome::CannotBeTested);
    assert!(waits.reason.as_ref().is_some_and(|why| why.contains("busy for 25 %")), "{waits:?}");
    run.cells.iter_mut().flat_map(|c| c.measurements.open()).for_each(|m| m.cpu.user_ns = Some(1_800_000_000));
    assert_eq!(seen(shape, &run).outcome, LineOutcome::Agrees);
}

#[test]
fn a_count_agrees_within_a_fifth() {
    let of = |published: f64, iops: &[f64]| {
        let shape = json!({"count": {"figure": "kicks_per_io", "at": {"arm": "a"}, "published": published}});
        seen(shape, &run(&[("a", iops)]))
    };
    assert_eq!([of(0.95, STEADY).outcome, of(0.5, STEADY).outcome], [LineOutcome::Agrees, LineOutcome::Disagrees]);
    assert_eq!(of(0.0, &[0.0, 0.0]).outcome, LineOutcome::Agrees);
    // Counts are never negative, whatever their spread.
    assert!(of(0.0, &[0.0, 100.0]).ci95.is_some_and(|[lo, hi]| lo == 0.0 && hi > 0.1));
    assert_eq!(of(1.0, &[500.0, 1500.0, 1000.0]).outcome, LineOutcome::Inconclusive);
    let mut unknown = run(&[("a", STEADY)]);
    unknown.cells[0].measurements.open()[1].per_io.kicks = None;
    let shape = json!({"count": {"figure": "kicks_per_io", "at": {"arm": "a"}, "published": 1.0}});
    let seen = seen(shape, &unknown);
    assert_eq!(seen.outcome, LineOutcome::CannotBeTested);
    assert!(seen.reason.is_some_and(|why| why.contains("needs the probes")));
}

#[test]
fn a_knee_agrees_within_one_step() {
    let curve = |factors: [f64; 5]| {
        let all: Vec<(String, Vec<f64>)> =
            factors.iter().enumerate().map(|(i, f)| ((1 << i).to_string(), steady(*f))).collect();
        run(&all.iter().map(|(arm, iops)| (arm.as_str(), &iops[..])).collect::<Vec<_>>())
    };
    let of = |factors, published: [f64; 5]| {
        let values = ["1", "2", "4", "8", "16"];
        let shape = json!({"knee": {"metric": "iops", "along": "arm", "values": values, "published": published}});
        seen(shape, &curve(factors))
    };
    let published = [1.0, 2.0, 4.0, 8.0, 8.1];
    let same = of([1.0, 2.0, 4.0, 8.0, 8.1], published);
    assert_eq!((same.outcome, same.words.as_deref()), (LineOutcome::Agrees, Some("at 8")));
    assert_eq!(of([1.0, 2.0, 4.0, 4.1, 4.2], published).outcome, LineOutcome::Agrees);
    assert_eq!(of([1.0, 1.02, 1.02, 1.02, 1.02], published).outcome, LineOutcome::Disagrees);
}

#[test]
fn an_order_is_compared_between_neighbours() {
    let order = json!({"order": {"metric": "iops", "cells": [{"arm": "a"}, {"arm": "b"}, {"arm": "c"}], "published": [3, 2, 1]}});
    let of = |b: f64, c: f64| seen(order.clone(), &run(&[("a", STEADY), ("b", &steady(b)), ("c", &steady(c))]));
    let (falls, rises, flat) = (of(0.8, 0.6), of(0.8, 1.0), of(0.8, 0.8));
    assert_eq!((falls.outcome, falls.words.as_deref()), (LineOutcome::Agrees, Some("a > b > c")));
    assert_eq!((rises.outcome, rises.words.as_deref()), (LineOutcome::Disagrees, Some("a > b < c")));
    assert_eq!((flat.outcome, flat.words.as_deref()), (LineOutcome::Disagrees, Some("a > b = c")));
}

#[test]
fn unmeasured_claims_have_a_reason() {
    let mut run = run(&[("a", STEADY), ("b", STEADY)]);
    run.cells[1].untestable = Some("vda has no poll queues".into());
    assert_eq!(seen(ratio([1.0, 1.0]), &run).reason.as_deref(), Some("vda has no poll queues"));
    run.cells.pop();
    run.quick = true;
    let gone = seen(ratio([1.0, 1.0]), &run);
    assert_eq!(gone.reason.as_deref(), Some("the quick form does not measure arm b: drop --quick"));
}

#[test]
fn a_study_has_one_line_per_claim_of_the_requested_parts() {
    let claim = |part: Option<&str>, published: [f64; 2]| {
        let shape = part.map(|_| ratio(published));
        json!({"says": "s", "source": "f.csv", "part": part, "shape": shape, "published": part.is_none().then_some("twice"),
               "untestable": part.is_none().then_some("no load of ours does it")})
    };
    let study = json!({
        "name": "s", "title": "t", "citation": "c", "machine": "m",
        "part": [{"name": "one", "title": "One"}, {"name": "two", "title": "Two"}],
        "claim": [claim(Some("one"), [2.0, 1.0]), claim(Some("one"), [1.0, 1.0]), claim(Some("two"), [1.0, 1.0]), claim(None, [1.0, 1.0])],
    });
    let study: Study = serde_json::from_value(study).unwrap();
    let one = || ("one".to_owned(), "s-one".to_owned(), Ok(run(&[("a", STEADY), ("b", &steady(0.5))])));
    let two = ("two".to_owned(), "s-two".to_owned(), Err("it needs 3 CPUs, and 2 are online".to_owned()));
    let of = |ran: &[(String, String, Ran)]| reproduction(&study, false, ran, &|_| None, &|_, _, _| None);
    let r = of(&[one(), two]);
    let outcomes: Vec<LineOutcome> = r.lines.iter().map(|l| l.outcome).collect();
    let none = LineOutcome::CannotBeTested;
    assert_eq!(outcomes, [LineOutcome::Agrees, LineOutcome::Disagrees, none, none]);
    assert_eq!(r.lines[2].reason.as_deref(), Some("it needs 3 CPUs, and 2 are online"));
    assert_eq!(
        (r.parts[0].run, r.lines[0].published.as_str(), r.lines[3].published.as_str()),
        (Some(7), "×0.500", "twice")
    );
    assert_eq!(
        answer(&r),
        "s: 1 of 2 published figures that can be tested here agree, 1 disagrees; 2 cannot be tested here"
    );
    // If a single part was requested, figures of other parts are omitted.
    assert_eq!(of(&[one()]).lines.len(), 2);
}
