//! Estimates from a sample of the requests.

use super::*;

#[test]
fn submission_batches_and_task_work_runs_are_estimated() {
    let of = |batch, items| RequestTrace { enter_batch: Some(batch), run_items: Some(items), ..trail(0) };
    let alone = RequestTrace { run_items: None, ..of(1, 0) };
    let ring = counted(0, vec![], vec![]);
    let r = record(2, [of(2, 8), of(3, 8), alone, of(32, 1), trail(9)], observed(vec![ring], vec![]), &[]);
    for batches in [&r.total.enter_batches, &r.rings[0].enter_batches] {
        let batches: Vec<_> = batches.iter().map(|b| (b.at_least, b.requests, b.calls)).collect();
        assert_eq!(batches, [(1, 1, 2.0), (2, 2, 2.0 * (0.5 + 1.0 / 3.0)), (32, 1, 2.0 / 32.0)]);
    }
    // Few requests give little information about calls.
    let [lo, hi] = r.total.enter_batches[0].calls_ci95.unwrap();
    assert!(lo < 0.2 && hi > 11.0, "{lo} to {hi}");
    let runs: Vec<_> = r.rings[0].run_items.iter().map(|r| (r.items, r.completions)).collect();
    assert_eq!((runs, &r.total.run_items), (vec![(1, 1), (8, 2)], &r.rings[0].run_items));
}

#[test]
fn task_work_runs_with_multishot_completions_use_exact_counts() {
    // One run with one item, which posted three completions.
    let one = |user_data| RequestTrace { run_items: Some(1), more: user_data < 3, ..trail(user_data) };
    let mut counts = observed(vec![counted(0, vec![opcode("recv", 1, 3)], vec![])], vec![]);
    (counts.task_work_runs, counts.run_batches) = (Some(1), vec![(1, 1)]);
    let r = record(1, [1, 2, 3].map(one), counts, &[]);
    let json = serde_json::to_value(&r).unwrap();
    for part in [&json["total"], &json["rings"][0]] {
        assert_eq!(part["run_items"], serde_json::json!([{"items": 1, "completions": 3, "estimated": 3}]));
        assert_eq!(part.get("runs"), None);
    }
    assert_eq!(json["total"]["task_work_batches"], serde_json::json!([{"at_least": 1, "runs": 1}]));
}

#[test]
fn each_traced_request_counts_by_its_weight() {
    let of = |weight, took, ready_cpu| RequestTrace {
        weight,
        posted: at(took, 0),
        ready: Some(at(took - 50, ready_cpu)),
        issued: Some(at(10, 0)),
        enter_batch: Some(if weight == 1 { 1 } else { 4 }),
        run_items: Some(2),
        ..trail(0)
    };
    // 20 requests while all were traced, and 12 with a weight of 100 in a busy phase.
    let trails = || (0..20).map(|_| of(1, 1_000, 0)).chain((0..12).map(|_| of(100, 9_000, 1)));
    let mut counts = observed(vec![counted(0, vec![opcode("read", 1_250, 1_250)], vec![])], vec![]);
    counts.follow_loss.sampled_from = 1_230;
    let r = recorded(Choice::adaptive(100), trails(), counts, &[]);
    let t = &r.total;
    let f = &t.followed;
    assert_eq!((f.one_in, f.adaptive, f.completions, f.whole, f.sampled_from), (100, true, 32, 20, Some(1_230)));
    assert_eq!(f.requests_estimated, Some(1_220.0));
    let [lo, hi] = f.requests_ci95.unwrap();
    assert!(lo > 20.0 && lo < 1_250.0 && hi > 1_250.0, "{lo} to {hi}");
    let mean = (20.0 * 1_000.0 + 1_200.0 * 9_000.0) / 1_220.0;
    assert!((t.latency_ns.mean.unwrap() / mean - 1.0).abs() < 1e-3 && t.latency_ns.count == 32);
    assert_eq!((t.latency_ns.min, t.latency_ns.p50, t.latency_ns.p90), (Some(1_000), Some(9_007), None));
    let s = t.stages.as_ref().unwrap();
    assert_eq!((s.completions, s.issue_ns, s.delivery_ns), (32, 10.0, 50.0));
    assert!((s.wait_ns - (mean - 60.0)).abs() < 1e-6, "{}", s.wait_ns);
    let pairs: Vec<_> = t.cpu_pairs.iter().map(|p| (p.ready_cpu, p.completions, p.estimated)).collect();
    assert_eq!(pairs, [(0, 20, Some(20)), (1, 12, Some(1_200))]);
    let batches: Vec<_> = t.enter_batches.iter().map(|b| (b.at_least, b.requests, b.calls)).collect();
    assert_eq!(batches, [(1, 20, 20.0), (4, 12, 300.0)]);
    let runs: Vec<_> = t.run_items.iter().map(|i| (i.items, i.completions, i.estimated)).collect();
    assert_eq!(runs, [(2, 32, Some(1_220))]);
    assert_eq!(t.enter_calls, None, "of twelve, no total is told");
    // If no request was skipped, nothing is estimated.
    let one = observed(vec![counted(0, vec![opcode("read", 20, 20)], vec![])], vec![]);
    let r = recorded(Choice::adaptive(100), trails().take(20), one, &[]);
    assert_eq!(r.total.enter_calls, Some(Estimate { total: 20.0, ci95: [20.0, 20.0] }));
    assert_eq!((r.total.followed.requests_ci95, r.total.followed.sampled_from), (Some([20.0, 20.0]), Some(0)));
}

