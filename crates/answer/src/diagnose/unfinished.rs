//! Requests without a completion at the end of the trace.

use super::{Check, Matter, RULE, Rule};
use iotrail_base::words::{count, list, plural, span};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::opcode;
use iotrail_schema::trace_record::{OpenRecord, Subject, TraceRecord};
use iotrail_schema::trail::Course;

/// No working device takes this long for a request that does not wait for a peer.
const LONG_NS: u64 = 10_000_000_000;

/// Maximum number of rows listed in the text.
const TOLD: usize = 3;

pub const NEVER_COMPLETED: Rule = Rule {
    code: "never_completed",
    about: "requests were in flight when the command exited, or the kernel cancelled them because the program closed their ring. Or they had been in flight for at least 10 s outside of a poll when tracing ended (a warning). Requests that only wait (timeouts, accepts …) do not count, nor multishot requests that have had completions. Single polled reads of an operation that had completions do not count either, because a program that waits for its peers has one per descriptor",
    matter: Matter::Data,
    advice: "check `cat /proc/PID/fdinfo/RING` and the kernel log for a device that does not respond or a lock that io-wq waits for; limit the time \
             of these requests with a linked timeout (IORING_OP_LINK_TIMEOUT)",
    checks: &[Check::Trace(never_completed)],
    ..RULE
};

/// A receive or read that waits for the next message, as earlier ones did; the kernel cancels it at exit. Most such
/// requests were answered.
fn stands(t: &TraceRecord, o: &OpenRecord) -> bool {
    let of = t.total.opcodes.iter().filter(|all| all.opcode == o.opcode);
    let answered: u64 = of.map(|all| all.outcomes().saturating_sub(all.errors)).sum();
    o.course == Course::Poll && opcode::is(&o.opcode, opcode::READS) && answered > STANDING * o.estimated
}

/// Minimum answers per unfinished request.
const STANDING: u64 = 2;

/// Requests of exited programs, and requests unanswered for very long. Polls of a running program are normal.
fn never_completed(t: &TraceRecord) -> Option<Finding> {
    let ended = matches!(t.subject, Subject::Command { exit_status: Some(_), .. });
    let hangs = |o: &OpenRecord| o.course != Course::Poll && o.oldest_ns >= LONG_NS;
    let lost = |o: &&OpenRecord| {
        let is_over = ended || o.closed > 0 || hangs(o);
        o.multishot < o.requests && !opcode::is(&o.opcode, opcode::WAITS) && is_over
    };
    let open: Vec<&OpenRecord> = t.total.open.iter().filter(lost).filter(|o| !stands(t, o)).collect();
    let oldest = open.first()?;
    let traced: u64 = open.iter().map(|o| o.estimated).sum();
    // Requests of an exited program: the counts include untraced ones.
    let counted = if ended { counted(t, &open) } else { None };
    let about = if counted.is_none() && open.iter().any(|o| o.estimated > o.requests) { "about " } else { "" };
    let requests = counted.unwrap_or(0).max(traced);
    let row = |o: &&OpenRecord| {
        let place = match o.course {
            Course::Poll => " in a poll",
            Course::Block => " at the device",
            Course::Direct => "",
        };
        let file = match (&o.descriptor, &o.file) {
            (Some(descriptor), Some(file)) => format!(" on {descriptor} ({file})"),
            (Some(descriptor), None) => format!(" on {descriptor}"),
            (None, _) => String::new(),
        };
        format!(
            "{} {}{place}, the oldest{file} pending for {} (user_data {})",
            count(o.estimated as f64),
            o.opcode,
            span(o.oldest_ns as f64),
            o.user_data
        )
    };
    let mut rows: Vec<String> = open.iter().take(TOLD).map(row).collect();
    if open.len() > TOLD {
        rows.push(format!("{} more", plural(open.len() - TOLD, "kind")));
    }
    if requests > traced {
        rows.push(format!("{} untraced", count((requests - traced) as f64)));
    }
    let when = if ended { "when the program exited" } else { "when tracing ended" };
    let closed: Vec<&OpenRecord> = open.iter().copied().filter(|o| o.closed > 0).collect();
    let of_one_ring = requests == traced && closed.iter().all(|o| o.ring == oldest.ring);
    let their = if of_one_ring { "ring" } else { "rings" };
    let when = match closed.iter().map(|o| o.closed).sum::<u64>() {
        0 => when.to_owned(),
        n if n == open.iter().map(|o| o.requests).sum::<u64>() => format!("when the program closed their {their}"),
        _ if ended => format!("{when} or closed their {their}"),
        _ => format!("{when}, or when the program closed their {their}"),
    };
    let text = format!("{about}{} had no completion {when}: {}", plural(requests as usize, "request"), list(&rows));
    let evidence = [("requests", requests as f64), ("oldest_ns", oldest.oldest_ns as f64)];
    let severity = Severity::warning_if(open.iter().any(|o| hangs(o)));
    let mut f = Finding { ring: oldest.ring, ..NEVER_COMPLETED.finding(severity, text, &evidence) };
    if ended || !closed.is_empty() {
        f.remedy = "wait for these requests, or cancel them (IORING_OP_ASYNC_CANCEL), before you close the ring: the kernel may write to their \
                    buffers until then; `grep` the program's own log for the user_data"
            .into();
    }
    Some(f)
}

/// Requests without a completion, with the same operations, of all rings that were created during the trace. `None` if
/// the counts do not show them: a ring is not listed, or some of its requests post several completions or none.
fn counted(t: &TraceRecord, open: &[&OpenRecord]) -> Option<u64> {
    let is_listed = |o: &&OpenRecord| t.rings.iter().any(|r| Some(r.ring) == o.ring && !r.found);
    let rings = || t.rings.iter().filter(|r| !r.found).flat_map(|r| &r.opcodes);
    let mut these = rings().filter(|of| open.iter().any(|o| o.opcode == of.opcode));
    let is_plain = these.clone().all(|o| o.more + o.skips + o.unposted + o.notifications == 0);
    if !is_plain || !open.iter().all(is_listed) {
        return None;
    }
    these.try_fold(0, |n, o| Some(n + o.requests.checked_sub(o.completions)?))
}
