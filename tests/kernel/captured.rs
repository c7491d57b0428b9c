//! `trace --record FILE --for-replay` on programs whose requests and calls are known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use iotrail_schema::replay_log::{
    ReplayCall, ReplayCallKind, ReplayEvent, ReplayFile, ReplayInterface, ReplayOp, ReplayRequest, ReplaySync,
};
use iotrail_watch::replay_recording::ReplayReader;
use libtest_mimic::{Failed, Trial};

use crate::bench::file;
use crate::ground::ground;
use crate::trial;

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("captured::each_request_and_call_is_recorded_exactly", exact),
        trial::test("captured::io_submit_is_recorded_with_only_the_accepted_requests", native_aio),
        trial::test("captured::all_of_300_000_requests_are_recorded", complete),
        trial::test("captured::anonymised_paths_are_replaced_in_recording_and_export", anonymised),
    ]
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Records a command; returns the events and iotrail's output.
fn record(name: &str, options: &[&str], command: &[&str]) -> (PathBuf, Vec<ReplayEvent>, String) {
    let path = scratch(name);
    let mut trace = Command::new(TOOL);
    trace.args(["trace", "--for-replay", "--force", "--no-store", "--record"]).arg(&path).args(options);
    let out = trace.arg("--").args(command).output().expect("iotrail starts");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{said}");
    let mut reader = ReplayReader::open(&path).expect("a recording");
    let events: Vec<_> = reader.by_ref().collect::<Result<_, _>>().expect("it is readable");
    assert!(reader.ending().is_some_and(|ending| ending.end().is_some()), "{:?}", reader.ending());
    assert!(!events.iter().any(|e| matches!(e, ReplayEvent::Lost { .. })), "{said}");
    (path, events, said)
}

fn of_ground(name: &str, options: &[&str], scenario: &[&str]) -> Vec<ReplayEvent> {
    let ground = ground();
    let command: Vec<&str> = [ground.to_str().expect("a plain name")].iter().chain(scenario).copied().collect();
    record(name, options, &command).1
}

fn requests(events: &[ReplayEvent]) -> Vec<&ReplayRequest> {
    events.iter().filter_map(|e| if let ReplayEvent::Request(r) = e { Some(r) } else { None }).collect()
}

fn calls(events: &[ReplayEvent]) -> Vec<&ReplayCall> {
    events.iter().filter_map(|e| if let ReplayEvent::Call(c) = e { Some(c) } else { None }).collect()
}

fn files(events: &[ReplayEvent]) -> Vec<&ReplayFile> {
    events.iter().filter_map(|e| if let ReplayEvent::File(f) = e { Some(f) } else { None }).collect()
}

/// Every reference is to an earlier event.
fn defined_before_use(events: &[ReplayEvent]) {
    let (mut files, mut rings) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        let (file, ring) = match event {
            ReplayEvent::File(f) => (files.insert(f.file).then_some(f.file), None),
            ReplayEvent::Ring(r) => (None, rings.insert(r.ring).then_some(r.ring)),
            ReplayEvent::Request(r) => (r.file, Some(r.ring)),
            ReplayEvent::Call(c) => (None, Some(c.ring)),
            ReplayEvent::Sync(s) => (s.file, None),
            ReplayEvent::Lost { .. } => (None, None),
        };
        assert!(file.is_none_or(|f| files.contains(&f)) && ring.is_none_or(|r| rings.contains(&r)), "{event:?}");
    }
}

/// A request: op, opcode, SQE flags, offset, length, buffer, op flags, reaped.
type Made = (ReplayOp, u8, u8, u64, u32, Option<u16>, u32, u64);

