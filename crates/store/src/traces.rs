//! Traces: a row is inserted at the start and the record at the end; meanwhile, checkpoints are in a file next to the
//! store.
//!
//! Checkpoints are not in the store because a commit waits for the disk, which may be the traced program's disk.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, OptionalExtension as _, Row, Transaction, params};

use super::Store;
use super::refusal::explain;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::locked::{Locked, lock, sign};
use iotrail_schema::stored_trace::{StoredTrace, TraceState, cut_short, id};
use iotrail_schema::trace_record::TraceRecord;

/// Maximum number of traces in a store; the oldest are removed first.
pub const MOST: u64 = 500;
/// Maximum total size of their records in bytes.
pub const MOST_BYTES: u64 = 256 << 20;

/// A trace that begins.
#[derive(Debug, Clone)]
pub struct NewTrace {
    pub started_unix_s: u64,
    pub subject: String,
    pub hostname: String,
    pub kernel: String,
    /// The file specified by `--record`.
    pub recording: Option<String>,
}

/// A trace that has ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedTrace<'a> {
    pub record: &'a TraceRecord,
    pub answer: &'a str,
    /// The slowest requests, in the recording format.
    pub slowest: Option<&'a [u8]>,
}

/// A trace with its record.
#[derive(Debug, Clone)]
pub struct LoadedTrace {
    pub summary: StoredTrace,
    /// `None` if the trace is still running, or was killed before its first checkpoint.
    pub record: Option<TraceRecord>,
}

/// A trace in progress in this process. A locked file next to the store shows other processes that it is still running.
#[derive(Debug)]
pub struct Tracing {
    pub number: i64,
    file: PathBuf,
    _locked: File,
}

impl Tracing {
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints { file: self.file.clone() }
    }
}

/// The file with a trace's latest checkpoint. A separate thread writes it, because a write may wait for a disk that the
/// traced program uses.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    /// The trace's locked file.
    file: PathBuf,
}

