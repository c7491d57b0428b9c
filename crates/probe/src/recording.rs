//! Records the events that decide delivery paths in a bounded buffer, in addition to the aggregation.
//!
//! Costs 64 bytes of ring buffer and 56 bytes of user memory per event; a blocking read at depth 1 has about six
//! events.

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

use super::carrier;
use super::skel::types;
use super::symbols::Symbols;
use crate::raw::read;
use iotrail_base::error::{Error, Result};
use iotrail_host::irq::Interrupts;
use iotrail_path::delivery::IO_URING_ENTER;
use iotrail_path::event::{Entered, Event, Poster, What};
use iotrail_schema::waker::Line;

const _: () = assert!(size_of::<types::event>() == 56);

/// Limits of a recording.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// Ring buffer size: a power of two, in full pages. Must hold the events between two drains.
    pub ring_bytes: u32,
    /// Maximum number of recorded events; later ones are dropped and counted.
    pub events: usize,
}

/// Recording of one trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Sorted by time.
    pub events: Vec<Event>,
    /// Events lost because the ring buffer was full.
    pub lost: u64,
    /// Events dropped after [`Capacity::events`] was reached.
    pub beyond_capacity: u64,
}

/// The reader's side of the ring buffer.
pub(super) struct Recorder {
    ring: RingBuffer<'static>,
    kept: Rc<RefCell<EventBuffer>>,
}

struct EventBuffer {
    events: Vec<types::event>,
    capacity: usize,
    beyond: u64,
}

impl Recorder {
    pub(super) fn open(map: &dyn MapCore, capacity: usize) -> libbpf_rs::Result<Self> {
        let kept = Rc::new(RefCell::new(EventBuffer { events: vec![], capacity, beyond: 0 }));
        let mut builder = RingBufferBuilder::new();
        let into = Rc::clone(&kept);
        builder.add(map, move |record| {
            let mut kept = into.borrow_mut();
            if kept.events.len() < kept.capacity {
                kept.events.push(read(record));
            } else {
                kept.beyond += 1;
            }
            0
        })?;
        Ok(Recorder { ring: builder.build()?, kept })
    }

    /// Moves events out of the ring buffer.
    pub(super) fn drain(&self) -> Result<()> {
        let failed = |e| Error::machine("cannot read the recorded events", "report this").because(e);
        self.ring.consume().map_err(failed)
    }

    /// Discards all events so far.
    pub(super) fn restart(&self) -> Result<()> {
        self.drain()?;
        let mut kept = self.kept.borrow_mut();
        kept.events.clear();
        kept.beyond = 0;
        Ok(())
    }

    /// Returns the recorded events.
    pub(super) fn take(
        &self,
        lost: u64,
        symbols: Option<&Symbols>,
        interrupts: Option<&Interrupts>,
    ) -> Result<Recording> {
        self.drain()?;
        let mut kept = self.kept.borrow_mut();
        let mut raw = std::mem::take(&mut kept.events);
        // CPUs write to the buffer concurrently, and an interrupt may come between a thread event's timestamp and its
        // reservation.
        raw.sort_by_key(|e| e.time_ns);
        let line = |irq: u32| Line { irq, name: interrupts.and_then(|p| carrier::handler(p, irq)) };
        let events = raw.iter().map(|e| event(e, symbols, &line)).collect::<Result<_>>()?;
        Ok(Recording { events, lost, beyond_capacity: std::mem::take(&mut kept.beyond) })
    }
}

/// Decodes a record.
fn event(raw: &types::event, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Result<Event> {
    use types::{event_flag as f, event_kind as k};
    let has = |flag: f| raw.flags.0 & flag.0 != 0;
    // A negative system-call number means an interrupt or exception.
    let syscall = u32::try_from(raw.nr).ok();
    let what = match raw.kind {
        k::EVENT_COMPLETE => What::Complete { by: poster(raw.poster)? },
        k::EVENT_RUN => What::Run {
            items: raw.items.into(),
            looped: has(f::EVENT_LOOPED),
            entered: match syscall {
                Some(nr) => Entered::Syscall { nr, finished: has(f::EVENT_FINISHED) },
                None => Entered::Interrupt {
                    symbol: symbols.and_then(|s| s.caller(raw.entry)).map(str::to_owned),
                    fired: carrier::fired(raw.waker, raw.waker_nr),
                    line: raw.line.checked_sub(1).map(line),
                },
            },
        },
        k::EVENT_WAIT => What::WaitBegins,
        k::EVENT_SWITCHED_OUT => What::SwitchedOut {
            asleep: has(f::EVENT_ASLEEP),
            inside_io_uring_enter: syscall == Some(IO_URING_ENTER) && !has(f::EVENT_FINISHED),
        },
        k::EVENT_SWITCHED_IN => What::SwitchedIn,
        k::EVENT_WOKEN => What::Woken { by: carrier::waker(raw.waker, raw.waker_nr, raw.cpu, line) },
        types::event_kind(other) => return Err(unknown("kind", other)),
    };
    Ok(Event { time_ns: raw.time_ns, cpu: raw.cpu, tid: raw.tid, what })
}

fn poster(raw: types::poster) -> Result<Poster> {
    use types::poster as p;
    match raw {
        p::POSTED_BY_SUBMITTER => Ok(Poster::Submitter),
        p::POSTED_BY_SQPOLL => Ok(Poster::Sqpoll),
        p::POSTED_BY_IOWQ => Ok(Poster::Iowq),
        p::POSTED_BY_IOPOLL => Ok(Poster::Iopoll),
        types::poster(other) => Err(unknown("poster", other)),
    }
}

fn unknown(field: &str, value: u32) -> Error {
    Error::machine(format!("a recorded event has {field} {value}, which record.h does not define"), "report this")
}
