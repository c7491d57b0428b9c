//! Tests of the probes' counts by ring, opcode and context.

use super::*;
use iotrail_path::division::ReapedStamps;

#[test]
fn the_first_traced_request_of_each_error_is_identified() {
    let failed = |submitted, result| RequestTrace { result, ..trail(submitted) };
    let of = OpcodeCounts { errors: 9, errnos: vec![(14, 6), (11, 3)], ..opcode("read", 9, 9) };
    let trails = [failed(300, -14), failed(200, -14), trail(100)];
    let r = record(1, trails, observed(vec![counted(0, vec![of], vec![])], vec![]), &[]);
    let errnos = |o: &OpcodeRecord| o.errnos.iter().map(|e| (e.errno.clone(), e.user_data.clone())).collect::<Vec<_>>();
    let wanted = [("EFAULT".to_owned(), Some(format!("{:#x}", 200))), ("EAGAIN".to_owned(), None)];
    assert_eq!([errnos(&r.rings[0].opcodes[0]), errnos(&r.total.opcodes[0])], [wanted.to_vec(), wanted.to_vec()]);
}

#[test]
fn counts_in_the_record_come_from_the_probes() {
    let tick = || vehicle(DeliveryPath::TimerTick, None, 6);
    let slept = || vehicle(DeliveryPath::Enter, Some("slept"), 4);
    let worker = vehicle(DeliveryPath::Iowq, None, 2);
    let errors = OpcodeCounts { errors: 2, ..opcode("read", 5, 4) };
    let rings = vec![
        counted(
            0,
            vec![OpcodeCounts { bytes: 100, shorts: 1, ..opcode("read", 6, 6) }, opcode("nop", 2, 2)],
            vec![tick()],
        ),
        counted(1, vec![OpcodeCounts { bytes: 7, errnos: vec![(11, 2)], ..errors }], vec![slept()]),
    ];
    let r = record(64, [], observed(rings, vec![tick(), slept(), worker]), &[]);
    let t = &r.total;
    assert_eq!((t.ios, t.bytes, t.errors, t.short_ios, t.iops), (12, 107, 2, 1, 6.0));
    assert_eq!((t.per_io.kicks, t.per_io.device_irqs, t.per_io.syscalls), (Some(0.25), Some(0.5), None));
    assert_eq!((t.per_io.mode_switches, t.per_io.context_switches), (None, Some(1.0)));
    assert_eq!(t.iowq, IowqRecord { workers: 3, most_at_once: Some(3), completions: 2, cpu_ns: None });
    assert_eq!((t.cpu.user_ns, t.cpu.system_ns, t.page_faults), (Some(21), Some(22), Some(5)));
    assert_eq!((t.followed.one_in, t.followed.completions, t.followed.unfinished), (64, 0, 4));
    let opcodes: Vec<_> = t.opcodes.iter().map(|o| (o.opcode.as_str(), o.requests, o.completions, o.bytes)).collect();
    assert_eq!(opcodes, [("read", 11, 10, 107), ("nop", 2, 2, 0)]);
    assert_eq!(t.opcodes[0].errnos, [ErrnoCount { errno: "EAGAIN".into(), count: 2, user_data: None }]);
    let rings: Vec<_> = r.rings.iter().map(|r| (r.ring, r.requests, r.completions, r.bytes, r.errors)).collect();
    assert_eq!(rings, [(0, 8, 8, 100, 0), (1, 5, 4, 7, 2)]);
    assert_eq!((&t.order, &t.stages, t.latency_ns.count, t.latency_ns.p50), (&None, &None, 0, None));
    assert!(t.vehicles.iter().all(|v| v.delay_ns.is_none()) && t.warnings.is_empty());
}

