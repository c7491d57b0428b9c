use super::*;
use iotrail_probe::rings::OpcodeCounts;

/// Linux 6.18.44, depth 32 with SQPOLL; one line of a waiting completion is kept.
const WITH_THREAD: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t17\nino:\t354936\nSqMask:\t0x1f\nSqHead:\t916155\n\
    SqTail:\t916155\nCachedSqHead:\t916155\nCqMask:\t0x3f\nCqHead:\t916123\nCqTail:\t916155\nCachedCqTail:\t916155\n\
    SQEs:\t0\nCQEs:\t32\n   27: user_data:26, res:0, flag:0\nSqThread:\t5165\nSqThreadCpu:\t1\nSqTotalTime:\t385684\n\
    SqWorkTime:\t203992\nUserFiles:\t0\nUserBufs:\t0\nPollList:\nCqOverflowList:\nNAPI:\tdisabled\n";

/// The same kernel: cqsize=256, no thread.
const WITHOUT: &str = "pos:\t0\nflags:\t02000002\nmnt_id:\t17\nino:\t355218\nSqMask:\t0x1f\nSqHead:\t98337\n\
    SqTail:\t98337\nCachedSqHead:\t98337\nCqMask:\t0xff\nCqHead:\t98305\nCqTail:\t98305\nCachedCqTail:\t98305\nSQEs:\t0\n\
    CQEs:\t0\nSqThread:\t-1\nSqThreadCpu:\t-1\nSqTotalTime:\t0\nSqWorkTime:\t0\nUserFiles:\t0\nUserBufs:\t0\nPollList:\n\
    CqOverflowList:\nNAPI:\tdisabled\n";

#[test]
fn io_uring_fdinfo_is_parsed() {
    let with = FdInfo {
        inode: Some(354936),
        sq_entries: Some(32),
        cq_entries: Some(64),
        cq_tail: Some(916155),
        sq_thread: Some(5165),
        sq_cpu: Some(1),
        sq_work_ns: Some(203_992_000),
        napi: None,
    };
    assert_eq!(FdInfo::parse(WITH_THREAD), with);
    let without = FdInfo {
        inode: Some(355218),
        sq_entries: Some(32),
        cq_entries: Some(256),
        cq_tail: Some(98305),
        ..FdInfo::default()
    };
    assert_eq!(FdInfo::parse(WITHOUT), without);
    // Before 6.9: no times.
    let old = WITH_THREAD.replace("SqTotalTime:\t385684\nSqWorkTime:\t203992\n", "");
    assert_eq!(FdInfo::parse(&old), FdInfo { sq_work_ns: None, ..with });
    // Locked ring in 6.18.
    let locked = FdInfo::parse("pos:\t0\nflags:\t02000002\nmnt_id:\t17\nino:\t7\n");
    assert_eq!(locked, FdInfo { inode: Some(7), ..FdInfo::default() });
}

#[test]
fn napi_busy_polling_is_converted_to_nanoseconds_for_each_kernel() {
    let of = |lines: &str| FdInfo::parse(&WITHOUT.replace("NAPI:\tdisabled\n", lines)).napi;
    let napi = |busy_poll_ns, is_static| Some(NapiRecord { busy_poll_ns, is_static });
    // Linux 6.18, 6.13 and 6.9.
    let dynamic = "NAPI:\tenabled\nnapi tracking:\tdynamic\nnapi_busy_poll_dt:\t50000\nnapi_prefer_busy_poll:\tfalse\n";
    assert_eq!(of(dynamic), napi(50_000, false));
    assert_eq!(of(&dynamic.replace("dynamic", "static")), napi(50_000, true));
    assert_eq!(of("NAPI:\tenabled\nnapi_busy_poll_to:\t20\nnapi_prefer_busy_poll:\tfalse\n"), napi(20_000, false));
    // NAPI was registered after the first sample.
    let mut seen = SeenRings::default();
    seen.take(7, 3, false, FdInfo::parse(WITHOUT));
    seen.take(7, 3, false, FdInfo::parse(&WITHOUT.replace("NAPI:\tdisabled\n", dynamic)));
    assert_eq!(seen.all()[0].napi, napi(50_000, false));
}

