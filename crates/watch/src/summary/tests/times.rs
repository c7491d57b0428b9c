//! Tests of latencies, stages, delays, waits and order of traced requests.

use super::*;

#[test]
fn latencies_are_reported_by_ring_and_opcode() {
    let write = |submitted, took| RequestTrace {
        ring: Some(1),
        opcode: "write".into(),
        posted: at(submitted + took, 0),
        ..trail(submitted)
    };
    let trails = (0..20).map(|i| trail(i * 1000)).chain((0..10).map(|i| write(i * 1000, 300)));
    let rings = vec![
        counted(0, vec![opcode("read", 20, 20)], vec![]),
        counted(1, vec![opcode("write", 9, 9), opcode("fsync", 1, 1)], vec![]),
    ];
    let r = record(1, trails, observed(rings, vec![]), &[]);
    assert_eq!((r.total.latency_ns.count, r.total.latency_ns.max), (30, Some(300)));
    assert_eq!((r.rings[0].latency_ns.count, r.rings[0].latency_ns.p50), (20, Some(100)));
    assert_eq!((r.rings[1].latency_ns.count, r.rings[1].latency_ns.mean), (10, Some(300.0)));
    let of = |name: &str| r.total.opcodes.iter().find(|o| o.opcode == name).map(|o| o.latency_ns.count);
    assert_eq!((of("read"), of("write"), of("fsync")), (Some(20), Some(10), Some(0)));
}

#[test]
fn mean_stage_durations_add_up_to_the_latency() {
    let slow = RequestTrace { issued: Some(at(1030, 0)), ready: Some(at(1040, 0)), posted: at(1100, 0), ..trail(1000) };
    // Clocks of two CPUs differ: the stages are unknown.
    let backwards = RequestTrace { ready: Some(at(2005, 1)), issued: Some(at(2010, 0)), ..trail(2000) };
    let t = followed(1, [staged(0), slow, backwards, trail(5000)]);
    let s = t.stages.unwrap();
    assert_eq!((s.completions, s.issue_ns, s.wait_ns, s.delivery_ns, s.total_ns), (2, 20.0, 30.0, 50.0, 100.0));
    assert_eq!((s.delivery_delay_ns.count, s.delivery_delay_ns.min, s.delivery_delay_ns.max), (2, Some(40), Some(60)));
    assert_eq!((t.followed.completions, t.followed.with_stages, t.latency_ns.count), (4, 2, 4));
    let pairs: Vec<_> = t.cpu_pairs.iter().map(|p| (p.ready_cpu, p.posted_cpu, p.completions)).collect();
    assert_eq!(pairs, [(0, 0, 1), (1, 0, 2)]);
}

#[test]
fn file_system_worker_time_is_part_of_delivery() {
    let ended = |submitted| RequestTrace { ended: Some(at(submitted + 90, 1)), ..staged(submitted) };
    let s = followed(1, [ended(0), staged(1000)]).stages.unwrap();
    assert_eq!((s.delivery_ns, s.file_system_ns, s.total_ns), (40.0, Some(15.0), 100.0));
    assert_eq!(followed(1, [staged(0)]).stages.unwrap().file_system_ns, None);
}

#[test]
fn delays_are_listed_by_delivery_path_and_detail() {
    let by = |submitted, detail: &str| RequestTrace {
        vehicle: DeliveryPath::Enter,
        detail: Some(detail.into()),
        ..staged(submitted)
    };
    let mut late = by(0, "ready");
    late.posted.ns += 500;
    let counts = || {
        vec![
            vehicle(DeliveryPath::Enter, Some("ready"), 70),
            vehicle(DeliveryPath::Enter, Some("slept"), 5),
            vehicle(DeliveryPath::Inline, None, 3),
        ]
    };
    let ring = counted(0, vec![opcode("read", 78, 78)], counts());
    let r = record(64, [by(1, "ready"), late, by(9, "slept")], observed(vec![ring], counts()), &[]);
    let delay =
        |count, max| Some(Delay { max: Some(max), count: Some(count), over_1ms: Some(0), ..Delay::default() }.into());
    for vehicles in [&r.total.vehicles, &r.rings[0].vehicles] {
        let delays: Vec<_> = vehicles.iter().map(|v| (v.completions, v.delay_ns.clone())).collect();
        assert_eq!(delays, [(70, delay(2, 540)), (5, delay(1, 40)), (3, None)]);
    }
}

