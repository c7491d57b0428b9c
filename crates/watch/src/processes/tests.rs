use super::*;
use crate::processes::counter::Span;
use crate::processes::helper::kind;

#[test]
fn io_uring_kernel_threads_are_recognized_by_name() {
    assert_eq!(kind("iou-sqp-5164"), Some(Kind::SubmissionQueue));
    assert_eq!(kind("iou-wrk-5194"), Some(Kind::Worker));
    assert_eq!(kind("load-0"), None);
}

#[test]
fn a_counters_growth_is_relative_to_its_first_value() {
    let mut span = Span { first: Some(5), last: None };
    assert_eq!(span.grown(), None);
    span.take(Some(12));
    span.take(None);
    assert_eq!(span.grown(), Some(7));
    assert_eq!(Span { first: None, last: Some(3) }.grown(), None);
}

#[test]
fn exact_cpu_time_is_divided_in_proportion_to_ticks() {
    let span = |first, last| Span { first: Some(first), last: Some(last) };
    let used = |ran_ns, user: u64, system: u64| {
        let of = Used { ran_ns, user_ticks: span(10, 10 + user), system_ticks: span(20, 20 + system) };
        of.grown().map(|cpu| (cpu.user_ns, cpu.system_ns))
    };
    assert_eq!(used(span(1_000, 5_001_000), 1, 4), Some((1_000_000, 4_000_000)));
    assert_eq!(used(span(1_000, 5_001_000), 0, 0), Some((5_000_000, 0)), "less than a tick");
    assert_eq!(used(span(0, 50_000_000_000_000), 1, 4_000_000), Some((12_499_997, 49_999_987_500_003)));
    assert_eq!(used(Span::default(), 1, 4), Some((procfs::ticks_to_ns(1), procfs::ticks_to_ns(4))));
    let (mut own, mut work) = (Used::first(clock::of_process_ns(std::process::id()), &stat(), true), 0u64);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(3) {
        work = std::hint::black_box(work + 1);
    }
    own.take(clock::of_process_ns(std::process::id()), &stat());
    let cpu = own.grown().unwrap();
    let ran = cpu.user_ns + cpu.system_ns;
    assert!(ran > 100_000 && !ran.is_multiple_of(procfs::ticks_to_ns(1)), "{cpu:?}");
}

fn stat() -> Stat {
    Stat::of(std::process::id()).unwrap()
}

fn helper(since_ns: u64, until_ns: u64, on_cpu_ns: Span, voluntary_switches: Span) -> Helper {
    Helper { kind: Kind::SubmissionQueue, on_cpu_ns, voluntary_switches, since_ns, until_ns }
}

#[test]
fn an_sqpoll_thread_is_reported_until_its_end() {
    let mut processes = Processes::new(true, Rc::new(Numbers::SAME));
    processes.began_ns = 1_000;
    let thread =
        |tid, started_ns, ended_ns| EndedSqThread { tgid: 7, tid, started_ns, ended_ns, ran_ns: 600, sleeps: 9 };
    let from = |first| Span { first: Some(first), last: Some(first + 1) };
    let sq_threads = vec![
        (71, helper(1_100, 1_400, from(0), from(0))), // last sampled long before its end
        (72, helper(1_000, 1_400, from(200), from(4))), // existed before
        (73, helper(5_000, 6_000, from(0), from(0))), // a later thread with the same ID
    ];
    processes.ended.insert(7, Ended { sq_threads, ..Ended::default() });
    let ended = [(71, 1_050), (72, 300), (73, 1_050), (74, 1_050), (75, 300)];
    processes.sq_threads_ended(ended.map(|(tid, started)| thread(tid, started, 2_000)).to_vec());
    let told = |tid| processes.sq_thread(7, tid).map(|t| (t.elapsed_ns, t.cpu_ns, t.sleeps));
    assert_eq!(told(71), Some((950, Some(600), Some(9))));
    assert_eq!(told(72), Some((1_000, Some(400), Some(5))));
    assert_eq!(told(73), Some((1_000, Some(1), Some(1))), "the looks at the later one");
    assert_eq!(told(74), Some((950, Some(600), Some(9))), "no look has met it");
    assert_eq!(told(75), None, "what it had run before is not known");
    assert_eq!(processes.sq_thread(8, 74), None);
    processes.sq_threads_ended((0..10_000).map(|tid| thread(tid, 1_050, 2_000)).collect());
    assert_eq!((processes.sq_ended.0.len(), processes.sq_ended.1.len()), (ENDED, ENDED));
}

#[test]
fn a_child_is_tracked_and_its_time_counts() {
    let mut processes = Processes::new(true, Rc::new(Numbers::SAME));
    assert!(processes.was_there(std::process::id()));
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 600 & wait";
    let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
    processes.track(child.id(), false);
    assert_eq!(processes.cpu(None).map(|_| ()), Some(()));
    let sleep = loop {
        processes.look(true);
        let sleeps = |p: &Processes| p.names().find(|(_, name)| *name == "sleep").map(|(tgid, _)| tgid);
        if let Some(tgid) = sleeps(&processes) {
            break tgid;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(procfs::descendants(child.id()), [sleep]);
    let cpu = processes.cpu(None).unwrap();
    assert!(cpu.user_ns + cpu.system_ns > 0, "{cpu:?}");
    assert!(!processes.was_there(sleep) && !processes.was_there(child.id()));
    assert_eq!((processes.most_workers(), processes.workers_cpu_ns(0)), (Some(0), Some(0)));
    // A grandchild that was not waited for.
    rustix::process::kill_process(crate::end::pid(sleep).unwrap(), rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    processes.look(true);
    // The probes report exited processes. No time is counted twice.
    let told = CpuTime { user_ns: 7, system_ns: 8 };
    assert_eq!(processes.cpu(Some(told)), Some(told));
    assert_eq!(processes.cpu(None), None);
    assert!(processes.tracked.is_empty() && processes.names().any(|(_, name)| name == "sleep"));
    // The PID may be reused.
    processes.track(std::process::id(), true);
    assert_eq!(processes.tracked.len(), 1);
}
