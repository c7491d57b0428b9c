use super::*;
use iotrail_probe::snapshot::Process;

const MS: u64 = 1_000_000;
const GETEVENTS: u64 = linux_raw_sys::io_uring::IORING_ENTER_GETEVENTS as u64;
const NEED_WAKEUP: u32 = linux_raw_sys::io_uring::IORING_SQ_NEED_WAKEUP;

/// A ring of process 7 that only the process's single thread enters.
fn ring() -> Ring {
    Ring { address: 1, tgid: 7, fd: Some(3), cq_entries: 16, taken: 1, posted: 1, ..Ring::default() }
}

fn asleep_in(call: u32, arguments: [u64; 5]) -> Thread {
    Thread {
        tid: 7,
        tgid: 7,
        asleep: true,
        call: Some(call),
        arguments,
        last_ring: 1,
        switches: 1,
        ..Thread::default()
    }
}

fn elsewhere() -> Thread {
    asleep_in(libc::SYS_clock_nanosleep as u32, [0; 5])
}

fn waiting(to_submit: u64, min_complete: u64) -> Thread {
    asleep_in(IO_URING_ENTER, [3, to_submit, min_complete, GETEVENTS, 0])
}

struct Samples {
    triggers: Triggers,
    at_ns: u64,
    sleeps: Sleeps,
    events: Vec<Event>,
}

impl Samples {
    fn new() -> Self {
        Samples {
            triggers: Triggers::new(Thresholds::default()),
            at_ns: 1000 * MS,
            sleeps: Sleeps::new(),
            events: vec![],
        }
    }

    /// Takes samples every 10 ms for this time.
    fn of(&mut self, ms: u64, mut sample: impl FnMut(u64) -> (Vec<Thread>, Vec<Ring>)) -> &mut Self {
        for i in 0..ms / 10 {
            self.at_ns += 10 * MS;
            let (threads, rings) = sample(i);
            let s = Snapshot { at_ns: self.at_ns, threads, rings, ..Snapshot::default() };
            self.events.extend(self.triggers.take(&s, &self.sleeps));
        }
        self
    }

    /// Names of the triggers that fired; the duration if the stall has ended.
    fn fired(&self) -> Vec<(&'static str, Option<u64>)> {
        let over = |of: &Key| {
            self.events.iter().find_map(|event| match event {
                Event::Over { key, since_ns, until_ns } if key == of => Some((until_ns - since_ns) / MS),
                _ => None,
            })
        };
        let fired = self.events.iter().filter_map(|event| match event {
            Event::Fired { key, .. } => Some((key.trigger.name(), over(key))),
            Event::Over { .. } => None,
        });
        fired.collect()
    }
}

#[test]
fn an_unreaped_completion_is_a_stall_until_it_is_reaped() {
    let mut s = Samples::new();
    let left = || (vec![elsewhere()], vec![Ring { unreaped: 1, ..ring() }]);
    s.of(150, |_| left());
    assert_eq!(s.fired(), [], "150 ms are too short");
    s.of(250, |_| left());
    assert_eq!(s.fired(), [("unreaped", None)]);
    assert_eq!(s.triggers.ongoing().count(), 1);
    s.of(20, |_| (vec![elsewhere()], vec![ring()]));
    assert_eq!(s.fired(), [("unreaped", Some(390))]);
}

#[test]
fn a_busy_program_triggers_no_stall() {
    let mut s = Samples::new();
    // CQ and SQ are never empty, and the thread sleeps in each sample.
    s.of(5000, |i| {
        let (taken, posted) = (i as u32 * 3, i as u32 * 3);
        let thread = Thread { switches: i, ..waiting(1, 1) };
        (vec![thread], vec![Ring { unreaped: 2, unsubmitted: 1, taken, posted, ..ring() }])
    });
    s.of(5000, |i| {
        (vec![Thread { switches: i, ..elsewhere() }], vec![Ring { unreaped: 1, posted: i as u32, ..ring() }])
    });
    assert_eq!(s.fired(), []);
}

