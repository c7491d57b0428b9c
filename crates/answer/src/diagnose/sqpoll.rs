//! CPU usage of SQPOLL threads.

use super::state::{bound, share, worst};
use super::{Check, Matter, RULE, Rule, of_stages, ring_seconds};
use iotrail_base::words::{count, percent, plural, span, three_digits};
use iotrail_schema::account::{Bound, BoundOf, RequestStage};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::setup_flag;
use iotrail_schema::state::RingState;
use iotrail_schema::trace_record::{RingRecord, SqpollRecord, TraceRecord};

/// At one wake-up per ten requests, the system calls that SQPOLL should save are back.
const WAKEUPS_PER_REQUEST: f64 = 0.1;
/// Fewer wake-ups do not show a pattern: if all of 10 requests needed one, at least 9 in 10 requests need one in three
/// of four such programs.
const ENOUGH_WAKEUPS: u64 = 10;

/// Requests of all rings that the thread serves, because its times and wake-ups cover all of them.
fn served(t: &TraceRecord, s: &SqpollRecord) -> u64 {
    let others = t.rings.iter().filter(|r| s.shared_with.contains(&r.ring)).filter_map(|r| r.sqpoll.as_ref());
    s.requests + others.map(|other| other.requests).sum::<u64>()
}

fn naps(s: &SqpollRecord, requests: u64) -> Option<(u64, f64)> {
    let wakeups = s.wakeups.filter(|n| *n >= ENOUGH_WAKEUPS && requests >= ENOUGH_WAKEUPS)?;
    let per_request = wakeups as f64 / requests as f64;
    (per_request >= WAKEUPS_PER_REQUEST).then_some((wakeups, per_request))
}

pub const SQPOLL_NAPPING: Rule = Rule {
    code: "sqpoll_napping",
    about: "the program had to wake the SQPOLL thread at least once per ten requests, and at least 10 times for at least 10 requests",
    advice: "set sq_thread_idle longer than the gaps between requests, which keeps the thread awake at the cost of a CPU; if requests are far apart, \
             use a ring without SQPOLL, which submits them with the call that now wakes the thread",
    checks: &[Check::Ring(napping)],
    ..RULE
};

/// The thread falls asleep between requests, so each request has to wake it.
fn napping(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let s = r.sqpoll.as_ref()?;
    let requests = served(t, s);
    let (wakeups, per_request) = naps(s, requests)?;
    // Both cover the time in which the ring was in use; the thread may have been sampled for a shorter time.
    let in_use_ns = ring_seconds(t, r)? * 1e9;
    let apart_ns = s.elapsed_ns.map_or(in_use_ns, |ns| in_use_ns.min(ns as f64)) / wakeups as f64;
    let text = format!(
        "the program had to wake the SQPOLL thread (tid {}) {wakeups} times for {requests} requests, once per {} on average ({} wake-ups per \
         request). Each wake-up costs an io_uring_enter, and the request waits until the thread runs",
        s.tid,
        span(apart_ns),
        three_digits(per_request)
    );
    let evidence =
        [("wakeups_per_request", per_request), ("wakeups", wakeups as f64), ("between_wakeups_ns", apart_ns)];
    // Requests wait in the submission queue until the thread is awake.
    let bound = of_stages(t, &[RequestStage::Unsubmitted]);
    Some(Finding { bound, ..SQPOLL_NAPPING.finding(Severity::Warning, text, &evidence) })
}

/// Minimum CPU time per request. A device completes a request in much less, so an SQPOLL thread that polls during a
/// single request stays below it. The kernel's count of the thread's work is reported but not used: it counts ticks,
/// and had 22 ms and 186 ms for the same load.
const PER_REQUEST_NS: f64 = 1e6;
/// Share of a CPU: less costs little even if all of it is wasted.
const OF_A_CPU: f64 = 0.1;
/// In some configurations the kernel counts the thread's time in ticks, which dominate shorter times.
const LONG_ENOUGH_NS: u64 = 100_000_000;

pub const SQPOLL_SPINNING: Rule = Rule {
    code: "sqpoll_spinning",
    about: "the SQPOLL thread used at least a tenth of a CPU and at least 1 ms of CPU time per request",
    matter: Matter::Time,
    advice: "use a ring with DEFER_TASKRUN instead of SQPOLL, since at this rate one io_uring_enter per batch costs less; or set a shorter \
             sq_thread_idle, so that the thread sleeps sooner; or share one SQPOLL thread among several rings (IORING_SETUP_ATTACH_WQ)",
    checks: &[Check::Ring(spinning)],
    ..RULE
};

