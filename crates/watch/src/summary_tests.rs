//! Hand-made counts and followed requests, and the exact numbers that they make.

use super::*;
use crate::namespace::Numbers;
use iotrail_path::multishot::Multishot;
use iotrail_probe::rings::{Chosen, ContextKind, FollowLoss};
use iotrail_schema::measurement::{Delay, Order, OrderBy, Waits};
use iotrail_schema::trail::{Course, Stamp};
use iotrail_schema::trail_example;

fn at(ns: u64, cpu: u32) -> Stamp {
    Stamp { ns, cpu }
}

/// A read of ring 0, submitted at `submitted`, posted 100 ns later by the timer tick; nothing between is known.
fn trail(submitted: u64) -> Trail {
    Trail {
        tgid: 7,
        tid: 8,
        opcode: "read".into(),
        user_data: submitted,
        enter_batch: None,
        submitted: at(submitted, 0),
        issued: None,
        ready: None,
        posted: at(submitted + 100, 0),
        course: Course::Direct,
        run_items: None,
        ..trail_example::trail()
    }
}

/// The same with its stages: 10 ns to its issue, 50 to ready on CPU 1, 40 to its posting.
fn staged(submitted: u64) -> Trail {
    Trail {
        issued: Some(at(submitted + 10, 0)),
        ready: Some(at(submitted + 60, 1)),
        course: Course::Block,
        ..trail(submitted)
    }
}

fn vehicle(vehicle: Vehicle, detail: Option<&str>, completions: u64) -> VehicleCount {
    VehicleCount { vehicle, completions, detail: detail.map(str::to_owned), delay_ns: None }
}

fn opcode(name: &str, requests: u64, completions: u64) -> OpcodeCounts {
    OpcodeCounts { opcode: name.into(), requests, completions, ..OpcodeCounts::default() }
}

fn counted(ring: u32, opcodes: Vec<OpcodeCounts>, vehicles: Vec<VehicleCount>) -> RingCounts {
    RingCounts {
        ring,
        tgid: 7,
        comm: "db".into(),
        sq_entries: 8,
        cq_entries: 16,
        opcodes,
        vehicles,
        ..RingCounts::default()
    }
}

fn observed(rings: Vec<RingCounts>, vehicles: Vec<VehicleCount>) -> Observed {
    Observed {
        seen: vehicles.iter().map(|v| v.completions).sum(),
        vehicles,
        kicks: Some(3),
        device_irqs: Some(6),
        returns: Some([("timer_tick", 9)].into()),
        context_switches: 12,
        task_work_runs: Some(2),
        run_batches: vec![(4, 2)],
        programs: vec!["ring_complete".into()],
        page_faults: Some(5),
        stray_calls: Some(7),
        pread_pwrite_calls: None,
        aio_unseen: 0,
        rings,
        contexts: vec![],
        follow_loss: FollowLoss { unfinished: 4, ..FollowLoss::default() },
        iowq_workers: 3,
        iowq_most: 3,
        ..Observed::default()
    }
}

/// Each of the trails stands for `one_in`.
fn record(one_in: u32, trails: impl IntoIterator<Item = Trail>, observed: Observed, seen: &[SeenRing]) -> TraceRecord {
    let trails = trails.into_iter().map(|t| Trail { weight: one_in, ..t });
    recorded(Choice::fixed(one_in), trails, observed, seen)
}

/// Counted when it was chosen.
fn submitted(trail: &Trail, observed: &mut Observed) {
    let chosen = &mut observed.follow_loss.chosen;
    *(if trail.weight <= 1 { &mut chosen.whole } else { &mut chosen.sampled }) += 1;
    let ring = observed.rings.iter_mut().find(|ring| Some(ring.ring) == trail.ring);
    if let (Some(ring), Some(batch @ 1..)) = (ring, trail.enter_batch) {
        ring.batches.entry(1 << batch.ilog2()).or_default().take(trail.weight, 1.0 / f64::from(batch));
    }
}