#[test]
fn a_wait_for_more_completions_is_a_stall_if_none_arrives() {
    let mut s = Samples::new();
    s.of(3000, |i| (vec![waiting(0, 4)], vec![Ring { unreaped: 3, posted: i as u32 / 50, ..ring() }]));
    assert_eq!(s.fired(), [], "one each half second");
    s.of(1200, |_| (vec![waiting(0, 4)], vec![Ring { unreaped: 3, ..ring() }]));
    assert_eq!(s.fired(), [("waits_for_more", None)]);
    let Some(Event::Fired { facts, .. }) = s.events.first() else { panic!("{:?}", s.events) };
    let ring_facts = facts.ring.clone().unwrap_or_default();
    assert_eq!((ring_facts.awaited, ring_facts.in_flight), (4, None), "no deep reading: unknown");
    let mut s = Samples::new();
    s.of(300, |_| (vec![waiting(0, 4)], vec![Ring { unreaped: 4, posted: 2, ..ring() }]));
    assert_eq!(s.fired(), [("asleep_with_completions", None)]);
}

#[test]
fn each_ring_condition_has_its_trigger() {
    let defer = DEFER_TASKRUN;
    let conditions: [(&str, Ring); 5] = [
        ("task_work_waits", Ring { setup_flags: defer, has_task_work: true, ..ring() }),
        ("overflow", Ring { has_overflowed: true, ..ring() }),
        ("unsubmitted", Ring { unsubmitted: 1, ..ring() }),
        (
            "sqpoll_asleep",
            Ring { unsubmitted: 1, setup_flags: SQPOLL, sq_thread_asleep: true, sq_flags: NEED_WAKEUP, ..ring() },
        ),
        ("", Ring { unsubmitted: 1, setup_flags: SQPOLL, ..ring() }),
    ];
    for (name, of) in conditions {
        let mut s = Samples::new();
        s.of(400, |_| (vec![elsewhere()], vec![of.clone()])).of(20, |_| (vec![elsewhere()], vec![ring()]));
        let expected: &[(&str, Option<u64>)] = if name.is_empty() { &[] } else { &[(name, Some(390))] };
        assert_eq!(s.fired(), expected);
    }
}

#[test]
fn a_blocked_submission_or_sync_is_a_stall_with_its_reason() {
    let mut s = Samples::new();
    s.sleeps.insert(7, Sleep { reason: Some(Reason::RequestTag), is_sync: false, ..Sleep::default() });
    s.of(300, |_| (vec![waiting(1, 1)], vec![ring()]));
    let Some(Event::Fired { key, facts, .. }) = s.events.first() else { panic!("{:?}", s.events) };
    assert_eq!((key.trigger, key.id), (Trigger::BlockedSubmission, 7));
    assert_eq!(facts.thread.as_ref().and_then(|t| t.reason.clone()), Some(Reason::RequestTag));
    assert_eq!(facts.ring.as_ref().and_then(|r| r.fd), Some(3));
    let mut s = Samples::new();
    s.sleeps.insert(7, Sleep { reason: Some(Reason::UringCompletions), is_sync: false, ..Sleep::default() });
    s.of(3000, |_| (vec![waiting(1, 1)], vec![ring()]));
    assert_eq!(s.fired(), [], "it waits for completions");
    let fsync = || asleep_in(libc::SYS_fsync as u32, [3, 0, 0, 0, 0]);
    let mut s = Samples::new();
    s.of(600, |_| (vec![fsync()], vec![]));
    assert_eq!(s.fired(), [("slow_sync", None)]);
    let mut s = Samples::new();
    s.of(3000, |i| (vec![Thread { switches: i, ..fsync() }], vec![]));
    assert_eq!(s.fired(), [], "many short ones");
    let mut s = Samples::new();
    s.sleeps.insert(9, Sleep { reason: Some(Reason::Writeback), is_sync: true, ..Sleep::default() });
    let worker = Thread { tid: 9, tgid: 7, asleep: true, is_kernels: true, ..Thread::default() };
    s.of(600, |_| (vec![worker.clone()], vec![]));
    assert_eq!(s.fired(), [("slow_sync", None)]);
}

#[test]
fn a_stalled_ring_is_inspected_once() {
    let mut s = Samples::new();
    let sample =
        |at_ns, rings: Vec<Ring>| Snapshot { at_ns, threads: vec![waiting(0, 1)], rings, ..Snapshot::default() };
    let depth = |in_flight, armed| Some(Depth { in_flight: Some(in_flight), armed, ..Depth::default() });
    let mut suspects = |at_ms: u64, depth: Option<Depth>| {
        let now = sample(at_ms * MS, vec![Ring { taken: 5, posted: 4, depth, ..ring() }]);
        s.events.extend(s.triggers.take(&now, &s.sleeps));
        s.triggers.suspects(&now).len()
    };
    assert_eq!([suspects(1000, None), suspects(1400, None)], [0, 0]);
    assert_eq!([suspects(1500, None), suspects(1510, None)], [1, 0], "not again at once");
    // Polls may wait indefinitely.
    assert_eq!([suspects(1520, depth(1, 1)), suspects(1700, None)], [0, 0]);
    assert_eq!(suspects(5000, None), 0);
    assert!(s.events.is_empty());
    let mut s = Samples::new();
    for (at_ms, depth) in [(1000, None), (1500, depth(1, 0)), (2400, None), (2500, None)] {
        let now = sample(at_ms * MS, vec![Ring { taken: 5, posted: 4, depth, ..ring() }]);
        s.events.extend(s.triggers.take(&now, &s.sleeps));
    }
    assert_eq!(s.fired(), [("slow_request", None)], "in flight since 1.5 s at least");
}