fn exact() -> Result<(), Failed> {
    const ROUNDS: u64 = 50;
    const DSYNC: u32 = libc::RWF_DSYNC as u32;
    let (link, asynchronous) = (1 << 2, 1 << 4);
    let events = of_ground("exact.iotrail", &[], &["captured", "--count", "50"]);
    defined_before_use(&events);
    let known: Vec<_> = files(&events).into_iter().filter(|f| f.path.ends_with("/known.dat")).collect();
    // The file is first written through its name, and then opened for reading and writing.
    let both = known.iter().find(|f| f.open_flags & 3 == 2).unwrap_or_else(|| panic!("{known:?}"));
    assert!(both.path.starts_with('/') && both.replayable && both.size == 1 << 20, "{both:?}");

    use ReplayOp::{Fdatasync, Fsync, Nop, Other, Read, Write};
    let (mut made, mut called) = (vec![], vec![]);
    for round in 0..ROUNDS {
        let at = 10 * round;
        let read = |i| (Read, 22, 0, (round + i) * 4096, 4096, None, 0, at);
        made.extend((0..4).map(read));
        made.extend::<[Made; 2]>([
            (Write, 23, link, 8192, 512, None, 0, at + 4),
            (Fdatasync, 3, 0, 0, 0, None, 1, at + 4),
        ]);
        made.push((Nop, 0, asynchronous, 0, 0, None, 0, at + 5));
        made.push((Read, 4, 0, 0, 8192, Some(1), 0, at + 7));
        made.push((Read, 1, 0, 4096, 12_288, None, 0, at + 7));
        made.push((Other, 23, 0, 0, 16, None, 0, at + 7));
        // The linked write is the only head of a chain. The ring's heads are counted from its first linked request.
        let (before, after) = ((round > 0).then_some(round), Some(round + 1));
        called.extend([
            (4, 4, at, before),
            (2, 2, at + 4, before),
            (1, 0, at + 5, after),
            (0, 2, at + 5, after),
            (3, 3, at + 7, after),
        ]);
    }
    let recorded = requests(&events);
    let as_made =
        |r: &&ReplayRequest| -> Made { (r.op, r.opcode, r.sqe_flags, r.offset, r.len, r.buffer, r.op_flags, r.reaped) };
    assert_eq!(recorded.iter().map(as_made).collect::<Vec<_>>(), made);
    let has_file = |r: &&ReplayRequest| r.file == (!matches!(r.op, Nop | Other)).then_some(both.file);
    assert!(recorded.iter().all(has_file), "{recorded:?}");
    let all = calls(&events);
    let as_called = |c: &&ReplayCall| (c.to_submit, c.min_complete, c.reaped, c.heads_reaped);
    assert_eq!(all.iter().map(as_called).collect::<Vec<_>>(), called);
    for call in &all {
        assert_eq!((call.kind, call.flags), (ReplayCallKind::Enter, u32::from(call.min_complete > 0)), "{call:?}");
        assert_eq!(i64::from(call.result), i64::from(call.to_submit), "{call:?}");
        assert!(call.enter_ns < call.exit_ns, "{call:?}");
    }

    let synchronous = |e: &ReplayEvent| match e {
        ReplayEvent::Sync(s) if s.file == Some(both.file) => Some((s.op, s.offset, s.len, s.op_flags, s.result)),
        _ => None,
    };
    let round = [
        (Read, 12_345, 100, 0, 100),
        (Read, 100, 10, 0, 10),
        (Read, 110, 10, 0, 10),
        (Write, 4096, 128, DSYNC, 128),
        (Fdatasync, 0, 0, 0, 0),
        (Fsync, 0, 0, 0, 0),
    ];
    let expected: Vec<_> = (0..ROUNDS).flat_map(|_| round).collect();
    assert_eq!(events.iter().filter_map(synchronous).collect::<Vec<_>>(), expected);
    in_order(&events);
    Ok(())
}

/// A thread's calls do not overlap, a request is within its call, and think time does not exceed the gap between calls.
fn in_order(events: &[ReplayEvent]) {
    let mut left: BTreeMap<u32, u64> = BTreeMap::new();
    let mut open: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for event in events {
        let (tid, enter, exit, think) = match event {
            ReplayEvent::Request(r) => {
                open.entry(r.tid).or_default().push(r.at_ns);
                continue;
            }
            ReplayEvent::Call(ReplayCall { tid, enter_ns, exit_ns, think_ns, .. })
            | ReplayEvent::Sync(ReplaySync { tid, enter_ns, exit_ns, think_ns, .. }) => {
                (*tid, *enter_ns, *exit_ns, *think_ns)
            }
            _ => continue,
        };
        let before = left.insert(tid, exit).unwrap_or(0);
        assert!(before <= enter && enter <= exit && think <= enter - before, "{event:?}");
        for at in open.remove(&tid).unwrap_or_default() {
            assert!((enter..=exit).contains(&at), "{event:?}: a request at {at}");
        }
    }
}

