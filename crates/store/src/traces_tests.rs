use tempfile::TempDir;

use super::*;
use iotrail_schema::stored_trace::CUT_SHORT;
use iotrail_testing::trace::clean;

fn new() -> NewTrace {
    NewTrace {
        started_unix_s: 1_772_366_400,
        subject: "fio job.fio".into(),
        hostname: "bench".into(),
        kernel: "6.18.44".into(),
        recording: None,
    }
}

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create_or_open(&dir.path().join("s.db")).unwrap();
    (dir, store)
}

fn ended(record: &TraceRecord) -> EndedTrace<'_> {
    EndedTrace { record, answer: "no problem found", slowest: Some(b"slow") }
}

fn files(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_stored_trace_is_read_back_unchanged() {
    let (dir, mut store) = store();
    let tracing = store.begin_trace(&new()).unwrap();
    let running = store.traces().unwrap();
    assert_eq!((running.len(), running[0].state, running[0].bytes), (1, TraceState::Running, 0));
    assert!(store.trace(1).unwrap().unwrap().record.is_none());
    store.end_trace(tracing, ended(&clean())).unwrap();
    let LoadedTrace { summary, record } = store.trace(1).unwrap().unwrap();
    assert_eq!(record, Some(clean()));
    assert_eq!(
        (summary.trace.as_str(), summary.state, summary.subject.as_str()),
        ("t1", TraceState::Complete, "fio job.fio")
    );
    assert_eq!(
        (summary.answer.as_deref(), summary.started.as_str()),
        (Some("no problem found"), "2026-03-01 12:00:00")
    );
    assert_eq!(store.slowest(1).unwrap().as_deref(), Some(&b"slow"[..]));
    assert!(store.trace(2).unwrap().is_none());
    assert_eq!(files(&dir), ["s.db"]);
}

#[test]
fn a_trace_of_a_killed_process_is_partial_with_its_last_checkpoint() {
    let (dir, mut store) = store();
    let tracing = store.begin_trace(&new()).unwrap();
    tracing.checkpoints().replace(&clean()).unwrap();
    let mut last = clean();
    last.total.ios = 99;
    tracing.checkpoints().replace(&last).unwrap();
    // A killed process releases its lock but removes nothing.
    let Tracing { file, _locked, .. } = &tracing;
    _locked.unlock().unwrap();
    assert!(file.exists());
    let LoadedTrace { summary, record } = store.trace(1).unwrap().unwrap();
    let record = record.unwrap();
    assert_eq!((summary.state, record.total.ios), (TraceState::Partial, 99));
    assert_eq!(record.total.warnings[0].code, CUT_SHORT);
    assert!(summary.answer.unwrap().contains("after 2.5 s"));
    assert_eq!(files(&dir), ["s.db"]);
    std::mem::forget(tracing);
}

#[test]
fn a_trace_killed_before_its_first_checkpoint_has_no_record() {
    let (_dir, mut store) = store();
    let tracing = store.begin_trace(&new()).unwrap();
    tracing._locked.unlock().unwrap();
    let LoadedTrace { summary, record } = store.trace(1).unwrap().unwrap();
    assert_eq!((summary.state, summary.answer, record), (TraceState::Partial, None, None));
    std::mem::forget(tracing);
}

#[test]
fn the_oldest_traces_beyond_the_limits_are_removed() {
    let (_dir, mut store) = store();
    let record = clean();
    let bytes = serde_json::to_string(&record).unwrap().len() as u64 + 4;
    let mut numbers = |most, most_bytes| {
        let tracing = store.begin_trace(&new()).unwrap();
        store.end_trace_within(tracing, ended(&record), most, most_bytes).unwrap();
        store.traces().unwrap().into_iter().map(|t| t.trace).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        numbers(3, 1 << 40);
    }
    assert_eq!(numbers(3, 1 << 40), ["t2", "t3", "t4"]);
    assert_eq!(numbers(10, 2 * bytes), ["t4", "t5"]);
    assert_eq!(numbers(10, 1), ["t6"]);
    assert_eq!([0, 1, 5, 6, 7].map(|number| store.had_trace(number).unwrap()), [false, true, true, false, false]);
}

#[test]
fn the_store_does_not_grow_over_a_thousand_traces() {
    let (dir, mut store) = store();
    store.db.pragma_update(None, "synchronous", "OFF").unwrap();
    let size = |dir: &TempDir| fs::metadata(dir.path().join("s.db")).unwrap().len();
    let record = clean();
    let mut early = 0;
    for i in 0..1000 {
        let tracing = store.begin_trace(&new()).unwrap();
        store.end_trace_within(tracing, ended(&record), 20, 1 << 40).unwrap();
        if i == 40 {
            early = size(&dir);
        }
    }
    assert!(size(&dir) <= early + early / 4, "{} {early}", size(&dir));
    assert_eq!(store.traces().unwrap().len(), 20);
}

#[test]
fn a_removed_trace_leaves_no_rows_and_its_number_is_not_reused() {
    let (dir, mut store) = store();
    let tracing = store.begin_trace(&new()).unwrap();
    store.forget_trace(tracing).unwrap();
    assert!(store.traces().unwrap().is_empty());
    assert_eq!(files(&dir), ["s.db"]);
    assert_eq!(store.begin_trace(&new()).unwrap().number, 2);
}