#[test]
fn a_slow_request_threshold_can_be_a_multiple_of_the_p99_9_latency() {
    let mut s = Samples::new();
    let mut thresholds = Thresholds::default();
    thresholds.set("slow_request=20xp99.9".parse().unwrap());
    s.triggers = Triggers::new(thresholds);
    let depth = || Some(Depth { in_flight: Some(1), ..Depth::default() });
    let still = |fd, address| Ring { fd: Some(fd), address, taken: 5, posted: 4, depth: depth(), ..ring() };
    s.of(10, |_| (vec![waiting(0, 1)], vec![still(3, 1), still(4, 2)]));
    s.triggers.learn(7, 3, 10 * MS);
    s.of(150, |_| (vec![waiting(0, 1)], vec![still(3, 1), still(4, 2)]));
    assert_eq!(s.fired(), [], "20 times 10 ms");
    s.of(100, |_| (vec![waiting(0, 1)], vec![still(3, 1), still(4, 2)]));
    assert_eq!(s.fired(), [("slow_request", None)], "the latency of ring 4 is not known");
    let Some(Event::Fired { key, facts, .. }) = s.events.first() else { panic!("{:?}", s.events) };
    assert_eq!((key.id, facts.usual.map(|u| u.p99_9_ns)), (1, Some(10 * MS)));
    for wrong in ["slow_sync=20xp99.9", "slow_request=0xp99.9", "slow_request=nanxp99.9", "slow_request=xp99.9"] {
        assert!(wrong.parse::<Threshold>().is_err(), "{wrong}");
    }
}

#[test]
fn cgroup_throttling_is_a_stall_of_the_process() {
    let mut triggers = Triggers::new(Thresholds::default());
    let mut names = vec![];
    for i in 0..200u64 {
        let throttled = i < 100;
        let process = Process {
            tgid: 7,
            throttled_bios: u32::from(throttled) * 3,
            // Throttled once per 100 ms period.
            quota_ns: if throttled { i / 10 * 50 * MS } else { 450 * MS },
            ..Process::default()
        };
        let sample = Snapshot { at_ns: (1000 + i * 10) * MS, processes: vec![process], ..Snapshot::default() };
        for event in triggers.take(&sample, &Sleeps::new()) {
            match event {
                Event::Fired { key, facts, .. } => names.push((key.trigger.name(), facts.amount as u64)),
                Event::Over { key, since_ns, until_ns } => names.push((key.trigger.name(), (until_ns - since_ns) / MS)),
            }
        }
    }
    let io: Vec<u64> = names.iter().filter(|(name, _)| *name == "throttled_io").map(|(_, n)| *n).collect();
    assert_eq!(io, [3, 990]);
    let cpu: Vec<u64> = names.iter().filter(|(name, _)| *name == "throttled_cpu").map(|(_, n)| *n).collect();
    assert_eq!(cpu, [300 * MS, 940], "six refills in the first 500 ms; the last one counts for 140 ms more");
}

#[test]
fn an_sqpoll_thread_that_runs_without_work_is_a_stall() {
    let mut s = Samples::new();
    let sq = |i: u64, share: u64| Thread {
        tid: 9,
        tgid: 7,
        is_kernels: true,
        ran_ns: i * share * MS / 10,
        sleeps: i * (100 - share),
        ..Thread::default()
    };
    let of = || Ring { setup_flags: SQPOLL, sq_thread: Some(9), ..ring() };
    s.of(5000, |i| (vec![elsewhere(), sq(i, 50)], vec![of()]));
    assert_eq!(s.fired(), [], "half of the time");
    let mut s = Samples::new();
    s.of(5000, |i| (vec![elsewhere(), sq(i, 100)], vec![Ring { taken: i as u32, ..of() }]));
    assert_eq!(s.fired(), [], "it works");
    s.of(4000, |i| (vec![elsewhere(), sq(i + 1000, 100)], vec![of()]));
    assert_eq!(s.fired(), [("sqpoll_spins", None)]);
}

