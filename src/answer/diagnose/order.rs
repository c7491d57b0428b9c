//! Completions in another order than their requests were submitted in, and where the order was lost.

use super::ENOUGH;
use crate::answer::delivered::WORTH_SAYING;
use crate::answer::finding::{Finding, Severity};
use crate::answer::words::{count, percent};
use crate::trace_record::TraceRecord;

/// A drive with several requests in flight ends some before others; only where a quarter change places is its order
/// nothing to build on.
const BY_DEVICE: f64 = 0.25;

pub fn reordered(t: &TraceRecord) -> Option<Finding> {
    let order = t.total.order.as_ref().filter(|o| o.completions >= ENOUGH)?;
    let share = |n: u64| n as f64 / order.completions as f64;
    let (block, device, task_work) = (share(order.by.block), share(order.by.device), share(order.by.task_work));
    if block < WORTH_SAYING && task_work < WORTH_SAYING && device < BY_DEVICE {
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
            task_work,
            "task work",
            "several CPUs queue completions as they come, and some kernels run first what was queued last",
        ),
    ];
    let mut lost: Vec<_> = places.into_iter().filter(|p| p.0 > 0.0).collect();
    lost.sort_by(|a, b| b.0.total_cmp(&a.0));
    let by: Vec<String> = lost.iter().map(|(share, place, _)| format!("{place} {}", percent(*share))).collect();
    let text = format!(
        "{} of completions came after one that was submitted later, by up to {} places; the order was lost in: {}",
        percent(share(order.inversions)),
        count(order.max_displacement as f64),
        by.join(", ")
    );
    let (_, place, why) = lost.first()?;
    let remedy = format!(
        "a program that needs an order has to say so (IOSQE_IO_LINK for a chain, IOSQE_IO_DRAIN for a barrier), and one that \
         does not goes by user_data; in the {place}, {why}"
    );
    let evidence = [
        ("inversions_share", share(order.inversions)),
        ("max_displacement", order.max_displacement as f64),
        ("block_share", block),
        ("device_share", device),
        ("task_work_share", task_work),
    ];
    Some(Finding::new("reordered", Severity::Note, text, &remedy, &evidence))
}
