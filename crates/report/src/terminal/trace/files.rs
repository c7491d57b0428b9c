//! Files of the traced requests.

use crate::terminal::layout::{Column, Screen};
use crate::terminal::measured;
use iotrail_base::plain::sanitise;
use iotrail_base::words::{UNKNOWN, bytes, count, known_span, plural, span};
use iotrail_schema::opcode;
use iotrail_schema::trace_record::{Estimate, FileRecord, FileRequests, Total};

/// Maximum number of files listed.
const FILES: usize = 8;

/// Files of the traced requests, busiest first.
pub fn files(o: &mut Screen, total: &Total) {
    if total.files.is_empty() {
        return;
    }
    let number = Column::number;
    let columns = [
        Column::words("file", FILE_WIDTH as u16),
        number("reads", 6),
        number("bytes", 8),
        number("writes", 6),
        number("bytes", 8),
        number("other", 6),
        number("mean", 7),
        number("p99", 7),
    ];
    // Untraced requests may have used the file.
    let none = if total.followed.is_estimate() { UNKNOWN } else { "0" };
    let about = |of: Estimate, words: fn(f64) -> String| measured::total(words(of.total), of.total, Some(of.ci95));
    let requests = |r: &Option<FileRequests>| r.map_or(none.into(), |r| about(r.requests, |n| count(n.round())));
    let moved = |r: &Option<FileRequests>| {
        r.and_then(|r| r.bytes)
            .filter(|b| b.total > 0.0)
            .map_or(String::new(), |b| about(b, |n| bytes(n.round() as u64)))
    };
    let row = |f: &FileRecord| {
        vec![
            file_name(f),
            requests(&f.reads),
            moved(&f.reads),
            requests(&f.writes),
            moved(&f.writes),
            requests(&f.others),
            f.latency_ns.mean.map_or(String::new(), span),
            known_span(f.latency_ns.p99),
        ]
    };
    // Summarising a single file would take the same space but hide its details.
    let shown = if total.files.len() > FILES + 1 { FILES } else { total.files.len() };
    if !o.as_str().ends_with("\n\n") {
        o.blank();
    }
    o.table(&columns, total.files[..shown].iter().map(row).collect());
    let rest = &total.files[shown..];
    let n = rest.len() as u64 + total.other_files.map_or(0, |others| others.files);
    if n > 0 {
        let sorts =
            |f: &FileRecord| [f.reads, f.writes, f.others].into_iter().flatten().map(|r| r.requests.total).sum::<f64>();
        let requests: f64 = rest.iter().map(sorts).sum::<f64>() + total.other_files.map_or(0.0, |o| o.requests.total);
        o.line(&format!("{}: {} requests", plural(n as usize, "other"), count(requests.round())));
    }
    if total.followed.is_estimate() {
        o.line("(estimated from the traced requests; opcodes are counted)");
        o.line(&format!("({UNKNOWN}: no or few requests were traced; files without a traced request are missing)"));
    } else if total.opcodes.iter().flat_map(|op| &op.errnos).any(|e| e.user_data.is_none()) {
        o.line("(requests rejected at submission have no file)");
    }
    if total.opcodes.iter().any(|op| opcode::is(&op.opcode, opcode::SPLICES) && op.requests > 0) {
        o.line("(splice and tee count for the file that they write, not for their source)");
    }
    o.blank();
}

/// Width of a file name.
const FILE_WIDTH: usize = 24;

/// Keeps the end of the path, which identifies the file.
fn file_name(f: &FileRecord) -> String {
    let named = match (&f.path, f.descriptors.as_slice()) {
        (Some(path), _) => sanitise(path),
        (None, [one]) => format!("{} ({one})", f.kind.name()),
        (None, _) => f.kind.name().into(),
    };
    let deleted = if f.deleted { " (del)" } else { "" };
    let room = FILE_WIDTH - deleted.len();
    let letters = named.chars().count();
    if letters <= room {
        return named + deleted;
    }
    let end: String = named.chars().skip(letters - (room - 1)).collect();
    // Cuts at a slash if that keeps most of the path.
    let from = end.find('/').filter(|at| *at < end.len() / 2).unwrap_or(0);
    format!("…{}{deleted}", &end[from..])
}
