//! Completions posted in a different order from submission or readiness, and where the order was lost.

use super::batch::version;
use super::{Check, ENOUGH, RULE, RestsOn, Rule, of_delivery};
use crate::delivered::WORTH_SAYING;
use iotrail_base::words::{count, percent};
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::measurement::{Delivery, Order};
use iotrail_schema::trace_record::{RingRecord, TraceRecord};

/// Threshold for both overtaking and overtaken completions above which the order is systematically reversed. If a drive
/// or a scheduler completes n requests in random order, as permitted, all but H(n) of n overtake another (H: 1 + 1/2 +
/// … + 1/n); in full reversal, all but one do. The threshold is half-way between. n: the largest displacement plus one.
fn turned_round(max_displacement: u64) -> f64 {
    let n = max_displacement as f64 + 1.0;
    // The error of Euler's approximation is below 1/(2n).
    let h = n.ln() + 0.5772;
    1.0 - (1.0 + h) / 2.0 / n
}

/// Posted in a different order from readiness.
fn delivered_otherwise(order: &Order) -> Option<&Delivery> {
    let delivery = order.delivery.as_ref().filter(|d| d.completions >= ENOUGH)?;
    (delivery.inversions as f64 / delivery.completions as f64 >= WORTH_SAYING).then_some(delivery)
}

pub const DELIVERED_OUT_OF_ORDER: Rule = Rule {
    code: "delivered_out_of_order",
    about: "at least 5 % of a ring's completions with a known ready time were posted before a completion that was ready earlier. It is a warning if the kernel runs task work last in, first out",
    rests_on: RestsOn::Followed,
    advice: "if the program needs an order, derive it from the received data, not from the order of the CQ",
    checks: &[Check::Ring(delivered_out_of_order)],
    ..RULE
};

/// Waits for a peer end whenever the peer sends, in any order. The kernel can lose only the order of readiness.
fn delivered_out_of_order(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    let delivery = delivered_otherwise(r.order.as_ref()?)?;
    let share = |n: u64| n as f64 / delivery.completions as f64;
    let (task_work, file_system) = (share(delivery.by.task_work), delivery.by.file_system.map(share));
    let whole = share(delivery.inversions);
    let has = |flag: &str| r.flags.iter().any(|f| f == flag);
    // Number of threads observed to submit.
    let submitters = r.threads.as_ref().map(|t| t.threads.iter().filter(|t| t.submitted > 0).count() as u64 + t.more);
    let one_poster = ["single_issuer", "defer_taskrun", "sqpoll"].iter().any(|flag| has(flag)) || submitters == Some(1);
    let before = |major, minor| version(&t.total.host.kernel).is_some_and(|v| v < (major, minor));
    // 3af0356c162c, Linux 6.5, for the deferred list. The list of the other modes is reversed later, and still is in
    // 6.12.
    let reverses = before(6, 5);
    let at_submission = delivery.by.inline.is_some_and(|n| 2 * n > delivery.inversions);
    let (place, why, remedy) = if at_submission {
        let why = "Requests that complete at submission are posted at once, while requests that were ready earlier still wait for task work";
        ("submission", why, DELIVERED_OUT_OF_ORDER.advice)
    } else if file_system.is_some_and(|share| share > task_work) {
        let remedy = "move requests that need no worker, mostly reads, to a ring of their own";
        (
            "the file system",
            "Direct writes are finished by a kernel worker, and requests without a worker overtake them",
            remedy,
        )
    } else if reverses || (before(6, 12) && !has("defer_taskrun") && one_poster) {
        let remedy =
            "use Linux 6.5 or later with defer_taskrun, which runs task work in the order in which it was queued";
        ("task work", "This kernel runs task work in reverse order, the item queued last first", remedy)
    } else if one_poster {
        let why = "CPUs that make requests ready at the same time queue them in either order";
        ("task work", why, DELIVERED_OUT_OF_ORDER.advice)
    } else {
        let why = "Each thread posts its own submissions when it next enters the kernel, even if other threads' requests were ready earlier";
        let remedy =
            "let one thread submit to a ring (single_issuer, with defer_taskrun), or give each thread its own ring";
        ("task work", why, remedy)
    };
    let text = format!(
        "{} of the completions with a known ready time were posted before a completion that was ready earlier, by up to {} positions. The order was \
         lost in {place}. {why}",
        percent(whole),
        count(delivery.max_displacement as f64)
    );
    let mut evidence = vec![
        ("inversions_per_completion", whole),
        ("max_displacement", delivery.max_displacement as f64),
        ("completions_seen_ready", delivery.completions as f64),
        ("task_work_share", task_work),
    ];
    evidence.extend(file_system.map(|share| ("file_system_share", share)));
    evidence.extend(delivery.by.inline.map(|n| ("inline_share", share(n))));
    let severity = if reverses && place == "task work" { Severity::Warning } else { Severity::Note };
    let f = DELIVERED_OUT_OF_ORDER.finding_from(delivery.completions, severity, text, &evidence);
    Some(Finding { remedy: remedy.into(), bound: of_delivery(r.stages.as_ref(), whole), ..f })
}

