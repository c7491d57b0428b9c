//! Requests by opcode.

use crate::terminal::layout::{Column, Screen};
use crate::terminal::measured::estimate;
use iotrail_base::words::{UNKNOWN, bytes, count, known_span, percent, span};
use iotrail_schema::measurement::{Followed, Latency};
use iotrail_schema::opcode;
use iotrail_schema::trace_record::{CountIntervals, OpcodeRecord};

pub fn opcodes(o: &mut Screen, opcodes: &[OpcodeRecord], followed: &Followed, intervals: &CountIntervals) {
    let number = Column::number;
    // An untraced request may have taken longer.
    let max = if followed.is_sample() { number("max seen", 8) } else { number("max", 7) };
    let columns = [
        Column::words("opcode", 15),
        number("requests", 8),
        number("done", 6),
        number("bytes", 8),
        number("errors", 6),
        number("io-wq", 6),
        number("p50", 7),
        number("p99", 7),
        max,
    ];
    let mut sorted: Vec<&OpcodeRecord> = opcodes.iter().filter(|o| o.requests + o.completions > 0).collect();
    if sorted.is_empty() {
        return;
    }
    sorted.sort_by_key(|o| std::cmp::Reverse((o.completions, o.requests)));
    let whole = |n: u64| count(n as f64);
    let row = |op: &&OpcodeRecord| {
        let about =
            |text: String, n: u64, name: &str| estimate(text, n, &format!("opcodes.{}.{name}", op.opcode), intervals);
        // Unobserved errors are not extrapolated.
        let least = if op.seen.is_some() && op.errors > 0 { "≥" } else { "" };
        let l: &Latency = &op.latency_ns;
        vec![
            op.opcode.clone(),
            about(whole(op.requests), op.requests, "requests"),
            about(whole(op.completions), op.completions, "completions"),
            about(moved(op), op.bytes, "bytes"),
            format!("{least}{}", whole(op.errors)),
            whole(op.punted_asked + op.punted_would_block + op.punted_drained),
            known_span(l.p50),
            known_span(l.p99),
            known_span(l.max),
        ]
    };
    o.table(&columns, sorted.iter().map(row).collect());
    for op in sorted {
        o.field("", &odd(op));
    }
}

/// The bytes of requests that succeeded without a completion are unknown.
fn moved(op: &OpcodeRecord) -> String {
    match (op.bytes_unknown(), op.bytes) {
        (false, n) => bytes(n),
        (true, 0) => UNKNOWN.into(),
        (true, n) => format!("> {}", bytes(n)),
    }
}

/// Facts about an opcode that have no column.
fn odd(op: &OpcodeRecord) -> Vec<String> {
    let some = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count(n as f64)));
    let mut items: Vec<String> = [
        some(op.short.unwrap_or(0), "short"),
        some(op.skips, "requested no completion"),
        some(op.silent(), "had no completion: they succeeded, or were unfinished at the end"),
        some(
            op.unposted,
            "cancelled without a completion: an earlier request of their chain, without a completion, failed",
        ),
        some(op.more, "with IORING_CQE_F_MORE"),
        (op.opcode == "recvmsg" && op.more > 0).then(|| "bytes are of the buffers, including headers".into()),
        some(op.notifications, "notifications"),
        (op.reporting > 0).then(|| {
            let (copied, all) = (count(op.copied as f64), count(op.reporting as f64));
            let share = percent(op.copied as f64 / op.reporting as f64);
            match op.opcode == opcode::RECV_ZC {
                true => format!("{copied} of {all} with data were copied by the kernel ({share})"),
                false => format!("{copied} of {all} that report zero-copy use were copied ({share})"),
            }
        }),
        op.held_mean_ns.map(|ns| format!("buffers in use for {} each, until the notification", span(ns))),
        some(op.messages, "messages from other rings"),
        some(op.denied, "rejected by policy (EACCES at submission)"),
        some(op.punted_asked, "punted to io-wq as requested (IOSQE_ASYNC)"),
        some(
            op.punted_would_block,
            if opcode::is(&op.opcode, opcode::WORKER) {
                "punted to io-wq: always executed by a worker"
            } else {
                "punted to io-wq: would have blocked"
            },
        ),
        some(op.punted_drained, "punted to io-wq: drained (IOSQE_IO_DRAIN)"),
        punted_again(op).and_then(|n| some(n, "requests punted to io-wq, some more than once")),
    ]
    .into_iter()
    .flatten()
    .collect();
    items.extend(op.errnos.iter().map(|e| format!("{} {}", count(e.count as f64), e.errno)));
    match items.first_mut() {
        Some(first) => *first = format!("{}: {first}", op.opcode),
        None => return items,
    }
    items
}

/// Number of requests punted to io-wq, if some were punted more than once.
fn punted_again(op: &OpcodeRecord) -> Option<u64> {
    let hand_overs = (op.punted_asked + op.punted_would_block + op.punted_drained) as f64;
    op.punted_requests.filter(|e| e.ci95[1] < hand_overs).map(|e| e.total.round() as u64)
}