fn native_aio() -> Result<(), Failed> {
    // The last of eight iocbs is rejected.
    let events = of_ground("aio.iotrail", &[], &["libaio_results", "--count", "800"]);
    defined_before_use(&events);
    in_order(&events);
    let rings: Vec<_> =
        events.iter().filter_map(|e| if let ReplayEvent::Ring(r) = e { Some(r) } else { None }).collect();
    assert_eq!(rings.iter().map(|r| r.interface).collect::<Vec<_>>(), [ReplayInterface::NativeAio]);
    let all = calls(&events);
    let submits: Vec<_> = all.iter().filter(|c| c.kind == ReplayCallKind::Submit).collect();
    let taken: i64 = submits.iter().map(|c| i64::from(c.result)).sum();
    assert!(submits.iter().all(|c| c.result + 1 == c.to_submit as i32), "{submits:?}");
    assert_eq!(requests(&events).len() as i64, taken);
    let reaped: i64 = all.iter().filter(|c| c.kind == ReplayCallKind::GetEvents).map(|c| i64::from(c.result)).sum();
    assert_eq!(reaped, taken);
    // Each submission has reaped all earlier requests.
    assert!(submits.iter().zip(0..).all(|(c, i)| c.reaped == i * c.result as u64), "{submits:?}");

    // Without a reaping call, the ring's head in the program's memory counts.
    let events = of_ground("aio.iotrail", &[], &["libaio_user_ring", "--count", "800"]);
    let submitted = |c: &&&ReplayCall| c.kind == ReplayCallKind::Submit;
    let mut before = 0;
    for call in calls(&events).iter().filter(submitted) {
        assert_eq!(call.reaped, before, "{call:?}");
        before += call.result as u64;
    }
    assert_eq!(before, 800);
    std::fs::remove_file(scratch("aio.iotrail"))?;
    Ok(())
}

/// 100,000 requests per second if the machine manages it. At any rate, none may be lost.
fn complete() -> Result<(), Failed> {
    let load =
        "bench --json --trace off --warmup 0 --buffered --depth 16 --batch 4 --rate 100000 --count 300000 --file";
    let file = file();
    let command: Vec<&str> =
        [TOOL].into_iter().chain(load.split(' ')).chain([file.to_str().expect("a plain name")]).collect();
    let (path, events, said) = record("complete.iotrail", &["--json"], &command);
    let reads = |r: &&&ReplayRequest| r.op == ReplayOp::Read && r.len == 4096;
    assert_eq!(requests(&events).iter().filter(reads).count(), 300_000, "{said}");
    let bytes = std::fs::metadata(&path)?.len() as f64 / 300_000.0;
    assert!(bytes <= 48.0, "{bytes} bytes per request");
    std::fs::remove_file(&path)?;
    Ok(())
}

fn anonymised() -> Result<(), Failed> {
    let ground = ground();
    let command = [ground.to_str().expect("a plain name"), "captured", "--count", "5"];
    let (path, events, _) = record("hidden.iotrail", &["--anonymise"], &command);
    let paths: Vec<&str> = files(&events).iter().map(|f| f.path.as_str()).collect();
    assert!(paths.iter().all(|path| path.starts_with("/file-")), "{paths:?}");
    assert!(paths.iter().any(|path| path.ends_with(".dat")), "{paths:?}");
    let header = std::fs::read(&path)?.into_iter().take_while(|b| *b != b'\n').collect();
    assert!(!String::from_utf8(header)?.contains("--count"));

    let [lines, table, log] = ["hidden.jsonl", "hidden.csv", "hidden.log"].map(scratch);
    let job_file = scratch("hidden.log.fio");
    let mut export = Command::new(TOOL);
    export
        .args(["export", "--force"])
        .arg(&path)
        .arg("--json")
        .arg(&lines)
        .arg("--csv")
        .arg(&table)
        .arg("--iolog")
        .arg(&log);
    let out = export.output()?;
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = std::fs::read_to_string(&lines)?;
    assert_eq!(text.lines().count(), events.len() + 2);
    for (line, event) in text.lines().skip(1).zip(&events) {
        assert_eq!(&serde_json::from_str::<ReplayEvent>(line)?, event);
    }
    let synchronous = events.iter().filter(|e| matches!(e, ReplayEvent::Sync(_))).count();
    let rows = std::fs::read_to_string(&table)?.lines().count();
    assert_eq!(rows, 1 + requests(&events).len() + synchronous);
    let log_text = std::fs::read_to_string(&log)?;
    let of = |what: &str| log_text.lines().filter(|line| line.contains(what) && line.contains(".dat")).count();
    assert_eq!([" datasync ", " sync "].map(of), [10, 5]);
    let job = std::fs::read_to_string(&job_file)?;
    assert!(job.contains("ioengine=io_uring\niodepth=4\n"), "{job}");
    [path, lines, table, job_file, log].iter().try_for_each(std::fs::remove_file)?;
    Ok(())
}
