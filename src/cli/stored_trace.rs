//! A trace specified on the command line: its name in the store (`t12`), or a JSON file from `trace --json`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::given::{LONGEST, open, unreadable};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::input;
use iotrail_schema::stored_trace::{TraceState, id, number};
use iotrail_schema::trace_record::{SCHEMA, TraceRecord};
use iotrail_store::{Store, named as store_named};
use iotrail_watch::recording::Reader;

/// Bytes at the start of a file that are searched for a schema.
const BEGINNING: u64 = 4096;

pub struct NamedTrace {
    /// `t12`, or the file's name.
    pub name: String,
    /// Its number in the store.
    pub number: Option<i64>,
    pub record: TraceRecord,
    /// The command that prints the trace again.
    pub again: String,
}

/// The record as JSON, with its name in the store.
#[derive(Serialize)]
pub struct PrintedTrace<'a> {
    /// Its name in the store; omitted if it is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<&'a str>,
    #[serde(flatten)]
    pub record: &'a TraceRecord,
}

impl NamedTrace {
    pub fn printed(&self) -> PrintedTrace<'_> {
        PrintedTrace { trace: self.number.map(|_| self.name.as_str()), record: &self.record }
    }
}

/// `None` if `text` does not refer to a trace.
pub fn named(text: &str, store: Option<&Path>) -> Result<Option<NamedTrace>> {
    if let Some(number) = number(text) {
        let record = loaded(&mut store_of(number, store)?, number)?;
        let again = format!("iotrail report {text}{}", store_named(store));
        return Ok(Some(NamedTrace { name: text.to_owned(), number: Some(number), record, again }));
    }
    let path = Path::new(text);
    if !is_trace(path) {
        return Ok(None);
    }
    let text_of = input::text(path, LONGEST).map_err(|e| unreadable(path, e))?;
    let record = serde_json::from_str(&text_of)
        .or_input(format_args!("{text} is not a readable trace"), "use the version of iotrail that wrote it")?;
    let name = path.file_name().map_or_else(|| text.to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(Some(NamedTrace { name, number: None, record, again: format!("iotrail report {text}") }))
}

pub fn names_one(text: &str) -> bool {
    number(text).is_some() || is_trace(Path::new(text))
}

/// An unreadable file is left for the other readers to reject.
fn is_trace(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let is_file = path.is_file();
    let read = is_file.then(|| std::fs::File::open(path)?.take(BEGINNING).read_to_end(&mut beginning));
    let schema = format!("\"{SCHEMA}\"");
    matches!(read, Some(Ok(_))) && beginning.windows(schema.len()).any(|part| part == schema.as_bytes())
}

fn store_of(trace: i64, path: Option<&Path>) -> Result<Store> {
    open(path, &format!("no trace {}", id(trace)))
}

fn loaded(store: &mut Store, trace: i64) -> Result<TraceRecord> {
    let found = store.trace(trace)?.ok_or_else(|| unknown(store, trace))?;
    found.record.ok_or_else(|| match found.summary.state {
        TraceState::Running => Error::input(format!("trace {} is still running", id(trace)), "wait until it ends"),
        _ => Error::input(
            format!("trace {} has no record: iotrail was killed before its first checkpoint", id(trace)),
            "trace again",
        ),
    })
}

fn unknown(store: &Store, trace: i64) -> Error {
    let (trace_id, path) = (id(trace), store.path().display());
    let what = match store.had_trace(trace) {
        Err(e) => return e,
        Ok(true) => format!("trace {trace_id} was removed from {path}, which keeps only the newest traces"),
        Ok(false) => format!("no trace {trace_id} in {path}"),
    };
    Error::input(what, "`iotrail list` shows the stored traces")
}

/// A trace's recorded requests, and the name of their recording.
pub fn requests(trace: i64, path: Option<&Path>) -> Result<(Reader, String)> {
    let mut store = store_of(trace, path)?;
    let found = store.trace(trace)?.ok_or_else(|| unknown(&store, trace))?;
    if let Some(recording) = found.summary.recording {
        return Ok((Reader::open(&PathBuf::from(&recording))?, recording));
    }
    let bytes = store.slowest(trace)?.or_input(
        format_args!("no requests of trace {} are stored", id(trace)),
        "only requests of io_uring are recorded; trace again with --record FILE or --slowest K",
    )?;
    Ok((Reader::of_bytes(&bytes, &id(trace))?, id(trace)))
}