/// The thread uses a CPU to poll an empty queue.
fn spinning(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let s = r.sqpoll.as_ref()?;
    let cpu = s.cpu_ns.filter(|ns| *ns > 0)?;
    let elapsed_ns = s.elapsed_ns.filter(|ns| *ns >= LONG_ENOUGH_NS)?;
    let of_a_cpu = cpu as f64 / elapsed_ns as f64;
    let requests = served(t, s);
    let per_request = cpu as f64 / requests.max(1) as f64;
    // A thread that sleeps between requests needs a different remedy, as does one that competes with its own program
    // for the CPU.
    let is_told = naps(s, requests).is_some() || super::blocked::sqpoll_shares_cpu(t, r).is_some();
    if of_a_cpu < OF_A_CPU || per_request < PER_REQUEST_NS || is_told {
        return None;
    }
    let place = r.sq_thread_place().map(|place| format!(", {place}")).unwrap_or_default();
    let of_rings = match s.shared_with.len() {
        0 => String::new(),
        others => format!(" of {} rings", others + 1),
    };
    let text = format!(
        "the SQPOLL thread (tid {}{place}) used {} of a CPU for {}. The thread spent most of that time polling an empty SQ",
        s.tid,
        percent(of_a_cpu),
        match requests {
            0 => format!("no request{of_rings}"),
            n => format!("{n} requests{of_rings}, {} per request", span(per_request)),
        }
    );
    let mut evidence = vec![
        ("cpu_per_request_ns", per_request),
        ("cpu_share", of_a_cpu),
        ("cpu_ns", cpu as f64),
        ("requests", requests as f64),
    ];
    evidence.extend(s.work_ns.map(|work| ("work_share", work as f64 / cpu as f64)));
    let all = t.total.cpu.user_ns.zip(t.total.cpu.system_ns).map(|(user, system)| user + system).filter(|all| *all > 0);
    let idle = cpu.saturating_sub(s.work_ns.unwrap_or(0));
    let bound = all.map(|all| Bound { of: BoundOf::Cpu, share: (idle as f64 / all as f64).min(1.0) });
    Some(Finding { bound, ..SQPOLL_SPINNING.finding(Severity::Warning, text, &evidence) })
}

pub const SQPOLL_SHARED: Rule = Rule {
    code: "sqpoll_shared",
    about: "an SQPOLL thread that serves several rings (IORING_SETUP_ATTACH_WQ) ran for at least half of the time. In at least 10 % of the samples (`state`), SQEs of one ring waited in the SQ while the thread did not sleep",
    matter: Matter::Time,
    advice: "give the ring whose requests must not wait an SQPOLL thread of its own, on a free CPU, or set it up without SQPOLL; or set IOSQE_ASYNC on \
             the long requests (large buffered reads and writes), which io-wq workers then execute",
    checks: &[Check::Trace(shared)],
    ..RULE
};

const BUSY: f64 = 0.5;
/// Share of the samples.
const IN_SQ: f64 = 0.1;

/// The thread executes the requests of one ring after the other. The descriptor of a ring that no thread enters may be
/// unknown.
fn shared(t: &TraceRecord) -> Option<Finding> {
    let busy = |s: &SqpollRecord| {
        let elapsed_ns = s.elapsed_ns.filter(|ns| *ns >= LONG_ENOUGH_NS)?;
        Some(s.cpu_ns? as f64 / elapsed_ns as f64).filter(|busy| *busy >= BUSY && !s.shared_with.is_empty())
    };
    let thread = |of: &RingState| {
        let is_it =
            |r: &&RingRecord| r.tgid == of.tgid && (r.fds.is_empty() || of.fd.is_some_and(|fd| r.fds.contains(&fd)));
        let meant = t.rings.iter().filter(|_| setup_flag::is_set(&of.flags, "sqpoll")).filter(is_it);
        meant.filter_map(|r| r.sqpoll.as_ref()).find_map(|s| Some((s, busy(s)?)))
    };
    // Without the samples in which the thread slept.
    let waited = |of: &RingState| of.unsubmitted - of.need_wakeup;
    let waits = |of: &RingState| thread(of).and_then(|_| share(waited(of), of.samples));
    worst(t, IN_SQ, waits, |of, waits| {
        let (s, busy) = thread(of).expect("a ring with a share has a thread");
        let text = format!(
            "SQEs waited in the SQ in {} of {} samples. The SQPOLL thread (tid {}) also serves {} (IORING_SETUP_ATTACH_WQ), and does not consume them while \
             it executes requests of another ring",
            count(waited(of) as f64),
            count(of.samples as f64),
            s.tid,
            plural(s.shared_with.len(), "other ring")
        );
        let evidence = [("share", waits), ("busy_share", busy), ("samples", of.samples as f64)];
        bound(SQPOLL_SHARED.finding(Severity::Warning, text, &evidence), BoundOf::ThreadTime, waits)
    })
}