#[test]
fn indistinguishable_rings_share_a_common_napi_setting() {
    let polls = Some(NapiRecord { busy_poll_ns: 50_000, is_static: false });
    let of = |fd, napi| SeenRing { napi, ..ring(7, fd, 8, None, 0) };
    let counts = counted(0, 7, 8, 0, 0);
    let (a, b, c) = (of(3, polls), of(4, polls), of(5, None));
    assert_eq!(super::napi(None, &counts, &[&a, &b]), polls);
    assert_eq!(super::napi(None, &counts, &[&a, &b, &c]), None);
    assert_eq!(super::napi(Some(&b), &counts, &[&a, &b, &c]), polls);
    assert_eq!(super::napi(None, &counts, &[]), None);
}

#[test]
fn several_descriptors_of_one_ring_are_counted_as_one() {
    let mut seen = SeenRings::default();
    let at = |cq_tail, sq_work_ns| FdInfo { cq_tail: Some(cq_tail), sq_work_ns, ..FdInfo::parse(WITH_THREAD) };
    seen.take(7, 3, true, at(u32::MAX - 4, Some(100)));
    seen.take(7, 9, true, at(5, Some(250)));
    // A locked ring in the format before 6.16.
    seen.take(7, 9, true, FdInfo { sq_thread: None, ..at(10, None) });
    let ring = seen.all()[0];
    assert_eq!((seen.all().len(), ring.fds.iter().copied().collect::<Vec<_>>()), (1, vec![3, 9]));
    assert_eq!((ring.posted, work_ns(&[ring]), ring.sq_thread), (15, Some(150), Some(5165)));
    // Created during the trace, so that all its completions count. The other ring's process has exited since the
    // sample.
    seen.take(8, 3, false, FdInfo { inode: Some(354_937), ..at(77, Some(100)) });
    seen.ended(7);
    assert_eq!(seen.all().iter().map(|ring| ring.is_read).collect::<Vec<_>>(), [false, true]);
    assert_eq!(seen.posted(), (92, false));
    assert_eq!((seen.all()[1].posted, work_ns(&seen.all()[1..2])), (77, Some(100)));
}

#[test]
fn a_ring_found_locked_is_counted_after_its_first_readable_sample() {
    let mut seen = SeenRings::default();
    let at = |cq_tail| FdInfo { cq_tail, ..FdInfo::parse(WITHOUT) };
    seen.take(7, 3, true, at(None));
    assert_eq!(seen.posted(), (0, true));
    // Later samples do not change the first size.
    seen.take(7, 3, false, at(Some(5_000)));
    seen.take(7, 3, false, at(Some(5_010)));
    assert_eq!((seen.posted(), seen.all()[0].found), ((10, true), true));
}

#[test]
fn completions_of_a_ring_shared_with_children_are_counted_once() {
    let mut seen = SeenRings::default();
    let at = |cq_tail| FdInfo { cq_tail: Some(cq_tail), ..FdInfo::parse(WITHOUT) };
    seen.take(7, 3, true, at(1_000));
    seen.take(7, 3, true, at(1_010));
    // A forked child: completions from before the child existed, or before the trace, are not the child's.
    seen.take(8, 3, false, at(1_030));
    seen.take(9, 3, false, at(1_030));
    assert_eq!(
        seen.all().iter().map(|ring| (ring.found, ring.posted)).collect::<Vec<_>>(),
        [(true, 10), (true, 20), (true, 0)]
    );
    assert_eq!(seen.posted(), (30, true));
    // The process sampled last decides.
    seen.ended(7);
    seen.ended(9);
    seen.take(8, 3, false, at(1_035));
    assert_eq!(seen.posted(), (35, true));
    seen.ended(8);
    assert_eq!(seen.posted(), (35, false));
}

fn counted(ring: u32, tgid: u32, entries: u32, setup_flags: u32, completions: u64) -> RingCounts {
    RingCounts {
        ring,
        tgid,
        setup_flags,
        sq_entries: entries,
        cq_entries: 2 * entries,
        found: true,
        opcodes: vec![OpcodeCounts { completions, ..OpcodeCounts::default() }],
        ..RingCounts::default()
    }
}

