//! How many requests one call submits, and how many completions one task work run delivers.

use super::calls::{cpu, cpu_share};
use super::{
    Check, ENOUGH, ENOUGH_FOLLOWED, RULE, RestsOn, Rule, in_flight, inlined, of_stages, on_average, rate, ring_seconds,
};
use crate::delivered::has;
use iotrail_base::words::{bytes, count, percent, three_digits};
use iotrail_schema::account::RequestStage;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::opcode;
use iotrail_schema::trace_record::{EnterBatch, OpcodeRecord, RingRecord, RunItems, TraceRecord};

/// Nearly all calls: the rest may only fill the queue at start-up.
const SINGLE: f64 = 0.9;
/// Statements about all requests (such as their number in flight) apply if this share is affected.
const MOSTLY: f64 = 0.5;
/// With fewer requests in flight, the program cannot submit several at once.
const SEVERAL: f64 = 3.0;
/// An empty io_uring_enter(2) takes 0.5 µs: below this rate, the calls take less than 0.1 % of a CPU.
const ENTERS_PER_S: f64 = 1_000.0;
/// 1 % of a CPU.
const ENTERS_COST_PER_S: f64 = 20_000.0;

/// A ring's io_uring_enter calls that submitted requests.
struct Calls {
    /// Traced requests and how many of them were submitted singly. Traced requests of large batches represent few
    /// calls.
    followed: u64,
    followed_alone: u64,
    /// Share of the calls that submitted a single request.
    single: f64,
    /// Share of the requests submitted this way. It differs from `single` because a large batch has more traced
    /// requests.
    single_requests: f64,
    per_s: f64,
    seconds: f64,
    in_flight: f64,
}

/// Number of requests represented by the traced requests of one batch size.
fn stands_for(b: &EnterBatch) -> f64 {
    b.estimated.unwrap_or(b.requests) as f64
}

impl Calls {
    fn of(t: &TraceRecord, r: &RingRecord) -> Option<Self> {
        let singles = || r.enter_batches.iter().filter(|b| b.at_least <= 1);
        // With too few traced requests, the number of calls is unknown.
        r.enter_calls?;
        let calls: f64 = r.enter_batches.iter().map(|b| b.calls).sum();
        Some(Self {
            followed: r.enter_batches.iter().map(|b| b.requests).sum(),
            followed_alone: singles().map(|b| b.requests).sum(),
            single: singles().map(|b| b.calls).sum::<f64>() / calls,
            single_requests: singles().map(stands_for).sum::<f64>()
                / r.enter_batches.iter().map(stands_for).sum::<f64>(),
            // Excludes requests submitted while windows finish.
            per_s: calls * t.total.followed.of_all() / ring_seconds(t, r)?,
            seconds: ring_seconds(t, r)?,
            in_flight: in_flight(t, r, |name| !opcode::is(name, opcode::WAITS))?,
        })
    }

    /// Whether nearly all calls submit a single request, often enough to matter.
    fn are_single(&self, enough: u64, per_s: f64) -> bool {
        let most = self.single >= SINGLE && self.single_requests >= MOSTLY;
        self.followed_alone >= enough && most && self.per_s >= per_s
    }

    fn finding(&self, t: &TraceRecord, severity: Severity, text: String) -> Finding {
        let evidence = [("share", self.single), ("enters_per_s", self.per_s), ("in_flight", self.in_flight)];
        // Time spent on the requests themselves within the calls cannot be saved, and is not known separately.
        let bound = cpu(cpu_share(t, &["io_uring_enter"]).map(|share| share * self.single));
        Finding { bound, ..ONE_PER_ENTER.finding_from(self.followed, severity, text, &evidence) }
    }
}

pub const ONE_PER_ENTER: Rule = Rule {
    code: "one_per_enter",
    about: "at least 90 % of the calls, and at least 1,000 per second, submitted one request each. On average, three or more requests were in flight. This average is based on the latency of at least 50 traced requests, without waits. Or at least 20,000 such calls per second had no other request in flight, and 90 % of the requests completed within the call. This second case is a note, and adds the rates of several rings. The same applies to io_submit(2)",
    rests_on: RestsOn::Followed,
    advice: "reap all available completions, prepare the next requests, and submit them with one io_uring_enter. They then share the cost of the call, and the block layer and the driver receive them as one batch",
    checks: &[
        Check::Ring(|t, r| one_per_enter(t, r).or_else(|| one_at_a_time(t, r))),
        Check::Trace(over_rings),
        Check::Trace(one_per_submit),
    ],
    ..RULE
};

