//! Findings about late, reordered and missing completions, and about requests that a worker executes.

use super::*;

#[test]
fn requests_without_completions_are_reported_at_exit_or_if_a_device_hangs() {
    let f = only(&never_completed(), "never_completed");
    assert!(
        !f.warns() && f.text.contains("20 requests had no completion when the program exited: 20 recv in a poll"),
        "{f:?}"
    );
    let running = |open: OpenRecord| {
        let mut t = clean();
        t.subject = Subject::Process { tgid: 1234, comm: "fio".into(), descendants: 0 };
        t.total.open = vec![open];
        findings(&t)
    };
    assert_eq!(running(open("read", Course::Poll, 20, 60_000_000_000)), [], "it waits for somebody");
    assert_eq!(running(open("read", Course::Block, 3, 2_000_000)), [], "they are under way");
    let [f] = &running(open("write", Course::Block, 3, 12_000_000_000))[..] else { panic!("one finding") };
    assert!(
        f.warns() && f.text.contains("at the device, the oldest on fd 7 pending for 12.0 s (user_data 0x2a)"),
        "{f:?}"
    );
    let named = OpenRecord { file: Some("/data/x".into()), ..open("write", Course::Block, 3, 12_000_000_000) };
    let [f] = &running(named)[..] else { panic!("one finding") };
    assert!(f.text.contains("3 write at the device, the oldest on fd 7 (/data/x) pending for 12.0 s"), "{f:?}");
    // Receives that wait for the next message, as earlier ones did.
    let mut t = never_completed();
    t.total.open = vec![open("read", Course::Poll, 20, 30_000_000)];
    assert_eq!(findings(&t), []);
    // The program closed the ring, and continues.
    let closed = |n: u64| OpenRecord { closed: n, ..open("recv", Course::Poll, 20, 30_000_000) };
    let [f] = &running(closed(20))[..] else { panic!("one finding") };
    assert!(!f.warns() && f.remedy.contains("before you close the ring"), "{f:?}");
    assert!(f.text.starts_with("20 requests had no completion when the program closed their ring: 20 recv"), "{f:?}");
    let mut t = never_completed();
    t.total.open = vec![closed(20), OpenRecord { ring: Some(1), ..closed(20) }, open("recv", Course::Poll, 1, 9)];
    let [f] = &findings(&t)[..] else { panic!("one finding") };
    assert!(f.text.contains("41 requests had no completion when the program exited or closed their rings: "), "{f:?}");
    // Of 60 reads of three closed rings, the reads of one were traced.
    let mut t = never_completed();
    let mut read = opcode("read", 0, 0);
    (read.requests, read.errors) = (20, 0);
    t.rings = [0, 1, 2].map(|number| RingRecord { opcodes: vec![read.clone()], ..ring(number) }).into();
    t.total.opcodes.clear();
    t.total.open = vec![OpenRecord { closed: 20, ..open("read", Course::Poll, 20, 30_000_000) }];
    let f = findings(&t).into_iter().find(|f| f.code == "never_completed").expect("the finding");
    assert!(f.text.starts_with("60 requests had no completion when the program closed their rings: 20 read"), "{f:?}");
    assert!(f.text.ends_with(" and 40 untraced") && f.evidence["requests"] == 60.0, "{f:?}");
    // A command that only waits, or that has a multishot request open.
    let mut t = never_completed();
    t.total.open =
        vec![open("timeout", Course::Direct, 1, 0), OpenRecord { multishot: 1, ..open("recv", Course::Poll, 1, 9) }];
    assert_eq!(findings(&t), []);
}

