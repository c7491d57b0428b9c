//! Connects whose peer does not answer immediately.

use super::{Check, Matter, RULE, Rule};
use iotrail_base::words::span;
use iotrail_schema::account::{Bound, BoundOf, Reason, ThreadRow};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::TraceRecord;

/// An unanswered SYN is retransmitted after 1 s, 3 s and 7 s.
const SYN_AGAIN_NS: u64 = 900_000_000;

pub const SLOW_CONNECTS: Rule = Rule {
    code: "slow_connects",
    about: "a connect took at least 900 ms: the kernel retransmits an unanswered SYN after 1 s",
    matter: Matter::Time,
    advice: "check whether the peer accepts in time: listen(2) and net.core.somaxconn limit its accept queue, and the kernel drops SYNs while that \
             queue is full (`nstat -az TcpExtListenOverflows TcpExtListenDrops` on the peer); otherwise look for lost or filtered packets",
    checks: &[Check::Trace(slow_connects)],
    ..RULE
};

fn slow_connects(t: &TraceRecord) -> Option<Finding> {
    let is_slow =
        |row: &&ThreadRow| row.reason == Some(Reason::Connect) && row.longest_ns.is_some_and(|ns| ns >= SYN_AGAIN_NS);
    let of_calls =
        || t.own_threads().flat_map(|thread| thread.rows.iter().filter(is_slow).map(move |row| (thread, row)));
    let of_requests = t.total.opcodes.iter().filter(|o| o.opcode == "connect").filter_map(|o| o.latency_ns.max);
    let longest =
        of_calls().filter_map(|(_, row)| row.longest_ns).chain(of_requests).max().filter(|ns| *ns >= SYN_AGAIN_NS)?;
    let text = format!(
        "connect took up to {}: the peer did not answer a SYN, which the kernel retransmits after 1 s, 3 s and 7 s. The peer's accept queue (the \
         backlog) was full, or packets were lost",
        span(longest as f64)
    );
    let share = of_calls().map(|(thread, row)| row.ns as f64 / thread.wall_ns.max(1) as f64).reduce(f64::max);
    let bound = share.map(|share| Bound { of: BoundOf::ThreadTime, share: share.min(1.0) });
    Some(Finding { bound, ..SLOW_CONNECTS.finding(Severity::Warning, text, &[("longest_ns", longest as f64)]) })
}
