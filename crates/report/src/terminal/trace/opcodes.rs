//! Requests by their opcode.

use crate::terminal::layout::{Column, Screen};
use crate::terminal::measured::estimate;
use iotrail_base::words::{UNKNOWN, bytes, count, known_span, percent, span};
use iotrail_schema::measurement::{Followed, Latency};
use iotrail_schema::opcode;
use iotrail_schema::trace_record::{CountIntervals, OpcodeRecord};

pub fn opcodes(o: &mut Screen, opcodes: &[OpcodeRecord], followed: &Followed, intervals: &CountIntervals) {
    let number = Column::number;
    // Of those that were not followed one may have taken longer.
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
        // Only errors that were seen are counted.
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

/// Where some succeeded without a completion, what these moved is not known.
fn moved(op: &OpcodeRecord) -> String {
    match (op.bytes_unknown(), op.bytes) {
        (false, n) => bytes(n),
        (true, 0) => UNKNOWN.into(),
        (true, n) => format!("> {}", bytes(n)),
    }
}

/// What an opcode's row has no column for.
fn odd(op: &OpcodeRecord) -> Vec<String> {
    let some = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count(n as f64)));
    let mut items: Vec<String> = [
        some(op.short.unwrap_or(0), "short"),
        some(op.skips, "asked for no completion"),
        some(op.silent(), "had none: they succeeded, or were unfinished at the end"),
        some(op.unposted, "cancelled without one: a request before them in their chain asked for none, and failed"),
        some(op.more, "with more to come"),
        (op.opcode == "recvmsg" && op.more > 0).then(|| "bytes are those of the buffers, headers included".into()),
        some(op.notifications, "notifications"),
        (op.reporting > 0).then(|| {
            let (copied, all) = (count(op.copied as f64), count(op.reporting as f64));
            format!(
                "{copied} of {all} that report it were copied ({})",
                percent(op.copied as f64 / op.reporting as f64)
            )
        }),
        op.held_mean_ns.map(|ns| format!("buffers held {} each until the notification", span(ns))),
        some(op.messages, "messages of other rings"),
        some(op.denied, "refused by policy (EACCES at submission)"),
        some(op.punted_asked, "handed to io-wq as asked (IOSQE_ASYNC)"),
        some(
            op.punted_would_block,
            if opcode::is(&op.opcode, opcode::WORKER) {
                "handed to io-wq: always done by a worker"
            } else {
                "handed to io-wq: could not be done without waiting"
            },
        ),
        some(op.punted_drained, "handed to io-wq: drained (IOSQE_IO_DRAIN)"),
        punted_again(op).and_then(|n| some(n, "requests these are, some handed over again")),
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

/// How many requests were handed to io-wq, where that was more often than there are.
fn punted_again(op: &OpcodeRecord) -> Option<u64> {
    let hand_overs = (op.punted_asked + op.punted_would_block + op.punted_drained) as f64;
    op.punted_requests.filter(|e| e.ci95[1] < hand_overs).map(|e| e.total.round() as u64)
}