#[test]
fn the_threads_of_a_cpu_pair_are_those_that_submit_most_requests() {
    let of = |tid, n: u64| (0..n).map(move |i| RequestTrace { tid, ..staged(1 + i * 1_000) });
    let threads = |trails: Vec<RequestTrace>| followed(1, trails).cpu_pairs[0].threads;
    assert_eq!(threads(of(8, 95).chain(of(9, 5)).collect()), Some(1), "one that hardly submits");
    assert_eq!(threads((1..=4).flat_map(|tid| of(tid, 25)).collect()), Some(4));
    assert_eq!(threads((1..=3_000).flat_map(|tid| of(tid, 1)).collect()), Some(1_024), "as many as are kept");
}

#[test]
fn a_request_punted_twice_counts_once() {
    let punted = |i| RequestTrace { punted: Some(iotrail_schema::trail::Punt::Asked), ..trail(i) };
    let counts = OpcodeCounts { punted_asked: 40, ..opcode("read", 30, 30) };
    let ring = || observed(vec![counted(0, vec![counts.clone()], vec![])], vec![]);
    let trails = || (0..20).map(punted).chain((20..30).map(trail));
    let exact = Some(Estimate { total: 20.0, ci95: [20.0, 20.0] });
    assert_eq!(record(1, trails(), ring(), &[]).total.opcodes[0].punted_requests, exact);
    assert_eq!(record(64, trails(), ring(), &[]).total.opcodes[0].punted_requests, None, "of 20 of a sample");
}

