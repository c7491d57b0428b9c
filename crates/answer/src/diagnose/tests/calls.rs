//! Findings about submission and completion batches, loops, and the SQPOLL thread.

use super::*;

/// Four rings share a thread, so its time covers the requests of all of them.
#[test]
fn an_sqpoll_threads_time_is_divided_among_its_rings() {
    let mut t = sqpoll(|s| (s.work_ns, s.requests) = (None, 40));
    let mut cpu = |n: u32| {
        t.rings.resize(n as usize, t.rings[0].clone());
        for (i, r) in (0..).zip(&mut t.rings) {
            r.ring = i;
            r.sqpoll.as_mut().unwrap().shared_with = (0..n).filter(|other| *other != i).collect();
        }
        let f = findings(&t).into_iter().find(|f| f.code == "sqpoll_spinning").unwrap();
        (f.evidence["requests"], f.evidence["cpu_per_request_ns"])
    };
    let (alone, shared) = (cpu(1), cpu(4));
    assert_eq!((alone.0, shared.0), (40.0, 160.0));
    assert_eq!(shared.1, alone.1 / 4.0);
}

#[test]
fn single_submissions_are_a_finding_only_if_they_could_be_batched() {
    let f = only(&one_per_enter(), "one_per_enter");
    assert!(
        f.text.contains("40.0 k such calls per second while the ring was in use, with about 18 requests in flight"),
        "{}",
        f.text
    );
    assert!(f.warns());
    let mut alone = one_per_enter();
    alone.rings[0].opcodes[0].latency_ns = latency(80_000, 20_000);
    assert_eq!(codes(&alone), Vec::<String>::new());
    // Timeouts in flight cannot be submitted together with other requests.
    alone.rings[0].opcodes.push(opcode("timeout", 4_000, 1_000_000_000));
    assert_eq!(codes(&alone), Vec::<String>::new());
}

#[test]
fn single_submissions_that_complete_inline_are_compared_to_plain_calls() {
    let f = only(&one_at_a_time(), "one_per_enter");
    assert!(f.text.starts_with("40.0 k io_uring_enter calls per second submitted one request each"), "{}", f.text);
    assert!(!f.warns() && f.remedy.contains("pread(2)"));
    let mut small = one_at_a_time();
    small.rings[0].opcodes[0].bytes = 16 * small.rings[0].opcodes[0].completions;
    let f = only(&small, "one_per_enter");
    assert!(f.text.contains("one request each (16 B on average)") && f.remedy.contains("larger buffer"), "{f:?}");
    // Device reads take longer than the call, and an interrupt delivers them.
    let mut reads = one_at_a_time();
    reads.rings[0].vehicles = vec![carried(DeliveryPath::DeviceIrq, 80_000, Some("36 nvme0q2"), Some(2_000))];
    assert_eq!(codes(&reads), Vec::<String>::new());
    let mut short = one_per_enter();
    (short.rings[0].active_ns, short.total.elapsed_ns) = (Some(4_000_000), 4_000_000);
    assert!(only(&short, "one_per_enter").text.contains(": at least "), "known to a tick of the kernel");
    let mut rare = one_at_a_time();
    rare.rings[0].active_ns = Some(10_000_000_000);
    assert_eq!(codes(&rare), Vec::<String>::new(), "8 k calls a second");
}

#[test]
fn the_task_work_run_limit_depends_on_ring_and_kernel() {
    let f = only(&capped_batch(), "capped_batch");
    assert!(f.text.starts_with("94 % of completions were posted by task-work runs of exactly 20 items"), "{}", f.text);
    let changed = |change: &dyn Fn(&mut TraceRecord)| {
        let mut t = capped_batch();
        change(&mut t);
        codes(&t)
    };
    let none = Vec::<String>::new();
    assert_eq!(changed(&|t| t.total.host.kernel = "6.12.9".into()), none);
    assert_eq!(changed(&|t| t.total.host.kernel = "?".into()), none);
    assert_eq!(changed(&|t| t.rings[0].flags = vec!["coop_taskrun".into()]), none);
    // The program itself submits batches of 20.
    let shallow = |t: &mut TraceRecord| t.rings[0].opcodes[0].latency_ns.mean = Some(500_000.0);
    let own = |t: &mut TraceRecord| {
        shallow(t);
        t.rings[0].enter_batches[0].at_least = 16;
    };
    assert_eq!(changed(&own), none);
    // Bursts of 64, with pauses that keep the mean number in flight low.
    assert_eq!(changed(&shallow), ["capped_batch"]);
    // A call that waits for more completions gets them.
    assert_eq!(
        changed(&|t| t.rings[0].run_items[0] = RunItems { items: 32, completions: 9_000, estimated: None }),
        none
    );
}

