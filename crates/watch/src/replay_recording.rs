//! Events for replay in a recording: appended while a trace runs, and readable up to a truncation.
//!
//! A frame of kind `R` (`frames`) contains a sequence of MessagePack arrays. The first element is the event number; the
//! others are integers in the order of `encode` below, apart from paths. Times are differences from the previous event,
//! and `reaped` is the difference from the previous value of the same ring; both restart from 0 in each frame. An
//! option is encoded as its value + 1, or 0. Readers skip extra elements and events with unknown numbers.

use std::collections::HashMap;
use std::path::Path;

use rmp::decode::{read_array_len, read_int, read_str_len};
use rmp::encode::{write_array_len, write_sint, write_str, write_uint};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::frames::{END, FRAME_BYTES, FrameReader, FrameWriter, REPLAY};
use iotrail_base::error::{Error, Result};
use iotrail_base::output::Existing;
use iotrail_schema::recorded::{End, Ending, Header};
use iotrail_schema::replay_log::{
    ReplayCall, ReplayCallKind, ReplayEvent, ReplayFile, ReplayInterface, ReplayOp, ReplayRequest, ReplayRing,
    ReplaySync,
};

const FILE: u64 = 0;
const RING: u64 = 1;
const REQUEST: u64 = 2;
const CALL: u64 = 3;
const SYNC: u64 = 4;
const LOST: u64 = 5;

/// Indexed by the numbers in the file.
const OPS: [ReplayOp; 8] = [
    ReplayOp::Read,
    ReplayOp::Write,
    ReplayOp::Fsync,
    ReplayOp::Fdatasync,
    ReplayOp::SyncFileRange,
    ReplayOp::Fallocate,
    ReplayOp::Nop,
    ReplayOp::Other,
];
const CALLS: [ReplayCallKind; 3] = [ReplayCallKind::Enter, ReplayCallKind::Submit, ReplayCallKind::GetEvents];
const INTERFACES: [ReplayInterface; 3] =
    [ReplayInterface::IoUring, ReplayInterface::NativeAio, ReplayInterface::PosixAio];

fn number<T: PartialEq>(all: &[T], value: &T) -> u64 {
    all.iter().position(|one| one == value).expect("each has a number") as u64
}

/// Previous values for the differences, reset at the start of a frame.
#[derive(Debug, Default)]
struct Previous {
    ns: u64,
    reaped: HashMap<u32, u64>,
}

impl Previous {
    fn reaped(&mut self, ring: u32) -> &mut u64 {
        self.reaped.entry(ring).or_default()
    }
}

/// Appends to a recording. Dropping a writer without [`ReplayWriter::finish`] leaves a truncated file.
pub struct ReplayWriter {
    frames: FrameWriter,
    previous: Previous,
}

impl ReplayWriter {
    /// Fails with a usage error if the file exists and must not be replaced, or cannot be created.
    pub fn create(path: &Path, header: &Header, existing: Existing) -> Result<Self> {
        debug_assert!(header.is_for_replay());
        Ok(Self { frames: FrameWriter::create(path, header, existing)?, previous: Previous::default() })
    }

    /// Appends an event in the order described at [`ReplayEvent`].
    pub fn push(&mut self, event: &ReplayEvent) -> Result<()> {
        encode(event, &mut self.previous, &mut self.frames.content);
        if self.frames.content.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes all earlier events to the file. Call it about once per second.
    pub fn flush(&mut self) -> Result<()> {
        self.previous = Previous::default();
        if self.frames.content.is_empty() { Ok(()) } else { self.frames.frame(REPLAY) }
    }

    /// Completes the recording and returns its length in bytes.
    pub fn finish(mut self, end: &End) -> Result<u64> {
        self.flush()?;
        let mut content = std::mem::take(&mut self.frames.content);
        rmp_serde::encode::write_named(&mut content, end).map_err(|e| self.frames.refused(e))?;
        self.frames.content = content;
        self.frames.frame(END)?;
        Ok(self.frames.written_bytes())
    }
}

/// Elements of one event's array.
struct Elements<'a>(&'a mut Vec<u8>);

const MEMORY: &str = "memory takes all of it";

impl<'a> Elements<'a> {
    fn of(out: &'a mut Vec<u8>, kind: u64, elements: u32) -> Self {
        write_array_len(out, elements + 1).expect(MEMORY);
        let mut array = Self(out);
        array.put(kind);
        array
    }

    fn put(&mut self, value: impl Into<u64>) {
        write_uint(self.0, value.into()).expect(MEMORY);
    }