fn ring(tgid: u32, fd: u32, entries: u32, sq_thread: Option<u32>, progress: u64) -> SeenRing {
    SeenRing {
        tgid,
        fds: [fd].into(),
        sq_entries: entries,
        cq_entries: 2 * entries,
        first_entries: (entries, 2 * entries),
        found: true,
        posted: progress,
        before: 0,
        last_tail: 0,
        is_read: true,
        sq_thread,
        sq_cpu: None,
        first_work_ns: None,
        last_work_ns: None,
        napi: None,
    }
}

fn fds(counts: &[RingCounts], seen: &[SeenRing], sq_tids: &[(u32, u32)]) -> Vec<Option<u32>> {
    let seen: Vec<&SeenRing> = seen.iter().collect();
    let found = matched(counts, &seen, &sq_tids.iter().copied().collect(), &BTreeSet::new());
    found.into_iter().map(|s| s.and_then(|s| s.fds.first().copied())).collect()
}

#[test]
fn rings_of_different_sizes_are_distinguished() {
    let counts = [counted(0, 7, 8, 0, 5), counted(1, 7, 16, 0, 5), counted(2, 8, 8, 0, 5), counted(3, 9, 8, 0, 5)];
    let seen = [ring(8, 30, 8, None, 0), ring(7, 20, 16, None, 0), ring(7, 10, 8, None, 0)];
    // The last ring's descriptor was closed after registration.
    assert_eq!(fds(&counts, &seen, &[]), [Some(10), Some(20), Some(30), None]);
    // A ring with a thread does not match a ring without the flag.
    assert_eq!(fds(&counts[..1], &[ring(7, 10, 8, Some(4), 0)], &[]), [None]);
}

#[test]
fn a_resized_ring_is_recognized_as_the_same_ring() {
    let mut seen = SeenRings::default();
    let at = |cq_entries| FdInfo { cq_entries: Some(cq_entries), ..FdInfo::parse(WITHOUT) };
    seen.take(7, 3, true, at(64));
    seen.take(7, 3, true, at(256));
    let ring = seen.all()[0].clone();
    assert_eq!((ring.cq_entries, ring.first_entries), (256, (32, 64)));
    // The probes know the size at creation or at the last overflow.
    for cq_entries in [64, 256] {
        let counted = RingCounts { cq_entries, ..counted(0, 7, 32, 0, 0) };
        assert_eq!(fds(&[counted], std::slice::from_ref(&ring), &[]), [Some(3)]);
    }
}

#[test]
fn rings_of_equal_size_are_matched_only_by_thread_or_progress() {
    let polled = [counted(0, 7, 8, SQPOLL, 0), counted(1, 7, 8, SQPOLL, 0)];
    let seen = [ring(7, 10, 8, Some(71), 0), ring(7, 20, 8, Some(70), 0)];
    assert_eq!(fds(&polled, &seen, &[(0, 70), (1, 71)]), [Some(20), Some(10)]);
    // Both rings share a thread, which therefore identifies neither.
    let shared = [ring(7, 10, 8, Some(70), 0), ring(7, 20, 8, Some(70), 0)];
    assert_eq!(fds(&polled, &shared, &[(0, 70), (1, 70)]), [None, None]);

    let counts = [counted(0, 7, 8, 0, 100_000), counted(1, 7, 8, 0, 500)];
    let seen = [ring(7, 10, 8, None, 510), ring(7, 20, 8, None, 99_500)];
    assert_eq!(fds(&counts, &seen, &[]), [Some(20), Some(10)]);
    let alike = [ring(7, 10, 8, None, 99_900), ring(7, 20, 8, None, 100_100)];
    assert_eq!(fds(&counts, &alike, &[]), [None, None]);
    // Idle rings are indistinguishable.
    let idle = [counted(0, 7, 8, 0, 0), counted(1, 7, 8, 0, 0)];
    assert_eq!(fds(&idle, &[ring(7, 10, 8, None, 0), ring(7, 20, 8, None, 0)], &[]), [None, None]);
}

#[test]
fn a_process_without_rings_is_detected() {
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    assert!(!has_rings(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!has_rings(child.id()));
}
