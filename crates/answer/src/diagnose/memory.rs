//! Memory that requests in flight share with one another, or outlive: nothing fails, and the bytes may be wrong.

use iotrail_base::words::{bytes, plural};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::TraceRecord;

/// Two reads into the same bytes at one time. One pair is enough: it is the program's own doing, whatever the load. A note, since a
/// program that throws its data away may mean it.
pub fn overlapping(t: &TraceRecord) -> Option<Finding> {
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
    let remedy = "give each read that is in flight a buffer of its own, or link them (IOSQE_IO_LINK) if one is to follow the other";
    let evidence = [("reads", memory.overlapping as f64), ("bytes", first.bytes as f64)];
    let mut f = Finding::new("overlapping_buffers", Severity::Note, text, remedy, &evidence);
    f.ring = memory.ring;
    Some(f)
}

/// Registered buffers were given back while requests used them.
pub fn outlived(t: &TraceRecord) -> Option<Finding> {
    let memory = t.total.memory.as_ref().filter(|memory| memory.outlived > 0)?;
    let first = memory.outlived_user_data.as_deref().unwrap_or("unknown");
    let text = format!(
        "{} {} in flight when the ring's buffers were unregistered (the first has user_data {first}): the kernel keeps the pages until \
         they end, and reads go on writing there",
        plural(memory.outlived as usize, "request"),
        if memory.outlived == 1 { "was" } else { "were" },
    );
    let remedy = "reap every request that uses a registered buffer before unregistering it, and before its memory is freed or used again";
    let evidence = [("requests", memory.outlived as f64)];
    let mut f = Finding::new("unregistered_in_flight", Severity::Warning, text, remedy, &evidence);
    f.ring = memory.ring;
    Some(f)
}