    fn put_signed(&mut self, value: i64) {
        write_sint(self.0, value).expect(MEMORY);
    }

    fn put_optional(&mut self, value: Option<impl Into<u64>>) {
        self.put(value.map_or(0, |value| value.into() + 1));
    }

    /// Appends the difference from `before`, and sets `before` to `now`.
    fn put_since(&mut self, before: &mut u64, now: u64) {
        self.put_signed(now.wrapping_sub(std::mem::replace(before, now)) as i64);
    }
}

fn encode(event: &ReplayEvent, previous: &mut Previous, out: &mut Vec<u8>) {
    match event {
        ReplayEvent::File(f) => {
            let mut to = Elements::of(out, FILE, 5);
            to.put(f.file);
            to.put(f.replayable);
            to.put(f.open_flags);
            to.put(f.size);
            write_str(to.0, &f.path).expect(MEMORY);
        }
        ReplayEvent::Ring(r) => {
            let mut to = Elements::of(out, RING, 5);
            to.put(r.ring);
            to.put(number(&INTERFACES, &r.interface));
            to.put(r.sq_entries);
            to.put(r.cq_entries);
            to.put(r.setup_flags);
        }
        ReplayEvent::Request(r) => {
            let mut to = Elements::of(out, REQUEST, 12);
            to.put(r.tid);
            to.put(r.ring);
            to.put_since(&mut previous.ns, r.at_ns);
            to.put(number(&OPS, &r.op));
            to.put(r.opcode);
            to.put(r.sqe_flags);
            to.put_optional(r.file);
            to.put(r.offset);
            to.put(r.len);
            to.put_optional(r.buffer);
            to.put(r.op_flags);
            to.put_since(previous.reaped(r.ring), r.reaped);
        }
        ReplayEvent::Call(c) => {
            let mut to = Elements::of(out, CALL, 11 + u32::from(c.heads_reaped.is_some()));
            to.put(c.tid);
            to.put(c.ring);
            to.put(number(&CALLS, &c.kind));
            to.put_since(&mut previous.ns, c.enter_ns);
            to.put_since(&mut previous.ns, c.exit_ns);
            to.put(c.think_ns);
            to.put(c.to_submit);
            to.put(c.min_complete);
            to.put(c.flags);
            to.put_signed(c.result.into());
            to.put_since(previous.reaped(c.ring), c.reaped);
            if let Some(heads) = c.heads_reaped {
                to.put(heads);
            }
        }
        ReplayEvent::Sync(s) => {
            let mut to = Elements::of(out, SYNC, 10);
            to.put(s.tid);
            to.put_since(&mut previous.ns, s.enter_ns);
            to.put_since(&mut previous.ns, s.exit_ns);
            to.put(s.think_ns);
            to.put(number(&OPS, &s.op));
            to.put_optional(s.file);
            to.put(s.offset);
            to.put(s.len);
            to.put(s.op_flags);
            to.put_signed(s.result);
        }
        ReplayEvent::Lost { events } => Elements::of(out, LOST, 1).put(*events),
    }
}

/// Decodes one event's array. Methods return `None` if the encoding is invalid.
struct Fields<'a, 'b> {
    from: &'a mut &'b [u8],
    left: u32,
}

impl<'b> Fields<'_, 'b> {
    fn next<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        read_int::<u64, _>(self.from).ok()?.try_into().ok()
    }

    fn signed(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        read_int(self.from).ok()
    }

    fn optional<T: TryFrom<u64>>(&mut self) -> Option<Option<T>> {
        match self.next::<u64>()?.checked_sub(1) {
            None => Some(None),
            Some(value) => value.try_into().ok().map(Some),
        }
    }

    fn flag(&mut self) -> Option<bool> {
        self.next::<u64>().map(|value| value != 0)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let number: usize = self.next()?;
        all.get(number).copied()
    }

    fn since(&mut self, before: &mut u64) -> Option<u64> {
        *before = before.wrapping_add(self.signed()? as u64);
        Some(*before)
    }

    fn text(&mut self) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        let bytes = read_str_len(self.from).ok()? as usize;
        let (text, rest) = self.from.split_at_checked(bytes)?;
        *self.from = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    /// Skips unknown elements.
    fn skip(self) -> Option<()> {
        let mut rest = rmp_serde::Deserializer::new(self.from);
        (0..self.left).try_for_each(|_| IgnoredAny::deserialize(&mut rest).ok().map(drop))
    }
}

