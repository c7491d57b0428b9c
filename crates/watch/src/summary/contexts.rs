//! Records of native and POSIX AIO contexts, and of contexts without their own record.

use super::part::Part;
use iotrail_probe::rings::{ContextCounts, OpcodeCounts, OtherCounts};
use iotrail_schema::trace_record::{ContextRecord, OthersRecord};

pub(super) fn context(counts: &ContextCounts, part: &Part, one_in: u32) -> ContextRecord {
    let sum = |f: fn(&OpcodeCounts) -> u64| counts.opcodes.iter().map(f).sum::<u64>();
    let completions = counts.vehicles.iter().map(|v| v.completions).sum();
    let reaped = sum(|o| o.completions);
    let of_results = |n| (reaped > 0 || completions == 0).then_some(n);
    // Results of requests with unobserved submissions may not be byte counts.
    let of_known = counts.opcodes.iter().all(|o| o.opcode != "unknown" || o.completions == 0);
    ContextRecord {
        context: counts.context,
        interface: counts.kind.name().into(),
        tgid: counts.tgid,
        comm: counts.comm.clone(),
        entries: counts.entries,
        found: counts.found,
        requests: sum(|o| o.requests),
        completions,
        reaped,
        bytes: of_results(sum(|o| o.bytes)).filter(|_| of_known),
        errors: of_results(sum(|o| o.errors)),
        active_ns: counts.active_ns,
        opcodes: counts.opcodes.iter().map(|o| part.opcode(o, one_in)).collect(),
        vehicles: counts.vehicles.clone(),
        latency_ns: part.times().latency(one_in),
    }
}

pub(super) fn others(counts: &OtherCounts, none: &Part, one_in: u32) -> OthersRecord {
    let sum = |f: fn(&OpcodeCounts) -> u64| counts.opcodes.iter().map(f).sum::<u64>();
    OthersRecord {
        interface: counts.kind.map_or("io_uring", |kind| kind.name()).into(),
        tgid: counts.tgid,
        comm: counts.comm.clone(),
        rings: counts.rings,
        requests: sum(|o| o.requests),
        completions: counts.vehicles.iter().map(|v| v.completions).sum(),
        bytes: sum(|o| o.bytes),
        errors: sum(|o| o.errors),
        overflows: counts.overflows,
        opcodes: counts.opcodes.iter().map(|o| none.opcode(o, one_in)).collect(),
        vehicles: counts.vehicles.clone(),
    }
}
