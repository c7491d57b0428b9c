//! `track` finds a synthetic change at its position, and does not report noise as a change.

use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[("track::a_change_is_detected_in_its_run_and_reported", found)];

fn found() -> End {
    let place = Place::new();
    let measured = |think: &str| {
        let load = ["bench", "--rw", "nop", "--runtime", "40ms", "--warmup", "0", "--trace", "off", "--store", "s.db"];
        run(&mut place.tool([&load[..], &["--think", think]].concat())).ok();
    };
    (0..5).for_each(|_| measured("0"));
    (0..5).for_each(|_| measured("200000"));
    let track = |more: &[&str]| {
        let args = ["track", "bench", "--metric", "iops", "--store", "s.db"];
        run(&mut place.tool([&args[..], more].concat()))
    };
    let h = track(&["--json"]).ok().json();
    assert_eq!((h["schema"].as_str(), h["runs"].as_array().map(Vec::len)), (Some("iotrail.history/1"), Some(10)));
    let changes = h["series"][0]["changes"].as_array().expect("a list");
    assert_eq!(changes.len(), 1, "{changes:?}");
    let change = &changes[0];
    assert_eq!((change["after_run"].as_i64(), change["run"].as_i64()), (Some(5), Some(6)));
    assert_eq!((change["is_worse"].as_bool(), change["is_latest"].as_bool()), (Some(true), Some(true)));
    assert!(change["ratio"].as_f64().is_some_and(|r| r < 0.1), "{change}");
    assert_eq!(change["with"], serde_json::json!(["think_ns 0 → 200000"]));
    let text = track(&[]).ok().stdout;
    assert!(
        text.contains("× fewer IOPS (95 % CI ")
            && text.contains(" since run 6 of 2")
            && text.contains("think_ns 0 → 200000"),
        "{text}"
    );
    track(&["-o", "history.html"]).ok();
    let page = std::fs::read_to_string(place.path().join("history.html")).expect("the page");
    let circles = page.matches("<circle").count();
    assert!(page.contains("since run 6") && page.contains("think_ns 0 → 200000"), "{page}");
    assert_eq!(circles, 1 + 10, "the change, and each run");
    for (more, status, said) in [
        (&["--fail-on", "slower"][..], 1, ""),
        (&["--fail-on", "faster"], 0, ""),
        (&["--from", "6", "--fail-on", "slower"], 4, "5 runs stored, and at least 6 are needed"),
        (&["--at", "arm=none"], 2, "no measurement of a stored run of bench matches"),
        (&["--from", "99"], 2, "no measurement of a stored run of bench matches"),
    ] {
        let ended = track(more);
        assert_eq!(ended.status, status, "{more:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{more:?}: {}", ended.stderr);
    }
    let other = run(&mut place.tool(["track", "coop", "--store", "s.db"]));
    assert_eq!(other.status, 2);
    assert!(
        other.stderr.contains("no run of coop is stored") && other.stderr.contains("runs are of bench"),
        "{}",
        other.stderr
    );
    End::Passed
}
