//! Memory that requests in flight share with one another, or outlive: nothing fails, and the bytes may be wrong.

use super::{Check, Matter, RULE, Rule};
use iotrail_base::words::{bytes, plural};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::TraceRecord;

pub const OVERLAPPING_BUFFERS: Rule = Rule {
    code: "overlapping_buffers",
    about: "a read wrote where another read of the same process did that was in flight with it; of reads that were followed without \
            sampling, not linked and not drained (a note: a program that throws its data away may mean it)",
    matter: Matter::Data,
    advice: "give each read that is in flight a buffer of its own, or link them (IOSQE_IO_LINK) if one is to follow the other",
    checks: &[Check::Trace(overlapping)],
    ..RULE
};

/// Two reads into the same bytes at one time. One pair is enough: it is the program's own doing, whatever the load. A note, since a
/// program that throws its data away may mean it.
fn overlapping(t: &TraceRecord) -> Option<Finding> {
    let memory = t.total.memory.as_ref()?;
    let first = memory.overlap.as_ref()?;
    let [one, other] = &first.user_data;
    // Of a sample, neighbours are not known.
    let least = if t.total.followed.whole < t.total.followed.completions { "at least " } else { "" };
    let text = format!(
        "{least}{} ended in memory that another read in flight wrote too: the first two ({}, user_data {one} and {other}) share {}, and which \
         one's data is there is chance",
        plural(memory.overlapping as usize, "read"),
        first.opcode,
        bytes(first.bytes)
    );
    let evidence = [("reads", memory.overlapping as f64), ("bytes", first.bytes as f64)];
    Some(Finding { ring: memory.ring, ..OVERLAPPING_BUFFERS.finding(Severity::Note, text, &evidence) })
}

pub const UNREGISTERED_IN_FLIGHT: Rule = Rule {
    code: "unregistered_in_flight",
    about: "a read_fixed or write_fixed was in flight when its ring's buffers were unregistered. Before Linux 6.13 that call waits for them, \
            and none is",
    matter: Matter::Data,
    advice: "reap every request that uses a registered buffer before unregistering it, and before its memory is freed or used again",
    checks: &[Check::Trace(outlived)],
    ..RULE
};

/// Registered buffers were given back while requests used them.
fn outlived(t: &TraceRecord) -> Option<Finding> {
    let memory = t.total.memory.as_ref().filter(|memory| memory.outlived > 0)?;
    let first = memory.outlived_user_data.as_deref().unwrap_or("unknown");
    let text = format!(
        "{} {} in flight when the ring's buffers were unregistered (the first has user_data {first}): the kernel keeps the pages until \
         they end, and reads go on writing there",
        plural(memory.outlived as usize, "request"),
        if memory.outlived == 1 { "was" } else { "were" },
    );
    let evidence = [("requests", memory.outlived as f64)];
    Some(Finding { ring: memory.ring, ..UNREGISTERED_IN_FLIGHT.finding(Severity::Warning, text, &evidence) })
}
