use std::collections::{BTreeMap, BTreeSet};

use super::proto::Trace;
use super::*;
use iotrail_schema::measurement::Host;
use iotrail_schema::recorded::ClockOrigin;
use iotrail_schema::trace_record::{ProcessRecord, Subject};
use iotrail_schema::trail::{Course, Stamp};
use iotrail_schema::trail_example::trail;

fn header() -> Header {
    Header {
        schema: iotrail_schema::recorded::SCHEMA.into(),
        version: "0.1.0".into(),
        subject: Subject::All,
        one_in: 1,
        adaptive: false,
        slowest: None,
        windows: None,
        origin: ClockOrigin { monotonic_ns: 5_000_000_000, unix_ns: 1_790_000_000_000_000_000 },
        host: Host::default(),
    }
}

/// Overlapping reads at depth 4, every seventh punted, some without all stages, in posting order.
fn source() -> Vec<RequestTrace> {
    let mut all: Vec<RequestTrace> = (0..400u64)
        .map(|i| {
            let mut t = trail();
            let at = |ns: u64| Stamp { ns: t.submitted.ns + i * 1_000 + ns, cpu: (ns % 2) as u32 };
            t.issued = (!i.is_multiple_of(5)).then(|| at(100));
            t.ready = (!i.is_multiple_of(6)).then(|| at(2_000 + i * 37 % 901));
            t.queued = i.is_multiple_of(8).then(|| at(2_950));
            t.posted = at(3_000 + i * i % 1_999);
            t.submitted = at(0);
            t.punted = i.is_multiple_of(7).then_some(Punt::Asked);
            t.vehicle = DeliveryPath::ALL[i as usize % 15];
            t.ring = (!i.is_multiple_of(9)).then_some((i % 2) as u32);
            t.user_data = i;
            if i.is_multiple_of(4) {
                t.course = Course::Poll;
            }
            t
        })
        .collect();
    all.sort_by_key(|t| t.posted.ns);
    all
}

fn export(trails: &[RequestTrace]) -> (Trace, Written) {
    let end = End {
        losses: Losses { at_ns: 6_000_000_000, followed: 400, no_room: 0, ring_buffer_full: 3, no_completion: 0 },
        processes: vec![ProcessRecord { tgid: 4711, here: None, comm: "fio".into(), found: true }],
        ..End::default()
    };
    let (header, mut bytes) = (header(), Vec::new());
    let mut exporter = Exporter::new(&mut bytes, &header, Some(&end));
    for t in trails {
        exporter.entry(&Entry::Trail(t.clone())).unwrap();
    }
    let written = exporter.finish().unwrap();
    (Trace::decode(bytes.as_slice()).unwrap(), written)
}

struct Slice {
    track: u64,
    begin: u64,
    end: u64,
    flow: u64,
}

/// Slices as Perfetto builds them: by time, ties in file order; an end closes the most recently opened slice of its
/// track.
fn slices(trace: &Trace) -> Vec<Slice> {
    let mut events: Vec<_> =
        trace.packet.iter().filter_map(|p| Some((p.timestamp?, p.track_event.as_ref()?))).collect();
    events.sort_by_key(|(ns, _)| *ns);
    let mut open: BTreeMap<u64, Slice> = BTreeMap::new();
    let mut closed = Vec::new();
    for (ns, e) in events {
        let track = e.track_uuid.unwrap();
        match e.r#type() {
            EventType::SliceBegin => {
                let [flow] = [e.flow_ids.as_slice(), &e.terminating_flow_ids].concat()[..] else {
                    panic!("one flow per slice: {e:?}")
                };
                let slice = Slice { track, begin: ns, end: 0, flow };
                assert!(open.insert(track, slice).is_none(), "slices of a lane follow each other");
            }
            EventType::SliceEnd => {
                let mut slice = open.remove(&track).expect("an open slice");
                slice.end = ns;
                closed.push(slice);
            }
            other => assert_eq!(other, EventType::Counter),
        }
    }
    assert!(open.is_empty());
    closed
}