#[test]
fn an_sqpoll_thread_that_waits_for_a_cpu_spins() {
    let of = || Ring { setup_flags: SQPOLL, sq_thread: Some(9), ..ring() };
    // It runs for 10 of 80 ms. The kernel adds each wait to its counter when the wait ends.
    let sq = |i: u64, sleeps| Thread {
        tid: 9,
        tgid: 7,
        is_kernels: true,
        ran_ns: (i / 8) * 10 * MS,
        runnable_ns: (i / 8) * 70 * MS,
        sleeps,
        ..Thread::default()
    };
    let mut s = Samples::new();
    s.of(3500, |i| (vec![elsewhere(), sq(i, 0)], vec![of()]));
    assert_eq!(s.fired(), [("sqpoll_spins", None)]);
    let Some(Event::Fired { facts, .. }) = s.events.first() else { panic!("{:?}", s.events) };
    assert!((0.12..0.13).contains(&facts.amount), "{}", facts.amount);
    // Asleep.
    s.of(1000, |_| (vec![elsewhere(), Thread { asleep: true, ..sq(350, 1) }], vec![of()]));
    let [(_, Some(lasted))] = s.fired()[..] else { panic!("{:?}", s.fired()) };
    assert!((3300..3800).contains(&lasted), "{lasted} ms");
}

#[test]
fn an_sqpoll_thread_that_works_for_another_ring_does_not_spin() {
    let mut s = Samples::new();
    let sq = |i: u64| Thread { tid: 9, tgid: 7, is_kernels: true, ran_ns: i * 10 * MS, ..Thread::default() };
    let of = |address, taken| Ring { address, taken, setup_flags: SQPOLL, sq_thread: Some(9), ..ring() };
    s.of(5000, |i| (vec![elsewhere(), sq(i)], vec![of(1, 1), of(2, i as u32)]));
    assert_eq!(s.fired(), []);
}

#[test]
fn a_wait_that_exceeds_its_timeout_is_a_late_timer() {
    let mut s = Samples::new();
    let limit = Some(Duration::from_millis(100));
    s.sleeps.insert(7, Sleep { reason: Some(Reason::UringCompletions), limit, ..Sleep::default() });
    s.of(250, |_| (vec![waiting(0, 1)], vec![ring()]));
    assert_eq!(s.fired(), [], "100 ms of its limit, and 150 ms");
    s.of(100, |_| (vec![waiting(0, 1)], vec![ring()]));
    let Some(Event::Fired { key, facts, .. }) = s.events.first() else { panic!("{:?}", s.events) };
    assert_eq!((key.trigger, key.id, facts.limit, facts.amount as u64 / MS), (Trigger::LateTimer, 7, limit, 200));
    s.sleeps.clear();
    s.of(100, |i| (vec![Thread { switches: 2 + i, ..waiting(0, 1) }], vec![ring()]));
    assert_eq!(s.fired(), [("late_timer", Some(240))]);
}

#[test]
fn stalls_of_a_thread_without_a_cpu_are_one_stall_with_this_cause() {
    let runnable = |ran_ns| Thread { asleep: false, ran_ns, ..elsewhere() };
    let of =
        || vec![Ring { unreaped: 1, unsubmitted: 1, has_overflowed: true, ..ring() }, Ring { address: 2, ..ring() }];
    let mut s = Samples::new();
    s.of(490, |_| (vec![runnable(1)], of()));
    assert_eq!(s.fired(), []);
    s.of(100, |_| (vec![runnable(1)], of())).of(20, |_| (vec![runnable(2)], vec![ring()]));
    assert_eq!(s.fired(), [("waits_for_cpu", Some(580))]);
    let Some(Event::Fired { key, facts, .. }) = s.events.first() else { panic!("{:?}", s.events) };
    assert_eq!((key.tgid, key.id, facts.for_ns), (7, 7, 500 * MS), "since the first sample");
    // It slept for long, and has just woken.
    s.of(900, |_| (vec![Thread { ran_ns: 2, ..elsewhere() }], vec![ring()])).of(190, |_| (vec![runnable(2)], of()));
    assert_eq!(s.fired().len(), 1);
    // It runs, and does not reap.
    s.of(300, |i| (vec![runnable(i)], vec![Ring { unreaped: 1, ..ring() }]));
    assert_eq!(s.fired().last(), Some(&("unreaped", None)));
}