pub const REORDERED: Rule = Rule {
    code: "reordered",
    about: "completions overtook earlier submissions, and were overtaken, more often than by chance. Or at least 5 % of them overtook in task work or in a file system's workers. Not reported with `delivered_out_of_order`",
    rests_on: RestsOn::Followed,
    checks: &[Check::Trace(reordered)],
    ..RULE
};

/// Omitted if the finding on delivery order already reports it.
fn reordered(t: &TraceRecord) -> Option<Finding> {
    let order = t.total.order.as_ref().filter(|o| o.completions >= ENOUGH)?;
    if t.rings.iter().filter_map(|r| r.order.as_ref()).any(|o| delivered_otherwise(o).is_some()) {
        return None;
    }
    let share = |n: u64| n as f64 / order.completions as f64;
    let (block, device, task_work) = (share(order.by.block), share(order.by.device), share(order.by.task_work));
    let file_system = order.by.file_system.map(share);
    let whole = share(order.inversions);
    // In a reversed order, nearly all completions both overtake and are overtaken. If all overtake a single slow
    // request, few are overtaken.
    let turned = whole.min(order.overtaken.map_or(whole, share));
    let in_the_kernel = task_work.max(file_system.unwrap_or(0.0));
    if in_the_kernel < WORTH_SAYING && (order.max_displacement < 2 || turned < turned_round(order.max_displacement)) {
        return None;
    }
    let places = [
        (
            block,
            "block layer",
            "the I/O scheduler sorts and merges, and a split or retried request falls behind; the scheduler `none` reorders least",
        ),
        (device, "device", "the device completes requests in any order; only fewer requests in flight reduce this"),
        (
            file_system.unwrap_or(0.0),
            "file system",
            "direct writes are finished by a kernel worker, and requests without a worker overtake them",
        ),
        (
            task_work,
            "task work",
            "several CPUs queue completions concurrently, and some kernels run the task work queued last first",
        ),
    ];
    let mut lost: Vec<_> = places.into_iter().filter(|p| p.0 > 0.0).collect();
    lost.sort_by(|a, b| b.0.total_cmp(&a.0));
    let by: Vec<String> = lost.iter().map(|(share, place, _)| format!("{place} {}", percent(*share))).collect();
    let by = if by.is_empty() { "an untraced stage".to_owned() } else { by.join(", ") };
    let text = format!(
        "{} of completions overtook an earlier submission, by up to {} positions. The order was lost in: {by}",
        percent(whole),
        count(order.max_displacement as f64)
    );
    let place = lost.first().map(|(_, place, why)| format!("; in the {place}, {why}")).unwrap_or_default();
    let remedy = format!(
        "if the program needs an order, request it (IOSQE_IO_LINK for a chain, IOSQE_IO_DRAIN for a barrier); otherwise identify completions by \
         user_data{place}"
    );
    let mut evidence = vec![
        ("inversions_share", whole),
        ("max_displacement", order.max_displacement as f64),
        ("block_share", block),
        ("device_share", device),
        ("task_work_share", task_work),
    ];
    evidence.extend(file_system.map(|share| ("file_system_share", share)));
    Some(Finding { remedy, ..REORDERED.finding_from(order.completions, Severity::Note, text, &evidence) })
}
