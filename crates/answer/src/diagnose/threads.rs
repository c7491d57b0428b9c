//! The threads that submit to a ring, and the threads that wait for these requests.

use super::{Check, ENOUGH_EVENTS, ENOUGH_FOLLOWED, RULE, RestsOn, Rule};
use crate::delivered::{WORTH_SAYING, has};
use iotrail_base::words::{list, percent, plural, so_many, span};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::measurement::Followed;
use iotrail_schema::trace_record::{RingRecord, ThreadRecord, TraceRecord};

/// Maximum number of threads named in a text.
const NAMED: usize = 3;

/// Slower delivery costs time: a thread that waits for its own completions gets them within a wake-up, some 10 µs.
const LATE_NS: f64 = 50_000.0;

pub const REAPED_ELSEWHERE: Rule = Rule {
    code: "reaped_elsewhere",
    about: "task work of threads that do not wait for the ring posted at least 5 % (at least 50) of its traced completions. Other threads waited for the ring at least 20 times. It is a warning if their delivery took at least 50 µs on average, and at least twice as long as for other completions",
    rests_on: RestsOn::Followed,
    advice: "submit from the waiting thread (pass the requests to it), or give each submitting thread its own ring and wait there; or use sqpoll, \
             with which a kernel thread submits and posts for all waiters. defer_taskrun requires the same thread for both, and rejects a second \
             thread",
    checks: &[Check::Ring(reaped_elsewhere)],
    ..RULE
};

/// The kernel runs task work in the submitting thread. If that thread does other work, the waiter gets its completions
/// only when the submitter next enters or leaves the kernel.
fn reaped_elsewhere(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let threads = r.threads.as_ref()?;
    let detour = threads.detour.as_ref()?;
    // A thread of another process may wait; that process's use of the ring has a separate record.
    let whole = |r: &RingRecord| r.use_of.unwrap_or(r.ring);
    let same_ring = t.rings.iter().filter(|other| whole(other) == whole(r));
    let all = |of: &RingRecord| of.threads.as_ref().map_or(vec![], |threads| threads.threads.clone());
    let mut waiting: Vec<(&RingRecord, ThreadRecord)> =
        same_ring.flat_map(|of| all(of).into_iter().map(move |thread| (of, thread))).collect();
    waiting.retain(|(_, thread)| thread.waits > 0);
    waiting.sort_by_key(|(_, thread)| std::cmp::Reverse(thread.waits));
    let waits: u64 = waiting.iter().map(|(_, thread)| thread.waits).sum();
    // An SQPOLL thread posts completions itself, for all waiters.
    let enough = detour.completions >= ENOUGH_FOLLOWED && detour.share >= WORTH_SAYING && waits >= ENOUGH_EVENTS;
    if !enough || has(&r.flags, "sqpoll") {
        return None;
    }
    let submitting: Vec<&ThreadRecord> = threads.threads.iter().filter(|t| t.waits * 100 < t.submitted).collect();
    // The threads of a pool share a name, so naming one of them suffices.
    let are_alike = submitting.len() > NAMED && submitting.iter().all(|t| t.comm == submitting[0].comm);
    let named = submitting.iter().take(if are_alike { 1 } else { NAMED });
    let mut submitters: Vec<String> = named.map(|t| name(t)).collect();
    let more = (detour.threads as usize).saturating_sub(submitters.len());
    submitters.extend((more > 0).then(|| plural(more, if submitters.is_empty() { "thread" } else { "other thread" })));
    let waiters = waiting.iter().take(NAMED).map(|(of, thread)| match of.tgid == r.tgid {
        true => name(thread),
        false => format!("{} of process {} ({})", name(thread), of.comm, of.tgid),
    });
    let waiters: Vec<String> = waiters.collect();
    let by = detour.vehicles.iter().map(|v| {
        let detail = v.detail.as_ref().map(|d| format!(" ({d})")).unwrap_or_default();
        format!("{}{detail} {}", v.vehicle, percent(v.share))
    });
    let mean = |ns: Option<f64>| ns.map(span);
    let took = match (mean(detour.delivery_ns), mean(detour.others_delivery_ns)) {
        (Some(these), Some(others)) => {
            format!(". Their delivery took {these} on average, compared with {others} if the submitter waits itself")
        }
        (Some(these), None) => format!(". Their delivery took {these} on average"),
        (None, _) => String::new(),
    };
    let text = format!(
        "{} of completions belong to requests submitted by {} and awaited in io_uring_enter by {}. The kernel posts these completions in the \
         submitting thread when that thread next enters or leaves the kernel{took}. Delivery paths: {}",
        percent(detour.share),
        list(&submitters),
        list(&waiters),
        list(&by.collect::<Vec<_>>()),
    );
    let mut evidence = vec![
        ("share", detour.share),
        ("submitting_threads", detour.threads as f64),
        ("waiting_threads", waiting.len() as f64),
        ("waits", waits as f64),
    ];
    evidence.extend(detour.delivery_ns.map(|ns| ("delivery_ns", ns)));
    evidence.extend(detour.others_delivery_ns.map(|ns| ("others_delivery_ns", ns)));
    let late =
        detour.delivery_ns.is_some_and(|ns| ns >= LATE_NS && ns >= 2.0 * detour.others_delivery_ns.unwrap_or(0.0));
    let f = REAPED_ELSEWHERE.finding_from(detour.completions, Severity::warning_if(late), text, &evidence);
    let longer = detour.delivery_ns.map(|ns| (ns - detour.others_delivery_ns.unwrap_or(0.0)).max(0.0));
    let bound = r.stages.as_ref().zip(longer).and_then(|(stages, longer)| {
        super::of_delivery(Some(stages), (detour.share * longer / stages.delivery_ns.max(1.0)).min(1.0))
    });
    Some(Finding { bound, ..f })
}

/// `ib_read (4711)`.
fn name(t: &ThreadRecord) -> String {
    match &t.comm {
        Some(comm) => format!("{comm} ({})", t.tid),
        None => format!("thread {}", t.tid),
    }
}

/// Submitters and waiters of a ring, for its report. Empty if a single thread uses the ring and waits.
pub fn told(r: &RingRecord, followed: &Followed) -> Vec<String> {
    let Some(of) = r.threads.as_ref().filter(|of| of.threads.len() as u64 + of.more > 1) else { return Vec::new() };
    let thread = |t: &ThreadRecord| {
        let part = |n: u64, what: &str| (n > 0).then(|| so_many(n, what));
        let submitted = part(t.submitted, "request");
        // Only waits are exact counts.
        let about = |said: String| if followed.is_estimate() { format!("about {said}") } else { said };
        let parts: Vec<String> = [submitted.map(about), part(t.waits, "wait")].into_iter().flatten().collect();
        format!("{} {}", name(t), parts.join(" and "))
    };
    let mut items: Vec<String> = of.threads.iter().take(NAMED).map(thread).collect();
    let more = of.more + of.threads.len().saturating_sub(NAMED) as u64;
    items.extend((more > 0).then(|| format!("{more} more")));
    items.extend(of.waiting.is_none().then(|| "no thread waits in io_uring_enter".to_owned()));
    items
}
