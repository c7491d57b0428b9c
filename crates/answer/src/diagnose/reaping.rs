//! Completions that stay in the completion queue unreaped.

use super::{Check, ENOUGH_EVENTS, Matter, RULE, RestsOn, Rule, of_stages};
use iotrail_base::words::{count, percent, span};
use iotrail_schema::account::RequestStage;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::trace_record::{RingRecord, TraceRecord};

/// Minimum share of long stays; the 90th percentile is then long.
const HABIT: f64 = 0.1;

/// Minimum share of the time for which the program waits.
const MOST: f64 = 0.5;

/// A single stay of this length suffices for a finding if it is a tenth of all stays: no scheduler delay causes it.
const ONE_IS_ENOUGH_NS: u64 = 100_000_000;

pub const LEFT_LYING: Rule = Rule {
    code: "left_lying",
    about: "at least a tenth of a ring's completions stayed in the CQ for 10 ms or longer, by the lower bound. At least 20 sampled completions stayed that long, or one stayed for 100 ms. During this time, no thread waited for more completions in io_uring_enter(2), and the ring's \
        thread had a CPU or slept elsewhere. It is a warning for at least half of the completions, or if completions found the CQ \
        full. No kernel has a tick longer than 10 ms, so each completion was sampled there more than once",
    rests_on: RestsOn::Followed,
    matter: Matter::Time,
    advice: "reap completions before long computations and between their parts, or in a dedicated thread; or wait in io_uring_enter with a timeout \
             (io_uring_wait_cqes) if the program sleeps elsewhere. Everything that depends on a completion (a client, the next request of a chain) \
             waits as long, and a full queue costs memory and ends multishot requests",
    checks: &[Check::Ring(left_lying)],
    ..RULE
};

/// Uses lower bounds only, and only stays while no thread waited for more completions: a thread that waits for a full
/// batch in io_uring_enter intentionally leaves its first completions in the queue. Stays while the program had no CPU
/// do not count either.
pub(super) fn left_lying(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let reaping = r.reaping.as_ref()?;
    let all = (reaping.estimated + reaping.unreaped_estimated) as f64;
    let share = reaping.left_long_estimated as f64 / all;
    let long = reaping.left_ns.max >= Some(ONE_IS_ENOUGH_NS) && reaping.left_long > 0;
    if (reaping.left_long < ENOUGH_EVENTS && !long) || share < HABIT {
        return None;
    }
    let known = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} at least {}", span(ns as f64)));
    let longest = reaping.left_ns.max.max(reaping.unreaped_at_least_ns);
    let times: Vec<String> =
        [known("p50", reaping.left_ns.p50), known("p90", reaping.left_ns.p90), known("the longest", longest)]
            .into_iter()
            .flatten()
            .collect();
    let full = match r.overflows {
        0 => String::new(),
        n => format!("; {} completions found the queue full", count(n as f64)),
    };
    let text = format!(
        "{} of the completions stayed in the completion queue for 10 ms or longer, while the program did other work (all completions: {}). The queue \
         held up to {} completions at a time and has {} entries{full}",
        percent(share),
        times.join(", "),
        reaping.deepest,
        r.cq_entries
    );
    let mut evidence = vec![
        ("share", share),
        ("left_long", reaping.left_long_estimated as f64),
        ("deepest", f64::from(reaping.deepest)),
        ("cq_entries", f64::from(r.cq_entries)),
        ("overflows", r.overflows as f64),
    ];
    evidence.extend(reaping.left_ns.p50.map(|ns| ("left_p50_ns", ns as f64)));
    evidence.extend(longest.map(|ns| ("left_max_ns", ns as f64)));
    let habit = reaping.left_long >= ENOUGH_EVENTS && share >= MOST;
    let severity = Severity::warning_if(habit || r.overflows > 0);
    let seen = reaping.completions + reaping.unreaped;
    let bound = of_stages(t, &[RequestStage::Posted]);
    let f = LEFT_LYING.finding_from(seen, severity, text, &evidence);
    Some(Finding { bound, ..for_eventfd(t, f) })
}

/// The program waits for an eventfd that the kernel does not signal for each completion.
pub(super) fn for_eventfd(t: &TraceRecord, f: Finding) -> Finding {
    let calls = t.rings.iter().filter_map(|r| r.register_calls.as_ref()).flatten();
    if !calls.into_iter().any(|call| call.operation == "eventfd_async") {
        return f;
    }
    let text = format!(
        "{}. The eventfd is registered with IORING_REGISTER_EVENTFD_ASYNC, which does not signal completions posted at submission",
        f.text
    );
    let remedy = "register the eventfd with IORING_REGISTER_EVENTFD, which signals each completion; or poll the CQ ring after each submission, before the \
                  thread waits for the eventfd";
    Finding { text, remedy: remedy.into(), ..f }
}