#[test]
fn later_multishot_completions_have_no_latency() {
    let more = |opcode: &str, user_data, posted, more| RequestTrace {
        opcode: opcode.into(),
        user_data,
        more,
        posted: at(posted, 0),
        ready: Some(at(posted - 7, 0)),
        enter_batch: Some(4),
        ..trail(0)
    };
    let multishot = [100, 200, 300].map(|ns| more("recv", 1, ns, true));
    let sent = more("send_zc", 2, 50, true);
    let freed = RequestTrace { notification: true, ..more("send_zc", 2, 90, false) };
    let last = more("recv", 1, 400, false);
    // A later request with the same user data is a separate request.
    let again = RequestTrace { submitted: at(500, 0), ..more("recv", 1, 560, false) };
    let trails = multishot.into_iter().chain([sent, freed, last, again]);
    let ring = counted(
        0,
        vec![opcode("recv", 2, 5), opcode("send_zc", 1, 2)],
        vec![vehicle(DeliveryPath::TimerTick, None, 7)],
    );
    let r = record(8, trails, observed(vec![ring], vec![]), &[]);
    let of = |name: &str| r.total.opcodes.iter().find(|o| o.opcode == name).unwrap().latency_ns.clone();
    assert_eq!((of("send_zc").count, of("send_zc").max), (1, Some(50)));
    assert_eq!((of("recv").count, of("recv").max), (1, Some(60)));
    assert_eq!(r.total.followed.completions, 7);
    // Each of the completions has its own delivery delay.
    let delay = Delay { max: Some(7), count: Some(7), over_1ms: Some(0), ..Delay::default() };
    assert_eq!(r.rings[0].vehicles[0].delay_ns, Some(delay.into()));
    // Three requests with a weight of eight, from calls with four requests each.
    let batches: Vec<_> = r.total.enter_batches.iter().map(|b| (b.at_least, b.requests, b.calls)).collect();
    assert_eq!(batches, [(4, 3, 6.0)]);
}

/// A poll armed for this long, and posted 1 µs later.
fn armed(opcode: &str, submitted: u64, ns: u64) -> RequestTrace {
    RequestTrace {
        opcode: opcode.into(),
        issued: Some(at(submitted + 10, 0)),
        ready: Some(at(submitted + ns, 0)),
        posted: at(submitted + ns + 1_000, 0),
        course: Course::Poll,
        ..trail(submitted)
    }
}