#[test]
fn requests_submitted_later_or_unfinished_are_counted() {
    let requests = |choice, trails: u64, weight, loss: FollowLoss| {
        let trails = (0..trails).map(|i| RequestTrace { weight, ..trail(i * 1_000) });
        let f =
            recorded(choice, trails, Observed { follow_loss: loss, ..observed(vec![], vec![]) }, &[]).total.followed;
        f.requests_estimated.zip(f.requests_ci95)
    };
    let chosen = Chosen { whole: 3, sampled: 0 };
    let loss = FollowLoss { came_later: 7_600, unfinished: 3, chosen, ..FollowLoss::default() };
    // If all requests were selected, the count is exact.
    assert_eq!(requests(Choice::fixed(1), 20, 1, loss), Some((7_623.0, [7_623.0, 7_623.0])));
    assert_eq!(
        requests(Choice::fixed(1), 0, 1, FollowLoss { chosen: Chosen::default(), ..loss }),
        Some((7_600.0, [7_600.0; 2]))
    );
    assert_eq!(requests(Choice::fixed(1), 0, 1, FollowLoss::default()), None);
    // Later requests shift both ends of the interval by the same amount.
    let chosen = Chosen { whole: 0, sampled: 2 };
    let loss = FollowLoss { chosen, sampled_from: 2_000, ..FollowLoss::default() };
    let (alone, [lo, hi]) = requests(Choice::fixed(100), 18, 100, loss).unwrap();
    assert!(alone == 2_000.0 && lo > 1_200.0 && lo < 2_000.0 && hi > 2_000.0 && hi < 3_200.0, "{lo} to {hi}");
    let later = requests(Choice::fixed(100), 18, 100, FollowLoss { came_later: 7_600, ..loss });
    assert_eq!(later, Some((9_600.0, [lo + 7_600.0, hi + 7_600.0])));
    assert_eq!(requests(Choice::fixed(100), 0, 100, FollowLoss { came_later: 7_600, ..FollowLoss::default() }), None);
}

/// 1,000 requests with a heavy tail and a weight of 100; and too few for an interval.
#[test]
fn a_sampled_mean_has_an_interval_only_with_enough_samples() {
    let of = |n: u64| {
        let took = |i| if i % 50 == 0 { 10_000 } else { 100 };
        let trails =
            (0..n).map(|i| RequestTrace { posted: at(i * 100_000 + took(i), 0), weight: 100, ..staged(i * 100_000) });
        let mut counts = observed(vec![counted(0, vec![opcode("read", n * 100, n * 100)], vec![])], vec![]);
        counts.follow_loss.sampled_from = n * 100;
        recorded(Choice::adaptive(100), trails, counts, &[])
    };
    let (r, few) = (of(1_000), of(162));
    for (mean, latency) in [
        (298.0, &r.total.latency_ns),
        (298.0, &r.rings[0].latency_ns),
        (298.0, &r.rings[0].opcodes[0].latency_ns),
        (238.0, &r.total.stages.as_ref().unwrap().delivery_delay_ns),
    ] {
        let [lo, hi] = latency.mean_ci95.unwrap();
        assert_eq!(latency.mean, Some(mean));
        // The standard error of 20 slow requests in 1,000 is 44; possible further slow ones widen the interval.
        assert!((mean - 90.0..mean - 60.0).contains(&lo) && (mean + 110.0..mean + 150.0).contains(&hi), "{lo} to {hi}");
    }
    let s = r.rings[0].stages.as_ref().unwrap();
    assert_eq!((s.total_ns, s.total_ci95), (298.0, r.total.latency_ns.mean_ci95));
    assert!(few.total.latency_ns.mean.is_some_and(|m| m > 300.0));
    assert_eq!((few.total.latency_ns.mean_ci95, few.rings[0].stages.as_ref().unwrap().total_ci95), (None, None));
    // If no request was skipped, the mean is exact.
    let all = followed(1, (0..20).map(|i| trail(i * 1_000)));
    assert_eq!((all.latency_ns.mean, all.latency_ns.mean_ci95), (Some(100.0), Some([100.0, 100.0])));
}

#[test]
fn requests_in_windows_are_weighted_by_the_time_they_represent() {
    let mut summary = Summary::new(Choice::fixed(1));
    let took = |ns| RequestTrace { posted: at(ns, 0), ..trail(0) };
    // One completely traced second, and five windows of 10 ms in ten seconds.
    (0..1000).for_each(|_| summary.take(took(500_000)));
    summary.scale = 200;
    (0..50).for_each(|_| summary.take(took(100_000)));
    let latency = summary.parts[&trail(0).ring].times().latency(1);
    assert_eq!((latency.count, latency.p50.map(|ns| ns / 1000)), (1050, Some(100)));
    let mean = (1000.0 * 500_000.0 + 10_000.0 * 100_000.0) / 11_000.0;
    assert!((latency.mean.unwrap() / mean - 1.0).abs() < 1e-3, "{latency:?}");
}
