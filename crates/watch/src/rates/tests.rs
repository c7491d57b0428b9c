//! Synthetic counts at two times, and the exact rates between them.

use super::*;
use crate::summary::Summary;
use iotrail_probe::rings::{ContextCounts, ContextKind, OpcodeCounts};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::top_record::DeliveryPathShare;
use iotrail_schema::trail::RequestTrace;
use iotrail_schema::trail_example;

const TWO_SECONDS: Moment = Moment { elapsed_ns: 2_000_000_000, unix_s: 9 };

fn carried(vehicle: DeliveryPath, completions: u64) -> DeliveryPathCount {
    DeliveryPathCount { vehicle, completions, detail: None, delay_ns: None }
}

/// A ring of process 7 with this many 4 KiB reads, all except 10 posted at system-call exit.
fn ring(ring: u32, reads: u64) -> RingCounts {
    RingCounts {
        ring,
        tgid: 7,
        comm: "db".into(),
        sq_entries: 8,
        cq_entries: 16,
        overflows: reads / 100,
        opcodes: vec![OpcodeCounts {
            opcode: "read".into(),
            requests: reads,
            completions: reads,
            bytes: reads * 4096,
            errors: reads / 10,
            punted_asked: reads / 20,
            punted_would_block: reads / 20,
            ..OpcodeCounts::default()
        }],
        vehicles: vec![carried(DeliveryPath::Enter, reads - 10), carried(DeliveryPath::TimerTick, 10)],
        ..RingCounts::default()
    }
}

/// These rings, and this many native aio completions.
fn observed(rings: Vec<RingCounts>, aio: u64) -> Observed {
    let context = ContextCounts {
        context: 1000,
        kind: ContextKind::Libaio,
        tgid: 7,
        comm: "db".into(),
        entries: None,
        found: false,
        active_ns: None,
        opcodes: vec![],
        vehicles: vec![carried(DeliveryPath::IrqDirect, aio)],
    };
    Observed { kicks: Some(aio * 3), context_switches: aio * 2, rings, contexts: vec![context], ..Observed::default() }
}

fn turn(meter: &mut Meter, now: Observed) -> TopRecord {
    meter.turn(now, &BTreeMap::new(), &HashMap::new(), TWO_SECONDS)
}

#[test]
fn rates_cover_the_counts_between_two_samples() {
    let mut meter = Meter::new(Choice::fixed(16));
    let first = turn(&mut meter, observed(vec![ring(0, 100)], 0));
    assert_eq!((first.interval, first.rings[0].rates.completions_per_s), (1, 50.0), "from the beginning");

    let second = turn(&mut meter, observed(vec![ring(0, 500)], 60));
    assert_eq!((second.interval, second.one_in, second.ended_unix_s), (2, 16, 9));
    let rates = &second.rings[0].rates;
    assert_eq!((rates.requests_per_s, rates.completions_per_s, rates.bytes_per_s), (200.0, 200.0, 200.0 * 4096.0));
    assert_eq!((rates.errors_per_s, rates.punts_per_s, rates.overflows), (20.0, 20.0, 4));
    // The ten completions posted by the timer tick belong to the first interval.
    assert_eq!(rates.vehicles, [DeliveryPathShare { vehicle: DeliveryPath::Enter, completions: 400, share: 1.0 }]);
    assert_eq!(rates.latency_ns.p50, None, "nothing was followed");
    assert_eq!((second.rings[0].opcodes.len(), second.rings[0].opcodes[0].completions_per_s), (1, 200.0));

    let total = &second.total;
    assert_eq!((total.rates.completions_per_s, total.of_no_ring_per_s), (230.0, 30.0));
    assert_eq!((total.kicks_per_s, total.context_switches_per_s), (Some(90.0), 60.0));
    let shares: Vec<(DeliveryPath, u64)> = total.rates.vehicles.iter().map(|v| (v.vehicle, v.completions)).collect();
    assert_eq!(shares, [(DeliveryPath::Enter, 400), (DeliveryPath::IrqDirect, 60)]);
}

