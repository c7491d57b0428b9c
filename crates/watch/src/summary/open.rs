//! Requests in flight at the end.

use crate::files::Names;
use iotrail_probe::rings::{OpenCounts, RingCounts};
use iotrail_schema::trace_record::OpenRecord;

/// `None` if all of them completed with a full CQ, since such a completion does not name its request.
pub(super) fn open(counts: &OpenCounts, rings: &[RingCounts], files: &Names) -> Option<OpenRecord> {
    let of = rings.iter().find(|r| Some(r.ring) == counts.ring);
    let of = of.and_then(|r| r.opcodes.iter().find(|o| o.opcode == counts.opcode));
    // From the counts. A ring older than the trace also completes requests that were not counted.
    let in_flight = of.map(|o| (o.requests + o.more).saturating_sub(o.completions).max(counts.multishot));
    let at_most = in_flight.unwrap_or(u64::MAX);
    (at_most > 0).then(|| OpenRecord {
        ring: counts.ring,
        tgid: counts.tgid,
        opcode: counts.opcode.clone(),
        course: counts.course,
        requests: counts.requests.min(at_most),
        estimated: counts.estimated.min(at_most),
        multishot: counts.multishot,
        closed: counts.closed,
        oldest_ns: counts.oldest_ns,
        user_data: format!("{:#x}", counts.user_data),
        descriptor: counts.descriptor.map(|d| d.to_string()),
        file: files.of_open(counts.tgid, counts.file, counts.descriptor),
    })
}