#[test]
fn each_stage_is_a_slice_and_each_io_a_flow() {
    let trails = source();
    let (trace, written) = export(&trails);
    let slices = slices(&trace);
    let spans: usize = trails.iter().map(|t| t.spans().len()).sum();
    assert_eq!((slices.len(), written.slices), (spans, spans as u64));
    let flows: BTreeSet<u64> = slices.iter().map(|s| s.flow).collect();
    assert_eq!((flows.len(), written.ios, written.without_spans), (trails.len(), trails.len() as u64, 0));
    // Each flow covers submission to posting without gaps.
    for (i, t) in trails.iter().enumerate() {
        let mut own: Vec<_> = slices.iter().filter(|s| s.flow == i as u64 + 1).collect();
        own.sort_by_key(|s| (s.begin, s.end));
        assert_eq!((own[0].begin, own[own.len() - 1].end), (t.submitted.ns, t.posted.ns));
        assert!(own.windows(2).all(|w| w[0].end == w[1].begin));
    }
    // A flow ends once, and only if it has several slices.
    let ends: Vec<u64> = trace
        .packet
        .iter()
        .filter_map(|p| p.track_event.as_ref())
        .flat_map(|e| e.terminating_flow_ids.iter().copied())
        .collect();
    assert_eq!(ends.len(), trails.iter().filter(|t| t.spans().len() > 1).count());
    assert_eq!(ends.iter().collect::<BTreeSet<_>>().len(), ends.len());
}

#[test]
fn each_slice_is_on_a_lane_of_a_process() {
    let (trace, written) = export(&source());
    let tracks: BTreeMap<u64, &TrackDescriptor> =
        trace.packet.iter().filter_map(|p| p.track_descriptor.as_ref()).map(|d| (d.uuid.unwrap(), d)).collect();
    assert_eq!(tracks.len() as u64, written.tracks);
    let mut paths = BTreeSet::new();
    for s in slices(&trace) {
        let mut path = vec![];
        let mut at = Some(s.track);
        while let Some(d) = at.map(|uuid| tracks[&uuid]) {
            path.push(match (&d.process, &d.thread) {
                (Some(p), _) => format!("{} {}", p.process_name.as_ref().unwrap(), p.pid.unwrap()),
                (_, Some(t)) => format!("thread {}", t.tid.unwrap()),
                _ => d.name.clone().unwrap(),
            });
            at = d.parent_uuid;
        }
        path.reverse();
        paths.insert(path.join("/"));
    }
    let expected = [
        "fio 4711/io-wq/worker",
        "fio 4711/ring 0/delivery",
        "fio 4711/ring 0/waiting",
        "fio 4711/ring 1/delivery",
        "fio 4711/ring 1/waiting",
        "fio 4711/thread 4712/submission",
        "fio 4711/unknown ring/delivery",
        "fio 4711/unknown ring/waiting",
    ];
    assert_eq!(paths.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn later_multishot_completions_have_only_a_delivery_slice() {
    let t = trail();
    let first = RequestTrace { more: true, ..t.clone() };
    let mut last = t.clone();
    let shift = |s: Stamp| Stamp { ns: s.ns + 10_000_000, ..s };
    (last.ready, last.posted) = (last.ready.map(shift), shift(last.posted));
    let (trace, written) = export(&[first, last]);
    assert_eq!((written.ios, written.slices), (2, 4));
    assert_eq!(slices(&trace).len(), 4);
}

#[test]
fn losses_are_exported_as_counters_with_a_clock_snapshot() {
    let (trace, _) = export(&[]);
    let snapshot = trace.packet[0].clock_snapshot.as_ref().unwrap();
    assert_eq!(snapshot.primary_trace_clock, Some(proto::MONOTONIC));
    let values: Vec<_> = trace.packet.iter().filter_map(|p| p.track_event.as_ref()?.counter_value).collect();
    assert_eq!(values, [0, 3]);
}