/// Consecutive reads of 100 ns, next to an eventfd read that is pending throughout.
#[test]
fn an_open_wakeup_request_is_excluded_from_mean_and_order() {
    let reads = || (0..1_000).map(|i| staged(2 + i * 1_000));
    let ring = || vec![counted(0, vec![opcode("read", 1_001, 1_001)], vec![])];
    let r = record(1, reads().chain([armed("read", 1, 1_000_000)]), observed(ring(), vec![]), &[]);
    let waits = Some(Waits { requests: 1, estimated: 1, estimated_ci95: Some([1.0, 1.0]), mean_ns: 1_001_000.0 });
    for (latency, told, stages) in [
        (&r.total.latency_ns, &r.total.waits, &r.total.stages),
        (&r.rings[0].latency_ns, &r.rings[0].waits, &r.rings[0].stages),
        (&r.total.opcodes[0].latency_ns, &r.total.opcodes[0].waits, &r.total.opcodes[0].stages),
    ] {
        assert_eq!((latency.count, latency.mean, latency.p50), (1_001, Some(100.0), Some(100)));
        assert!(latency.max > Some(1_000_000), "nothing is hidden: {latency:?}");
        assert_eq!(*told, waits);
        let stages = stages.as_ref().unwrap();
        assert_eq!((stages.completions, stages.wait_ns, stages.total_ns), (1_000, 50.0, 100.0));
    }
    assert_eq!(r.total.followed.with_stages, 1_001);
    let order = r.total.order.as_ref().unwrap();
    assert_eq!((order.completions, order.waits, order.inversions, order.overtaken), (1_000, 1, 0, Some(0)));
    assert_eq!(order.delivery.as_ref().map(|d| d.completions), Some(1_001));
    // A disk read of the same length is not a wait: only known kinds of waits are separated.
    let slow = RequestTrace { course: Course::Block, ..armed("read", 1, 1_000_000) };
    let r = record(1, reads().chain([slow]), observed(ring(), vec![]), &[]);
    assert_eq!(
        (&r.total.waits, r.total.order.as_ref().map(|o| (o.inversions, o.overtaken))),
        (&None, Some((1_000, Some(1))))
    );
    assert!(r.total.latency_ns.mean > Some(1_000.0) && r.total.stages.unwrap().wait_ns > 1_000.0);
}

#[test]
fn timeouts_count_as_waits_only_if_there_are_reads() {
    let timeouts = || (0..20).map(|i| RequestTrace { opcode: "timeout".into(), ..trail(1 + i * 50) });
    let ring = |of: Vec<OpcodeCounts>| observed(vec![counted(0, of, vec![])], vec![]);
    let counts = || opcode("timeout", 20, 20);
    let both = record(1, timeouts().chain((1..21).map(staged)), ring(vec![counts(), opcode("read", 20, 20)]), &[]);
    assert_eq!(
        both.total.waits,
        Some(Waits { requests: 20, estimated: 20, estimated_ci95: Some([20.0, 20.0]), mean_ns: 100.0 })
    );
    assert_eq!(both.total.order.map(|o| (o.completions, o.waits)), Some((20, 20)));
    let of = |name: &str| both.total.opcodes.iter().find(|o| o.opcode == name).unwrap();
    assert_eq!(of("timeout").latency_ns.mean, Some(100.0), "there is nothing else of this operation");
    let alone = record(1, timeouts(), ring(vec![counts()]), &[]);
    assert_eq!((alone.total.waits, alone.total.latency_ns.mean), (None, Some(100.0)));
    assert_eq!(alone.total.order.map(|o| (o.completions, o.waits)), Some((20, 0)));
}

#[test]
fn requests_with_an_unknown_stage_are_excluded_from_its_mean() {
    let queued = RequestTrace { queued: Some(at(80, 0)), ..staged(0) };
    let s = followed(1, [queued, staged(1000), staged(2000), staged(3000)]).stages.unwrap();
    assert_eq!((s.completions, s.queued_completions), (4, 1));
    assert_eq!((s.queued_ns, s.queued_delivery_ns), (Some(20.0), Some(40.0)), "of the one of which it is known");
}

#[test]
fn the_completion_order_covers_only_first_completions() {
    let at_ns = |submitted, posted| RequestTrace { posted: at(posted, 0), ..trail(submitted) };
    let other_ring = RequestTrace { ring: Some(1), ..at_ns(4, 999) };
    let no_ring = RequestTrace { ring: None, ..at_ns(0, 9999) };
    let t = followed(1, [at_ns(1, 50), at_ns(2, 40), at_ns(3, 30), other_ring, no_ring]);
    let by = OrderBy { block: 0, device: 0, file_system: None, task_work: 0 };
    let expected =
        Order { completions: 4, inversions: 2, overtaken: Some(2), waits: 0, max_displacement: 2, by, delivery: None };
    assert_eq!(t.order, Some(expected));
}