/// The same over all rings, if each ring alone is too slow: a single thread that iterates over them makes all the
/// calls.
fn over_rings(t: &TraceRecord) -> Option<Finding> {
    let single = |r: &RingRecord| {
        let calls = Calls::of(t, r)?;
        let at_once = inlined(r) >= AT_ONCE;
        let single = calls.are_single(1, 0.0) && calls.in_flight <= ALONE && calls.per_s < ENTERS_COST_PER_S;
        (single && at_once).then_some(calls)
    };
    let all: Vec<Calls> = t.rings.iter().filter_map(single).collect();
    let per_s: f64 = all.iter().map(|calls| calls.per_s).sum();
    let followed: u64 = all.iter().map(|calls| calls.followed_alone).sum();
    if all.len() < 2 || all.len() < t.rings.len() || per_s < ENTERS_COST_PER_S || followed < ENOUGH {
        return None;
    }
    let text = format!(
        "{} io_uring_enter calls per second, over {} rings, submitted one request each, and the requests completed inline, before the call returned. \
         The program makes one system call per request",
        rate(per_s, all.iter().map(|calls| calls.seconds).fold(f64::INFINITY, f64::min)),
        all.len()
    );
    let remedy = "use one ring per thread, prepare several requests, and submit them with one io_uring_enter; if the program never has more than one \
                  request ready, pread(2) or pwrite(2) costs less";
    let bound = cpu(cpu_share(t, &["io_uring_enter"]));
    let evidence = [("enters_per_s", per_s), ("rings", all.len() as f64)];
    let f = ONE_PER_ENTER.finding_from(followed, Severity::Note, text, &evidence);
    Some(Finding { remedy: remedy.into(), bound, ..f })
}

/// Maximum requests per io_submit(2) if nearly all calls submit a single request.
const ONE_PER_SUBMIT: f64 = 1.1;

/// The same for native AIO.
fn one_per_submit(t: &TraceRecord) -> Option<Finding> {
    let contexts: Vec<_> = t.contexts.iter().filter(|c| c.interface == "libaio").collect();
    let requests: u64 = contexts.iter().map(|c| c.requests).sum();
    let calls = t.call("io_submit")?.count;
    let seconds = t.total.elapsed_ns as f64 / 1e9;
    let per_s = calls as f64 / seconds.max(1e-9);
    let in_flight = on_average(contexts.iter().flat_map(|c| &c.opcodes), seconds.max(1e-9)).unwrap_or(0.0);
    let inlined = contexts.iter().flat_map(|c| &c.vehicles).filter(|v| v.vehicle == DeliveryPath::Inline);
    let completions: u64 = contexts.iter().map(|c| c.completions).sum();
    let at_once = inlined.map(|v| v.completions).sum::<u64>() as f64 >= AT_ONCE * completions as f64;
    let is_single = calls >= ENOUGH && requests as f64 <= ONE_PER_SUBMIT * calls as f64;
    let several = in_flight >= SEVERAL && per_s >= ENTERS_PER_S;
    let costs = several || at_once && per_s >= ENTERS_COST_PER_S;
    if !is_single || !costs {
        return None;
    }
    let text = match several {
        true => format!(
            "{} io_submit calls per second submitted one request each, with {} requests in flight on average",
            count(per_s),
            three_digits(in_flight)
        ),
        false => format!(
            "{} io_submit calls per second submitted one request each, and the requests were complete when the call returned. The program makes two \
             system calls per request: one to submit it and one to reap it",
            count(per_s)
        ),
    };
    let remedy = "pass several iocbs to one io_submit(2), and reap the same number with one io_getevents(2); for requests that complete within the \
                  call, such as reads of cached files, pread(2) costs less";
    let evidence = [("enters_per_s", per_s), ("in_flight", in_flight)];
    let severity = Severity::warning_if(several && per_s >= ENTERS_COST_PER_S);
    let f = ONE_PER_ENTER.finding(severity, text, &evidence);
    Some(Finding { remedy: remedy.into(), bound: cpu(cpu_share(t, &["io_submit"])), ..f })
}

