//! A recording's individual requests: as a table (CSV), and as fio's I/O log, which `fio --read_iolog` replays.

use std::collections::HashMap;
use std::io::{self, Write};

use super::csv::written;
use super::table::Field;
use iotrail_path::multishot::Multishot;
use iotrail_schema::opcode;
use iotrail_schema::recorded::{End, Entry};
use iotrail_schema::trail::{RequestTrace, Stamp};
use serde_json::Value;

/// Column name and JSON pointer.
const COLUMNS: [(&str, &str); 26] = [
    ("ring", "/ring"),
    ("process", "/tgid"),
    ("thread", "/tid"),
    ("opcode", "/opcode"),
    ("user_data", "/user_data"),
    ("asked_bytes", "/asked_bytes"),
    ("offset_bytes", "/offset"),
    ("result", "/result"),
    ("more", "/more"),
    ("notification", "/notification"),
    ("weight", "/weight"),
    ("enter_batch", "/enter_batch"),
    ("punted", "/punted"),
    ("submitted_ns", "/submitted/ns"),
    ("submitted_cpu", "/submitted/cpu"),
    ("issued_ns", "/issued/ns"),
    ("ready_ns", "/ready/ns"),
    ("ready_cpu", "/ready/cpu"),
    ("queued_ns", "/queued/ns"),
    ("posted_ns", "/posted/ns"),
    ("posted_cpu", "/posted/cpu"),
    ("course", "/course"),
    ("block_requests", "/block_requests"),
    ("delivery_path", "/vehicle"),
    ("detail", "/detail"),
    ("run_items", "/run_items"),
];

/// One row per completion, in recording order. Timestamps are CLOCK_MONOTONIC.
pub struct Table<'a, W: Write> {
    out: csv::Writer<W>,
    end: Option<&'a End>,
    multishot: Multishot,
    rows: u64,
}

impl<'a, W: Write> Table<'a, W> {
    /// `end` contains the file names, if known.
    pub fn new(out: W, end: Option<&'a End>) -> io::Result<Self> {
        let mut out = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
        let names = COLUMNS.iter().map(|(name, _)| *name);
        out.write_record(names.chain(["file", "latency_ns", "delivery_delay_ns"])).map_err(io::Error::from)?;
        Ok(Self { out, end, multishot: Multishot::default(), rows: 0 })
    }

    pub fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let (trail, later) = match entry {
            Entry::Trail(trail) => (trail, false),
            Entry::Later(trail) => (trail, true),
            Entry::Losses(_) => return Ok(()),
        };
        // Multishot requests have no latency.
        let is_whole = !later && !self.multishot.is_later(trail) && trail.is_last_result();
        let json = serde_json::to_value(trail)?;
        for (_, at) in COLUMNS {
            self.out.write_field(written(&field(json.pointer(at)))).map_err(io::Error::from)?;
        }
        let file = self.end.and_then(|end| end.file_of(trail)).map_or(Field::Unknown, Field::Text);
        let number = |ns: Option<u64>| ns.map_or(Field::Unknown, |ns| Field::Integer(ns as i64));
        let delay = trail.ready.map(|Stamp { ns, .. }| trail.posted.ns.saturating_sub(ns));
        let rest = [file, number(is_whole.then(|| trail.latency_ns())), number(delay)];
        self.out.write_record(rest.iter().map(written)).map_err(io::Error::from)?;
        self.rows += 1;
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.rows)
    }
}

pub(super) fn field(value: Option<&Value>) -> Field {
    match value {
        None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => Field::Unknown,
        Some(Value::Bool(yes)) => Field::Flag(*yes),
        Some(Value::String(text)) => Field::Text(text.clone()),
        // User data may use all 64 bits, which a signed integer cannot represent.
        Some(Value::Number(n)) => n.as_i64().map_or_else(|| Field::Text(n.to_string()), Field::Integer),
    }
}

/// Submission, file, operation, offset, length.
type Logged = (u64, u32, &'static str, u64, u64);

/// fio's I/O log, version 3: reads, writes and syncs of regular files and block devices, by submission time.
pub struct IoLog<'a> {
    end: &'a End,
    requests: Vec<Logged>,
    /// Files in order of first use, and each file's index.
    files: Vec<&'a str>,
    places: HashMap<&'a str, u32>,
    /// Requests that the log format cannot express.
    pub left_out: u64,
}

impl<'a> IoLog<'a> {
    pub fn new(end: &'a End) -> Self {
        Self { end, requests: Vec::new(), files: Vec::new(), places: HashMap::new(), left_out: 0 }
    }

    pub fn entry(&mut self, entry: &Entry) {
        if let Entry::Trail(trail) = entry {
            match self.request(trail) {
                Some(request) => self.requests.push(request),
                None => self.left_out += 1,
            }
        }
    }

    fn request(&mut self, trail: &RequestTrace) -> Option<Logged> {
        let is = |what| opcode::is(&trail.opcode, what);
        let (action, offset, bytes) = match () {
            () if is(opcode::READS) => ("read", trail.offset?, trail.asked_bytes?),
            () if is(opcode::WRITES) => ("write", trail.offset?, trail.asked_bytes?),
            // fio's log cannot express a sync range.
            () if is(opcode::SYNCS) && trail.opcode != "sync_file_range" => ("sync", 0, 0),
            () => return None,
        };
        // fio splits at blanks and requires absolute paths.
        let path = self.end.named(trail)?.path.as_str();
        if !path.starts_with('/') || path.contains(char::is_whitespace) {
            return None;
        }
        let file = *self.places.entry(path).or_insert_with(|| {
            self.files.push(path);
            self.files.len() as u32 - 1
        });
        Some((trail.submitted.ns, file, action, offset, bytes))
    }

    /// Returns the number of requests in the log.
    pub fn write(&mut self, mut out: impl Write) -> io::Result<usize> {
        self.requests.sort_unstable();
        let begin = self.requests.first().map_or(0, |first| first.0);
        let last = self.requests.last().map_or(0, |last| (last.0 - begin) / 1000);
        writeln!(out, "fio version 3 iolog")?;
        for file in &self.files {
            writeln!(out, "0 {file} add\n0 {file} open")?;
        }
        for (ns, file, action, offset, bytes) in &self.requests {
            writeln!(out, "{} {} {action} {offset} {bytes}", (ns - begin) / 1000, self.files[*file as usize])?;
        }
        for file in &self.files {
            writeln!(out, "{last} {file} close")?;
        }
        out.flush()?;
        Ok(self.requests.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trail_example::trail;

    #[test]
    fn only_requests_with_a_single_completion_have_a_latency() {
        let of = |opcode: &str, user_data: u64, more: bool, notification: bool| {
            Entry::Trail(RequestTrace { opcode: opcode.into(), user_data, more, notification, ..trail() })
        };
        let all = [
            of("recv", 1, true, false),
            of("read", 2, false, false),
            of("recv", 1, true, false),
            of("send_zc", 3, true, false),
            of("send_zc", 3, false, true),
            of("recv", 1, false, false),
        ];
        let mut bytes = Vec::new();
        let mut table = Table::new(&mut bytes, None).unwrap();
        all.iter().for_each(|entry| table.entry(entry).unwrap());
        assert_eq!(table.finish().unwrap(), 6);
        let mut rows = csv::Reader::from_reader(&bytes[..]);
        let at = rows.headers().unwrap().iter().position(|name| name == "latency_ns").unwrap();
        let known: Vec<bool> = rows.records().map(|row| !row.unwrap()[at].is_empty()).collect();
        assert_eq!(known, [false, true, false, true, false, false]);
    }
}
