//! A trace for Perfetto (ui.perfetto.dev, trace_processor), written as the recording is read.
//!
//! ```text
//! process            each traced process
//! ├─ thread          each thread that submitted
//! │  └─ submission   submitted → issued
//! ├─ io-wq           the same for requests handed to a worker; the full request if only a worker handled it
//! └─ ring N
//!    ├─ waiting      issued → ready: the device, or the peer
//!    └─ delivery     ready → (ended →) (queued →) posted, named after the delivery path
//! lost (…)           counters next to the processes
//! ```
//!
//! Each span between two known stages is one slice; the spans of an I/O are one flow, whose ID is the I/O's number. Slices of
//! one track must nest or be consecutive, but I/Os overlap: each of the tracks above consists of as many lanes as I/Os overlap, which
//! Perfetto merges because they have one name. Later completions of a request have only a delivery.

pub mod proto;

use std::collections::HashMap;
use std::io::{self, Write};

use prost::Message;

use self::proto::{
    Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, EventType, ProcessDescriptor, ThreadDescriptor,
    TracePacket, TrackDescriptor, TrackEvent,
};
use iotrail_path::multishot::Multishot;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::recorded::{End, Entry, Header, Losses};
use iotrail_schema::stage::Stage;
use iotrail_schema::timeline::Span;
use iotrail_schema::trail::{Meanwhile, Punt, RequestTrace};

/// Statistics of the export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Completions, one flow each. Completions without a span are in `without_spans` and have no flow.
    pub ios: u64,
    pub slices: u64,
    pub without_spans: u64,
    /// Lanes count separately.
    pub tracks: u64,
}

/// All packets come from one producer and are independent of each other.
const SEQUENCE: u32 = 1;
/// SEQ_INCREMENTAL_STATE_CLEARED: no earlier interned state.
const CLEARED: u32 = 1;
/// Tag of `Trace`'s field 1 (length-delimited), which precedes each packet.
const PACKET_KEY: u8 = 0x0a;

pub struct Exporter<'a, W: Write> {
    out: W,
    end: Option<&'a End>,
    /// Lane groups by parent: a process, thread or ring.
    places: HashMap<Place, u64>,
    lanes: HashMap<(Place, &'static str), Vec<Lane>>,
    multishot: Multishot,
    written: Written,
    packet: Vec<u8>,
    started: bool,
    header: &'a Header,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Process { tgid: u32 },
    Thread { tgid: u32, tid: u32 },
    Iowq { tgid: u32 },
    Ring { tgid: u32, ring: Option<u32> },
    LostNoRoom,
    LostRingBufferFull,
}

struct Lane {
    uuid: u64,
    free_from_ns: u64,
}

impl<'a, W: Write> Exporter<'a, W> {
    /// `end` contains the names of rings and processes, if known.
    pub fn new(out: W, header: &'a Header, end: Option<&'a End>) -> Self {
        Self {
            out,
            end,
            places: HashMap::new(),
            lanes: HashMap::new(),
            multishot: Multishot::default(),
            written: Written::default(),
            packet: Vec::new(),
            started: false,
            header,
        }
    }

