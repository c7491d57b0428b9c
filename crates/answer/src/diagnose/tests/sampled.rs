//! What few followed requests may stand for.

use super::*;

#[test]
fn too_few_completions_say_nothing() {
    for (code, make) in MATRIX {
        let mut t = make();
        let few = |n: &mut u64| *n = (*n).min(9);
        for r in &mut t.rings {
            few(&mut r.completions);
            if let Some(r) = &mut r.reaping {
                few(&mut r.left_long);
            }
            r.vehicles.iter_mut().for_each(|v| few(&mut v.completions));
            r.enter_batches.iter_mut().for_each(|b| few(&mut b.requests));
            r.run_items.iter_mut().for_each(|i| few(&mut i.completions));
            if let Some(detour) = r.threads.as_mut().and_then(|threads| threads.detour.as_mut()) {
                few(&mut detour.completions);
            }
            if let Some(runnable) = r.stages.as_mut().and_then(|stages| stages.runnable.as_mut()) {
                few(&mut runnable.completions);
            }
            if let Some(s) = &mut r.sqpoll {
                s.wakeups = Some(9);
                s.elapsed_ns = Some(9_000_000);
            }
        }
        few(&mut t.total.ios);
        few(&mut t.total.iowq.completions);
        t.total.cpu_pairs.iter_mut().for_each(|p| few(&mut p.completions));
        for o in &mut t.total.opcodes {
            for n in [&mut o.requests, &mut o.completions, &mut o.punted_asked, &mut o.punted_would_block] {
                few(n);
            }
        }
        few(&mut t.total.order.as_mut().unwrap().completions);
        let of_rings = t.rings.iter_mut().filter_map(|r| r.order.as_mut()?.delivery.as_mut());
        of_rings.for_each(|d| few(&mut d.completions));
        // Counted one by one, these are no shares of anything.
        let exact = [
            "cq_overflow",
            "buffers_exhausted",
            "bad_buffers",
            "never_completed",
            "overlapping_buffers",
            "unregistered_in_flight",
            "left_lying",
        ];
        assert_eq!(codes(&t).is_empty(), !exact.contains(&code), "{code}: {:?}", findings(&t));
    }
}

/// One of them alone says it of a few followed requests, however many these stand for.
#[test]
fn what_few_followed_requests_stand_for_is_not_many() {
    let mut t = one_per_enter();
    let batches = &mut t.rings[0].enter_batches;
    *batches = vec![EnterBatch { at_least: 1, requests: 40, estimated: Some(4_000), calls: 4_000.0, calls_ci95: None }];
    assert_eq!(codes(&t), Vec::<String>::new());
    let mut t = one_per_enter();
    t.rings[0].opcodes.iter_mut().for_each(|o| o.latency_ns.count = 40);
    assert_eq!(codes(&t), Vec::<String>::new(), "how many are in flight rests on their latency");
    let mut t = capped_batch();
    t.rings[0].run_items = vec![RunItems { items: 20, completions: 40, estimated: Some(80_000) }];
    assert_eq!(codes(&t), Vec::<String>::new());
    let mut t = wrong_core();
    t.total.cpu_pairs =
        vec![CpuPair { ready_cpu: 1, posted_cpu: 0, completions: 40, estimated: Some(80_000), threads: Some(1) }];
    assert_eq!(codes(&t), Vec::<String>::new());
}

/// Half of the requests came while windows finished: calls and crossings are estimated from the other half.
#[test]
fn rates_are_of_those_that_came_later_too() {
    let later = |t: &mut TraceRecord| t.total.followed.came_later = Some(40_000);
    let halved = |mut t: TraceRecord| {
        t.rings[0].enter_batches.iter_mut().for_each(|b| b.calls /= 2.0);
        t.total.cpu_pairs.iter_mut().for_each(|p| (p.completions, p.estimated) = (p.completions / 2, None));
        t
    };
    let mut t = halved(one_per_enter());
    assert!(only(&t, "one_per_enter").text.contains("20.0 k calls a second"));
    later(&mut t);
    assert!(only(&t, "one_per_enter").text.contains("40.0 k calls a second"));
    let mut t = halved(wrong_core());
    t.total.interrupts[0].credited = Some(5_000);
    assert_eq!(codes(&t), ["wrong_core"], "one for eight of 39,500 completions");
    later(&mut t);
    assert_eq!(codes(&t), Vec::<String>::new(), "one for sixteen of all");
}

#[test]
fn shares_are_of_what_the_followed_ones_stand_for() {
    let mut t = capped_batch();
    // Many while all were followed, in small runs; few of a busy time, which were most of it.
    t.rings[0].run_items = vec![
        RunItems { items: 2, completions: 200, estimated: Some(200) },
        RunItems { items: 20, completions: 100, estimated: Some(10_000) },
    ];
    let f = only(&t, "capped_batch");
    assert!(f.text.starts_with("98 % of completions came in task-work runs of exactly 20"), "{}", f.text);
    assert_eq!(f.evidence["from_followed"], 300.0);
}
