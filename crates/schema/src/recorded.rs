//! The contents of a recording. These types *are* the schema `iotrail.recording/1` (`docs/formats.md`); `watch::recording` defines
//! the file format. Answers, reports and exports use these types and never the file.

use serde::{Deserialize, Serialize};

use crate::measurement::Host;
use crate::trace_record::{ProcessRecord, RingRecord, Subject};
use crate::trail::RequestTrace;

pub const SCHEMA: &str = "iotrail.recording/1";

/// Schema of a recording with `--for-replay`; readers of the first version reject it.
pub const SCHEMA_FOR_REPLAY: &str = "iotrail.recording/2";

/// Whether a recording is read that names this schema.
pub fn is_known(schema: &str) -> bool {
    schema == SCHEMA || schema == SCHEMA_FOR_REPLAY
}

/// Facts known when recording begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// `iotrail.recording/1`; with `--for-replay` `iotrail.recording/2`.
    pub schema: String,
    /// iotrail version that recorded.
    pub version: String,
    /// As in a trace.
    pub subject: Subject,
    /// N, if 1 in N requests is recorded; 1: all.
    pub one_in: u32,
    /// As in a trace's `followed`.
    #[serde(default)]
    pub adaptive: bool,
    /// Only this many requests, the slowest, are recorded; null: all.
    #[serde(default)]
    pub slowest: Option<u64>,
    /// Window length and period, both in ns: one window is recorded per period; null: all the time.
    #[serde(default)]
    pub windows: Option<(u64, u64)>,
    /// The same time on the timestamps' clock and on the wall clock.
    pub origin: ClockOrigin,
    /// The machine.
    pub host: Host,
}

impl Header {
    /// Whether it contains events for `iotrail replay`.
    pub fn is_for_replay(&self) -> bool {
        self.schema == SCHEMA_FOR_REPLAY
    }
}

/// The same time on the timestamps' clock and on the wall clock, read together when recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOrigin {
    /// CLOCK_MONOTONIC, the clock used for all timestamps.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME (UTC).
    pub unix_ns: u64,
}

/// Records in file order, which is the order in which they became known. This is nearly chronological.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// One completion.
    Trail(RequestTrace),
    /// A later completion of a request whose earlier ones may not be in the recording (`--slowest`).
    Later(RequestTrace),
    /// Losses of selected requests up to a point in time.
    Losses(Losses),
}

/// Losses of selected requests since the start; they never decrease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Time, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Traced completions since the start.
    pub followed: u64,
    /// Selected requests that were abandoned because the map was full.
    pub no_room: u64,
    /// Completed requests that were lost because the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Selected requests whose completion was not seen: the queue was full, or iotrail missed it.
    #[serde(default)]
    pub no_completion: u64,
}

impl Losses {
    pub fn lost(&self) -> u64 {
        self.no_room + self.ring_buffer_full + self.no_completion
    }
}

/// Facts known only when recording ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The final losses, at the end of the recording.
    pub losses: Losses,
    /// Selected requests that had not completed when recording ended.
    pub unfinished: u64,
    /// As in a trace.
    pub rings: Vec<RingRecord>,
    /// As in a trace.
    pub processes: Vec<ProcessRecord>,
    /// Names of the files of traced requests, at most 4,096.
    #[serde(default)]
    pub files: Vec<FileName>,
}

/// The name of a file, identified by the kernel's numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileName {
    /// The kernel's device number.
    pub device: u32,
    /// Inode number.
    pub inode: u64,
    /// Inode generation.
    pub generation: u32,
    /// The complete path from /proc, or only its last component.
    pub path: String,
    /// Logical block size of the underlying device; omitted if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_block_bytes: Option<u64>,
}

impl End {
    /// The file of a traced request: its name or its kind; `None`: neither is known.
    pub fn file_of(&self, t: &RequestTrace) -> Option<String> {
        let kind = t.file?.kind;
        let name = self.named(t).filter(|_| kind.is_named()).map(|f| f.path.clone());
        Some(name.unwrap_or_else(|| kind.name().into()))
    }

    /// The file of a traced request.
    pub fn named(&self, t: &RequestTrace) -> Option<&FileName> {
        let seen = t.file?;
        let at = |f: &FileName| (f.device, f.inode, f.generation);
        let found = self.files.binary_search_by_key(&(seen.device, seen.inode, seen.generation), at);
        found.ok().map(|i| &self.files[i])
    }
}

/// How a recording ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The recording is complete.
    Whole(Box<End>),
    /// The file ends before its end record: iotrail was killed, or the copy is incomplete.
    Cut {
        /// Offset of the end.
        at_byte: u64,
    },
    /// Bytes differ from those written; the rest of the file is not read.
    Damaged {
        /// Offset of the damage.
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