fn recorded(
    choice: Choice,
    trails: impl IntoIterator<Item = Trail>,
    observed: Observed,
    seen: &[SeenRing],
) -> TraceRecord {
    let mut summary = Summary::new(choice);
    let mut observed = observed;
    let mut multishot = Multishot::default();
    for trail in trails {
        if !multishot.is_later(&trail) {
            submitted(&trail, &mut observed);
        }
        summary.take(trail);
    }
    let span = Span {
        started_unix_s: 1,
        elapsed_ns: 2_000_000_000,
        subject: Subject::All,
        host: Host::default(),
        cpu: Some(CpuTime { user_ns: 21, system_ns: 22 }),
        processes: vec![],
        most_workers: Some(2),
        workers_cpu_ns: None,
        warnings: vec![],
    };
    let thread = |_, tid| (tid == 8).then_some(SqThread { tid, elapsed_ns: 1000, cpu_ns: Some(900), sleeps: Some(5) });
    let files = Names::new(std::rc::Rc::new(Numbers::SAME));
    summary.record(observed, &Seen { rings: seen.iter().collect(), sq_thread: &thread, files: &files }, span)
}

/// Only followed requests; no counts.
fn followed(one_in: u32, trails: impl IntoIterator<Item = Trail>) -> Total {
    record(one_in, trails, observed(vec![], vec![]), &[]).total
}

#[test]
fn the_first_followed_one_of_each_error_can_be_looked_for() {
    let failed = |submitted, result| Trail { result, ..trail(submitted) };
    let of = OpcodeCounts { errors: 9, errnos: vec![(14, 6), (11, 3)], ..opcode("read", 9, 9) };
    let trails = [failed(300, -14), failed(200, -14), trail(100)];
    let r = record(1, trails, observed(vec![counted(0, vec![of], vec![])], vec![]), &[]);
    let errnos = |o: &OpcodeRecord| o.errnos.iter().map(|e| (e.errno.clone(), e.user_data.clone())).collect::<Vec<_>>();
    let wanted = [("EFAULT".to_owned(), Some(format!("{:#x}", 200))), ("EAGAIN".to_owned(), None)];
    assert_eq!([errnos(&r.rings[0].opcodes[0]), errnos(&r.total.opcodes[0])], [wanted.to_vec(), wanted.to_vec()]);
}

