use super::*;
use crate::compare::of_run;
use iotrail_schema::measurement::{Measurement, Warning};
use iotrail_schema::run_record::{ARM, CellRecord};
use iotrail_testing::sample;
use serde_json::{Map, Value, json};

/// Six repeats of each arm at each depth.
fn run(
    metrics: &[&str],
    arms: &[&str],
    depths: &[u32],
    make: impl Fn(&mut Measurement, &str, u32, usize),
) -> RunRecord {
    let mut run = sample::run();
    run.axes = vec!["depth".into(), ARM.into()];
    run.arms = arms.iter().map(|arm| (*arm).to_owned()).collect();
    run.metrics = metrics.iter().map(|metric| (*metric).to_owned()).collect();
    run.repeats = 6;
    run.expectations.clear();
    run.cells.clear();
    for depth in depths {
        for arm in arms {
            let repeat = |i: usize| {
                let mut m = sample::measurement();
                m.warnings.clear();
                m.vehicles.clear();
                m.iops = Some(10_000.0 * (1.0 + 0.002 * (i % 3) as f64));
                make(&mut m, arm, *depth, i);
                m
            };
            let params: Map<String, Value> =
                [("depth".to_owned(), json!(depth)), (ARM.to_owned(), json!(arm))].into_iter().collect();
            let cell = run.cells.len() as u32 + 1;
            let measurements = (0..6).map(repeat).collect();
            run.cells.push(CellRecord { cell, params, untestable: None, measurements });
        }
    }
    run.comparisons = of_run(&run, &|_, _| None);
    run
}

fn disturbed(m: &mut Measurement) {
    m.warnings = vec![Warning::new("steal", "something was", "")];
}

#[test]
fn comparisons_without_their_disturbed_pairs_are_not_disturbed() {
    let with = |bad: usize| {
        let run = run(&["iops"], &["a", "b"], &[1], |m, arm, _, i| {
            if arm == "b" && i < bad {
                disturbed(m);
            }
        });
        let head = Head::of_run(&run, false);
        let note = head.notes.into_iter().find(|note| note.starts_with("other work")).unwrap_or_default();
        (head.answer.ends_with("; other work disturbed every comparison"), note)
    };
    assert_eq!(with(0), (false, String::new()));
    assert_eq!(with(1), (false, "other work disturbed 1 of 6 pairs, which is left out".into()));
    assert_eq!(with(2), (false, "other work disturbed 2 of 6 pairs, which are left out".into()));
    // Too few pairs would remain.
    assert_eq!(with(3), (true, "other work disturbed 1 of 1 comparison: 3 disturbed pairs used (*)".into()));
    let run = run(&["iops"], &["a", "b"], &[1, 4, 8], |m, _, depth, i| {
        if i < depth as usize - 1 {
            disturbed(m);
        }
    });
    let head = Head::of_run(&run, false);
    let note = "other work disturbed 2 of 3 comparisons: 9 disturbed pairs used (*)";
    assert!(head.notes.iter().any(|said| said == note), "{head:?}");
    assert!(!head.answer.contains("every comparison"), "{}", head.answer);
}

#[test]
fn other_arms_are_better_in_a_stated_number_of_situations() {
    let answer = |arms: &[&str], deepest: fn(&str) -> u32| {
        let run = run(&["iops"], arms, &[1, 2, 4, 8], |m, arm, depth, _| {
            let times = if arm == "best" { 3.0 } else { 1.5 };
            if arm != "base" && depth <= deepest(arm) {
                *m.iops.as_mut().unwrap() *= times;
            }
        });
        Head::of_run(&run, false).answer
    };
    let deepest = |arm: &str| match arm {
        "once" => 1,
        "thrice" => 4,
        _ => 8,
    };
    let two = answer(&["base", "best", "once"], deepest);
    assert!(two.contains("in 4 of 4 situations") && two.ends_with("; of 1 other arm: 1 faster in 1 of 4"), "{two}");
    let three = answer(&["base", "best", "once", "thrice"], deepest);
    assert!(three.ends_with("; of 2 other arms: 2 faster in 1–3 of 4"), "{three}");
    let all = answer(&["base", "best", "always"], deepest);
    assert!(all.ends_with("; of 1 other arm: 1 faster"), "{all}");
}

#[test]
fn an_effect_is_not_its_own_reason() {
    let head = |metric: &str| {
        let run = run(&[metric], &["base", "batch"], &[1], |m, arm, _, i| {
            let near = 1.0 + 0.002 * (i % 3) as f64;
            m.per_io.syscalls = Some(if arm == "batch" { 0.125 } else { 1.0 } * near);
            if arm == "batch" {
                *m.iops.as_mut().unwrap() *= 3.0;
            }
        });
        Head::of_run(&run, false)
    };
    assert_eq!(head("iops").why.as_deref(), Some("with batch: system calls per I/O 1.00 → 0.13"));
    let calls = head("syscalls_per_io");
    assert!(calls.answer.contains("8.0× fewer system calls per I/O"), "{}", calls.answer);
    assert!(!calls.why.as_deref().unwrap_or_default().contains("system calls"), "{:?}", calls.why);
}

#[test]
fn the_first_metric_whose_effect_is_unknown_is_named() {
    let run = run(&["iops", "syscalls_per_io"], &["base", "batch"], &[1], |m, arm, _, i| {
        m.iops = Some([7e3, 14e3, 9e3, 13e3, 8e3, 12e3][(i + usize::from(arm == "batch")) % 6]);
        m.per_io.syscalls = Some(if arm == "batch" { 0.125 } else { 1.0 });
    });
    let advice = Head::of_run(&run, false).advice.unwrap();
    assert_eq!(advice, "use batch, if system calls per I/O matters; the effect on IOPS is unknown");
}

#[test]
fn the_recommended_repeats_take_the_same_time_on_the_screen_and_in_json() {
    let run = run(&["iops"], &["base", "b", "c"], &[1], |m, arm, _, i| {
        let start = usize::from(arm == "b") + 3 * usize::from(arm == "c");
        m.iops = Some([9e3, 11e3, 9.5e3, 10.5e3, 9.2e3, 10.4e3][(i + start) % 6]);
        (m.elapsed_ns, m.load.warmup_ns) = (2_000_000_000, 0);
    });
    let needed = run.comparisons.iter().filter_map(|c| c.to_show_10_percent).max_by_key(|n| n.repeats).unwrap();
    // Three cells of 2 s, and half a second between two of them.
    assert_eq!(needed.seconds, Some(needed.repeats as f64 * 7.5));
    let advice = Head::of_run(&run, false).advice.unwrap();
    let minutes = needed.seconds.unwrap() / 60.0;
    let said = format!("--repeats {} would detect ±10 % (about {minutes:.0} min)", needed.repeats);
    assert!(minutes > 1.5 && advice.contains(&said), "{advice}; {needed:?}");
}