#[test]
fn a_ring_includes_the_values_of_its_sqpoll_thread() {
    let polled = RingCounts { setup_flags: SQPOLL, ..counted(0, vec![opcode("read", 40, 39)], vec![]) };
    let seen = SeenRing {
        tgid: 7,
        fds: [5, 3].into(),
        sq_entries: 8,
        cq_entries: 16,
        first_entries: (8, 16),
        found: false,
        posted: 39,
        before: 0,
        last_tail: 39,
        is_read: true,
        sq_thread: Some(8),
        sq_cpu: Some(1),
        first_work_ns: Some(100),
        last_work_ns: Some(400),
        napi: None,
    };
    let expected = SqpollRecord {
        tid: 8,
        cpu: Some(1),
        elapsed_ns: Some(1000),
        cpu_ns: Some(900),
        work_ns: Some(400),
        wakeups: Some(5),
        requests: 40,
        shared_with: vec![],
    };
    let r = record(1, [trail(0)], observed(vec![polled.clone()], vec![]), std::slice::from_ref(&seen));
    assert_eq!((&r.rings[0].fds, &r.rings[0].sqpoll), (&vec![3, 5], &Some(expected.clone())));
    assert_eq!(r.rings[0].flags, ["sqpoll"]);
    // The traced request shows the thread; /proc shows nothing about the ring.
    let r = record(1, [trail(0)], observed(vec![polled.clone()], vec![]), &[]);
    assert_eq!(r.rings[0].sqpoll, Some(SqpollRecord { cpu: None, work_ns: None, ..expected }));
    // A second ring with the same thread (IORING_SETUP_ATTACH_WQ).
    let both = vec![polled.clone(), RingCounts { ring: 1, ..polled.clone() }];
    let attached = SeenRing { posted: 900, first_work_ns: Some(300), last_work_ns: Some(500), ..seen.clone() };
    let trails = [trail(0), RequestTrace { ring: Some(1), ..trail(0) }];
    let r = record(1, trails, observed(both, vec![]), &[seen, attached]);
    let shared = r.rings.iter().map(|r| r.sqpoll.as_ref().unwrap());
    let shared: Vec<_> = shared.map(|s| (s.shared_with.clone(), s.cpu, s.work_ns)).collect();
    assert_eq!(shared, [(vec![1], Some(1), Some(500)), (vec![0], Some(1), Some(500))]);
    let r = record(1, [], observed(vec![polled], vec![]), &[]);
    assert_eq!((&r.rings[0].fds, &r.rings[0].sqpoll), (&vec![], &None));
}

#[test]
fn requests_lost_by_the_tracer_are_reported() {
    let loss = FollowLoss { no_room: 2, ring_buffer_full: 3, ..FollowLoss::default() };
    let r = record(1, [], Observed { follow_loss: loss, ..observed(vec![], vec![]) }, &[]);
    assert_eq!((r.total.followed.no_room, r.total.followed.ring_buffer_full), (2, 3));
    assert!(r.total.warnings.iter().any(|w| w.code == "followed_lost"), "{:?}", r.total.warnings);
}

#[test]
fn native_aio_requests_are_counted_per_context_and_in_total() {
    let direct = ContextCounts {
        context: 1,
        kind: ContextKind::Libaio,
        tgid: 7,
        comm: "db".into(),
        entries: Some(127),
        found: false,
        active_ns: Some(300),
        opcodes: vec![OpcodeCounts { bytes: 8192, ..opcode("pread", 3, 2) }],
        vehicles: vec![vehicle(DeliveryPath::IrqDirect, None, 2)],
    };
    let out_of_sight =
        ContextCounts { context: 2, active_ns: None, opcodes: vec![opcode("pread", 5, 0)], ..direct.clone() };
    let mut observed = observed(vec![], vec![vehicle(DeliveryPath::IrqDirect, None, 4)]);
    observed.contexts = vec![direct, out_of_sight];
    let mut summary = Summary::new(Choice::fixed(1));
    for (submitted_ns, reaped_ns) in [(1_000, 1_300), (1_100, 1_200)] {
        let (opcode, fd, result) = ("pread".into(), 3, 4096);
        summary.take_reaped(Reaped {
            context: 1,
            tgid: 7,
            opcode,
            submitted_ns,
            reaped_ns,
            seen: ReapedStamps::default(),
            weight: 1,
            fd,
            result,
        });
    }
    let part = &summary.parts[&Some(1)];
    let total = total(observed.clone(), part, &part.times(), &summary, 1_000, &[], &|_, _, _| false);
    assert_eq!((total.ios, total.bytes, total.opcodes.len()), (4, 8192, 1));
    assert_eq!((total.opcodes[0].requests, total.opcodes[0].completions), (8, 2));
    assert_eq!((total.latency_ns.count, total.latency_ns.max), (2, Some(300)));
    let codes: Vec<&str> = total.warnings.iter().map(|w| w.code.as_str()).collect();
    assert_eq!(codes, ["results_unseen"], "2 of 4");

    let none = Part::default();
    let seen = context(&observed.contexts[0], &summary.parts[&Some(1)], 1);
    assert_eq!((seen.requests, seen.completions, seen.reaped), (3, 2, 2));
    assert_eq!((seen.bytes, seen.errors, seen.active_ns), (Some(8192), Some(0), Some(300)));
    assert_eq!((seen.latency_ns.min, seen.interface.as_str()), (Some(100), "libaio"));
    let unseen = context(&observed.contexts[1], &none, 1);
    assert_eq!((unseen.requests, unseen.completions, unseen.reaped), (5, 2, 0));
    assert_eq!((unseen.bytes, unseen.errors, unseen.active_ns), (None, None, None));
    // Results without an observed submission are counted, but not as bytes.
    let mut half = observed.contexts[0].clone();
    half.opcodes.push(opcode("unknown", 0, 3));
    let half = context(&half, &none, 1);
    assert_eq!((half.reaped, half.bytes, half.errors), (5, None, Some(0)));
}