#[test]
fn a_new_ring_starts_at_zero_and_the_busiest_ring_is_first() {
    let mut meter = Meter::new(Choice::fixed(1));
    turn(&mut meter, observed(vec![ring(0, 100)], 0));
    let second = turn(&mut meter, observed(vec![ring(0, 120), ring(1, 40), ring(2, 20)], 0));
    let by_ring: Vec<(u32, f64)> = second.rings.iter().map(|r| (r.ring, r.rates.completions_per_s)).collect();
    assert_eq!(by_ring, [(1, 20.0), (0, 10.0), (2, 10.0)]);
    let [process] = &second.processes[..] else { panic!("one process") };
    assert_eq!((process.tgid, process.rings, process.rates.completions_per_s), (7, 3, 40.0));
}

#[test]
fn events_missed_by_one_sample_are_counted_once_in_the_next() {
    let mut meter = Meter::new(Choice::fixed(1));
    turn(&mut meter, observed(vec![ring(0, 100)], 5));
    // Some counts had not reached the hashes yet, including all completions posted by the timer tick.
    let mut low = observed(vec![ring(0, 60)], 3);
    low.rings[0].vehicles.pop();
    let second = turn(&mut meter, low);
    let seen = |t: &TopRecord| (t.rings[0].rates.completions_per_s, t.total.rates.completions_per_s);
    assert_eq!((seen(&second), second.total.of_no_ring_per_s), ((0.0, 0.0), 0.0));
    assert_eq!(second.total.rates.vehicles, []);
    let third = turn(&mut meter, observed(vec![ring(0, 120)], 9));
    assert_eq!((seen(&third), third.total.of_no_ring_per_s), ((10.0, 12.0), 2.0));
    assert_eq!(
        third.rings[0].rates.vehicles,
        [DeliveryPathShare { vehicle: DeliveryPath::Enter, completions: 20, share: 1.0 }]
    );
}

#[test]
fn an_interval_of_0_has_no_rate() {
    let none = Moment { elapsed_ns: 0, unix_s: 0 };
    let record =
        Meter::new(Choice::fixed(1)).turn(observed(vec![ring(0, 100)], 0), &BTreeMap::new(), &HashMap::new(), none);
    assert_eq!(record.rings[0].rates.completions_per_s, 0.0);
}

#[test]
fn traced_requests_count_only_in_their_interval() {
    let mut summary = Summary::new(Choice::fixed(1));
    let stages = RequestTrace { opcode: "read".into(), ..trail_example::trail() };
    for user_data in 0..20 {
        summary.take(RequestTrace { user_data, ..stages.clone() });
    }
    let mut meter = Meter::new(Choice::fixed(1));
    let known = HashMap::new();
    let first = meter.turn(observed(vec![ring(0, 100)], 0), &summary.turn(), &known, TWO_SECONDS);
    let ring_0 = &first.rings[0];
    let near = |p50: Option<u64>, ns: u64| p50.unwrap().abs_diff(ns) <= ns / 1000;
    assert_eq!((ring_0.rates.latency_ns.count, ring_0.rates.latency_ns.p99), (20, None), "too few for a p99");
    assert!(near(ring_0.rates.latency_ns.p50, 3_000_000));
    assert!(near(ring_0.rates.delivery_delay_ns.p50, 2_899_000));
    assert!(near(ring_0.opcodes[0].latency_ns.p50, 3_000_000));
    assert_eq!(ring_0.stages.as_ref().map(|s| (s.completions, s.issue_ns)), Some((20, 12_000.0)));
    assert!(near(ring_0.carried[1].delay_ns.as_ref().unwrap().p50, 2_899_000), "by the timer");
    assert_eq!(first.total.rates.latency_ns.count, 20);

    let second = meter.turn(observed(vec![ring(0, 200)], 0), &summary.turn(), &known, TWO_SECONDS);
    assert_eq!((second.rings[0].rates.latency_ns.count, second.rings[0].stages.as_ref()), (0, None));
}

