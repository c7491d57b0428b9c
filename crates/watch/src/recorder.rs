//! Keeps traced requests in addition to the summary: all of them in a recording file, or the slowest in memory.
//!
//! The file has its own thread, so that a stalled disk does not block reading from the probes' ring buffer. It may lag
//! by up to [`QUEUE`] batches: 260,000 completions or about 100 MB. After that the reader waits for the file, and
//! records that do not fit in the ring buffer count as lost.

use std::io::{Read as _, Seek as _};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::capture::{Captured, ForReplay};
use super::recording::Writer;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::output::Existing;
use iotrail_host::clock::monotonic_ns;
use iotrail_path::slowest::{By, Slowest};
use iotrail_probe::rings::FollowLoss;
use iotrail_schema::recorded::{ClockOrigin, End, Entry, Header, Losses};
use iotrail_schema::trail::RequestTrace;

/// Interval between two records of losses.
const NOTES: Duration = Duration::from_secs(1);

/// Maximum number of completions per batch for the file's thread.
const BATCH: usize = 4096;
const QUEUE: usize = 64;

/// Which requests to keep.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    pub file: Option<(PathBuf, Existing)>,
    /// Keep only this many, the slowest; `None`: keep all, which requires a file.
    pub slowest: Option<usize>,
    /// Write events for replay to the file in place of traced requests.
    pub for_replay: Option<ForReplay>,
}

impl Keep {
    pub fn any(&self) -> bool {
        self.file.is_some() || self.slowest.is_some()
    }
}

/// The kept requests.
#[derive(Debug)]
pub struct Recorded {
    /// The recording file and its length, or the error that made it incomplete.
    pub file: Option<Result<(PathBuf, u64)>>,
    /// Number of completions in the file or in `slowest`.
    pub completions: u64,
    pub slowest: Option<Flight>,
    /// Counts of a recording for replay, which contains no completions.
    pub captured: Option<Captured>,
}

/// The slowest requests as a recording.
#[derive(Debug, Clone)]
pub struct Flight {
    pub header: Header,
    /// Sorted by posting time.
    pub entries: Vec<Entry>,
    pub end: End,
}

impl Flight {
    /// Contents of a recording file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (writer, mut file) = Writer::in_memory(&self.header)?;
        write(writer, &self.entries, &self.end)?;
        let mut bytes = Vec::new();
        let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
        read.or_machine("cannot read the slowest requests", "report this")?;
        Ok(bytes)
    }
}

/// Receives traced requests as they arrive.
pub(crate) struct Recorder {
    to: To,
    completions: u64,
    next_note: Instant,
}

enum To {
    File { path: PathBuf, batch: Vec<RequestTrace>, thread: FileThread },
    Slowest { header: Box<Header>, slowest: Slowest, losses: Vec<Losses>, file: Option<(PathBuf, Writer)> },
}

impl Recorder {
    /// Creates the file; `None` if no traced request is kept.
    pub fn start(keep: &Keep, header: Header) -> Result<Option<Self>> {
        if keep.for_replay.is_some() {
            return Ok(None);
        }
        let file =
            keep.file.as_ref().map(|(path, existing)| Ok((path.clone(), Writer::create(path, &header, *existing)?)));
        let to = match (keep.slowest, file.transpose()?) {
            (Some(k), file) => {
                To::Slowest { header: Box::new(header), slowest: Slowest::new(k, By::Latency), losses: vec![], file }
            }
            (None, Some((path, writer))) => {
                let thread = FileThread::start(writer)?;
                To::File { path, batch: Vec::with_capacity(BATCH), thread }
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Recorder { to, completions: 0, next_note: Instant::now() + NOTES }))
    }

    pub fn take(&mut self, trail: &RequestTrace) {
        self.completions += 1;
        match &mut self.to {
            To::File { batch, thread, .. } => {
                batch.push(trail.clone());
                if batch.len() >= BATCH {
                    thread.send(Message::RequestTraces(std::mem::replace(batch, Vec::with_capacity(BATCH))));
                }
            }
            To::Slowest { slowest, .. } => slowest.offer(trail),
        }
    }

    /// Whether losses should be recorded now.
    pub(crate) fn is_note_due(&self) -> bool {
        Instant::now() >= self.next_note
    }

