use std::time::{Duration, Instant};

use super::*;
use iotrail_schema::measurement::Host;
use iotrail_schema::recorded::{ClockOrigin, FileName, SCHEMA};
use iotrail_schema::trace_record::{ProcessRecord, Subject};
use iotrail_schema::trail::{Meanwhile, Punt, Stamp, Wake};
use iotrail_schema::trail_example::trail;
use iotrail_schema::waker::{Line, Waker};

fn header() -> Header {
    Header {
        schema: SCHEMA.into(),
        version: "0.1.0".into(),
        subject: Subject::Command { argv: vec!["fio".into(), "job file".into()], exit_status: None },
        one_in: 1,
        adaptive: false,
        slowest: None,
        windows: None,
        origin: ClockOrigin { monotonic_ns: 5_000_000_000, unix_ns: 1_790_000_000_000_000_000 },
        host: Host { hostname: "host".into(), kernel: "6.18.0".into(), cpus: 2, ..Default::default() },
    }
}

/// Entry `i` of a recording that contains all kinds and fields.
fn varied(i: u64) -> RequestTrace {
    let mut t = trail();
    for stamp in [Some(&mut t.submitted), t.issued.as_mut(), t.ready.as_mut()].into_iter().flatten() {
        stamp.ns += i * 10_000;
    }
    t.posted = Stamp { ns: t.posted.ns + i * 10_000 + i * i % 977, cpu: (i % 2) as u32 };
    t.user_data = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let line = Line { irq: 36, name: i.is_multiple_of(2).then(|| "virtio1-req.0".into()) };
    t.meanwhile = match i % 4 {
        0 => None,
        1 => Some(Meanwhile::Running { cpu: 0 }),
        2 => Some(Meanwhile::Runnable { cpu: 0, tid: 99, comm: "other".into() }),
        _ => Some(Meanwhile::Sleeping { cpu: 1, tid: 0, comm: "swapper/1".into() }),
    };
    t.wake = i.is_multiple_of(3).then(|| Wake {
        woken: Stamp { ns: t.posted.ns - 900, cpu: 1 },
        by: match i % 7 {
            0 => Waker::Irq { line, cpu: 1 },
            1 => Waker::Vector { name: "timer".into(), cpu: 0 },
            2 => Waker::SoftirqOfIrq { line, cpu: 1 },
            3 => Waker::SoftirqOfVector { name: "call_function_single".into(), cpu: 0 },
            4 => Waker::Softirq { nr: 3, cpu: 0 },
            5 => Waker::Thread { cpu: 0 },
            _ => Waker::Unseen,
        },
        running: i.is_multiple_of(2).then_some(Stamp { ns: t.posted.ns - 400, cpu: 0 }),
    });
    t.punted = i.is_multiple_of(11).then_some(if i.is_multiple_of(2) { Punt::Asked } else { Punt::WouldBlock });
    t.vehicle = iotrail_schema::delivery_path::DeliveryPath::ALL[i as usize % 15];
    t.detail = i.is_multiple_of(5).then(|| "36 virtio1-req.0".into());
    t
}

fn end() -> End {
    End {
        losses: Losses { at_ns: 9_000_000_000, followed: 900, no_room: 1, ring_buffer_full: 2, no_completion: 0 },
        unfinished: 4,
        rings: vec![],
        processes: vec![ProcessRecord { tgid: 4711, here: None, comm: "fio".into(), found: false }],
        files: vec![FileName { device: 9, inode: 7, generation: 1, path: "/data/a".into(), logical_block_bytes: None }],
    }
}

/// Writes three frames of entries: `losses` completes two, the end completes one.
fn write(path: &Path) -> Vec<Entry> {
    let mut writer = Writer::create(path, &header(), Existing::Keep).unwrap();
    let mut entries = vec![];
    for i in 0..900 {
        let t = varied(i);
        writer.push(&t).unwrap();
        entries.push(Entry::Trail(t));
        if i == 299 || i == 599 {
            let losses = Losses {
                at_ns: 5_000_000_000 + i,
                followed: i,
                no_room: i / 300,
                ring_buffer_full: 0,
                no_completion: 0,
            };
            writer.losses(losses).unwrap();
            entries.push(Entry::Losses(losses));
        }
    }
    let length = writer.finish(&end()).unwrap();
    assert_eq!(length, path.metadata().unwrap().len());
    entries
}

fn read(path: &Path) -> (Vec<Entry>, Ending) {
    let mut reader = Reader::open(path).unwrap();
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.ending(), None);
    let entries = reader.by_ref().collect::<Result<Vec<_>>>().unwrap();
    (entries, reader.ending().unwrap().clone())
}

#[test]
fn a_recording_is_read_back_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let written = write(&path);
    assert_eq!(read(&path), (written, Ending::Whole(Box::new(end()))));
    assert_eq!(Reader::open(&path).unwrap().skip_to_ending().unwrap(), Ending::Whole(Box::new(end())));
}

/// Defaults of fields that older recordings lack.
#[test]
fn a_request_without_a_weight_has_the_weight_of_the_header() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("old");
    let mut writer = Writer::create(&path, &Header { one_in: 64, ..header() }, Existing::Keep).unwrap();
    writer.push(&RequestTrace { weight: 0, ..trail() }).unwrap();
    writer.push(&RequestTrace { weight: 3, ..trail() }).unwrap();
    writer.finish(&end()).unwrap();
    let weight = |entry: Result<Entry>| match entry.unwrap() {
        Entry::Trail(t) => t.weight,
        other => panic!("{other:?}"),
    };
    let weights: Vec<u32> = Reader::open(&path).unwrap().map(weight).collect();
    assert_eq!(weights, [64, 3]);
}