    pub fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        self.start()?;
        match entry {
            Entry::Trail(trail) => {
                let later = self.multishot.is_later(trail);
                self.trail(trail, later)
            }
            Entry::Later(trail) => self.trail(trail, true),
            Entry::Losses(losses) => self.losses(losses),
        }
    }

    pub fn finish(mut self) -> io::Result<Written> {
        self.start()?;
        if let Some(end) = self.end {
            self.losses(&end.losses)?;
        }
        self.out.flush()?;
        Ok(self.written)
    }

    fn start(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        let origin = self.header.origin;
        let clock = |id, ns| Clock { clock_id: Some(id), timestamp: Some(ns) };
        self.write(TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![clock(proto::MONOTONIC, origin.monotonic_ns), clock(proto::REALTIME, origin.unix_ns)],
                primary_trace_clock: Some(proto::MONOTONIC),
            }),
            sequence_flags: Some(CLEARED),
            ..TracePacket::default()
        })
    }

    fn trail(&mut self, t: &RequestTrace, later: bool) -> io::Result<()> {
        self.written.ios += 1;
        let io = self.written.ios;
        let mut spans = t.spans();
        spans.retain(|s| !later || s.from >= Stage::Ready);
        if spans.is_empty() {
            self.written.without_spans += 1;
        }
        for (i, span) in spans.iter().enumerate() {
            let (place, group) = place(t, span);
            let track_uuid = self.lane(place, group, span)?;
            let last = i + 1 == spans.len() && i > 0;
            self.event(
                span.begin.ns,
                TrackEvent {
                    debug_annotations: annotations(
                        t,
                        span,
                        io,
                        (i == 0).then(|| self.end.and_then(|end| end.file_of(t))),
                    ),
                    r#type: Some(EventType::SliceBegin.into()),
                    track_uuid: Some(track_uuid),
                    name: Some(name(t, span)),
                    flow_ids: if last { vec![] } else { vec![io] },
                    terminating_flow_ids: if last { vec![io] } else { vec![] },
                    ..TrackEvent::default()
                },
            )?;
            self.event(
                span.end.ns,
                TrackEvent {
                    r#type: Some(EventType::SliceEnd.into()),
                    track_uuid: Some(track_uuid),
                    ..TrackEvent::default()
                },
            )?;
            self.written.slices += 1;
        }
        Ok(())
    }

    fn losses(&mut self, l: &Losses) -> io::Result<()> {
        for (place, value) in [(Place::LostNoRoom, l.no_room), (Place::LostRingBufferFull, l.ring_buffer_full)] {
            let track_uuid = self.place(place)?;
            self.event(
                l.at_ns,
                TrackEvent {
                    r#type: Some(EventType::Counter.into()),
                    track_uuid: Some(track_uuid),
                    counter_value: Some(value as i64),
                    ..TrackEvent::default()
                },
            )?;
        }
        Ok(())
    }

    fn event(&mut self, ns: u64, event: TrackEvent) -> io::Result<()> {
        self.write(TracePacket {
            timestamp: Some(ns),
            timestamp_clock_id: Some(proto::MONOTONIC),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    /// The most recently used lane of the group that is free when the span starts.
    fn lane(&mut self, place: Place, group: &'static str, span: &Span) -> io::Result<u64> {
        let lanes = self.lanes.entry((place, group)).or_default();
        let free = lanes.iter_mut().filter(|l| l.free_from_ns <= span.begin.ns).max_by_key(|l| l.free_from_ns);
        if let Some(lane) = free {
            lane.free_from_ns = span.end.ns;
            return Ok(lane.uuid);
        }
        let parent = self.place(place)?;
        let uuid = self.describe(TrackDescriptor {
            name: Some(group.into()),
            parent_uuid: Some(parent),
            ..TrackDescriptor::default()
        })?;
        self.lanes.entry((place, group)).or_default().push(Lane { uuid, free_from_ns: span.end.ns });
        Ok(uuid)
    }

    /// The parent's track; writes its description at first use.
    fn place(&mut self, place: Place) -> io::Result<u64> {
        if let Some(&uuid) = self.places.get(&place) {
            return Ok(uuid);
        }
        let mut d = TrackDescriptor::default();
        let mut parent = None;
        match place {
            Place::Process { tgid } => {
                let known = self.end.and_then(|e| e.processes.iter().find(|p| p.tgid == tgid));
                let process_name = known.map(|p| p.comm.clone());
                d.process = Some(ProcessDescriptor { pid: Some(tgid as i32), process_name });
            }
            Place::Thread { tgid, tid } => {
                parent = Some(Place::Process { tgid });
                let sqpoll =
                    |r: &iotrail_schema::trace_record::RingRecord| r.sqpoll.as_ref().is_some_and(|s| s.tid == tid);
                let is_sqpoll = self.end.is_some_and(|e| e.rings.iter().any(sqpoll));
                d.thread = Some(ThreadDescriptor {
                    pid: Some(tgid as i32),
                    tid: Some(i64::from(tid)),
                    thread_name: is_sqpoll.then(|| "submission-queue thread".into()),
                });
            }
            Place::Iowq { tgid } => {
                parent = Some(Place::Process { tgid });
                d.name = Some("io-wq".into());
            }
            Place::Ring { tgid, ring } => {
                parent = Some(Place::Process { tgid });
                d.name = Some(self.ring_name(ring));
            }
            Place::LostNoRoom => (d.name, d.counter) = (Some("lost (map full)".into()), Some(CounterDescriptor {})),
            Place::LostRingBufferFull => {
                (d.name, d.counter) = (Some("lost (ring buffer full)".into()), Some(CounterDescriptor {}))
            }
        }
        if let Some(parent) = parent {
            d.parent_uuid = Some(self.place(parent)?);
        }
        let uuid = self.describe(d)?;
        self.places.insert(place, uuid);
        Ok(uuid)
    }

    fn ring_name(&self, ring: Option<u32>) -> String {
        let Some(number) = ring else { return "unknown ring".into() };
        let flags = self.end.and_then(|e| e.rings.iter().find(|r| r.ring == number)).map(|r| r.flags.join(","));
        match flags.filter(|f| !f.is_empty()) {
            Some(flags) => format!("ring {number} ({flags})"),
            None => format!("ring {number}"),
        }
    }

    fn describe(&mut self, mut descriptor: TrackDescriptor) -> io::Result<u64> {
        self.written.tracks += 1;
        let uuid = self.written.tracks;
        descriptor.uuid = Some(uuid);
        self.write(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })?;
        Ok(uuid)
    }

    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        self.packet.clear();
        self.packet.push(PACKET_KEY);
        packet.encode_length_delimited(&mut self.packet).map_err(io::Error::other)?;
        self.out.write_all(&self.packet)
    }
}

