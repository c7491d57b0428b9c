//! Writes a recording for replay: a separate thread reads events from the ring buffer and appends them to the file. If
//! the disk stalls for longer than the ring buffer can hold, events are lost and counted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::replay_recording::ReplayWriter;
use iotrail_base::error::{Error, Result};
use iotrail_base::output::Existing;
use iotrail_probe::capture::{Capture, Events, Source, Uncaptured};
use iotrail_schema::recorded::{End, Header};
use iotrail_schema::replay_log::ReplayEvent;
use iotrail_schema::trace_record::Subject;

/// Interval between two reads of the ring buffer. At a million requests per second this is about 2 MB.
const PERIOD: Duration = Duration::from_millis(10);
/// Minimum interval between two frames. A killed recording loses at most the events since the last frame.
const FLUSH: Duration = Duration::from_secs(1);

/// Request for a recording for replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForReplay {
    /// Anonymise paths.
    pub anonymise: bool,
}

/// Counts of a recording for replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Captured {
    pub requests: u64,
    pub calls: u64,
    pub syncs: u64,
    pub uncaptured: Uncaptured,
}

/// A recording for replay in progress.
pub(crate) struct Capturing<'room> {
    probes: Capture<'room>,
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(ReplayWriter, Captured)>>,
}

impl<'room> Capturing<'room> {
    /// Creates the file and starts the capture.
    pub fn start(
        probes: Capture<'room>,
        (path, existing): &(PathBuf, Existing),
        asked: ForReplay,
        mut header: Header,
    ) -> Result<Self> {
        if asked.anonymise {
            hide(&mut header);
        }
        let file = ReplayWriter::create(path, &header, *existing)?;
        let names = asked.anonymise.then(Replacements::default);
        let writing = Writing { file, names, captured: Captured::default() };
        let (source, stop) = (probes.source()?, Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("capture".into()).spawn(move || writing.run(source, &until));
        let failed = |e| {
            Error::machine("cannot start a thread for the recording", "check the process limit: ulimit -u").because(e)
        };
        Ok(Self { probes, path: path.clone(), stop, thread: thread.map_err(failed)? })
    }

    /// Completes the file and returns its length.
    pub fn finish(mut self, end: End) -> (Result<(PathBuf, u64)>, Captured) {
        self.probes.detach();
        self.stop.store(true, Ordering::Release);
        let broken = |_| Err(Error::machine("the recording thread panicked", "report this"));
        match self.thread.join().unwrap_or_else(broken) {
            Ok((file, captured)) => (file.finish(&end).map(|bytes| (self.path, bytes)), captured),
            Err(e) => (Err(e), Captured::default()),
        }
    }
}

/// Reduces a command to its program's name.
fn hide(header: &mut Header) {
    if let Subject::Command { argv, .. } = &mut header.subject {
        argv.truncate(1);
        let name = argv.first().and_then(|path| Path::new(path).file_name()).map(|name| name.to_string_lossy().into());
        argv.iter_mut().zip(name).for_each(|(path, name)| *path = name);
    }
}

/// State of the writer thread.
struct Writing {
    file: ReplayWriter,
    names: Option<Replacements>,
    captured: Captured,
}

impl Writing {
    fn run(mut self, source: Source, stop: &AtomicBool) -> Result<(ReplayWriter, Captured)> {
        let events = source.open()?;
        let mut next_flush = Instant::now() + FLUSH;
        loop {
            // Read before the last poll of the ring buffer, so that this poll reads the last events.
            let is_last = stop.load(Ordering::Acquire);
            events.take(&mut |event| self.append(event))?;
            self.note(&events)?;
            if is_last {
                return Ok((self.file, self.captured));
            }
            if Instant::now() >= next_flush {
                self.file.flush()?;
                next_flush = Instant::now() + FLUSH;
            }
            std::thread::sleep(PERIOD);
        }
    }

    fn append(&mut self, mut event: ReplayEvent) -> Result<()> {
        match &mut event {
            ReplayEvent::Request(_) => self.captured.requests += 1,
            ReplayEvent::Call(_) => self.captured.calls += 1,
            ReplayEvent::Sync(_) => self.captured.syncs += 1,
            ReplayEvent::File(file) => {
                if let Some(names) = &mut self.names {
                    file.path = names.of(&file.path);
                }
            }
            ReplayEvent::Ring(_) | ReplayEvent::Lost { .. } => {}
        }
        self.file.push(&event)
    }

    fn note(&mut self, events: &Events) -> Result<()> {
        let now = events.uncaptured()?;
        let new = now.lost + now.narrow_calls - self.captured.uncaptured.lost - self.captured.uncaptured.narrow_calls;
        self.captured.uncaptured = now;
        if new > 0 { self.file.push(&ReplayEvent::Lost { events: new }) } else { Ok(()) }
    }
}

/// Numbers of the paths in order of their first event; a replacement keeps the path's extension.
#[derive(Default)]
struct Replacements(HashMap<String, usize>);

impl Replacements {
    fn of(&mut self, path: &str) -> String {
        let number = self.0.len();
        let number = *self.0.entry(path.to_owned()).or_insert(number);
        let extension = Path::new(path).extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
        format!("/file-{number}{extension}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_path_has_a_number_and_the_original_extension() {
        let mut names = Replacements::default();
        let paths = ["/home/x/secret.db", "/dev/vda", "/home/x/secret.db", "/y/secret.db"].map(|path| names.of(path));
        assert_eq!(paths, ["/file-0.db", "/file-1", "/file-0.db", "/file-2.db"]);
    }
}