#[test]
fn completions_count_as_unreaped_if_a_tenth_stays_without_a_waiter() {
    let f = only(&left_lying(), "left_lying");
    assert!(
        f.text.starts_with("33 % of the completions stayed in the completion queue for 10 ms or longer"),
        "{}",
        f.text
    );
    assert!(
        f.text.contains("The queue held up to 96 completions at a time and has 128 entries. Basis: 300 traced"),
        "{}",
        f.text
    );
    assert_eq!((f.warns(), f.evidence["left_p50_ns"]), (false, 4e6));
    let with = |change: fn(&mut Reaping)| {
        let mut t = left_lying();
        change(t.rings[0].reaping.as_mut().unwrap());
        codes(&t)
    };
    // Less than a tenth; too few; stays while the thread waits for more completions in io_uring_enter.
    assert!(with(|r| r.left_long_estimated = 239).is_empty());
    assert!(with(|r| (r.completions, r.left_long, r.left_ns.max) = (57, 19, Some(99_000_000))).is_empty());
    // A single stay of this length suffices.
    assert_eq!(with(|r| (r.completions, r.left_long) = (3, 1)), ["left_lying"]);
    assert!(with(|r| (r.left_long, r.left_long_estimated) = (0, 0)).is_empty());
    // Completions that were never reaped count too.
    let mut t = left_lying();
    t.rings[0].overflows = 0;
    let r = t.rings[0].reaping.as_mut().unwrap();
    (r.left_long, r.left_long_estimated) = (64, 64);
    (r.completions, r.estimated, r.unreaped, r.unreaped_estimated) = (0, 0, 64, 64);
    (r.left_ns, r.unreaped_at_least_ns) = (Delay::default(), Some(700_000_000));
    let f = only(&t, "left_lying");
    assert!(f.warns() && f.text.contains("100 %") && f.text.contains("the longest at least 700 ms"), "{f:?}");
}

#[test]
fn punts_are_reported_by_opcode_and_cause() {
    let said = findings(&punted());
    assert!(
        said[0]
            .text
            .starts_with("100 % of the read requests (80.0 k) were punted to io-wq because the program requested this")
    );
    assert!(said[0].warns() && said[0].evidence["asked"] == 1.0);
    assert!(said[1].text.starts_with(
        "100 % of the fsync requests (900) were punted to io-wq because the kernel always punts this operation"
    ));
    assert!(!said[1].warns() && said[1].evidence["would_block"] == 1.0);
    assert_eq!(said.len(), 2);
}

/// A request that a worker finds not ready is punted again when it is ready.
#[test]
fn a_request_punted_twice_is_counted_once() {
    let of = |hand_overs, punted_requests: Option<[f64; 3]>| {
        let mut t = with_ring(|r| r.opcodes[0].punted_asked = hand_overs);
        let estimate = |[total, lo, hi]: [f64; 3]| Estimate { total, ci95: [lo, hi] };
        t.total.opcodes[0].punted_requests = punted_requests.map(estimate);
        let f = only(&t, "punted");
        (f.text.split(" because").next().unwrap().to_owned(), f.evidence["punted"])
    };
    let twice = of(80_000, Some([40_000.0; 3]));
    assert_eq!(
        twice,
        ("50 % of the read requests (40.0 k) were punted to io-wq, 80.0 k times in total,".into(), 40_000.0)
    );
    // Only the upper bound is known: at most all requests were punted.
    let more = of(160_000, None);
    assert_eq!(
        more,
        ("100 % of the read requests (80.0 k) were punted to io-wq, 160 k times in total,".into(), 80_000.0)
    );
    // If the estimate's interval includes the counted number, it does not replace the count.
    assert_eq!(of(8_000, Some([7_500.0, 6_000.0, 9_000.0])).1, 8_000.0);
    assert_eq!(of(8_000, Some([4_000.0, 3_000.0, 5_000.0])).1, 4_000.0);
}

#[test]
fn the_stage_that_lost_the_completion_order_is_reported() {
    let f = only(&reordered(), "reordered");
    assert!(
        f.text.contains("The order was lost in: task work 45 %, device 5 %, block layer 0.2 %. Basis: "),
        "{}",
        f.text
    );
    assert!(f.remedy.contains("in the task work, several CPUs"), "{}", f.remedy);
    let mut writes = reordered();
    let by = &mut writes.total.order.as_mut().unwrap().by;
    (by.file_system, by.task_work) = (Some(by.task_work), 0);
    let f = only(&writes, "reordered");
    assert!(
        f.text.contains("The order was lost in: file system 45 %, device 5 %, block layer 0.2 %. Basis: "),
        "{}",
        f.text
    );
    assert!(f.remedy.contains("in the file system, direct writes"), "{}", f.remedy);
    let of = |inversions, max_displacement, device| {
        let mut t = clean();
        let order = t.total.order.as_mut().unwrap();
        (order.inversions, order.max_displacement, order.by.device, order.by.block) =
            (inversions, max_displacement, device, 0);
        order.overtaken = Some(inversions);
        t
    };
    // With 16 requests in an order chosen by the drive, 79 % overtake another; fully reversed, 94 % do.
    assert_eq!(codes(&of(63_200, 15, 63_200)), Vec::<String>::new());
    assert_eq!(codes(&of(75_000, 15, 75_000)), ["reordered"]);
    // All others overtake a few slow requests, but nothing is reversed.
    let mut long = of(79_992, 2_000, 79_992);
    assert_eq!(codes(&long), ["reordered"]);
    long.total.order.as_mut().unwrap().overtaken = Some(8);
    assert_eq!(codes(&long), Vec::<String>::new());
    // With 64: 93 % and 98 %.
    assert_eq!(codes(&of(74_200, 63, 74_200)), Vec::<String>::new());
    let f = only(&of(78_700, 63, 0), "reordered");
    assert!(
        f.text.contains("The order was lost in: an untraced stage. Basis: 80.0 k traced completions"),
        "{}",
        f.text
    );
}

