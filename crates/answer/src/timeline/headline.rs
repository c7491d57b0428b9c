//! Where most of the time went, and why as far as that was seen.

use super::delivery::why_delivered_then;
use super::nature::{FINISHED, is_timeout, polls, was_cancelled};
use iotrail_base::words::span;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::stage::Stage;
use iotrail_schema::timeline::Span;
use iotrail_schema::trail::{Course, Punt, RequestTrace};

/// Where most of the time went, and why; of a `later` completion of a request, how its delivery went. The first sentence is
/// the answer; those that follow tell of delivery where that was not the longest part.
pub fn headline(t: &RequestTrace, later: bool) -> Vec<String> {
    let (spans, total) = (t.spans(), span(t.latency_ns() as f64));
    let delivery: u64 = spans.iter().filter(|s| s.from >= Stage::Ready).map(Span::ns).sum();
    let delay_known = spans.iter().any(|s| s.from >= Stage::Ready);
    let mut sentences = Vec::new();
    if later {
        sentences
            .push("One of several completions of its request: the time since submission is no latency.".to_owned());
    }
    let Some(longest) = t.longest().filter(|_| !later) else {
        sentences.push(match (spans.is_empty(), delay_known) {
            (true, _) => "Its stamps are out of order: nothing can be said of its stages.".into(),
            (_, true) => delivery_took(t, &spans, delivery),
            (_, false) => "When it was ready is not known.".into(),
        });
        return sentences;
    };
    let between = format!("between {} and {}", longest.from.name(), longest.to.name());
    let spent = match spans.len() {
        1 => format!("All {total} lie {between}"),
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
            (Course::Poll, _) if was_cancelled(t) => "nothing came until it was cancelled".into(),
            (Course::Poll, _) => "there was nothing to be had, or no room, until the other side made it ready".into(),
            (Course::Direct, _) => "what it waited for is not known".into(),
        },
        (Issued, Posted) => format!("{} and delivery together, since when it was ready is not known", waited_for(t)),
        (Submitted, Ready) if polls(t) && was_cancelled(t) => "nothing came until it was cancelled".into(),
        (Submitted, Ready) if polls(t) => "nothing made what it polls ready until then".into(),
        (Submitted, Ready) => {
            format!("submission and {} together, since when it was issued is not known", waited_for(t))
        }
        (Ready, Ended) => {
            "the device was done, and a kernel worker of the file system had to finish it before it could be delivered"
                .into()
        }
        (Ready | Ended, Queued) => "it was ready, but no task work had been added for it yet".into(),
        (Ready | Ended | Queued, Posted) => why_delivered_then(t),
        _ => "what came between is not known".into(),
    }
}

fn waited_for(t: &RequestTrace) -> &'static str {
    match t.course {
        Course::Block => "the device",
        Course::Poll => "the other side",
        Course::Direct => "what it waited for",
    }
}

fn before_issue(t: &RequestTrace) -> String {
    match (t.punted, t.course, t.enter_batch) {
        (Some(punt), ..) => format!("it was handed to io-wq {}, and a worker had to take it up first", because(punt)),
        (None, Course::Poll, _) => "it was tried, and a poll armed when it could not go on".into(),
        (None, _, Some(n)) if n > 1 => format!(
            "it is one of {n} requests of one io_uring_enter; may be: the block layer held it back until the last of the call \
             was there"
        ),
        _ => "io_uring, the file system and the block layer took that long to bring it to the driver".into(),
    }
}

fn because(punt: Punt) -> &'static str {
    match punt {
        Punt::Asked => "as the program asked (IOSQE_ASYNC)",
        Punt::WouldBlock => "because it would have blocked",
        Punt::Drained => "once the ring was drained (IOSQE_IO_DRAIN)",
    }
}

/// Of a request of which only submission and posting are known.
fn untold(t: &RequestTrace) -> String {
    match (t.vehicle, t.punted, t.course) {
        (DeliveryPath::Inline, ..) => "it was done while it was being submitted".into(),
        (_, Some(punt), _) => {
            format!("it was handed to io-wq {}, and what the worker did with it was not seen", because(punt))
        }
        (DeliveryPath::Iowq, None, _) => "an io-wq worker did it, and how it got there was not seen".into(),
        _ if is_timeout(t) && was_cancelled(t) => "it was cancelled before its time was up".into(),
        _ if is_timeout(t) => {
            "a timeout ends when its time is up, or the completions that it counts are there".into()
        }
        (_, _, Course::Direct) if t.enter_batch.is_some_and(|n| n > 1) => {
            "what it waited for is not known: neither block I/O nor a poll, or not seen as such; a linked request waits \
             for the ones before it"
                .into()
        }
        (_, _, Course::Direct) => {
            "what it waited for is not known: neither block I/O nor a poll, or not seen as such".into()
        }
        _ => "its stages were not seen".into(),
    }
}
