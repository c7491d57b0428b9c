//! The longest stage of an I/O, and its cause if known.

use super::delivery::why_delivered_then;
use super::nature::{FINISHED, is_timeout, polls, was_cancelled};
use iotrail_base::words::span;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::stage::Stage;
use iotrail_schema::timeline::Span;
use iotrail_schema::trail::{Course, Punt, RequestTrace};

/// The longest stage and its cause; for a `later` completion of a request, its delivery. The first sentence is the
/// answer; further sentences describe delivery if another stage was longer.
pub fn headline(t: &RequestTrace, later: bool) -> Vec<String> {
    let (spans, total) = (t.spans(), span(t.latency_ns() as f64));
    let delivery: u64 = spans.iter().filter(|s| s.from >= Stage::Ready).map(Span::ns).sum();
    let delay_known = spans.iter().any(|s| s.from >= Stage::Ready);
    let mut sentences = Vec::new();
    if later {
        sentences
            .push("One of several completions of its request: the time since submission is not a latency.".to_owned());
    }
    let Some(longest) = t.longest().filter(|_| !later) else {
        sentences.push(match (spans.is_empty(), delay_known) {
            (true, _) => "Its timestamps are out of order: its stages are unknown.".into(),
            (_, true) => delivery_took(t, &spans, delivery),
            (_, false) => "The time at which it was ready is unknown.".into(),
        });
        return sentences;
    };
    let between = format!("between {} and {}", longest.from.name(), longest.to.name());
    let spent = match spans.len() {
        1 => format!("All {total} were spent {between}"),
        _ => format!("{} of {total} were spent {between}", span(longest.ns() as f64)),
    };
    sentences.push(format!("{spent}: {}.", why(t, &longest)));
    if longest.from < Stage::Ready && delay_known {
        sentences.push(delivery_took(t, &spans, delivery));
    }
    sentences
}

fn delivery_took(t: &RequestTrace, spans: &[Span], delivery_ns: u64) -> String {
    let worker = spans.iter().find(|s| (s.from, s.to) == (Stage::Ready, Stage::Ended));
    let until = worker.map(|s| format!(", {} of it until {FINISHED}", span(s.ns() as f64))).unwrap_or_default();
    format!("Delivery took {}{until}: {}.", span(delivery_ns as f64), why_delivered_then(t))
}

fn why(t: &RequestTrace, longest: &Span) -> String {
    use Stage::*;
    match (longest.from, longest.to) {
        (Submitted, Issued) => before_issue(t),
        (Submitted, Posted) => untold(t),
        (Issued, Ready) => match (t.course, t.block_requests) {
            (Course::Block, 0 | 1) => "the device took that long".into(),
            (Course::Block, n) => format!("the device took that long for all of its {n} block requests"),
            (Course::Poll, _) if was_cancelled(t) => "no event arrived until it was cancelled".into(),
            (Course::Poll, _) => "there was no data, or no buffer space, until the peer made it ready".into(),
            (Course::Direct, _) => "the object of its wait is unknown".into(),
        },
        (Issued, Posted) => {
            format!("{} and delivery together, since the time at which it was ready is unknown", waited_for(t))
        }
        (Submitted, Ready) if polls(t) && was_cancelled(t) => "no event arrived until it was cancelled".into(),
        (Submitted, Ready) if polls(t) => "the polled file was not ready until then".into(),
        (Submitted, Ready) => {
            format!("submission and {} together, since the time at which it was issued is unknown", waited_for(t))
        }
        (Ready, Ended) => {
            "the device had completed it, and a kernel worker of the file system had to finish it before delivery"
                .into()
        }
        (Ready | Ended, Queued) => "it was ready, but its task work was not queued yet".into(),
        (Ready | Ended | Queued, Posted) => why_delivered_then(t),
        _ => "the stages in between are unknown".into(),
    }
}

fn waited_for(t: &RequestTrace) -> &'static str {
    match t.course {
        Course::Block => "the device",
        Course::Poll => "the peer",
        Course::Direct => "the object of its wait",
    }
}

fn before_issue(t: &RequestTrace) -> String {
    match (t.punted, t.course, t.enter_batch) {
        (Some(punt), ..) => format!("it was punted to io-wq {}, and a worker had to pick it up first", because(punt)),
        (None, Course::Poll, _) => "it was tried, and a poll was armed when it would have blocked".into(),
        (None, _, Some(n)) if n > 1 => format!(
            "it is one of {n} requests of one io_uring_enter; the block layer may have plugged it until the call had submitted the last request"
        ),
        _ => "io_uring, the file system and the block layer took that long to issue it to the driver".into(),
    }
}

fn because(punt: Punt) -> &'static str {
    match punt {
        Punt::Asked => "as the program requested (IOSQE_ASYNC)",
        Punt::WouldBlock => "because it would have blocked",
        Punt::Drained => "once the ring was drained (IOSQE_IO_DRAIN)",
    }
}

/// For a request of which only submission and posting are known.
fn untold(t: &RequestTrace) -> String {
    match (t.vehicle, t.punted, t.course) {
        (DeliveryPath::Inline, ..) => "it completed during its submission".into(),
        (_, Some(punt), _) => {
            format!("it was punted to io-wq {}, and no event shows the worker's part", because(punt))
        }
        (DeliveryPath::Iowq, None, _) => "an io-wq worker executed it, and no event shows how it got there".into(),
        _ if is_timeout(t) && was_cancelled(t) => "it was cancelled before it expired".into(),
        _ if is_timeout(t) => {
            "a timeout ends when it expires, or when the completions that it counts are posted".into()
        }
        (_, _, Course::Direct) if t.enter_batch.is_some_and(|n| n > 1) => {
            "the object of its wait is unknown: neither block I/O nor a poll, or not traced; a linked request waits \
             for the requests before it"
                .into()
        }
        (_, _, Course::Direct) => {
            "the object of its wait is unknown: neither block I/O nor a poll, or not traced".into()
        }
        _ => "its stages were not traced".into(),
    }
}
