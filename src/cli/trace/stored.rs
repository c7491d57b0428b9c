//! Stores a trace. An unwritable store causes a warning but never fails the trace.

use std::path::Path;
use std::thread::JoinHandle;

use iotrail_answer::diagnose;
use iotrail_base::error::{Error, Result};
use iotrail_report::terminal;
use iotrail_schema::stored_trace::{self, redacted, words};
use iotrail_schema::trace_record::{Subject, TraceRecord};
use iotrail_store::traces::{EndedTrace, NewTrace, Tracing};
use iotrail_store::{Store, default_path};
use iotrail_watch::recorder::Flight;

/// Number of slowest requests stored with a trace if neither --record nor --slowest is specified.
pub const SLOWEST: usize = 20;
/// Maximum size of these requests in bytes; the file of --record has no limit.
const MOST_BYTES: usize = 16 << 20;

/// A trace that is being stored.
pub struct Storing {
    store: Store,
    tracing: Tracing,
    redact: bool,
    /// The thread that is writing a checkpoint, or wrote the last one.
    writing: Option<JoinHandle<std::io::Result<()>>>,
    /// A checkpoint failed, so no more are attempted.
    has_failed: bool,
}

impl Storing {
    pub fn begin(path: Option<&Path>, subject: &Subject, redact: bool, recording: Option<&Path>) -> Result<Self> {
        let path = path.map_or_else(default_path, |path| Ok(path.to_owned()))?;
        let mut store = Store::create_or_open(&path)?;
        let host = iotrail_host::facts(None)?;
        let recording = recording.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
        let new = NewTrace {
            started_unix_s: iotrail_host::clock::unix_s(),
            subject: if redact { words(&redacted(subject)) } else { words(subject) },
            hostname: host.hostname,
            kernel: host.kernel,
            recording: recording.map(|file| file.display().to_string()),
        };
        match store.begin_trace(&new) {
            Ok(tracing) => Ok(Self { store, tracing, redact, writing: None, has_failed: false }),
            Err(e) => {
                store.abandon();
                Err(e)
            }
        }
    }

    /// The trace's name: `t12`.
    pub fn id(&self) -> String {
        stored_trace::id(self.tracing.number)
    }

    /// A separate thread writes the checkpoint; it is skipped while the previous one is still being written.
    pub fn checkpoint(&mut self, mut record: TraceRecord) {
        if self.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
            return;
        }
        self.written();
        if self.has_failed {
            return;
        }
        self.redact(&mut record);
        let checkpoints = self.tracing.checkpoints();
        let write = move || {
            record.findings = diagnose::findings(&record);
            checkpoints.replace(&record)
        };
        self.writing =
            std::thread::Builder::new().name("checkpoint".into()).spawn(write).map_err(|e| self.failed(&e)).ok();
    }

    /// Waits for the writing thread.
    fn written(&mut self) {
        match self.writing.take().map(JoinHandle::join) {
            Some(Ok(Err(e))) => self.failed(&e),
            Some(Err(_)) => self.failed(&std::io::Error::other("the thread panicked")),
            Some(Ok(Ok(()))) | None => {}
        }
    }

    fn failed(&mut self, e: &std::io::Error) {
        self.has_failed = true;
        terminal::say(&format!("iotrail: warning: no checkpoints of this trace are stored: {e}"));
    }

    fn redact(&self, record: &mut TraceRecord) {
        if self.redact {
            record.subject = redacted(&record.subject);
        }
    }

    /// The trace's name; `None` if it could not be stored, after printing a warning.
    pub fn end(mut self, record: &TraceRecord, answer: &str, slowest: Option<&Flight>) -> Option<String> {
        let id = self.id();
        self.written();
        let slowest = slowest.filter(|flight| !flight.entries.is_empty()).map(|flight| {
            let mut flight = flight.clone();
            if self.redact {
                flight.header.subject = redacted(&flight.header.subject);
            }
            flight.to_bytes()
        });
        let stored = slowest.transpose().and_then(|slowest| {
            let slowest = slowest.as_deref().filter(|bytes| bytes.len() <= MOST_BYTES);
            let mut record = record.clone();
            self.redact(&mut record);
            self.store.end_trace(self.tracing, EndedTrace { record: &record, answer, slowest })
        });
        stored.map(|()| id).map_err(|e| warn(&e)).ok()
    }

    /// Called if the trace failed: removes it.
    pub fn forget(mut self) {
        self.written();
        let Self { mut store, tracing, .. } = self;
        if let Err(e) = store.forget_trace(tracing) {
            warn(&e);
        }
        store.abandon();
    }
}

pub fn warn(e: &Error) {
    terminal::say(&format!("iotrail: warning: the trace is not stored: {e}"));
}
