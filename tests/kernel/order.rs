//! The exact order of completions: `ground` makes requests ready in known shuffled orders, and counts inversions and
//! displacements pair by pair from its own writes and from the completions' positions in the queue. iotrail must report
//! the same numbers, independent of other activity.

use iotrail_schema::measurement::Order;
use iotrail_schema::trace_record::TraceRecord;
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::ground::watch;
use crate::trial;

pub fn trials() -> Vec<Trial> {
    let in_order = ["order_defer", "order_coop", "order_default", "order_multishot"];
    let kept = in_order.map(|name| trial::test(format!("order::{name}_is_kept"), move || kept(name)));
    let lost = trial::test("order::completions_of_two_threads_on_one_ring_are_reordered_by_task_work", lost);
    let alike = trial::test("order::multishot_requests_with_the_same_user_data_are_indistinguishable", alike);
    kept.into_iter().chain([lost, alike]).collect()
}

/// The reported order equals the true one, in total and for the only ring.
fn exact(scenario: &str) -> Result<(Order, Vec<String>), Failed> {
    let fact = |truth: &Value, name: &str| {
        truth["facts"][name].as_u64().unwrap_or_else(|| panic!("{scenario} says no {name}"))
    };
    // A request that took more than a hundred times as long as the others counts as a wait and is excluded from the
    // order; all other counts stay equal.
    let stood_still = |(trace, truth): &(TraceRecord, Value)| {
        trace.total.order.as_ref().map_or(0, |order| order.waits.saturating_sub(fact(truth, "order_waits")))
    };
    let mut watched = watch(scenario);
    for _ in 0..2 {
        if stood_still(&watched) > 0 {
            trial::attempt_failed(format!("{scenario}: a request waited for a thread that another program stopped"));
            watched = watch(scenario);
        }
    }
    let apart = stood_still(&watched);
    let (trace, truth) = watched;
    let order = trace.total.order.clone().ok_or("all were followed")?;
    let delivery = order.delivery.clone().ok_or("they were seen to become ready")?;
    let figures = [
        ("order_waits", order.waits - apart),
        ("order_completions", order.completions + apart),
        ("delivery_completions", delivery.completions),
        ("delivery_inversions", delivery.inversions),
        ("delivery_max_displacement", delivery.max_displacement),
        ("delivery_without_ready", delivery.without_ready),
    ];
    let of_all =
        [("order_inversions", order.inversions), ("order_max_displacement", order.max_displacement)].into_iter();
    for (name, seen) in figures.into_iter().chain(of_all.filter(|_| apart == 0)) {
        assert_eq!(seen, fact(&truth, name), "{scenario}: {name}: {order:?}");
    }
    assert!(delivery.completions >= 4_000, "{scenario}: {delivery:?}");
    let followed = &trace.total.followed;
    assert_eq!(followed.completions, delivery.completions + delivery.without_ready, "{scenario}");
    assert_eq!((followed.no_room, followed.ring_buffer_full, followed.shared_user_data), (0, 0, 0), "{scenario}");
    assert_eq!(trace.rings.iter().map(|r| r.order.clone()).collect::<Vec<_>>(), [Some(order.clone())], "{scenario}");
    let carried: u64 = trace.total.vehicles.iter().filter_map(|v| v.delay_ns.as_ref()?.count).sum();
    assert_eq!(carried, delivery.completions, "{scenario}: each has its delivery delay");
    Ok((order, trace.findings.into_iter().map(|f| f.code).collect()))
}

/// Whether this kernel runs its task work list in queueing order instead of reversing it.
pub fn is_kept_here() -> bool {
    iotrail_host::kernel::version().is_none_or(|version| version >= (6, 4, 0))
}

/// Task work runs in queueing order on the kernels listed in docs/kernels.md, and in reverse order on older ones.
fn kept(scenario: &str) -> Result<(), Failed> {
    let (order, findings) = exact(scenario)?;
    let delivery = order.delivery.ok_or("looked at above")?;
    let reported = findings.contains(&"delivered_out_of_order".to_owned());
    if !is_kept_here() {
        assert!(delivery.inversions * 2 >= delivery.completions && reported, "{scenario}: {delivery:?} {findings:?}");
        assert_eq!(delivery.by.task_work, delivery.inversions, "{scenario}: nothing else can lose it");
        return Ok(());
    }
    assert_eq!((delivery.inversions, delivery.max_displacement, delivery.by.task_work), (0, 0, 0), "{scenario}");
    assert!(!reported, "{scenario}: {findings:?}");
    if scenario != "order_multishot" {
        // 8 reads in random order: all but 1 + 1/2 + … + 1/8 of them overtake another.
        let share = order.inversions as f64 / order.completions as f64;
        assert!((0.62..0.70).contains(&share), "{scenario}: {share}");
        assert_eq!(order.max_displacement, 7, "{scenario}");
    }
    Ok(())
}

/// One thread's submissions wait until it enters the kernel, while the other thread's are posted. How often a tick
/// comes first depends on the machine; the numbers are equal anyway.
fn lost() -> Result<(), Failed> {
    let (order, findings) = exact("order_two_threads")?;
    let delivery = order.delivery.ok_or("looked at above")?;
    assert!(delivery.inversions >= 400, "{delivery:?}");
    assert_eq!(delivery.by.task_work, delivery.inversions, "nothing else could lose it");
    assert!(findings.contains(&"delivered_out_of_order".to_owned()), "{findings:?}");
    Ok(())
}

/// The last completions of requests identify them; the owner of earlier ones is unknown.
fn alike() -> Result<(), Failed> {
    let (trace, truth) = watch("same_user_data");
    let followed = &trace.total.followed;
    assert_eq!(Some(followed.shared_user_data), truth["facts"]["not_told_apart"].as_u64(), "{followed:?}");
    assert_eq!((followed.completions, followed.no_completion, followed.unfinished), (2, 0, 0), "{followed:?}");
    Ok(())
}
