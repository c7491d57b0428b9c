//! How long completions stay in the completion queue, for programs with known times: `ground` leaves them there, and
//! the kernel's fdinfo reports their number. Asserts orders and counts.

use iotrail_schema::trace_record::{Reaping, TraceRecord};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::ground::{watch, watch_with};
use crate::trial;

const MS: u64 = 1_000_000;

pub fn trials() -> Vec<Trial> {
    let held = ["left_lying_asleep", "left_lying_computing", "left_lying_sqpoll"];
    let held = held.map(|name| trial::test(format!("reaping::{name}"), move || held_for(name)));
    let others = [
        trial::test("reaping::delays_of_all_completions_are_estimated_if_the_map_is_full", deep),
        trial::test("reaping::prompt_reaping_is_reported_as_over_100_times_faster", at_once),
        trial::test("reaping::waiting_for_a_batch_causes_no_finding", batch),
        trial::test("reaping::sampled_completions_represent_all_of_them", sampled),
        trial::test("reaping::completions_left_unreaped_at_exit_are_reported", never),
    ];
    held.into_iter().chain(others).collect()
}

type Done = Result<(), libtest_mimic::Failed>;

fn fact(truth: &Value, name: &str) -> u64 {
    truth["facts"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {truth}"))
}

fn of(trace: &TraceRecord) -> Reaping {
    let [ring] = &trace.rings[..] else { panic!("one ring") };
    assert_eq!(ring.reaping, trace.total.reaping, "of all rings there is one");
    ring.reaping.clone().expect("its completions were looked at")
}

fn held_for(scenario: &'static str) -> Done {
    let (trace, truth) = watch(scenario);
    let (r, held_ms) = (of(&trace), fact(&truth, "held_ms"));
    // All first completions of a ring are checked and none is lost; the depth of the queue equals that in fdinfo.
    assert_eq!((r.completions, r.estimated, r.unreaped), (128, 128, 0), "{r:?}");
    assert_eq!(trace.total.reaping_lost, Some(0));
    assert_eq!((r.depth.max, u64::from(r.deepest)), (Some(64), fact(&truth, "lying")), "{r:?}");
    // A check came shortly before they were reaped, and none stayed longer than the scenario lasted.
    let (least, most) = (r.at_least_ns.p50.expect("128"), r.at_most_ns.p50.expect("128"));
    // (With SQPOLL, they are posted once the thread has woken up.)
    assert!(least >= (held_ms - 100) * MS && most >= (held_ms - 50) * MS && least <= most, "{least} to {most}");
    assert!(r.at_most_ns.max <= Some(truth["elapsed_ms"].as_u64().expect("a time") * MS + 50 * MS), "{r:?}");
    // No thread waited for more completions; waits for a CPU are excluded.
    assert_eq!(r.left_long, 128, "{r:?}");
    assert!(r.left_ns.p50 <= r.at_least_ns.p50, "{r:?}");
    Ok(())
}

/// More completions than the map has entries, so the probes repeatedly halve the sample.
fn deep() -> Done {
    let (trace, truth) = watch("left_lying_deep");
    let (r, held_ms) = (of(&trace), fact(&truth, "held_ms"));
    assert_eq!((trace.total.reaping_lost, r.unreaped), (Some(0), 0), "{r:?}");
    assert_eq!(fact(&truth, "lying"), 480);
    assert_eq!(r.deepest, 480, "{r:?}");
    assert!((60..=192).contains(&r.completions), "{r:?}");
    // 960 completions in about 100 samples, each with a weight of about 8.
    assert!((600..=1_400).contains(&r.estimated), "{r:?}");
    assert!(r.at_least_ns.p50 >= Some((held_ms - 100) * MS), "{r:?}");
    Ok(())
}

fn at_once() -> Done {
    let (trace, truth) = watch("reaped_at_once");
    let r = of(&trace);
    assert_eq!((r.completions, r.unreaped, trace.total.reaping_lost), (256, 0, Some(0)), "{r:?}");
    assert_eq!((r.depth.max, u64::from(r.deepest)), (Some(8), fact(&truth, "lying")), "{r:?}");
    let (held, _) = watch("left_lying_asleep");
    let (p90, held) = (r.at_most_ns.p90.expect("256"), of(&held).at_least_ns.p50.expect("128"));
    assert!(p90 < held / 100, "{p90} of {held}");
    Ok(())
}

fn batch() -> Done {
    let (trace, _) = watch("waits_for_half");
    let r = of(&trace);
    assert!(r.completions >= 256 && trace.total.reaping_lost == Some(0), "{r:?}");
    // The first of 16 stays in the queue for 15 × 3 ms.
    assert!(r.at_least_ns.p90 >= Some(20 * MS), "{r:?}");
    assert!(r.left_ns.p90 < Some(10 * MS), "{r:?}");
    assert!(!trace.findings.iter().any(|f| f.code == "left_lying"), "{:?}", trace.findings);
    Ok(())
}

/// 1 in 8 is checked, and the estimates cover all.
fn sampled() -> Done {
    let (trace, _) = watch_with("reaped_at_once", &["--count", "40000"]);
    let r = of(&trace);
    assert!((4_000..=6_500).contains(&r.completions), "{r:?}");
    assert!((36_000..=44_000).contains(&r.estimated), "{r:?}");
    assert_eq!((r.depth.max, r.deepest), (Some(8), 8), "{r:?}");
    Ok(())
}

/// The program exits without reaping.
fn never() -> Done {
    let (trace, truth) = watch("left_lying_forever");
    let r = of(&trace);
    assert_eq!((r.completions, r.unreaped, r.unreaped_estimated), (0, 64, 64), "{r:?}");
    assert!(r.unreaped_at_least_ns >= Some((fact(&truth, "held_ms") - 100) * MS), "{r:?}");
    assert!(trace.findings.iter().any(|f| f.code == "left_lying"), "{:?}", trace.findings);
    Ok(())
}