    /// Records the losses so far. All earlier completions must have been taken.
    pub fn note(&mut self, loss: FollowLoss) {
        self.next_note = Instant::now() + NOTES;
        let now = losses(self.completions, loss);
        match &mut self.to {
            To::File { batch, thread, .. } => {
                thread.send(Message::RequestTraces(std::mem::replace(batch, Vec::with_capacity(BATCH))));
                thread.send(Message::Losses(now));
            }
            To::Slowest { losses, .. } => losses.push(now),
        }
    }

    /// Completes the recording of a trace that ended at `at_ns`. Fills in the losses in `end`.
    pub fn finish(self, at_ns: u64, loss: FollowLoss, end: End) -> Recorded {
        let losses = Losses { at_ns, ..losses(self.completions, loss) };
        let end = End { losses, unfinished: loss.unfinished, ..end };
        match self.to {
            To::File { path, batch, thread } => {
                thread.send(Message::RequestTraces(batch));
                let written = thread.finish(end).map(|bytes| (path, bytes));
                Recorded { file: Some(written), completions: self.completions, slowest: None, captured: None }
            }
            To::Slowest { header, slowest, losses, file } => {
                let entries = by_posting(slowest, losses);
                let completions = entries.iter().filter(|e| !matches!(e, Entry::Losses(_))).count() as u64;
                let written = file.map(|(path, writer)| Ok((path, write(writer, &entries, &end)?)));
                let slowest = Some(Flight { header: *header, entries, end });
                Recorded { file: written, completions, slowest, captured: None }
            }
        }
    }
}

fn losses(followed: u64, loss: FollowLoss) -> Losses {
    Losses {
        at_ns: now().monotonic_ns,
        followed,
        no_room: loss.no_room,
        ring_buffer_full: loss.ring_buffer_full,
        no_completion: loss.no_completion,
    }
}

fn by_posting(slowest: Slowest, losses: Vec<Losses>) -> Vec<Entry> {
    let mut entries: Vec<(u64, Entry)> = losses.into_iter().map(|l| (l.at_ns, Entry::Losses(l))).collect();
    entries.extend(slowest.into_sorted().into_iter().map(|kept| {
        let entry = if kept.later { Entry::Later } else { Entry::Trail };
        (kept.trail.posted.ns, entry(kept.trail))
    }));
    entries.sort_by_key(|(ns, _)| *ns);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn write(mut writer: Writer, entries: &[Entry], end: &End) -> Result<u64> {
    for entry in entries {
        match entry {
            Entry::Trail(trail) => writer.push(trail)?,
            Entry::Later(trail) => writer.push_later(trail)?,
            Entry::Losses(losses) => writer.losses(*losses)?,
        }
    }
    writer.finish(end)
}

/// Current time on both clocks.
pub(crate) fn now() -> ClockOrigin {
    let monotonic_ns = monotonic_ns();
    let at = clock_gettime(ClockId::Realtime);
    ClockOrigin { monotonic_ns, unix_ns: at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64 }
}

/// The writer thread. It ends at a failed write and further data is dropped; [`finish`](Self::finish) returns the
/// error.
struct FileThread {
    sender: SyncSender<Message>,
    thread: JoinHandle<Result<u64>>,
}

enum Message {
    RequestTraces(Vec<RequestTrace>),
    Losses(Losses),
    End(Box<End>),
}

impl FileThread {
    fn start(writer: Writer) -> Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("recording".into()).spawn(move || append(writer, &receiver));
        let failed = |e| {
            Error::machine("cannot start a thread for the recording", "check the process limit: ulimit -u").because(e)
        };
        Ok(FileThread { sender, thread: thread.map_err(failed)? })
    }

    fn send(&self, message: Message) {
        // The thread ends early only if a write failed.
        self.sender.send(message).unwrap_or(());
    }

    fn finish(self, end: End) -> Result<u64> {
        self.send(Message::End(Box::new(end)));
        let broken = |_| Err(Error::machine("the recording thread panicked", "report this"));
        self.thread.join().unwrap_or_else(broken)
    }
}

fn append(mut writer: Writer, messages: &Receiver<Message>) -> Result<u64> {
    for message in messages {
        match message {
            Message::RequestTraces(trails) => trails.iter().try_for_each(|trail| writer.push(trail))?,
            Message::Losses(losses) => writer.losses(losses)?,
            Message::End(end) => return writer.finish(&end),
        }
    }
    // Dropped without an end: the file is truncated, as after a kill.
    Ok(writer.written_bytes())
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