#[test]
fn a_thread_without_a_cpu_may_be_about_to_reap() {
    let mut s = Samples::new();
    let runnable = || Thread { tid: 8, asleep: false, ..elsewhere() };
    s.of(490, |_| (vec![elsewhere(), runnable()], vec![Ring { unreaped: 1, ..ring() }]));
    assert_eq!(s.fired(), []);
}

#[test]
fn a_cpu_quota_is_the_cause_of_waits_for_a_cpu() {
    let mut s = Samples::new();
    for i in 0..100 {
        let process = Process { tgid: 7, quota_ns: i / 10 * 50 * MS, ..Process::default() };
        let threads = vec![Thread { asleep: false, ..elsewhere() }];
        let rings = vec![Ring { unreaped: 1, ..ring() }];
        let at_ns = (1000 + i * 10) * MS;
        let sample = Snapshot { at_ns, threads, rings, processes: vec![process], ..Snapshot::default() };
        s.events.extend(s.triggers.take(&sample, &s.sleeps));
    }
    assert_eq!(s.fired(), [("throttled_cpu", None)]);
}

#[test]
fn the_certain_length_of_a_stall_is_its_threshold_plus_two_or_three_sampling_intervals() {
    const INTERVAL: u64 = 11;
    let has_fired = |trigger: Trigger, lasts_ms: u64, phase: u64| {
        let mut s = Samples::new();
        for i in 0..200 {
            let at_ms = i * INTERVAL + phase;
            let stalls = (1000..1000 + lasts_ms).contains(&at_ms);
            // Before the stall, requests complete between any two samples.
            let posted = (at_ms.min(999) / INTERVAL) as u32 + u32::from(at_ms >= 1000 + lasts_ms);
            let is_slow = trigger == Trigger::SlowRequest && stalls;
            let taken = posted + u32::from(is_slow);
            let unreaped = u32::from(trigger == Trigger::Unreaped && stalls);
            let before = Snapshot { at_ns: s.at_ns, rings: vec![ring()], ..Snapshot::default() };
            let depth = Depth { in_flight: Some(is_slow.into()), ..Depth::default() };
            let depth = (!s.triggers.suspects(&before).is_empty()).then_some(depth);
            s.at_ns = at_ms * MS;
            let rings = vec![Ring { taken, posted, unreaped, depth, ..ring() }];
            let sample = Snapshot { at_ns: s.at_ns, threads: vec![elsewhere()], rings, ..Snapshot::default() };
            s.events.extend(s.triggers.take(&sample, &s.sleeps));
        }
        s.fired().iter().any(|(name, _)| *name == trigger.name())
    };
    // Two intervals, and for a slow request one more until the next reading.
    for (trigger, intervals) in [(Trigger::Unreaped, 2), (Trigger::SlowRequest, 3)] {
        let length = Thresholds::default().ns(trigger) / MS + intervals * INTERVAL;
        let always = |lasts_ms| (0..INTERVAL).all(|phase| has_fired(trigger, lasts_ms, phase));
        assert!(always(length) && !always(length - INTERVAL), "{trigger:?}");
    }
}

#[test]
fn a_worker_in_uninterruptible_sleep_is_a_slow_request() {
    let mut s = Samples::new();
    s.sleeps.insert(9, Sleep { reason: Some(Reason::RwSemaphore), is_sync: false, ..Sleep::default() });
    let worker = Thread { tid: 9, tgid: 7, asleep: true, is_kernels: true, ..Thread::default() };
    let busy = |i: u64| Ring { posted: i as u32, taken: i as u32, ..ring() };
    s.of(3000, |i| (vec![Thread { switches: i, ..elsewhere() }, worker.clone()], vec![busy(i)]));
    assert_eq!(s.fired(), [], "a worker may wait for a peer for ever");
    let stuck = Thread { is_uninterruptible: true, ..worker };
    s.of(1200, |i| (vec![Thread { switches: i, ..elsewhere() }, stuck.clone()], vec![busy(i)]));
    assert_eq!(s.fired(), [("slow_request", None)]);
}

#[test]
fn thresholds_are_set_by_trigger_name() {
    let mut thresholds = Thresholds::default();
    thresholds.set("slow_sync=2s".parse().unwrap());
    assert_eq!(thresholds.ns(Trigger::SlowSync), 2000 * MS);
    for wrong in ["slow_sync", "slow_sync=0", "punts=1s", "sleep=1s"] {
        assert!(wrong.parse::<Threshold>().is_err(), "{wrong}");
    }
    assert!("x=1s".parse::<Threshold>().unwrap_err().contains("slow_request, asleep_with_completions"));
}
