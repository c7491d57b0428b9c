//! Buffers that the kernel could not access (EFAULT).

use super::results::OF_BUFFERS;
use super::{Check, Matter, RULE, RestsOn, Rule, errno};
use iotrail_base::words::{count, list, percent};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::opcode::{INDEXED, MAYBE_INDEXED, is};
use iotrail_schema::trace_record::{OpcodeRecord, TraceRecord};

fn faults(o: &OpcodeRecord) -> u64 {
    errno(o, &[OF_BUFFERS])
}

pub const BAD_BUFFERS: Rule = Rule {
    code: "bad_buffers",
    about: "a request ended with EFAULT: its memory, or the registered buffer that it names, does not exist",
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
        "{} requests ({} of these opcodes' I/Os) ended with EFAULT: {}. The kernel could not use their memory",
        count(all as f64),
        percent(share),
        list(&hit.iter().map(row).collect::<Vec<_>>())
    );
    let by_index = "a request uses a registered buffer that is not registered: its index is wrong, its address and length are not within \
                    the buffer, or the buffer was unregistered or replaced (IORING_REGISTER_BUFFERS_UPDATE) before the request was issued";
    let by_address = "a request's memory is not mapped (never, or freed or moved while the request was in flight), or is not \
                      writable; keep buffers, iovecs and other arguments until the completion";
    let mut causes = vec![];
    if hit.iter().any(|o| is(&o.opcode, INDEXED | MAYBE_INDEXED)) {
        causes.push(by_index);
    }
    if hit.iter().any(|o| !is(&o.opcode, INDEXED)) {
        causes.push(by_address);
    }
    let remedy = format!("{}: search for the user_data in the program's own log", causes.join("; "));
    let by_index: u64 = hit.iter().filter(|o| is(&o.opcode, INDEXED)).map(|o| faults(o)).sum();
    let evidence = [("efault", all as f64), ("share", share), ("of_fixed_opcodes", by_index as f64)];
    let mut rings = t.rings.iter().filter(|r| r.opcodes.iter().any(|o| faults(o) > 0));
    let ring = rings.next().map(|r| r.ring).filter(|_| rings.next().is_none());
    Some(Finding { ring, remedy, ..BAD_BUFFERS.finding_from(outcomes, Severity::Warning, text, &evidence) })
}
