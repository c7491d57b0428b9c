use super::*;
use iotrail_schema::measurement::Host;
use iotrail_schema::recorded::{ClockOrigin, SCHEMA, SCHEMA_FOR_REPLAY};
use iotrail_schema::trace_record::Subject;

fn header() -> Header {
    Header {
        schema: SCHEMA_FOR_REPLAY.into(),
        version: "0.1.0".into(),
        subject: Subject::Command { argv: vec!["fio".into()], exit_status: None },
        one_in: 1,
        adaptive: false,
        slowest: None,
        windows: None,
        origin: ClockOrigin { monotonic_ns: 5_000_000_000, unix_ns: 1_790_000_000_000_000_000 },
        host: Host::default(),
    }
}

fn file(file: u32, path: &str) -> ReplayEvent {
    ReplayEvent::File(ReplayFile { file, path: path.into(), replayable: file != 1, open_flags: 0o40002, size: 1 << 40 })
}

fn ring(ring: u32, interface: ReplayInterface) -> ReplayEvent {
    ReplayEvent::Ring(ReplayRing { ring, interface, sq_entries: 128, cq_entries: 256, setup_flags: 0x3000 })
}

/// A direct 4 KiB random read in 8 GiB, as fio issues it.
fn request(i: u64) -> ReplayRequest {
    ReplayRequest {
        tid: 70_000,
        ring: 0,
        at_ns: 9_000_000_000_000 + i * 80_000 + i * 7919 % 3000,
        op: ReplayOp::Read,
        opcode: 22,
        sqe_flags: 1,
        file: Some(0),
        offset: (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 31) & !0xfff,
        len: 4096,
        buffer: None,
        op_flags: 0,
        reaped: i.saturating_sub(15),
    }
}

fn call(i: u64) -> ReplayCall {
    let at = request(i).at_ns;
    ReplayCall {
        tid: 70_000,
        ring: 0,
        kind: ReplayCallKind::Enter,
        enter_ns: at - 300,
        exit_ns: at + 70_000 + i * 104_729 % 9000,
        think_ns: 160 + i % 90,
        to_submit: 1,
        min_complete: 1,
        flags: 1,
        result: 1,
        reaped: i.saturating_sub(15),
        heads_reaped: i.is_multiple_of(2).then_some(i),
    }
}

fn sync(i: u64) -> ReplaySync {
    ReplaySync {
        tid: 9,
        enter_ns: 50 + i,
        exit_ns: 90 + i,
        think_ns: 3,
        op: OPS[i as usize % OPS.len()],
        file: (!i.is_multiple_of(3)).then_some(2),
        offset: if i.is_multiple_of(2) { u64::MAX } else { i << 30 },
        len: i << 33,
        op_flags: u32::MAX,
        result: -(i as i64),
    }
}

/// All kinds of events, with the minimum and maximum of each number.
fn events() -> Vec<ReplayEvent> {
    let mut all = vec![file(0, "/data/a b\n"), file(1, ""), file(2, &"/x".repeat(2000))];
    all.extend(INTERFACES.into_iter().zip(0..).map(|(interface, number)| ring(number, interface)));
    for i in 0..4000 {
        let varied = |r: ReplayRequest| match i % 3 {
            0 => r,
            1 => ReplayRequest { at_ns: 0, op: OPS[i as usize % 8], buffer: Some(u16::MAX), reaped: u64::MAX, ..r },
            _ => ReplayRequest { ring: u32::MAX, file: None, offset: u64::MAX, len: u32::MAX, ..r },
        };
        all.push(ReplayEvent::Request(varied(request(i))));
        let kind = CALLS[i as usize % 3];
        all.push(ReplayEvent::Call(ReplayCall { kind, result: -(i as i32), ..call(i) }));
        all.push(ReplayEvent::Sync(sync(i)));
    }
    all.push(ReplayEvent::Lost { events: u64::MAX });
    all
}

fn write(path: &Path, events: &[ReplayEvent]) -> u64 {
    let mut writer = ReplayWriter::create(path, &header(), Existing::Replace).unwrap();
    for (i, event) in events.iter().enumerate() {
        writer.push(event).unwrap();
        if i % 5000 == 4999 {
            writer.flush().unwrap();
        }
    }
    writer.finish(&End { unfinished: 4, ..End::default() }).unwrap()
}

fn read(path: &Path) -> (Vec<ReplayEvent>, Ending) {
    let mut reader = ReplayReader::open(path).unwrap();
    let events = reader.by_ref().collect::<Result<Vec<_>>>().unwrap();
    (events, reader.ending().unwrap().clone())
}