/// `Some(None)` for an unknown event.
fn decode(from: &mut &[u8], previous: &mut Previous) -> Option<Option<ReplayEvent>> {
    let left = read_array_len(from).ok()?;
    let mut f = Fields { from, left };
    let event = match f.next::<u64>()? {
        FILE => Some(ReplayEvent::File(ReplayFile {
            file: f.next()?,
            replayable: f.flag()?,
            open_flags: f.next()?,
            size: f.next()?,
            path: f.text()?,
        })),
        RING => Some(ReplayEvent::Ring(ReplayRing {
            ring: f.next()?,
            interface: f.one_of(&INTERFACES)?,
            sq_entries: f.next()?,
            cq_entries: f.next()?,
            setup_flags: f.next()?,
        })),
        REQUEST => {
            let (tid, ring) = (f.next()?, f.next()?);
            Some(ReplayEvent::Request(ReplayRequest {
                tid,
                ring,
                at_ns: f.since(&mut previous.ns)?,
                op: f.one_of(&OPS)?,
                opcode: f.next()?,
                sqe_flags: f.next()?,
                file: f.optional()?,
                offset: f.next()?,
                len: f.next()?,
                buffer: f.optional()?,
                op_flags: f.next()?,
                reaped: f.since(previous.reaped(ring))?,
            }))
        }
        CALL => {
            let (tid, ring) = (f.next()?, f.next()?);
            Some(ReplayEvent::Call(ReplayCall {
                tid,
                ring,
                kind: f.one_of(&CALLS)?,
                enter_ns: f.since(&mut previous.ns)?,
                exit_ns: f.since(&mut previous.ns)?,
                think_ns: f.next()?,
                to_submit: f.next()?,
                min_complete: f.next()?,
                flags: f.next()?,
                result: f.signed()?.try_into().ok()?,
                reaped: f.since(previous.reaped(ring))?,
                heads_reaped: if f.left > 0 { Some(f.next()?) } else { None },
            }))
        }
        SYNC => Some(ReplayEvent::Sync(ReplaySync {
            tid: f.next()?,
            enter_ns: f.since(&mut previous.ns)?,
            exit_ns: f.since(&mut previous.ns)?,
            think_ns: f.next()?,
            op: f.one_of(&OPS)?,
            file: f.optional()?,
            offset: f.next()?,
            len: f.next()?,
            op_flags: f.next()?,
            result: f.signed()?,
        })),
        LOST => Some(ReplayEvent::Lost { events: f.next()? }),
        _ => None,
    };
    f.skip()?;
    Some(event)
}

/// Reads the events of a recording for replay up to its end or truncation, with one frame in memory at a time.
pub struct ReplayReader {
    frames: FrameReader,
    content: Vec<u8>,
    /// Number of bytes of the content already read.
    at: usize,
    previous: Previous,
    ending: Option<Ending>,
}

impl ReplayReader {
    /// Fails with a usage error if the file does not exist, is not a recording, has another format version, or contains
    /// no events for replay.
    pub fn open(path: &Path) -> Result<Self> {
        let frames = FrameReader::open(path)?;
        if !frames.header.is_for_replay() {
            return Err(Error::input(
                format!("{} cannot be replayed: it was recorded without --for-replay", path.display()),
                "record again: iotrail trace --record FILE --for-replay -- CMD",
            ));
        }
        Ok(Self { frames, content: vec![], at: 0, previous: Previous::default(), ending: None })
    }

    pub fn header(&self) -> &Header {
        &self.frames.header
    }

    /// How the recording ends; `None` while events are left.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Next event in the frame, or `None`.
    fn event(&mut self) -> Option<ReplayEvent> {
        while self.at < self.content.len() {
            let mut rest = &self.content[self.at..];
            let event = decode(&mut rest, &mut self.previous);
            self.at = self.content.len() - rest.len();
            match event {
                Some(Some(event)) => return Some(event),
                Some(None) => {}
                None => {
                    self.ending = Some(self.frames.damaged());
                    return None;
                }
            }
        }
        None
    }
}

/// Yields events up to the end or truncation. A read error is the last item.
impl Iterator for ReplayReader {
    type Item = Result<ReplayEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ending.is_none() {
            if let Some(event) = self.event() {
                return Some(Ok(event));
            }
            if self.ending.is_some() {
                return None;
            }
            match self.frames.next(REPLAY) {
                Ok(Ok(content)) => (self.content, self.at, self.previous) = (content, 0, Previous::default()),
                Ok(Err(ending)) => self.ending = Some(ending),
                Err(e) => {
                    self.ending = Some(self.frames.cut());
                    return Some(Err(e));
                }
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "replay_recording_tests.rs"]
mod tests;
