//! Buffers that the kernel could not access (EFAULT).

use super::results::OF_BUFFERS;
use super::{Check, Matter, RULE, RestsOn, Rule, errno};
use iotrail_base::words::{count, list, percent, so_many};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::opcode::{INDEXED, MAYBE_INDEXED, is};
use iotrail_schema::trace_record::{OpcodeRecord, TraceRecord};

fn faults(o: &OpcodeRecord) -> u64 {
    errno(o, &[OF_BUFFERS])
}

pub const BAD_BUFFERS: Rule = Rule {
    code: "bad_buffers",
    about: "a request failed with EFAULT: its memory or its registered buffer does not exist",
    rests_on: RestsOn::Completions,
    matter: Matter::Data,
    checks: &[Check::Trace(bad_buffers)],
    ..RULE
};

/// Each of these is a bug in the program, so one is enough.
fn bad_buffers(t: &TraceRecord) -> Option<Finding> {
    let mut hit: Vec<&OpcodeRecord> = t.total.opcodes.iter().filter(|o| faults(o) > 0).collect();
    hit.sort_by_key(|o| std::cmp::Reverse(faults(o)));
    let all: u64 = hit.iter().map(|o| faults(o)).sum();
    if all == 0 {
        return None;
    }
    let outcomes: u64 = hit.iter().map(|o| o.judged()).sum();
    let share = all as f64 / outcomes.max(all) as f64;
    let row = |o: &&OpcodeRecord| {
        let first = o.errnos.iter().filter(|e| e.errno == OF_BUFFERS).find_map(|e| e.user_data.as_ref());
        let first = first.map(|data| format!(" (the first traced one has user_data {data})")).unwrap_or_default();
        format!("{} of {}{first}", count(faults(o) as f64), o.opcode)
    };
    let text = format!(
        "{} ({} of the I/Os with these opcodes) failed with EFAULT: {}. The kernel could not access their memory",
        so_many(all, "request"),
        percent(share),
        list(&hit.iter().map(row).collect::<Vec<_>>())
    );
    let by_index = "check the index of the registered buffer, and that address and length are within the buffer; and do not unregister or replace \
                    the buffer (IORING_REGISTER_BUFFERS_UPDATE) before the request is issued";
    let by_address = "keep buffers, iovecs and other arguments mapped until the completion: the memory of a request was never mapped, was freed or \
                      moved while the request was in flight, or is not writable";
    let mut causes = vec![];
    if hit.iter().any(|o| is(&o.opcode, INDEXED | MAYBE_INDEXED)) {
        causes.push(by_index);
    }
    if hit.iter().any(|o| !is(&o.opcode, INDEXED)) {
        causes.push(by_address);
    }
    let remedy = format!("{}; search the program's own log for the user_data", causes.join("; "));
    let by_index: u64 = hit.iter().filter(|o| is(&o.opcode, INDEXED)).map(|o| faults(o)).sum();
    let evidence = [("efault", all as f64), ("share", share), ("of_fixed_opcodes", by_index as f64)];
    let mut rings = t.rings.iter().filter(|r| r.opcodes.iter().any(|o| faults(o) > 0));
    let ring = rings.next().map(|r| r.ring).filter(|_| rings.next().is_none());
    Some(Finding { ring, remedy, ..BAD_BUFFERS.finding_from(outcomes, Severity::Warning, text, &evidence) })
}