#[test]
fn a_truncated_recording_is_read_up_to_the_last_complete_frame() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, part) = (dir.path().join("whole"), dir.path().join("part"));
    let written = write(&whole);
    let bytes = std::fs::read(&whole).unwrap();
    let header = bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
    let mut lengths = std::collections::BTreeSet::new();
    for cut in (0..bytes.len()).step_by(97).chain(header.saturating_sub(3)..header + 30).chain([bytes.len() - 1]) {
        std::fs::write(&part, &bytes[..cut]).unwrap();
        if cut < header {
            let e = Reader::open(&part).err().unwrap();
            assert_eq!(e.exit_status(), 2);
            continue;
        }
        let (entries, ending) = read(&part);
        assert_eq!(entries, written[..entries.len()], "cut at {cut}");
        let Ending::Cut { at_byte } = ending else { panic!("cut at {cut}: {ending:?}") };
        assert!(at_byte as usize <= cut);
        assert_eq!(Reader::open(&part).unwrap().skip_to_ending().unwrap(), Ending::Cut { at_byte });
        lengths.insert(entries.len());
    }
    // Nothing, one frame per call of `losses`, and the last frame.
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [0, 301, 602, 902]);
}

#[test]
fn a_flipped_bit_is_detected_and_later_entries_are_discarded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let written = write(&path);
    let bytes = std::fs::read(&path).unwrap();
    let header = bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
    for at in (header..bytes.len()).step_by(61).chain(header..header + 13) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        let (entries, ending) = read(&path);
        assert!(ending.end().is_none(), "byte {at}");
        assert_eq!(entries, written[..entries.len()], "byte {at}");
    }
}

fn refusal(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    std::fs::write(&path, bytes).unwrap();
    let e = Reader::open(&path).err().unwrap();
    assert_eq!(e.exit_status(), 2);
    e.to_string().replace(path.to_str().unwrap(), "FILE")
}

#[test]
fn a_file_that_is_not_a_recording_is_rejected_with_one_line() {
    let how = "create a recording with `iotrail trace --record FILE`";
    assert_eq!(
        refusal(b"{\"schema\":\"iotrail.recording/3\",\"version\":\"3.1.0\",\"new\":1}\nB"),
        "FILE has the schema iotrail.recording/3, but this iotrail reads iotrail.recording/1 and iotrail.recording/2; \
         read it with iotrail 3.1.0, which wrote it"
    );
    for other in [&b""[..], b"\0\x01\x02\n", b"{\"schema\":\"iotrail.run/1\",\"version\":\"1\"}\n", b"no line end"] {
        assert_eq!(refusal(other), format!("FILE is not an iotrail recording; {how}"));
    }
    assert_eq!(
        refusal(b"{\"schema\":\"iotrail.recording/1\",\"vers"),
        format!("FILE is truncated within its first line: it contains no events; {how}")
    );
    assert!(
        refusal(b"{\"schema\":\"iotrail.recording/1\",\"version\":\"1\"}\n")
            .starts_with("the first line of FILE does not describe a recording: missing field `subject`")
    );
}

#[test]
fn an_existing_file_is_kept_unless_replacement_is_requested() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    std::fs::write(&path, "mine").unwrap();
    let e = Writer::create(&path, &header(), Existing::Keep).err().unwrap();
    assert!(e.to_string().ends_with("already exists; specify another file, or replace it with --force"), "{e}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    Writer::create(&path, &header(), Existing::Replace).unwrap().finish(&end()).unwrap();
    assert_eq!(read(&path), (vec![], Ending::Whole(Box::new(end()))));
}

/// Unknown fields are skipped, and missing optional fields are unknown.
#[test]
fn unknown_fields_are_skipped_and_missing_fields_are_unknown() {
    let mut json = serde_json::to_value(trail()).unwrap();
    json["added_later"] = 1.into();
    json.as_object_mut().unwrap().remove("switches_meanwhile").unwrap();
    let bytes = rmp_serde::to_vec_named(&json).unwrap();
    let read: RequestTrace = rmp_serde::from_slice(&bytes).unwrap();
    assert_eq!(read, RequestTrace { switches_meanwhile: None, ..trail() });
}

/// CPU time of this thread, which is independent of other load on the machine.
fn cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Measures time and size of a recording: `cargo test --release -p iotrail-watch print_the_cost_of_a_recording -- --ignored
/// --nocapture`.
#[test]
#[ignore = "a measurement"]
fn print_the_cost_of_a_recording() {
    let trails: Vec<RequestTrace> = (0..500_000).map(varied).collect();
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().join("r");
    let (wall, begin) = (Instant::now(), cpu());
    let mut writer = Writer::create(&path, &header(), Existing::Keep).unwrap();
    for t in &trails {
        writer.push(t).unwrap();
    }
    let length = writer.finish(&end()).unwrap();
    let (wall, written) = (wall.elapsed(), cpu() - begin);
    let begin = cpu();
    let read = Reader::open(&path).unwrap().filter(|e| e.is_ok()).count();
    assert_eq!(read, trails.len());
    let read = cpu() - begin;
    let n = trails.len() as f64;
    let content: usize = trails.iter().map(|t| rmp_serde::to_vec_named(&Entry::Trail(t.clone())).unwrap().len()).sum();
    println!(
        "written: {:.0} ns of CPU a trail, {:.0} k/s of wall time; read: {:.0} ns; {:.1} bytes a trail, of {:.0} before LZ4",
        written.as_secs_f64() * 1e9 / n,
        n / wall.as_secs_f64() / 1e3,
        read.as_secs_f64() * 1e9 / n,
        length as f64 / n,
        content as f64 / n
    );
}