#[test]
fn the_cpu_use_of_an_sqpoll_thread_is_relative_to_the_last_sample() {
    let thread = |elapsed_ns, cpu_ns| {
        let sq_thread = Some(SqThread { tid: 70, elapsed_ns, cpu_ns, sleeps: None });
        HashMap::from([(0, Known { sq_thread, comm: Some("database".into()), ..Known::default() })])
    };
    let mut meter = Meter::new(Choice::fixed(1));
    let mut turn = |known: HashMap<u32, Known>| {
        let polled = RingCounts { setup_flags: rings::SQPOLL, ..ring(0, 100) };
        let record = meter.turn(observed(vec![polled], 0), &BTreeMap::new(), &known, TWO_SECONDS);
        assert_eq!(record.rings[0].comm, if known.is_empty() { "db" } else { "database" });
        assert_eq!(record.rings[0].sqpoll_cpu, record.processes[0].sqpoll_cpu);
        record.rings[0].sqpoll_cpu
    };
    assert_eq!(turn(thread(1000, Some(1000))), Some(1.0));
    assert_eq!(turn(thread(3000, Some(1500))), Some(0.25));
    assert_eq!(turn(thread(3000, Some(1500))), None, "nobody looked");
    assert_eq!(turn(HashMap::new()), None);
    assert_eq!(turn(thread(5000, None)), None, "/proc did not say");
}

#[test]
fn sqpoll_cpu_use_of_a_process_is_unknown_if_one_thread_is_unknown() {
    let known = |other, second| {
        let thread = |tid, cpu_ns| Known {
            sq_thread: Some(SqThread { tid, elapsed_ns: 1000, cpu_ns, sleeps: None }),
            ..Known::default()
        };
        HashMap::from([(0, thread(70, Some(500))), (1, thread(other, second))])
    };
    let of_process = |known: &HashMap<u32, Known>| {
        let polled = |number| RingCounts { setup_flags: rings::SQPOLL, ..ring(number, 100) };
        let now = observed(vec![polled(0), polled(1), ring(2, 100)], 0);
        Meter::new(Choice::fixed(1)).turn(now, &BTreeMap::new(), known, TWO_SECONDS).processes[0].sqpoll_cpu
    };
    assert_eq!(of_process(&known(71, Some(250))), Some(0.75));
    assert_eq!(of_process(&known(71, None)), None);
    assert_eq!(of_process(&known(70, Some(500))), Some(0.5), "one thread serves both rings (IORING_SETUP_ATTACH_WQ)");
}

#[test]
fn kicks_not_counted_at_both_samples_have_no_rate() {
    let mut meter = Meter::new(Choice::fixed(1));
    let uncounted = Observed { kicks: None, ..observed(vec![ring(0, 100)], 0) };
    assert_eq!(turn(&mut meter, uncounted).total.kicks_per_s, None);
    assert_eq!(turn(&mut meter, observed(vec![ring(0, 100)], 60)).total.kicks_per_s, None, "since when is not known");
    assert_eq!(turn(&mut meter, observed(vec![ring(0, 100)], 80)).total.kicks_per_s, Some(30.0));
}

#[test]
fn a_ring_of_an_ended_process_is_removed_when_empty() {
    let gone = HashMap::from([(0, Known { gone: true, ..Known::default() })]);
    let mut meter = Meter::new(Choice::fixed(1));
    let mut rings = || meter.turn(observed(vec![ring(0, 100)], 0), &BTreeMap::new(), &gone, TWO_SECONDS).rings.len();
    assert_eq!((rings(), rings()), (1, 0));
    let closed = RingCounts { closed: true, ..ring(0, 100) };
    let mut meter = Meter::new(Choice::fixed(1));
    let mut processes = || {
        let record = meter.turn(observed(vec![closed.clone()], 0), &BTreeMap::new(), &HashMap::new(), TWO_SECONDS);
        record.processes.iter().map(|process| process.rings).sum::<usize>()
    };
    assert_eq!((processes(), processes()), (1, 0), "also while the process lives");
}
