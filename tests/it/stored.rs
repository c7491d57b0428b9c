//! Stored traces: listed, reported, explained. The tests that store them need the probes, and are in tests/kernel.

use iotrail_schema::trace_record::TraceRecord;
use iotrail_store::Store;
use iotrail_store::traces::{EndedTrace, NewTrace};
use iotrail_testing::trace::clean;

use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("stored::a_stored_trace_is_listed_and_reported", reported),
    ("stored::a_missing_trace_is_rejected_with_one_line", refused),
];

/// Stores these records in `s.db`, as t1, t2 …
pub fn store(place: &Place, records: &[TraceRecord]) {
    let mut store = Store::create_or_open(&place.join("s.db")).expect("a store of our own");
    for record in records {
        let new = NewTrace {
            started_unix_s: record.started_unix_s,
            subject: "fio job.fio".into(),
            hostname: "bench".into(),
            kernel: "6.18".into(),
            recording: None,
        };
        let tracing = store.begin_trace(&new).expect("it is stored");
        store
            .end_trace(tracing, EndedTrace { record, answer: "no problem found", slowest: None })
            .expect("it is stored");
    }
}

fn reported() -> End {
    let place = Place::new();
    let record = clean();
    store(&place, &[clean(), record.clone()]);
    let listed = run(&mut place.tool(["list", "--store", "s.db"])).ok().stdout;
    assert!(listed.contains("t1 fio job.fio") && listed.contains("t2 fio job.fio"), "{listed}");
    let listed = run(&mut place.tool(["list", "--json", "--store", "s.db"])).ok().json();
    assert_eq!(
        (listed["traces"][1]["trace"].as_str(), listed["traces"][1]["state"].as_str()),
        (Some("t2"), Some("complete"))
    );
    let shown = run(&mut place.tool(["report", "t2", "--store", "s.db"])).ok().stdout;
    assert!(shown.contains("80.0 k completions") && shown.lines().count() <= 20, "{shown}");
    assert!(shown.contains("iotrail report t2 --store s.db --full"), "{shown}");
    let full = run(&mut place.tool(["report", "t2", "--full", "--store", "s.db"])).ok().stdout;
    assert!(full.lines().count() > 20, "{full}");
    let json = run(&mut place.tool(["report", "t2", "--json", "--store", "s.db"])).ok();
    assert_eq!(json.json()["trace"], "t2");
    assert_eq!(serde_json::from_value::<TraceRecord>(json.json()).ok(), Some(record));
    // The same record as a file.
    place.write("t.json", &json.stdout);
    let of_a_file = run(&mut place.tool(["report", "t.json"])).ok().stdout;
    let head = |text: &str| text.lines().take(8).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(head(&of_a_file), head(&shown));
    let page = run(&mut place.tool(["report", "t2", "-o", "t.html", "--store", "s.db"])).ok();
    assert_eq!(page.stderr, "report: t.html\n");
    let page = std::fs::read_to_string(place.join("t.html")).expect("it was written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    store(&place, &[clean()]);
    let line = |args: &[&str]| {
        let ended = run(place.tool(args).args(["--store", "s.db"]));
        assert_eq!(ended.status, 2, "{}", ended.stderr);
        ended.one_line().to_owned()
    };
    assert_eq!(line(&["report", "t9"]), "no trace t9 in s.db; `iotrail list` shows the stored traces");
    assert!(line(&["explain", "t1"]).starts_with("no requests of trace t1 are stored; "));
    assert!(line(&["compare", "t1", "1"]).contains("t1 is a trace"), "{}", line(&["compare", "t1", "1"]));
    End::Passed
}
