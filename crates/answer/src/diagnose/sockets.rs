//! Sockets whose buffers or queues are too small.

use super::calls::of_name;
use super::state::{PART, UNREAD_NS, bound, share};
use super::{Check, ENOUGH_EVENTS, Matter, RULE, Rule};
use iotrail_base::words::{bytes, count, list, percent};
use iotrail_schema::account::{BoundOf, CallRecord};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::state::{SocketDrops, UnreadSocket};
use iotrail_schema::trace_record::TraceRecord;

/// Smaller shares are single bursts.
const LOST: f64 = 0.01;

pub(super) const SOCKET_DROPS: Rule = Rule {
    code: "socket_drops",
    about: "a UDP socket dropped at least 20 datagrams, and at least 1 % of the arriving ones. Or a listening socket dropped at least 20 connections. Based on samples (`state`)",
    matter: Matter::Data,
    checks: &[Check::Trace(socket_drops)],
    ..RULE
};

/// At most as many datagrams as the program received, if each call takes one.
fn received(t: &TraceRecord) -> Option<f64> {
    let succeeded = |c: &CallRecord| {
        let failed = c.failed() as f64 / c.judged().max(1) as f64;
        c.count as f64 * (1.0 - failed.min(1.0))
    };
    let requests = t.total.opcodes.iter().filter(|o| o.opcode.starts_with("recv"));
    let by_requests: u64 = requests.map(|o| o.completions.saturating_sub(o.errors)).sum();
    let n = of_name(t, &["recvfrom", "recvmsg"]).map(succeeded).sum::<f64>() + by_requests as f64;
    (n > 0.0 && of_name(t, &["recvmmsg"]).all(|c| c.count == 0)).then_some(n)
}

fn socket_drops(t: &TraceRecord) -> Option<Finding> {
    let of: &SocketDrops = t.state.as_ref()?.drops.as_ref().filter(|of| of.dropped >= ENOUGH_EVENTS)?;
    // Nothing reads the socket: a larger buffer would fill too.
    let is_unread = |unread: &UnreadSocket| (unread.tgid, unread.fd) == (of.tgid, of.fd) && unread.for_ns >= UNREAD_NS;
    if t.state.as_ref()?.unread.as_ref().is_some_and(is_unread) {
        return None;
    }
    let share = received(t).filter(|_| !of.listens).map(|n| of.dropped as f64 / (of.dropped as f64 + n));
    if share.is_some_and(|share| share < LOST) {
        return None;
    }
    let dropped = count(of.dropped as f64);
    let (text, remedy) = match of.listens {
        true => (
            format!(
                "the listening socket {} of process {} dropped {dropped} SYNs or connections: its accept queue (backlog {}) was full. A client sends \
                 its SYN again after 1 s",
                of.fd,
                of.tgid,
                count(of.limit as f64)
            ),
            "accept all waiting connections at each event, in a thread that does nothing else if necessary; and raise the backlog of listen(2), up to \
             net.core.somaxconn",
        ),
        false => (
            format!(
                "{dropped} datagrams{} were dropped at descriptor {} of process {}: its receive buffer of {}{} was full",
                share.map(|share| format!(" (at least {} of those that arrived)", percent(share))).unwrap_or_default(),
                of.fd,
                of.tgid,
                bytes(of.limit),
                if of.is_set { ", which the program set," } else { "" },
            ),
            "enlarge the receive buffer (SO_RCVBUF, at most net.core.rmem_max; SO_RCVBUFFORCE with CAP_NET_ADMIN) so that it holds a burst; and receive more per \
             wake-up (recvmmsg(2), a multishot receive), in a thread that does nothing else",
        ),
    };
    let mut evidence = vec![("dropped", of.dropped as f64), ("limit", of.limit as f64), ("fd", f64::from(of.fd))];
    evidence.extend(share.map(|share| ("share", share)));
    Some(Finding { remedy: remedy.into(), ..SOCKET_DROPS.finding(Severity::Warning, text, &evidence) })
}

/// SO_SNDBUF of 64 KiB, which the kernel doubles.
const SMALL: u64 = 128 << 10;

pub(super) const SMALL_SEND_BUFFER: Rule = Rule {
    code: "small_send_buffer",
    about: "in at least 5 % of the samples (and at least 20), a sender waited for space in a TCP send buffer, and all its bytes were sent. The program had set the buffer's size, to 128 KiB or less",
    advice: "do not set SO_SNDBUF: the kernel then enlarges the buffer as needed, up to the third value of net.ipv4.tcp_wmem; or set it to several times what \
             the peer acknowledges at once",
    checks: &[Check::Trace(small_send_buffer)],
    ..RULE
};

fn small_send_buffer(t: &TraceRecord) -> Option<Finding> {
    let state = t.state.as_ref()?;
    let of = state.send_buffer.filter(|of| of.samples >= ENOUGH_EVENTS && of.bytes <= SMALL)?;
    let waited = share(of.samples, state.samples).filter(|waited| *waited >= PART)?;
    let senders: Vec<String> = of_name(t, &["sendto", "sendmsg", "write", "writev"])
        .filter(|c| c.errors.contains_key("EAGAIN"))
        .map(|c| format!("{}(2)", c.syscall))
        .collect();
    let who = if senders.is_empty() { "sends".into() } else { list(&senders) };
    let text = format!(
        "{who} waited for space in the send buffer of descriptor {} of process {} in {} of {} samples. The program set its size (SO_SNDBUF), {}, and \
         all its bytes were sent: they stay until the peer acknowledges them, which a delayed ACK defers by 40 ms",
        of.fd,
        of.tgid,
        count(of.samples as f64),
        count(state.samples as f64),
        bytes(of.bytes),
    );
    let evidence = [("share", waited), ("samples", state.samples as f64), ("buffer_bytes", of.bytes as f64)];
    let asleep = share(of.asleep, state.samples).unwrap_or(0.0);
    Some(bound(SMALL_SEND_BUFFER.finding(Severity::Warning, text, &evidence), BoundOf::ThreadTime, asleep))
}