/// The parent and the name for a span's lanes.
fn place(t: &RequestTrace, span: &Span) -> (Place, &'static str) {
    let (tgid, tid) = (t.tgid, t.tid);
    let ring = Place::Ring { tgid, ring: t.ring };
    let by_worker = t.punted.is_some() || t.vehicle == DeliveryPath::Iowq;
    match (span.from, span.to) {
        (Stage::Submitted, Stage::Issued | Stage::Posted) if by_worker => (Place::Iowq { tgid }, "worker"),
        (Stage::Issued, Stage::Posted) if t.vehicle == DeliveryPath::Iowq => (Place::Iowq { tgid }, "worker"),
        (Stage::Submitted, Stage::Issued) => (Place::Thread { tgid, tid }, "submission"),
        (Stage::Submitted, Stage::Posted) if t.vehicle == DeliveryPath::Inline => {
            (Place::Thread { tgid, tid }, "submission")
        }
        (Stage::Ready | Stage::Ended | Stage::Queued, _) => (ring, "delivery"),
        _ => (ring, "waiting"),
    }
}

fn name(t: &RequestTrace, span: &Span) -> String {
    match (span.from, span.to) {
        (Stage::Submitted, Stage::Issued) => format!("issue {}", t.opcode),
        (Stage::Submitted, Stage::Posted) if t.vehicle == DeliveryPath::Inline => format!("inline {}", t.opcode),
        (Stage::Issued, Stage::Ready) => format!("wait {}", t.opcode),
        (Stage::Ready, Stage::Ended) => "file system's worker".into(),
        (Stage::Ready | Stage::Ended, Stage::Queued) => "until queued".into(),
        (Stage::Ready | Stage::Ended | Stage::Queued, _) => format!("delivery: {}", t.vehicle),
        // A stage in between is unknown.
        (from, to) => format!("{} → {} {}", from.name(), to.name(), t.opcode),
    }
}

/// `first`: whether this is the I/O's first span, with its file name if known.
fn annotations(t: &RequestTrace, span: &Span, io: u64, first: Option<Option<String>>) -> Vec<DebugAnnotation> {
    let mut all = Vec::new();
    let named = |name: &str| DebugAnnotation { name: Some(name.into()), ..DebugAnnotation::default() };
    let number = |name: &str, n: u64| DebugAnnotation { uint_value: Some(n), ..named(name) };
    let text = |name: &str, s: String| DebugAnnotation { string_value: Some(s), ..named(name) };
    all.push(number("io", io));
    all.push(number("begin_cpu", span.begin.cpu.into()));
    all.push(number("end_cpu", span.end.cpu.into()));
    if let Some(file) = first {
        all.extend(file.map(|name| text("file", name)));
        all.extend(t.descriptor.map(|d| text("descriptor", d.to_string())));
        all.push(text("opcode", t.opcode.clone()));
        all.push(text("user_data", format!("{:#x}", t.user_data)));
        all.extend(t.asked_bytes.map(|n| number("asked_bytes", n)));
        all.push(DebugAnnotation { int_value: Some(t.result.into()), ..named("result") });
        all.extend(t.enter_batch.map(|n| number("enter_batch", n.into())));
        all.extend(t.punted.map(|p| {
            let why = match p {
                Punt::Asked => "asked for",
                Punt::WouldBlock => "would have blocked",
                Punt::Drained => "drained",
            };
            text("punted", why.into())
        }));
        if t.block_requests > 0 {
            all.push(number("block_requests", t.block_requests.into()));
        }
    }
    if span.to == Stage::Posted {
        all.push(text("vehicle", t.vehicle.to_string()));
        all.extend(t.detail.clone().map(|d| text("detail", d)));
        all.extend(t.run_items.map(|n| number("run_items", n.into())));
        all.extend(t.meanwhile.as_ref().map(|m| text("thread_meanwhile", meanwhile(m))));
        all.extend(t.wake.as_ref().map(|w| text("woken_by", w.by.to_string())));
        all.extend(t.switches_meanwhile.map(|n| number("switches_meanwhile", n.into())));
    }
    all
}

fn meanwhile(m: &Meanwhile) -> String {
    match m {
        Meanwhile::Running { cpu } => format!("running on CPU {cpu}"),
        Meanwhile::Runnable { cpu, tid, comm } => format!("waiting for CPU {cpu}, which {comm} ({tid}) had"),
        Meanwhile::Sleeping { cpu, tid: 0, .. } => format!("sleeping; CPU {cpu} idle"),
        Meanwhile::Sleeping { cpu, tid, comm } => format!("sleeping; CPU {cpu} ran {comm} ({tid})"),
    }
}

#[cfg(test)]
mod tests;
