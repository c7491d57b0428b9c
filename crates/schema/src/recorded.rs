//! What a recording holds: these types *are* the schema `iotrail.recording/1` (`docs/formats.md`); how they lie in the file
//! is `watch::recording`'s matter. What reads recordings (answers, reports, exports) takes these and never the file.

use serde::{Deserialize, Serialize};

use crate::measurement::Host;
use crate::trace_record::{ProcessRecord, RingRecord, Subject};
use crate::trail::RequestTrace;

pub const SCHEMA: &str = "iotrail.recording/1";

/// A recording of `--for-replay`: readers of the first version refuse it.
pub const SCHEMA_FOR_REPLAY: &str = "iotrail.recording/2";

/// What is known when recording begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// `iotrail.recording/1`; with `--for-replay` `iotrail.recording/2`.
    pub schema: String,
    /// Version of the iotrail that recorded.
    pub version: String,
    /// As in a trace.
    pub subject: Subject,
    /// One request in so many is recorded; 1: all.
    pub one_in: u32,
    /// As in a trace's `followed`.
    #[serde(default)]
    pub adaptive: bool,
    /// Of these only so many, the slowest, are recorded; null: all.
    #[serde(default)]
    pub slowest: Option<u64>,
    /// Recorded for so many nanoseconds in each so many; null: all the time.
    #[serde(default)]
    pub windows: Option<(u64, u64)>,
    /// One moment on the clock of the stamps and on the wall's.
    pub origin: ClockOrigin,
    /// The machine.
    pub host: Host,
}

impl Header {
    /// It holds events for `iotrail replay`.
    pub fn is_for_replay(&self) -> bool {
        self.schema == SCHEMA_FOR_REPLAY
    }
}

/// One moment on the clock of the stamps and on the wall's, read together when recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOrigin {
    /// CLOCK_MONOTONIC: the clock of every stamp.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME (UTC).
    pub unix_ns: u64,
}

/// In the order of the file, which is that in which things came to be known: nearly, but not exactly, by time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// One completion.
    Trail(RequestTrace),
    /// A later completion of its request, where those before it may not be in the recording (`--slowest`).
    Later(RequestTrace),
    /// What became of the chosen requests up to a moment.
    Losses(Losses),
}

/// What became of the chosen requests up to a moment, from the beginning on; never less than the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// The moment, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Completions that came through, from the beginning on.
    pub followed: u64,
    /// Chosen, and given up: no room to keep them.
    pub no_room: u64,
    /// Complete, and lost on the way: the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Chosen, and its completion was not seen: it found the queue full, or was missed.
    #[serde(default)]
    pub no_completion: u64,
}

impl Losses {
    pub fn lost(&self) -> u64 {
        self.no_room + self.ring_buffer_full + self.no_completion
    }
}

/// What is known only when recording ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The last state; its moment is the end's.
    pub losses: Losses,
    /// Chosen, and not complete when recording ended.
    pub unfinished: u64,
    /// As in a trace.
    pub rings: Vec<RingRecord>,
    /// As in a trace.
    pub processes: Vec<ProcessRecord>,
    /// Names of the files that trails went to, 4,096 at most.
    #[serde(default)]
    pub files: Vec<FileName>,
}

/// The name of a file, by the numbers that the kernel has for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileName {
    /// The kernel's device number.
    pub device: u32,
    /// Inode number.
    pub inode: u64,
    /// Generation of the inode.
    pub generation: u32,
    /// The whole path as /proc had it, or the last part alone.
    pub path: String,
    /// Logical block size of the device under it; left out where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_block_bytes: Option<u64>,
}

impl End {
    /// What a trail went to: the file's name, or its kind; `None`: neither is known.
    pub fn file_of(&self, t: &RequestTrace) -> Option<String> {
        let kind = t.file?.kind;
        let name = self.named(t).filter(|_| kind.is_named()).map(|f| f.path.clone());
        Some(name.unwrap_or_else(|| kind.name().into()))
    }

    /// The file that a trail went to.
    pub fn named(&self, t: &RequestTrace) -> Option<&FileName> {
        let seen = t.file?;
        let at = |f: &FileName| (f.device, f.inode, f.generation);
        let found = self.files.binary_search_by_key(&(seen.device, seen.inode, seen.generation), at);
        found.ok().map(|i| &self.files[i])
    }
}

/// How a recording stops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The recording is whole.
    Whole(Box<End>),
    /// The file ends before its end was written: it was killed, or not copied whole.
    Cut {
        /// Where it ends.
        at_byte: u64,
    },
    /// Bytes are not those that were written; nothing from there on is read.
    Damaged {
        /// Where the damage begins.
        at_byte: u64,
    },
}

impl Ending {
    pub fn end(&self) -> Option<&End> {
        match self {
            Ending::Whole(end) => Some(end),
            Ending::Cut { .. } | Ending::Damaged { .. } => None,
        }
    }
}