fn one_per_enter(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let calls = Calls::of(t, r)?;
    if !calls.are_single(ENOUGH_FOLLOWED, ENTERS_PER_S) || calls.in_flight < SEVERAL {
        return None;
    }
    let text = format!(
        "{} of the io_uring_enter calls that submitted requests submitted only one: {} such calls per second while the ring was in use, with about {:.0} \
         requests in flight",
        percent(calls.single),
        rate(calls.per_s, calls.seconds),
        calls.in_flight
    );
    Some(calls.finding(t, Severity::warning_if(calls.per_s >= ENTERS_COST_PER_S), text))
}

/// Maximum mean number of requests in flight if a request is usually the only one.
const ALONE: f64 = 1.5;
/// Share of requests that are complete when the submitting io_uring_enter call returns.
const AT_ONCE: f64 = 0.9;

/// In bytes. No device has smaller sectors, and a call costs more than copying them.
const SMALL: u64 = 512;

/// Bytes per data-transferring request; `None` without such requests, or if their bytes are unknown.
fn mean_bytes(r: &RingRecord) -> Option<u64> {
    let moves = || r.opcodes.iter().filter(|o| opcode::is(&o.opcode, opcode::READS | opcode::WRITES));
    let all: u64 = moves().map(|o| o.outcomes().saturating_sub(o.errors)).sum();
    let sum: u64 = moves().map(|o| o.bytes).sum();
    (all > 0 && sum > 0 && !moves().any(OpcodeRecord::bytes_unknown)).then(|| (sum + all / 2) / all)
}

/// The same if the program has nothing else to submit: one call per request, as with plain system calls.
fn one_at_a_time(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let calls = Calls::of(t, r)?;
    let at_once = inlined(r);
    if !calls.are_single(ENOUGH, ENTERS_COST_PER_S) || calls.in_flight > ALONE || at_once < AT_ONCE {
        return None;
    }
    let small = mean_bytes(r).filter(|mean| *mean < SMALL);
    let of_size = small.map(|mean| format!(" ({} on average)", bytes(mean))).unwrap_or_default();
    let text = format!(
        "{} io_uring_enter calls per second submitted one request each{of_size} while the ring was in use, and {} of the requests completed inline, \
         before the call returned. The program makes one system call per request",
        rate(calls.per_s, calls.seconds),
        percent(at_once)
    );
    let remedy = match small {
        Some(_) => {
            "move more bytes per request: receive into a larger buffer, or combine small writes; and prepare several requests before each \
             io_uring_enter call"
        }
        None => {
            "prepare several requests before each io_uring_enter call; if the program never has more than one request ready, pread(2) or pwrite(2) \
             costs less"
        }
    };
    Some(Finding { remedy: remedy.into(), ..calls.finding(t, Severity::Note, text) })
}

/// Maximum number of items per task work run, if the kernel limits it.
struct Cap {
    items: u32,
    /// If any run has more than `items` and at most this many, the kernel's limit is larger.
    up_to: u32,
    why: &'static str,
    remedy: &'static str,
}

const DEFERRED: Cap = Cap {
    items: 20,
    up_to: 20,
    why: "With DEFER_TASKRUN the kernel runs at most 20 items at a time unless the call waits for more",
    remedy: "let io_uring_enter wait for more than 20 completions (min_complete): min_complete then becomes the limit, and one call reaps them all",
};

const SQPOLL_REMEDY: &str = "keep fewer requests in flight on this ring, or spread them over several rings, each with its own SQPOLL thread. After each run, the remaining completions wait while the SQPOLL thread checks for submissions";