/// The limit is 8 before Linux 6.16, except in its stable kernels since 2025, which have larger runs.
#[test]
fn the_sqpoll_task_work_limit_depends_on_the_kernel() {
    let polled = |kernel: &str, items, between| {
        let mut t = capped_batch();
        t.total.host.kernel = kernel.into();
        t.rings[0].flags = vec!["sqpoll".into()];
        t.rings[0].run_items[1].items = items;
        t.rings[0].run_items.push(RunItems { items: between, completions: 1, estimated: None });
        codes(&t)
    };
    let none = Vec::<String>::new();
    assert_eq!(polled("6.18.44", 32, 9), ["capped_batch"]);
    assert_eq!(polled("6.18.44", 8, 2), none, "the program's own batches of 8");
    assert_eq!(polled("6.12.20", 8, 2), ["capped_batch"]);
    for between in [9, 31, 32] {
        assert_eq!(polled("6.12.48", 8, between), none, "{between}");
    }
    assert_eq!(polled("6.12.48", 32, 9), ["capped_batch"]);
    assert_eq!(polled("6.8.12", 8, 2), none);
}

#[test]
fn an_iopoll_ring_whose_polling_finds_nothing_is_reported() {
    let mut t = clean();
    t.rings[0].flags = vec!["iopoll".into()];
    let f = only(&t, "iopoll_without_queues");
    assert!(f.text.starts_with("polling found none of the 80.0 k completions"), "{}", f.text);
    t.rings[0].vehicles = vec![carried(DeliveryPath::Iopoll, 80_000, None, Some(1_000))];
    assert_eq!(codes(&t), Vec::<String>::new());
}

#[test]
fn the_sqpoll_thread_is_reported_for_spinning_or_frequent_wakeups() {
    let f = only(&sqpoll_spinning(), "sqpoll_spinning");
    assert!(
        f.text.contains("(tid 1240, last on CPU 1) used 98 % of a CPU for 40 requests, 49.0 ms per request"),
        "{}",
        f.text
    );
    // SqThreadCpu is the CPU on which it last ran, unless the program set it.
    let mut bound = sqpoll_spinning();
    bound.rings[0].flags.push("sq_aff".into());
    assert!(only(&bound, "sqpoll_spinning").text.contains("(tid 1240, bound to CPU 1) used"));
    let f = only(&sqpoll_napping(), "sqpoll_napping");
    assert!(f.text.contains("380 times for 400 requests, once per 5.26 ms on average (0.950 wake-ups"), "{}", f.text);
    assert_eq!(codes(&sqpoll(|s| (s.work_ns, s.wakeups) = (None, None))), Vec::<String>::new());
}

#[test]
fn exits_from_waiting_or_writing_calls_are_not_chatter() {
    let f = only(&chatty_poller(), "chatty_poller");
    assert!(f.text.contains("mostly getppid (41.0 system calls per I/O in total)"), "{}", f.text);
    assert!(f.text.starts_with("76 % of completions"), "{}", f.text);
    for call in ["write", "epoll_wait", "io_uring_enter"] {
        let home = delivered_by(vec![carried(DeliveryPath::SyscallExit, 80_000, Some(call), Some(900))]);
        assert_eq!(codes(&home), Vec::<String>::new(), "{call}");
    }
}

#[test]
fn many_unrelated_calls_per_io_are_reported_as_chatter() {
    let mut t = delivered_by(vec![carried(DeliveryPath::DeviceIrq, 80_000, Some("36 nvme0q2"), Some(900))]);
    t.total.stray_calls = Some(t.total.ios * 4);
    let f = only(&t, "chatty_poller");
    assert!(f.text.starts_with("4.00 system calls per I/O besides io_uring_enter"), "{}", f.text);
    t.total.stray_calls = Some(t.total.ios * 2);
    assert_eq!(codes(&t), Vec::<String>::new());
    let mut waits = clean();
    waits.total.stray_calls = Some(waits.total.ios * 4);
    assert_eq!(codes(&waits), Vec::<String>::new());
}

#[test]
fn page_faults_are_reported_only_for_a_polling_program() {
    let mut t = delivered_by(vec![carried(DeliveryPath::DeviceIrq, 80_000, Some("36 nvme0q2"), Some(900))]);
    t.total.page_faults = Some(160_000);
    let f = only(&t, "faulting_poller");
    assert!(f.text.contains("2.00 page faults per I/O"), "{}", f.text);
    t.total.page_faults = Some(9_000);
    assert_eq!(codes(&t), Vec::<String>::new());
    let mut waits = clean();
    waits.total.page_faults = Some(160_000);
    assert_eq!(codes(&waits), Vec::<String>::new());
}

#[test]
fn an_sqpoll_thread_with_few_requests_is_not_reported_for_wakeups() {
    let few = sqpoll(|s| (s.wakeups, s.requests, s.cpu_ns) = (Some(400), 3, None));
    assert_eq!(codes(&few), Vec::<String>::new());
    let unknown = sqpoll(|s| (s.elapsed_ns, s.requests) = (None, 40));
    assert_eq!(codes(&unknown), Vec::<String>::new(), "how long it was looked at is not known");
    let none = sqpoll(|s| s.requests = 0);
    let f = only(&none, "sqpoll_spinning");
    assert!(f.text.contains("98 % of a CPU for no request. "), "{}", f.text);
}