impl Checkpoints {
    /// Replaces the last checkpoint.
    pub fn replace(&self, record: &TraceRecord) -> std::io::Result<()> {
        let new = with_suffix(&self.file, ".new");
        let mut out = BufWriter::new(File::create(&new)?);
        serde_json::to_writer(&mut out, record)?;
        out.into_inner()?;
        fs::rename(new, checkpoint_of(&self.file))
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        remove(&self.file);
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn checkpoint_of(file: &Path) -> PathBuf {
    with_suffix(file, ".json")
}

/// Removes the files. The next reader removes leftover files, which belong to no process.
fn remove(file: &Path) {
    for path in [checkpoint_of(file), with_suffix(file, ".new"), file.to_owned()] {
        fs::remove_file(path).unwrap_or(());
    }
}

const COLUMNS: &str = "trace, state, datetime(started_unix_s, 'unixepoch'), started_unix_s, subject, hostname, kernel, bytes, answer, recording";

fn summary(row: &Row<'_>) -> rusqlite::Result<(i64, StoredTrace)> {
    let number: i64 = row.get(0)?;
    let state: String = row.get(1)?;
    let summary = StoredTrace {
        trace: id(number),
        state: TraceState::ALL.into_iter().find(|s| s.name() == state).unwrap_or(TraceState::Partial),
        started: row.get(2)?,
        started_unix_s: row.get::<_, i64>(3)? as u64,
        subject: row.get(4)?,
        hostname: row.get(5)?,
        kernel: row.get(6)?,
        bytes: row.get::<_, i64>(7)? as u64,
        answer: row.get(8)?,
        recording: row.get(9)?,
    };
    Ok((number, summary))
}

impl Store {
    fn trace_file(&self, trace: i64) -> PathBuf {
        with_suffix(&self.path, &format!(".trace-{trace}"))
    }

    /// Stores a trace before its first event.
    pub fn begin_trace(&mut self, new: &NewTrace) -> Result<Tracing> {
        let fail = |e| explain(&self.path, e);
        let sql = "INSERT INTO traces (state, started_unix_s, subject, hostname, kernel, bytes, recording)
                   VALUES ('running', ?1, ?2, ?3, ?4, 0, ?5)";
        // Holds the write lock until the file is locked, otherwise another process would regard the trace as killed.
        let tx = self.db.transaction().map_err(fail)?;
        tx.execute(sql, params![new.started_unix_s as i64, new.subject, new.hostname, new.kernel, new.recording])
            .map_err(fail)?;
        let number = tx.last_insert_rowid();
        let file = with_suffix(&self.path, &format!(".trace-{number}"));
        let refused = |e| {
            Error::machine(format!("cannot write {}", file.display()), "check the permissions of the store's directory")
                .because(e)
        };
        let locked = match lock(&file).map_err(refused)? {
            Locked::Ours(locked) => locked,
            Locked::Others(_) => {
                return Err(refused(std::io::ErrorKind::ResourceBusy.into()));
            }
        };
        sign(&locked).map_err(refused)?;
        tx.commit().map_err(fail)?;
        Ok(Tracing { number, file, _locked: locked })
    }

    /// Stores a trace's record, and removes the oldest traces beyond the limits.
    pub fn end_trace(&mut self, tracing: Tracing, ended: EndedTrace<'_>) -> Result<()> {
        self.end_trace_within(tracing, ended, MOST, MOST_BYTES)
    }

    pub(super) fn end_trace_within(
        &mut self,
        tracing: Tracing,
        ended: EndedTrace<'_>,
        most: u64,
        most_bytes: u64,
    ) -> Result<()> {
        let stored = (|| {
            let tx = self.db.transaction()?;
            set_record(&tx, tracing.number, TraceState::Complete, Some(ended))?;
            retain(&tx, tracing.number, most, most_bytes)?;
            tx.commit()
        })();
        stored.map_err(|e| self.fail(e))
    }

    /// Removes a trace and its files.
    pub fn forget_trace(&mut self, tracing: Tracing) -> Result<()> {
        self.db.execute("DELETE FROM traces WHERE trace = ?1", [tracing.number]).map(drop).map_err(|e| self.fail(e))
    }

    /// All traces, oldest first.
    pub fn traces(&mut self) -> Result<Vec<StoredTrace>> {
        self.close_cut_traces()?;
        let fail = |e| self.fail(e);
        let mut query = self.db.prepare(&format!("SELECT {COLUMNS} FROM traces ORDER BY trace")).map_err(fail)?;
        let rows = query.query_map([], summary).map_err(fail)?;
        rows.map(|row| row.map(|(_, summary)| summary).map_err(fail)).collect()
    }

    /// A trace with its record; `None` if it does not exist.
    pub fn trace(&mut self, trace: i64) -> Result<Option<LoadedTrace>> {
        self.close_cut_traces()?;
        let sql = format!("SELECT {COLUMNS}, record FROM traces WHERE trace = ?1");
        let found = self.db.query_row(&sql, [trace], |row| Ok((summary(row)?, row.get::<_, Option<String>>(10)?)));
        let Some(((_, summary), text)) = found.optional().map_err(|e| self.fail(e))? else { return Ok(None) };
        let record = text.map(|text| self.parsed(&text, &summary.trace)).transpose()?;
        Ok(Some(LoadedTrace { summary, record }))
    }

    /// Whether this number belonged to a trace that was removed.
    pub fn had_trace(&self, trace: i64) -> Result<bool> {
        // SQLite keeps the largest number that a table with AUTOINCREMENT has assigned.
        let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'traces' AND ?1 BETWEEN 1 AND seq)
                   AND NOT EXISTS (SELECT 1 FROM traces WHERE trace = ?1)";
        self.db.query_row(sql, [trace], |row| row.get(0)).map_err(|e| self.fail(e))
    }

    /// A trace's slowest requests in the recording format; `None` if there are none.
    pub fn slowest(&self, trace: i64) -> Result<Option<Vec<u8>>> {
        let found = self.db.query_row("SELECT slowest FROM traces WHERE trace = ?1", [trace], |row| row.get(0));
        Ok(found.optional().map_err(|e| self.fail(e))?.flatten())
    }

    /// Turns traces of killed processes into partial ones, using their latest checkpoints.
    fn close_cut_traces(&mut self) -> Result<()> {
        let running = {
            let fail = |e| self.fail(e);
            let mut query = self.db.prepare("SELECT trace FROM traces WHERE state = 'running'").map_err(fail)?;
            let rows = query.query_map([], |row| row.get::<_, i64>(0)).map_err(fail)?;
            rows.collect::<rusqlite::Result<Vec<_>>>().map_err(fail)?
        };
        for trace in running {
            let file = self.trace_file(trace);
            // A read-only store is not modified.
            let Ok(Locked::Ours(_locked)) = lock(&file) else { continue };
            let record: Option<TraceRecord> =
                fs::read(checkpoint_of(&file)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let record = record.map(|mut record| {
                record.total.warnings.insert(0, cut_short(record.total.elapsed_ns));
                record
            });
            let closed = (|| {
                let tx = self.db.transaction()?;
                let ended = record.as_ref().map(|record| EndedTrace {
                    record,
                    answer: &record.total.warnings[0].text,
                    slowest: None,
                });
                set_record(&tx, trace, TraceState::Partial, ended)?;
                tx.commit()
            })();
            match closed {
                Ok(()) => remove(&file),
                Err(e) if e.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {}
                Err(e) => return Err(self.fail(e)),
            }
        }
        Ok(())
    }

    fn parsed(&self, text: &str, trace: &str) -> Result<TraceRecord> {
        serde_json::from_str(text).or_input(
            format_args!("trace {trace} in {} cannot be read", self.path.display()),
            "use the version of iotrail that wrote it, or specify another store with --store",
        )
    }
}

/// Does not modify a trace that has ended meanwhile.
fn set_record(
    tx: &Transaction<'_>,
    trace: i64,
    state: TraceState,
    ended: Option<EndedTrace<'_>>,
) -> rusqlite::Result<()> {
    let text = ended.map(|ended| serde_json::to_string(ended.record)).transpose();
    let text = text.map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    let slowest = ended.and_then(|ended| ended.slowest);
    let bytes = text.as_ref().map_or(0, String::len) + slowest.map_or(0, <[u8]>::len);
    let sql = "UPDATE traces SET state = ?2, bytes = ?3, answer = ?4, slowest = ?5, record = ?6
               WHERE trace = ?1 AND state = 'running'";
    tx.execute(sql, params![trace, state.name(), bytes as i64, ended.map(|ended| ended.answer), slowest, text])
        .map(drop)
}

/// Removes the oldest traces, but keeps the trace that has just ended and running ones.
fn retain(tx: &Transaction<'_>, ended: i64, most: u64, most_bytes: u64) -> rusqlite::Result<()> {
    tx.execute(
        "DELETE FROM traces WHERE trace < ?1 AND state <> 'running' AND trace IN (
           SELECT trace FROM (
             SELECT trace, count(*) OVER newer AS traces, sum(bytes) OVER newer AS total
             FROM traces WINDOW newer AS (ORDER BY trace DESC)
           ) WHERE traces > ?2 OR total > ?3)",
        params![ended, most as i64, most_bytes as i64],
    )
    .map(drop)
}

#[cfg(test)]
#[path = "traces_tests.rs"]
mod tests;