/// The kernel's limits by ring and version, the newer first. Rings without DEFER_TASKRUN and SQPOLL have none.
fn caps(r: &RingRecord, kernel: &str) -> Vec<Cap> {
    let since = |major, minor| version(kernel).is_some_and(|v| v >= (major, minor));
    if has(&r.flags, "defer_taskrun") {
        // IO_LOCAL_TW_DEFAULT_MAX: f46b9cdb22f7, Linux 6.13.
        return if since(6, 13) { vec![DEFERRED] } else { vec![] };
    }
    // IORING_TW_CAP_ENTRIES_VALUE: 8 since af5d68f8892f, Linux 6.9; 32 since 6.16, and in stable kernels since May 2025.
    if !has(&r.flags, "sqpoll") || !since(6, 9) {
        return vec![];
    }
    let why = |items| match items {
        32 => "The SQPOLL thread runs at most 32 items at a time",
        _ => "The SQPOLL thread of this kernel runs at most 8 items at a time (later kernels: 32)",
    };
    let limits: &[u32] = if since(6, 16) { &[32] } else { &[32, 8] };
    limits.iter().map(|&items| Cap { items, up_to: 32, why: why(items), remedy: SQPOLL_REMEDY }).collect()
}

/// Major and minor version of `6.18.44-fc`.
pub(super) fn version(kernel: &str) -> Option<(u32, u32)> {
    let mut parts = kernel.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Share of completions in full runs.
const PINNED: f64 = 0.5;
/// The number in flight, or submitted at once, exceeds the limit by half. At the limit itself, full runs may be the
/// program's own batches.
const BACKLOG: f64 = 1.5;
/// Larger runs are rare: only calls that wait for more completions have them.
const ABOVE: f64 = 0.05;

pub const CAPPED_BATCH: Rule = Rule {
    code: "capped_batch",
    about: "task-work runs with exactly the kernel's limit of items posted at least half of the completions. At least 1.5 times the limit was in flight or submitted at once. The limit is 20 with DEFER_TASKRUN since Linux 6.13. In an SQPOLL thread it is 32 since 6.9 (or 8 before 6.16, if no run had 9 to 32 items)",
    rests_on: RestsOn::Followed,
    checks: &[Check::Ring(capped)],
    ..RULE
};

fn capped(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let followed: u64 = r.run_items.iter().map(|i| i.completions).sum();
    if followed < ENOUGH_FOLLOWED {
        return None;
    }
    let carried: u64 = r.run_items.iter().map(RunItems::stands_for).sum();
    let of = |which: &dyn Fn(u32) -> bool| {
        let these: u64 = r.run_items.iter().filter(|i| which(i.items)).map(RunItems::stands_for).sum();
        these as f64 / carried as f64
    };
    let cap = caps(r, &t.total.host.kernel).into_iter().find(|cap| {
        let larger = of(&|items| items > cap.items);
        let between = of(&|items| items > cap.items && items <= cap.up_to);
        of(&|items| items == cap.items) >= PINNED && larger <= ABOVE && between == 0.0
    })?;
    let more = BACKLOG * f64::from(cap.items);
    // Includes polls and timeouts, because every ready request takes an item.
    let in_flight = in_flight(t, r, |_| true);
    let submitted: f64 = r.enter_batches.iter().map(EnterBatch::stands_for).sum();
    let at_once: f64 = r.enter_batches.iter().filter(|b| b.at_least as f64 >= more).map(EnterBatch::stands_for).sum();
    // With SQPOLL, neither is known for multishot requests. Then it suffices that runs are full and none is larger.
    let unknown = in_flight.is_none() && submitted == 0.0;
    if !unknown && in_flight.is_none_or(|n| n < more) && at_once < PINNED * submitted.max(1.0) {
        return None;
    }
    let share = of(&|items| items == cap.items);
    let depth = in_flight.map(|n| format!(", with {} requests in flight on average", three_digits(n)));
    let text = format!(
        "{} of completions were posted by task-work runs of exactly {} items, the kernel's limit{}. {}",
        percent(share),
        cap.items,
        depth.unwrap_or_default(),
        cap.why
    );
    let mut evidence = vec![("share", share), ("run_items", f64::from(cap.items))];
    evidence.extend(in_flight.map(|n| ("in_flight", n)));
    let f = CAPPED_BATCH.finding_from(followed, Severity::Warning, text, &evidence);
    // Only ready requests wait for the next run.
    Some(Finding { remedy: cap.remedy.into(), bound: of_stages(t, &[RequestStage::Ready]), ..f })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_and_minor_versions_are_parsed() {
        assert_eq!(
            ["6.18.44-fc", "7.2-rc1", "6.1.0-13-amd64"].map(version),
            [Some((6, 18)), Some((7, 2)), Some((6, 1))]
        );
        assert_eq!(version(""), None);
    }
}
