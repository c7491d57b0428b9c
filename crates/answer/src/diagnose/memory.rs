//! Buffers that concurrent requests share, or that are freed before their requests complete: no request fails, but the
//! data may be corrupt.

use super::{Check, Matter, RULE, Rule};
use iotrail_base::words::{bytes, plural};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::TraceRecord;

pub const OVERLAPPING_BUFFERS: Rule = Rule {
    code: "overlapping_buffers",
    about: "two in-flight reads of the same process wrote to the same memory; only unsampled reads without link or drain flags count (a note: a \
            program that discards its data may do so on purpose)",
    matter: Matter::Data,
    advice: "use a separate buffer for each in-flight read, or link the reads (IOSQE_IO_LINK) to order them",
    checks: &[Check::Trace(overlapping)],
    ..RULE
};

/// Concurrent reads into the same bytes. One pair is enough, because the cause is the program and not the load. Only a
/// note, because a program that discards its data may intend it.
fn overlapping(t: &TraceRecord) -> Option<Finding> {
    let memory = t.total.memory.as_ref()?;
    let first = memory.overlap.as_ref()?;
    let [one, other] = &first.user_data;
    // In a sample, concurrent requests may be untraced.
    let least = if t.total.followed.whole < t.total.followed.completions { "at least " } else { "" };
    let text = format!(
        "{least}{} wrote to the same memory as another in-flight read. The first two ({}, user_data {one} and {other}) share {}, and the order of \
         their writes is undefined",
        plural(memory.overlapping as usize, "read"),
        first.opcode,
        bytes(first.bytes)
    );
    let evidence = [("reads", memory.overlapping as f64), ("bytes", first.bytes as f64)];
    Some(Finding { ring: memory.ring, ..OVERLAPPING_BUFFERS.finding(Severity::Note, text, &evidence) })
}

pub const UNREGISTERED_IN_FLIGHT: Rule = Rule {
    code: "unregistered_in_flight",
    about: "a read_fixed or write_fixed was in flight when the program unregistered its ring's buffers. Before Linux 6.13 this finding cannot occur, \
            because unregistering waits for these requests",
    matter: Matter::Data,
    advice: "reap every request that uses a registered buffer before you unregister the buffer or free or reuse its memory",
    checks: &[Check::Trace(outlived)],
    ..RULE
};

/// Registered buffers that were unregistered while requests used them.
fn outlived(t: &TraceRecord) -> Option<Finding> {
    let memory = t.total.memory.as_ref().filter(|memory| memory.outlived > 0)?;
    let first = memory.outlived_user_data.as_deref().unwrap_or("unknown");
    let text = format!(
        "{} {} in flight when the program unregistered the ring's buffers (the first has user_data {first}). The kernel keeps the pages until these \
         requests complete, and reads still write to them",
        plural(memory.outlived as usize, "request"),
        if memory.outlived == 1 { "was" } else { "were" },
    );
    let evidence = [("requests", memory.outlived as f64)];
    Some(Finding { ring: memory.ring, ..UNREGISTERED_IN_FLIGHT.finding(Severity::Warning, text, &evidence) })
}
