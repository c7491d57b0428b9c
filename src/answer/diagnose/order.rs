//! Completions in another order than their requests were submitted in, and where the order was lost.

use super::ENOUGH;
use crate::answer::delivered::WORTH_SAYING;
use crate::answer::finding::{Finding, Severity};
use crate::answer::words::{count, percent};
use crate::trace_record::TraceRecord;

/// The share of overtaking completions from which on something turns the order round. A drive and a scheduler that end n
/// requests in an order of their own, as is their task, make all but H(n) of n overtake another (H: 1 + 1/2 + … + 1/n); all
/// turned round is all but one. Half-way between. n: as far as any was displaced, and one.
fn turned_round(max_displacement: u64) -> f64 {
    let n = max_displacement as f64 + 1.0;
    // Euler's approximation is right within 1/(2n).
    let h = n.ln() + 0.5772;
    1.0 - (1.0 + h) / 2.0 / n
}

pub fn reordered(t: &TraceRecord) -> Option<Finding> {
    let order = t.total.order.as_ref().filter(|o| o.completions >= ENOUGH)?;
    let share = |n: u64| n as f64 / order.completions as f64;
    let (block, device, task_work) = (share(order.by.block), share(order.by.device), share(order.by.task_work));
    let file_system = order.by.file_system.map(share);
    let whole = share(order.inversions);
    let in_the_kernel = task_work.max(file_system.unwrap_or(0.0));
    if in_the_kernel < WORTH_SAYING && (order.max_displacement < 2 || whole < turned_round(order.max_displacement)) {
        return None;
    }
    let places = [
        (
            block,
            "block layer",
            "the scheduler sorts and merges, and a request that is split or has to be tried again falls behind; scheduler \
             `none` sorts least",
        ),
        (device, "device", "requests end as it can end them, and only fewer in flight at a time changes that"),
        (
            file_system.unwrap_or(0.0),
            "file system",
            "a kernel worker has to finish direct writes, and what needs none overtakes them",
        ),
        (
            task_work,
            "task work",
            "several CPUs queue completions as they come, and some kernels run first what was queued last",
        ),
    ];
    let mut lost: Vec<_> = places.into_iter().filter(|p| p.0 > 0.0).collect();
    lost.sort_by(|a, b| b.0.total_cmp(&a.0));
    let by: Vec<String> = lost.iter().map(|(share, place, _)| format!("{place} {}", percent(*share))).collect();
    let by = if by.is_empty() { "a place that was not followed".to_owned() } else { by.join(", ") };
    let text = format!(
        "{} of completions overtook one that was submitted before them, by up to {} places; the order was lost in: {by}",
        percent(whole),
        count(order.max_displacement as f64)
    );
    let place = lost.first().map(|(_, place, why)| format!("; in the {place}, {why}")).unwrap_or_default();
    let remedy = format!(
        "a program that needs an order has to say so (IOSQE_IO_LINK for a chain, IOSQE_IO_DRAIN for a barrier), and one that \
         does not goes by user_data{place}"
    );
    let mut evidence = vec![
        ("inversions_share", whole),
        ("max_displacement", order.max_displacement as f64),
        ("block_share", block),
        ("device_share", device),
        ("task_work_share", task_work),
    ];
    evidence.extend(file_system.map(|share| ("file_system_share", share)));
    Some(Finding::new("reordered", Severity::Note, text, &remedy, &evidence))
}
