use super::*;
use crate::recording::Reader;
use iotrail_schema::measurement::Host;
use iotrail_schema::recorded::{Ending, SCHEMA};
use iotrail_schema::trace_record::Subject;
use iotrail_schema::trail::Stamp;
use iotrail_schema::trail_example::trail;

fn header(slowest: Option<u64>) -> Header {
    Header {
        schema: SCHEMA.into(),
        version: "0.1.0".into(),
        subject: Subject::All,
        one_in: 1,
        adaptive: false,
        slowest,
        windows: None,
        origin: now(),
        host: Host::default(),
    }
}

fn of(number: u64, latency_ns: u64) -> RequestTrace {
    let mut t = trail();
    t.submitted.ns = number * 1_000_000;
    t.posted.ns = t.submitted.ns + latency_ns;
    t.ready = Some(Stamp { ns: t.posted.ns - 10, cpu: 0 });
    t.user_data = number;
    t
}

fn read(path: &std::path::Path) -> (Vec<Entry>, Ending) {
    let mut reader = Reader::open(path).unwrap();
    let entries = reader.by_ref().map(Result::unwrap).collect();
    (entries, reader.ending().unwrap().clone())
}

#[test]
fn all_recorded_entries_are_in_the_file_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.iotrail");
    let keep = Keep { file: Some((path.clone(), Existing::Keep)), ..Keep::default() };
    let mut recorder = Recorder::start(&keep, header(None)).unwrap().unwrap();
    let all = (BATCH * 5) as u64 + 17;
    for n in 0..all {
        recorder.take(&of(n, 500));
        if n == 5000 {
            recorder.note(FollowLoss { no_room: 3, ..FollowLoss::default() });
        }
    }
    let loss = FollowLoss { no_room: 4, ring_buffer_full: 2, unfinished: 1, ..FollowLoss::default() };
    let kept = recorder.finish(now().monotonic_ns, loss, End::default());
    assert_eq!(kept.completions, all);
    let (written, bytes) = kept.file.unwrap().unwrap();
    assert_eq!((written, bytes), (path.clone(), path.metadata().unwrap().len()));
    let (entries, ending) = read(&path);
    let mut next = 0;
    for entry in &entries {
        match entry {
            Entry::Trail(t) => {
                assert_eq!(t.user_data, next);
                next += 1;
            }
            Entry::Losses(l) => assert_eq!((next, l.followed, l.no_room), (5001, 5001, 3)),
            Entry::Later(_) => panic!("none was later"),
        }
    }
    assert_eq!((next, entries.len() as u64), (all, all + 1));
    let end = ending.end().unwrap();
    assert_eq!((end.losses.followed, end.losses.lost(), end.unfinished), (all, 6, 1));
    assert!(Recorder::start(&keep, header(None)).is_err(), "the file is there");
}

#[test]
fn only_the_slowest_requests_are_kept_in_posting_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.iotrail");
    let keep = Keep { file: Some((path.clone(), Existing::Keep)), slowest: Some(3), for_replay: None };
    let mut recorder = Recorder::start(&keep, header(Some(3))).unwrap().unwrap();
    for (n, ns) in [500, 900, 100, 300, 700].into_iter().enumerate() {
        recorder.take(&of(n as u64, ns));
    }
    // A multishot request: the recorder remembers that this is not the request's first completion.
    for (ns, ready) in [(50, 10), (90_000, 20_000)] {
        let mut t = RequestTrace { more: true, ..of(9, ns) };
        t.ready = Some(Stamp { ns: t.posted.ns - ready, cpu: 0 });
        recorder.take(&t);
    }
    let kept = recorder.finish(now().monotonic_ns, FollowLoss::default(), End::default());
    let flight = kept.slowest.unwrap();
    let what = |e: &Entry| match e {
        Entry::Trail(t) => (t.user_data, false),
        Entry::Later(t) => (t.user_data, true),
        Entry::Losses(_) => panic!("none were noted"),
    };
    assert_eq!(flight.entries.iter().map(what).collect::<Vec<_>>(), [(1, false), (4, false), (9, true)]);
    assert_eq!((kept.completions, flight.end.losses.followed), (3, 7));
    let (entries, ending) = read(&path);
    assert_eq!((entries, ending), (flight.entries, Ending::Whole(Box::new(flight.end))));
}