#[test]
fn counts_are_the_probes_own() {
    let tick = || vehicle(Vehicle::TimerTick, None, 6);
    let slept = || vehicle(Vehicle::Enter, Some("slept"), 4);
    let worker = vehicle(Vehicle::Iowq, None, 2);
    let errors = OpcodeCounts { errors: 2, ..opcode("read", 5, 4) };
    let rings = vec![
        counted(
            0,
            vec![OpcodeCounts { bytes: 100, short: 1, ..opcode("read", 6, 6) }, opcode("nop", 2, 2)],
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
fn latencies_by_ring_and_opcode() {
    let write = |submitted, took| Trail {
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
fn stages_are_means_and_sum_to_the_whole() {
    let slow = Trail { issued: Some(at(1030, 0)), ready: Some(at(1040, 0)), posted: at(1100, 0), ..trail(1000) };
    // A clock that went back between two CPUs: the stages of this one are not known.
    let backwards = Trail { ready: Some(at(2005, 1)), issued: Some(at(2010, 0)), ..trail(2000) };
    let t = followed(1, [staged(0), slow, backwards, trail(5000)]);
    let s = t.stages.unwrap();
    assert_eq!((s.completions, s.issue_ns, s.wait_ns, s.delivery_ns, s.total_ns), (2, 20.0, 30.0, 50.0, 100.0));
    assert_eq!((s.delivery_delay_ns.count, s.delivery_delay_ns.min, s.delivery_delay_ns.max), (2, Some(40), Some(60)));
    assert_eq!((t.followed.completions, t.followed.with_stages, t.latency_ns.count), (4, 2, 4));
    let pairs: Vec<_> = t.cpu_pairs.iter().map(|p| (p.ready_cpu, p.posted_cpu, p.completions)).collect();
    assert_eq!(pairs, [(0, 0, 1), (1, 0, 2)]);
}

#[test]
fn the_file_systems_worker_is_a_part_of_delivery() {
    let ended = |submitted| Trail { ended: Some(at(submitted + 90, 1)), ..staged(submitted) };
    let s = followed(1, [ended(0), staged(1000)]).stages.unwrap();
    assert_eq!((s.delivery_ns, s.file_system_ns, s.total_ns), (40.0, Some(15.0), 100.0));
    assert_eq!(followed(1, [staged(0)]).stages.unwrap().file_system_ns, None);
}

#[test]
fn delays_stand_beside_their_vehicle_and_detail() {
    let by =
        |submitted, detail: &str| Trail { vehicle: Vehicle::Enter, detail: Some(detail.into()), ..staged(submitted) };
    let mut late = by(0, "ready");
    late.posted.ns += 500;
    let counts = || {
        vec![
            vehicle(Vehicle::Enter, Some("ready"), 70),
            vehicle(Vehicle::Enter, Some("slept"), 5),
            vehicle(Vehicle::Inline, None, 3),
        ]
    };
    let ring = counted(0, vec![opcode("read", 78, 78)], counts());
    let r = record(64, [by(1, "ready"), late, by(9, "slept")], observed(vec![ring], counts()), &[]);
    let delay = |count, max| Some(Delay { max: Some(max), count: Some(count), over_1ms: Some(0), ..Delay::default() });
    for vehicles in [&r.total.vehicles, &r.rings[0].vehicles] {
        let delays: Vec<_> = vehicles.iter().map(|v| (v.completions, v.delay_ns.clone())).collect();
        assert_eq!(delays, [(70, delay(2, 540)), (5, delay(1, 40)), (3, None)]);
    }
}

#[test]
fn what_follows_a_first_completion_is_no_latency() {
    let more = |opcode: &str, user_data, posted, more| Trail {
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
    let freed = Trail { notification: true, ..more("send_zc", 2, 90, false) };
    let last = more("recv", 1, 400, false);
    // A later request with the same user data is another one.
    let again = Trail { submitted: at(500, 0), ..more("recv", 1, 560, false) };
    let trails = multishot.into_iter().chain([sent, freed, last, again]);
    let ring =
        counted(0, vec![opcode("recv", 2, 5), opcode("send_zc", 1, 2)], vec![vehicle(Vehicle::TimerTick, None, 7)]);
    let r = record(8, trails, observed(vec![ring], vec![]), &[]);
    let of = |name: &str| r.total.opcodes.iter().find(|o| o.opcode == name).unwrap().latency_ns.clone();
    assert_eq!((of("send_zc").count, of("send_zc").max), (1, Some(50)));
    assert_eq!((of("recv").count, of("recv").max), (1, Some(60)));
    assert_eq!(r.total.followed.completions, 7);
    // But each was delivered, after its own delay.
    let delay = Delay { max: Some(7), count: Some(7), over_1ms: Some(0), ..Delay::default() };
    assert_eq!(r.rings[0].vehicles[0].delay_ns, Some(delay));
    // Three requests of calls of four, each of which stands for eight.
    let batches: Vec<_> = r.total.enter_batches.iter().map(|b| (b.at_least, b.requests, b.calls)).collect();
    assert_eq!(batches, [(4, 3, 6.0)]);
}

#[test]
fn batches_and_runs() {
    let of = |batch, items| Trail { enter_batch: Some(batch), run_items: Some(items), ..trail(0) };
    let alone = Trail { run_items: None, ..of(1, 0) };
    let ring = counted(0, vec![], vec![]);
    let r = record(2, [of(2, 8), of(3, 8), alone, of(32, 1), trail(9)], observed(vec![ring], vec![]), &[]);
    for batches in [&r.total.enter_batches, &r.rings[0].enter_batches] {
        let batches: Vec<_> = batches.iter().map(|b| (b.at_least, b.requests, b.calls)).collect();
        assert_eq!(batches, [(1, 1, 2.0), (2, 2, 2.0 * (0.5 + 1.0 / 3.0)), (32, 1, 2.0 / 32.0)]);
    }
    // What few requests tell of calls is little.
    let [lo, hi] = r.total.enter_batches[0].calls_ci95.unwrap();
    assert!(lo < 0.2 && hi > 11.0, "{lo} to {hi}");
    let runs: Vec<_> = r.rings[0].run_items.iter().map(|r| (r.items, r.completions)).collect();
    assert_eq!((runs, &r.total.run_items), (vec![(1, 1), (8, 2)], &r.rings[0].run_items));
}

#[test]
fn runs_are_those_that_were_counted_and_not_what_multishot_completions_would_make_of_them() {
    // One run of one item, which posted three completions.
    let one = |user_data| Trail { run_items: Some(1), more: user_data < 3, ..trail(user_data) };
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
fn each_followed_request_counts_as_often_as_it_stands_for() {
    let of = |weight, took, ready_cpu| Trail {
        weight,
        posted: at(took, 0),
        ready: Some(at(took - 50, ready_cpu)),
        issued: Some(at(10, 0)),
        enter_batch: Some(if weight == 1 { 1 } else { 4 }),
        run_items: Some(2),
        ..trail(0)
    };
    // Twenty while all were followed, and twelve of a busy time, each for a hundred.
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
    // Where none had to be left out, nothing is estimated.
    let one = observed(vec![counted(0, vec![opcode("read", 20, 20)], vec![])], vec![]);
    let r = recorded(Choice::adaptive(100), trails().take(20), one, &[]);
    assert_eq!(r.total.enter_calls, Some(Estimate { total: 20.0, ci95: [20.0, 20.0] }));
    assert_eq!((r.total.followed.requests_ci95, r.total.followed.sampled_from), (Some([20.0, 20.0]), Some(0)));
}

/// A poll was armed for so long; it is posted 1 µs later.
fn armed(opcode: &str, submitted: u64, ns: u64) -> Trail {
    Trail {
        opcode: opcode.into(),
        issued: Some(at(submitted + 10, 0)),
        ready: Some(at(submitted + ns, 0)),
        posted: at(submitted + ns + 1_000, 0),
        course: Course::Poll,
        ..trail(submitted)
    }
}

/// Reads one at a time of 100 ns, beside one of an eventfd that is kept open all the while.
#[test]
fn a_wake_up_that_is_kept_open_is_no_part_of_the_mean_or_the_order() {
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
    // A disk that took as long is no wait: what is not known to be one stays in.
    let slow = Trail { course: Course::Block, ..armed("read", 1, 1_000_000) };
    let r = record(1, reads().chain([slow]), observed(ring(), vec![]), &[]);
    assert_eq!(
        (&r.total.waits, r.total.order.as_ref().map(|o| (o.inversions, o.overtaken))),
        (&None, Some((1_000, Some(1))))
    );
    assert!(r.total.latency_ns.mean > Some(1_000.0) && r.total.stages.unwrap().wait_ns > 1_000.0);
}

#[test]
fn timeouts_beside_reads_are_waits_and_alone_they_are_not() {
    let timeouts = || (0..20).map(|i| Trail { opcode: "timeout".into(), ..trail(1 + i * 50) });
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
fn the_threads_of_a_pair_are_those_that_submit_most() {
    let of = |tid, n: u64| (0..n).map(move |i| Trail { tid, ..staged(1 + i * 1_000) });
    let threads = |trails: Vec<Trail>| followed(1, trails).cpu_pairs[0].threads;
    assert_eq!(threads(of(8, 95).chain(of(9, 5)).collect()), Some(1), "one that hardly submits");
    assert_eq!(threads((1..=4).flat_map(|tid| of(tid, 25)).collect()), Some(4));
    assert_eq!(threads((1..=3_000).flat_map(|tid| of(tid, 1)).collect()), Some(1_024), "as many as are kept");
}

#[test]
fn a_request_that_was_handed_over_twice_is_one() {
    let punted = |i| Trail { punted: Some(iotrail_schema::trail::Punt::Asked), ..trail(i) };
    let counts = OpcodeCounts { punted_asked: 40, ..opcode("read", 30, 30) };
    let ring = || observed(vec![counted(0, vec![counts.clone()], vec![])], vec![]);
    let trails = || (0..20).map(punted).chain((20..30).map(trail));
    let exact = Some(Estimate { total: 20.0, ci95: [20.0, 20.0] });
    assert_eq!(record(1, trails(), ring(), &[]).total.opcodes[0].punted_requests, exact);
    assert_eq!(record(64, trails(), ring(), &[]).total.opcodes[0].punted_requests, None, "of 20 of a sample");
}

#[test]
fn requests_that_came_later_or_are_unfinished_are_known() {
    let requests = |choice, trails: u64, weight, loss: FollowLoss| {
        let trails = (0..trails).map(|i| Trail { weight, ..trail(i * 1_000) });
        let f =
            recorded(choice, trails, Observed { follow_loss: loss, ..observed(vec![], vec![]) }, &[]).total.followed;
        f.requests_estimated.zip(f.requests_ci95)
    };
    let chosen = Chosen { whole: 3, sampled: 0 };
    let loss = FollowLoss { came_later: 7_600, unfinished: 3, chosen, ..FollowLoss::default() };
    // Where all were chosen, they are all that there were.
    assert_eq!(requests(Choice::fixed(1), 20, 1, loss), Some((7_623.0, [7_623.0, 7_623.0])));
    assert_eq!(
        requests(Choice::fixed(1), 0, 1, FollowLoss { chosen: Chosen::default(), ..loss }),
        Some((7_600.0, [7_600.0; 2]))
    );
    assert_eq!(requests(Choice::fixed(1), 0, 1, FollowLoss::default()), None);
    // What came later moves both ends, and makes them no wider.
    let chosen = Chosen { whole: 0, sampled: 2 };
    let loss = FollowLoss { chosen, sampled_from: 2_000, ..FollowLoss::default() };
    let (alone, [lo, hi]) = requests(Choice::fixed(100), 18, 100, loss).unwrap();
    assert!(alone == 2_000.0 && lo > 1_200.0 && lo < 2_000.0 && hi > 2_000.0 && hi < 3_200.0, "{lo} to {hi}");
    let later = requests(Choice::fixed(100), 18, 100, FollowLoss { came_later: 7_600, ..loss });
    assert_eq!(later, Some((9_600.0, [lo + 7_600.0, hi + 7_600.0])));
    assert_eq!(requests(Choice::fixed(100), 0, 100, FollowLoss { came_later: 7_600, ..FollowLoss::default() }), None);
}

/// A thousand of a heavy tail, each for a hundred; and as many as are too few.
#[test]
fn a_mean_of_a_sample_has_its_interval_or_none() {
    let of = |n: u64| {
        let took = |i| if i % 50 == 0 { 10_000 } else { 100 };
        let trails = (0..n).map(|i| Trail { posted: at(i * 100_000 + took(i), 0), weight: 100, ..staged(i * 100_000) });
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
        // The standard error of twenty slow ones of a thousand is 44; where there may be more, the interval reaches further.
        assert!((mean - 90.0..mean - 60.0).contains(&lo) && (mean + 110.0..mean + 150.0).contains(&hi), "{lo} to {hi}");
    }
    let s = r.rings[0].stages.as_ref().unwrap();
    assert_eq!((s.total_ns, s.total_ci95), (298.0, r.total.latency_ns.mean_ci95));
    assert!(few.total.latency_ns.mean.is_some_and(|m| m > 300.0));
    assert_eq!((few.total.latency_ns.mean_ci95, few.rings[0].stages.as_ref().unwrap().total_ci95), (None, None));
    // Where nothing was left out, it is exact.
    let all = followed(1, (0..20).map(|i| trail(i * 1_000)));
    assert_eq!((all.latency_ns.mean, all.latency_ns.mean_ci95), (Some(100.0), Some([100.0, 100.0])));
}

#[test]
fn a_part_that_was_not_seen_is_no_part_of_the_mean() {
    let queued = Trail { queued: Some(at(80, 0)), ..staged(0) };
    let s = followed(1, [queued, staged(1000), staged(2000), staged(3000)]).stages.unwrap();
    assert_eq!((s.completions, s.queued_completions), (4, 1));
    assert_eq!((s.queued_ns, s.queued_delivery_ns), (Some(20.0), Some(40.0)), "of the one of which it is known");
}

#[test]
fn the_order_of_first_completions() {
    let at_ns = |submitted, posted| Trail { posted: at(posted, 0), ..trail(submitted) };
    let other_ring = Trail { ring: Some(1), ..at_ns(4, 999) };
    let no_ring = Trail { ring: None, ..at_ns(0, 9999) };
    let t = followed(1, [at_ns(1, 50), at_ns(2, 40), at_ns(3, 30), other_ring, no_ring]);
    let by = OrderBy { block: 0, device: 0, file_system: None, task_work: 0 };
    let expected =
        Order { completions: 4, inversions: 2, overtaken: Some(2), waits: 0, max_displacement: 2, by, delivery: None };
    assert_eq!(t.order, Some(expected));
}

#[test]
fn a_ring_with_a_thread_of_its_own() {
    let polled = RingCounts { setup_flags: SQPOLL, ..counted(0, vec![opcode("read", 40, 39)], vec![]) };
    let seen = SeenRing {
        tgid: 7,
        fds: [5, 3].into(),
        sq_entries: 8,
        cq_entries: 16,
        first_entries: (8, 16),
        found: false,
        first_tail: 0,
        last_tail: 39,
        sq_thread: Some(8),
        sq_cpu: Some(1),
        first_work_ns: Some(100),
        last_work_ns: Some(400),
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
    let r = record(1, [trail(0)], observed(vec![polled.clone()], vec![]), &[seen]);
    assert_eq!((&r.rings[0].fds, &r.rings[0].sqpoll), (&vec![3, 5], &Some(expected.clone())));
    assert_eq!(r.rings[0].flags, ["sqpoll"]);
    // The followed request told the thread, /proc nothing of the ring.
    let r = record(1, [trail(0)], observed(vec![polled.clone()], vec![]), &[]);
    assert_eq!(r.rings[0].sqpoll, Some(SqpollRecord { cpu: None, work_ns: None, ..expected }));
    // A second ring on the same thread (IORING_SETUP_ATTACH_WQ).
    let both = vec![polled.clone(), RingCounts { ring: 1, ..polled.clone() }];
    let r = record(1, [trail(0), Trail { ring: Some(1), ..trail(0) }], observed(both, vec![]), &[]);
    let shared: Vec<_> = r.rings.iter().map(|r| r.sqpoll.as_ref().unwrap().shared_with.clone()).collect();
    assert_eq!(shared, [[1], [0]]);
    let r = record(1, [], observed(vec![polled], vec![]), &[]);
    assert_eq!((&r.rings[0].fds, &r.rings[0].sqpoll), (&vec![], &None));
}

#[test]
fn what_was_lost_on_the_way_is_said() {
    let loss = FollowLoss { no_room: 2, ring_buffer_full: 3, ..FollowLoss::default() };
    let r = record(1, [], Observed { follow_loss: loss, ..observed(vec![], vec![]) }, &[]);
    assert_eq!((r.total.followed.no_room, r.total.followed.ring_buffer_full), (2, 3));
    assert!(r.total.warnings.iter().any(|w| w.code == "followed_lost"), "{:?}", r.total.warnings);
}

#[test]
fn requests_of_contexts_are_counted_apart_and_in_all() {
    let direct = ContextCounts {
        context: 1,
        kind: ContextKind::Libaio,
        tgid: 7,
        comm: "db".into(),
        entries: Some(127),
        found: false,
        active_ns: Some(300),
        opcodes: vec![OpcodeCounts { bytes: 8192, ..opcode("pread", 3, 2) }],
        vehicles: vec![vehicle(Vehicle::IrqDirect, None, 2)],
    };
    let out_of_sight =
        ContextCounts { context: 2, active_ns: None, opcodes: vec![opcode("pread", 5, 0)], ..direct.clone() };
    let mut observed = observed(vec![], vec![vehicle(Vehicle::IrqDirect, None, 4)]);
    observed.contexts = vec![direct, out_of_sight];
    let mut summary = Summary::new(Choice::fixed(1));
    for (submitted_ns, reaped_ns) in [(1_000, 1_300), (1_100, 1_200)] {
        let (opcode, fd, result) = ("pread".into(), 3, 4096);
        summary.take_reaped(Reaped { context: 1, tgid: 7, opcode, submitted_ns, reaped_ns, weight: 1, fd, result });
    }
    let total = total(observed.clone(), &summary.parts[&Some(1)], &summary, 1_000, &[], &|_, _, _| false);
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
    // Results of what was not seen to be submitted are seen, and no number of bytes is made of them.
    let mut half = observed.contexts[0].clone();
    half.opcodes.push(opcode("unknown", 0, 3));
    let half = context(&half, &none, 1);
    assert_eq!((half.reaped, half.bytes, half.errors), (5, None, Some(0)));
}