#[test]
fn replay_events_are_read_back_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let written = events();
    assert_eq!(write(&path, &written), path.metadata().unwrap().len());
    let (events, ending) = read(&path);
    assert!(events == written);
    assert_eq!(ending.end().map(|end| end.unfinished), Some(4));
    // A reader of traced requests skips these events.
    let mut entries = crate::recording::Reader::open(&path).unwrap();
    assert!(entries.next().is_none() && entries.ending().is_some_and(|ending| ending.end().is_some()));
}

#[test]
fn a_truncated_replay_recording_is_read_up_to_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, part) = (dir.path().join("whole"), dir.path().join("part"));
    let written = events();
    write(&whole, &written);
    let bytes = std::fs::read(&whole).unwrap();
    let mut counts = std::collections::BTreeSet::new();
    for cut in (1000..bytes.len()).step_by(2003) {
        std::fs::write(&part, &bytes[..cut]).unwrap();
        let (events, ending) = read(&part);
        assert!(events == written[..events.len()] && matches!(ending, Ending::Cut { .. }), "cut at {cut}: {ending:?}");
        counts.insert(events.len());
    }
    assert!(counts.contains(&5000) && counts.contains(&10_000), "{counts:?}");
}

/// Random numbers from an independent generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Half of the mutations have a valid checksum, so that the decoder parses them too.
#[test]
fn mutated_recordings_are_read_or_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let written: Vec<ReplayEvent> = events().into_iter().take(60).collect();
    write(&path, &written);
    let bytes = std::fs::read(&path).unwrap();
    let begin = bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut whole, mut damaged) = (0, 0);
    for i in 0..3000 {
        let mut mutated = bytes.clone();
        for _ in 0..=random.below(4) {
            let at = if i % 2 == 0 { begin + random.below(bytes.len() - begin) } else { random.below(bytes.len()) };
            mutated[at] = random.below(256) as u8;
        }
        if i % 2 == 0 {
            let size = u32::from_le_bytes(mutated[begin + 5..begin + 9].try_into().unwrap()) as usize;
            if let Some(content) = mutated.get(begin + 13..(begin + 13).saturating_add(size)) {
                let crc = crc32fast::hash(content);
                mutated[begin + 9..begin + 13].copy_from_slice(&crc.to_le_bytes());
            }
        }
        std::fs::write(&path, &mutated).unwrap();
        let Ok(mut reader) = ReplayReader::open(&path) else { continue };
        assert!(reader.by_ref().count() <= 20 * written.len());
        match reader.ending().unwrap() {
            Ending::Whole(_) => whole += 1,
            _ => damaged += 1,
        }
    }
    assert!(whole > 100 && damaged > 500, "{whole} whole, {damaged} damaged");
}

#[test]
fn unknown_elements_and_events_are_skipped() {
    let mut content = vec![];
    let mut newer = Elements::of(&mut content, LOST, 3);
    newer.put(7_u64);
    write_str(newer.0, "new").unwrap();
    newer.put_signed(-1);
    let unknown = Elements::of(&mut content, 77, 2);
    write_str(unknown.0, "new").unwrap();
    write_array_len(unknown.0, 0).unwrap();
    encode(&file(3, "/b"), &mut Previous::default(), &mut content);
    let (mut from, mut previous) = (&content[..], Previous::default());
    let events: Vec<_> = std::iter::from_fn(|| decode(&mut from, &mut previous)).collect();
    assert_eq!(events, [Some(ReplayEvent::Lost { events: 7 }), None, Some(file(3, "/b"))]);
}

#[test]
fn a_recording_without_replay_events_is_rejected_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let ordinary = Header { schema: SCHEMA.into(), ..header() };
    crate::recording::Writer::create(&path, &ordinary, Existing::Keep).unwrap().finish(&End::default()).unwrap();
    let e = ReplayReader::open(&path).err().unwrap();
    assert_eq!(e.exit_status(), 2);
    assert!(e.to_string().contains("recorded without --for-replay; record again: iotrail trace"), "{e}");
}

/// One call per random read: the largest encoding per request.
#[test]
fn a_random_read_and_its_call_are_encoded_in_fewer_than_48_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let both = |i| [ReplayEvent::Request(request(i)), ReplayEvent::Call(call(i))];
    let n = 20_000;
    let bytes = write(&path, &(15..15 + n).flat_map(both).collect::<Vec<_>>());
    let per_request = bytes as f64 / n as f64;
    assert!(per_request < 48.0, "{per_request}");
    println!("{per_request:.1} bytes");
}