#[test]
fn out_of_order_delivery_is_explained_by_ring_and_kernel() {
    let f = only(&delivered_out_of_order(), "delivered_out_of_order");
    assert_eq!(
        f.text,
        "44 % of the completions with a known ready time were posted before a completion that was ready earlier, by up to 8 positions. \
         The order was lost in task work. Each thread posts its own submissions when it next enters the kernel, even if \
         other threads' requests were ready earlier. Basis: 80.0 k traced completions"
    );
    assert!(f.remedy.starts_with("let one thread submit"), "{}", f.remedy);
    assert_eq!((f.evidence["inversions_per_completion"], f.evidence["max_displacement"]), (0.4375, 8.0));
    let because = |change: &dyn Fn(&mut TraceRecord)| {
        let mut t = delivered_out_of_order();
        change(&mut t);
        only(&t, "delivered_out_of_order").text.rsplit_once("lost in ").unwrap().1.to_owned()
    };
    let old = because(&|t| t.total.host.kernel = "6.1.0-50-amd64".into());
    assert!(
        old.starts_with("task work. This kernel runs task work in reverse order, the item queued last first. Basis: "),
        "{old}"
    );
    let writes = because(&|t| {
        let by = &mut t.rings[0].order.as_mut().unwrap().delivery.as_mut().unwrap().by;
        (by.file_system, by.task_work) = (Some(35_000), 0);
    });
    assert!(writes.starts_with("the file system. Direct writes are finished by a kernel worker"), "{writes}");
    let done_at_once = because(&|t| {
        t.rings[0].order.as_mut().unwrap().delivery.as_mut().unwrap().by.inline = Some(30_000);
    });
    assert!(
        done_at_once.starts_with("submission. Requests that complete at submission are posted at once"),
        "{done_at_once}"
    );
    // A few per cent are part of any mixture.
    let mut few = delivered_out_of_order();
    few.rings[0].order.as_mut().unwrap().delivery.as_mut().unwrap().inversions = 3_900;
    assert!(!codes(&few).contains(&"delivered_out_of_order".to_owned()));
}

#[test]
fn each_thread_of_a_deadlock_is_reported_with_what_it_waits_for() {
    let f = only(&deadlock(), "deadlock");
    assert_eq!(
        f.text,
        "2 threads had waited for 3.20 s and cannot continue, and they wait for each other: thread 7 (build) waits in wait4(2) for the exit of \
         process 8 (build); thread 8 (build) waits in write(2) for space in a pipe (descriptor 4), which only process 7 (build) can read"
    );
    assert!(f.remedy.starts_with("read the child's output"), "{}", f.remedy);
    let with = |change: &dyn Fn(&mut LongWait)| {
        let mut t = deadlock();
        t.state.as_mut().unwrap().waits.iter_mut().for_each(change);
        t
    };
    let t = with(&|wait| wait.cannot_end = false);
    assert_eq!(codes(&t), Vec::<String>::new());
    let end = waits::other_end(&t, "write");
    assert_eq!(end.unwrap(), "for 3.20 s, the other end of descriptor 4 was open in process 7 (build)");
    let locked = with(&|wait| wait.reason = if wait.fd.is_some() { Reason::FileLock } else { Reason::Child });
    let f = only(&locked, "deadlock");
    assert!(f.text.ends_with("for a file lock (descriptor 4), which process 7 (build) holds"), "{}", f.text);
    assert!(f.remedy.starts_with("take the locks in the same order"), "{}", f.remedy);
    let dead = with(&|wait| {
        let lock = ("futex".into(), Reason::Lock, Some(99), vec![]);
        (wait.syscall, wait.reason, wait.owner, wait.by) = lock;
    });
    let f = only(&dead, "deadlock");
    assert!(f.text.contains("waits in futex(2) for a lock of thread 99, which has exited"), "{}", f.text);
    assert!(f.remedy.contains("setrobust"), "{}", f.remedy);
}
