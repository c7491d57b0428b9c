//! Each finding on a trace of its own, and on no other's.

use super::*;
use iotrail_schema::measurement::{Delay, Interrupt, Ipi, Latency, Order, OrderBy, VehicleCount};
use iotrail_schema::runnable::{HadCpu, Runnable};
use iotrail_schema::trace_record::{
    CpuPair, Detour, EnterBatch, ErrnoCount, Estimate, IowqRecord, MemoryRecord, OpenRecord, OverlapRecord, Reaping,
    RingThreads, RunItems, SqpollRecord, Subject, ThreadRecord, VehicleShare,
};
use iotrail_schema::trail::Course;
use iotrail_schema::vehicle::Vehicle;
use iotrail_testing::trace::{carried, clean, delivered_in_order, latency, opcode, reaping, ring, with_ring};

fn codes(t: &TraceRecord) -> Vec<String> {
    findings(t).into_iter().map(|f| f.code).collect()
}

fn only(t: &TraceRecord, code: &str) -> Finding {
    let mut found: Vec<Finding> = findings(t).into_iter().filter(|f| f.code == code).collect();
    assert_eq!(found.len(), 1, "{code}: {found:?}");
    found.remove(0)
}

fn delivered_by(vehicles: Vec<VehicleCount>) -> TraceRecord {
    with_ring(|r| {
        r.flags = vec!["coop_taskrun".into()];
        r.vehicles = vehicles;
    })
}

fn stranded() -> TraceRecord {
    let mut t = with_ring(|r| {
        r.flags = vec!["coop_taskrun".into()];
        r.vehicles = vec![
            carried(Vehicle::TimerTick, 490, None, Some(2_000_000)),
            carried(Vehicle::DeviceIrq, 10, Some("36 nvme0q2"), Some(2_000)),
        ];
        (r.requests, r.completions) = (500, 500);
        r.opcodes = vec![opcode("read", 500, 3_900_000)];
        r.enter_batches =
            vec![EnterBatch { at_least: 1, requests: 500, estimated: None, calls: 500.0, calls_ci95: None }];
        r.run_items = vec![RunItems { items: 1, completions: 500, estimated: None }];
    });
    t.total.cpu_pairs =
        vec![CpuPair { ready_cpu: 1, posted_cpu: 0, completions: 500, estimated: None, threads: Some(1) }];
    t.total.followed.completions = 500;
    t
}

/// Sockets written to by a thread on another CPU.
fn kick_storm() -> TraceRecord {
    let mut t = with_ring(|r| {
        r.flags.clear();
        r.vehicles = vec![carried(Vehicle::ReschedIpi, 80_000, None, Some(2_000))];
        r.run_items = vec![RunItems { items: 1, completions: 80_000, estimated: None }];
    });
    t.total.per_io.kicks = Some(0.98);
    t.total.ipis = vec![Ipi { site: "task_work_add".into(), from_cpu: 0, to_cpu: 1, count: 78_400 }];
    t.total.cpu_pairs =
        vec![CpuPair { ready_cpu: 0, posted_cpu: 1, completions: 80_000, estimated: None, threads: Some(1) }];
    t
}

/// Waits in the kernel, one request at a time, on a CPU that the drive does not interrupt.
fn wrong_core() -> TraceRecord {
    let mut t = with_ring(|r| {
        r.enter_batches =
            vec![EnterBatch { at_least: 1, requests: 80_000, estimated: None, calls: 80_000.0, calls_ci95: None }];
        r.run_items = vec![RunItems { items: 1, completions: 80_000, estimated: None }];
        r.opcodes = vec![opcode("read", 80_000, 20_000)];
    });
    t.total.cpu_pairs = vec![
        CpuPair { ready_cpu: 1, posted_cpu: 0, completions: 79_000, estimated: None, threads: Some(1) },
        CpuPair { ready_cpu: 1, posted_cpu: 1, completions: 1_000, estimated: None, threads: Some(1) },
    ];
    t.total.ipis = vec![Ipi { site: "ttwu_queue_wakelist".into(), from_cpu: 1, to_cpu: 0, count: 79_000 }];
    t.total.interrupts[0].count = 80_000;
    t
}

fn one_per_enter() -> TraceRecord {
    with_ring(|r| {
        r.opcodes = vec![opcode("read", 80_000, 400_000)];
        r.enter_batches = vec![
            EnterBatch { at_least: 1, requests: 79_984, estimated: None, calls: 79_984.0, calls_ci95: None },
            EnterBatch { at_least: 16, requests: 16, estimated: None, calls: 1.0, calls_ci95: None },
        ];
    })
}

fn capped_batch() -> TraceRecord {
    with_ring(|r| {
        r.opcodes = vec![opcode("read", 80_000, 1_500_000)];
        r.enter_batches =
            vec![EnterBatch { at_least: 64, requests: 80_000, estimated: None, calls: 1_250.0, calls_ci95: None }];
        r.run_items = vec![
            RunItems { items: 4, completions: 5_000, estimated: None },
            RunItems { items: 20, completions: 75_000, estimated: None },
        ];
    })
}

fn iopoll_without_queues() -> TraceRecord {
    with_ring(|r| {
        r.flags = vec!["iopoll".into()];
        let mut o = opcode("read", 80_000, 1_000);
        (o.bytes, o.errors) = (0, 80_000);
        o.errnos = vec![ErrnoCount { errno: "EOPNOTSUPP".into(), count: 80_000, user_data: None }];
        (r.opcodes, r.errors) = (vec![o], 80_000);
        r.vehicles = vec![carried(Vehicle::Inline, 80_000, None, None)];
    })
}

fn sqpoll(change: impl FnOnce(&mut SqpollRecord)) -> TraceRecord {
    with_ring(|r| {
        r.flags = vec!["sqpoll".into()];
        r.vehicles = vec![carried(Vehicle::Sqpoll, 80_000, None, Some(2_000))];
        r.enter_batches.clear();
        let mut s = SqpollRecord {
            tid: 1240,
            cpu: Some(1),
            elapsed_ns: Some(2_000_000_000),
            cpu_ns: Some(1_960_000_000),
            work_ns: Some(500_000_000),
            wakeups: Some(2),
            requests: 80_000,
            shared_with: vec![],
        };
        change(&mut s);
        r.sqpoll = Some(s);
    })
}

fn sqpoll_spinning() -> TraceRecord {
    sqpoll(|s| (s.work_ns, s.requests) = (Some(20_000_000), 40))
}

fn sqpoll_napping() -> TraceRecord {
    sqpoll(|s| (s.cpu_ns, s.work_ns, s.wakeups, s.requests) = (Some(900_000_000), Some(5_000_000), Some(380), 400))
}

fn punted() -> TraceRecord {
    with_ring(|r| {
        r.opcodes[0].punted_asked = 80_000;
        let mut fsync = opcode("fsync", 900, 2_000_000);
        fsync.punted_would_block = 900;
        r.opcodes.push(fsync);
        r.vehicles = vec![carried(Vehicle::Iowq, 80_900, None, None)];
    })
}

fn iowq_fanout() -> TraceRecord {
    let mut t = with_ring(|r| r.vehicles = vec![carried(Vehicle::Iowq, 80_000, None, None)]);
    // What the workers do was too little of each opcode to be said of it.
    t.total.opcodes[0].punted_would_block = 3_000;
    t.total.iowq = IowqRecord { workers: 40, most_at_once: Some(32), completions: 3_000, cpu_ns: None };
    t
}

fn overlapping_buffers() -> TraceRecord {
    let mut t = clean();
    let user_data = ["0x41".into(), "0x42".into()];
    let overlap = Some(OverlapRecord { opcode: "read_fixed".into(), bytes: 4096, user_data });
    t.total.memory =
        Some(MemoryRecord { overlapping: 3, overlap, outlived: 0, outlived_user_data: None, ring: Some(0) });
    t
}

fn unregistered_in_flight() -> TraceRecord {
    let mut t = clean();
    let outlived_user_data = Some("0xb0".into());
    t.total.memory =
        Some(MemoryRecord { overlapping: 0, overlap: None, outlived: 8, outlived_user_data, ring: Some(0) });
    t
}

/// No-ops, each with a call of its own, and done by it.
fn one_at_a_time() -> TraceRecord {
    let mut t = one_per_enter();
    t.rings[0].opcodes[0].latency_ns = latency(80_000, 1_000);
    t.rings[0].vehicles = vec![carried(Vehicle::Inline, 80_000, None, None)];
    t
}

fn never_completed() -> TraceRecord {
    let mut t = clean();
    t.total.open = vec![open("read", Course::Poll, 20, 30_000_000)];
    t
}

fn open(opcode: &str, course: Course, requests: u64, oldest_ns: u64) -> OpenRecord {
    OpenRecord {
        ring: Some(0),
        tgid: 1234,
        opcode: opcode.into(),
        course,
        requests,
        estimated: requests,
        multishot: 0,
        oldest_ns,
        user_data: "0x2a".into(),
        descriptor: Some("fd 7".into()),
        file: None,
    }
}

/// A quarter of its completions waited for the CPU that others had.
fn waiting_for_cpu() -> TraceRecord {
    with_ring(|r| {
        let delay_ns =
            Latency { p50: Some(10_000), p99: Some(4_100_000), max: Some(9_000_000), ..latency(80_000, 372_000) };
        let had = |tid, comm: Option<&str>, share| HadCpu { tid, comm: comm.map(Into::into), share };
        r.stages.as_mut().unwrap().runnable = Some(Runnable {
            completions: 80_000,
            mean_ns: 300_000.0,
            delivery_ns: 400_000.0,
            long: 20_800,
            long_share: 0.26,
            others_share: 1.0,
            delay_ns,
            by: vec![had(Some(99), Some("postgres"), 0.9), had(None, None, 0.1)],
        });
    })
}

/// One thread submits and does something else; another one waits.
fn reaped_elsewhere() -> TraceRecord {
    with_ring(|r| {
        r.flags.clear();
        r.vehicles = vec![carried(Vehicle::SyscallExit, 80_000, Some("futex"), Some(900_000))];
        let thread = |tid, comm: &str, submitted, waits| ThreadRecord {
            tid,
            comm: Some(comm.into()),
            submitted,
            waits,
            delivery_ns: None,
        };
        r.threads = Some(RingThreads {
            threads: vec![thread(1235, "ib_writer", 80_000, 0), thread(1236, "ib_reaper", 0, 60_000)],
            more: 0,
            waiting: Some(1),
            detour: Some(Detour {
                completions: 80_000,
                estimated: 80_000,
                share: 1.0,
                threads: 1,
                delivery_ns: Some(900_000.0),
                others_delivery_ns: None,
                vehicles: vec![VehicleShare {
                    vehicle: Vehicle::SyscallExit,
                    detail: Some("futex".into()),
                    share: 1.0,
                }],
            }),
        });
    })
}

fn bad_buffers() -> TraceRecord {
    let faults = |name: &str, count, user_data: Option<&str>| {
        let user_data = user_data.map(Into::into);
        let errnos = vec![ErrnoCount { errno: "EFAULT".into(), count, user_data }];
        OpcodeRecord { errors: count, errnos, ..opcode(name, 4_000, 100_000) }
    };
    with_ring(|r| r.opcodes.extend([faults("read", 3, None), faults("read_fixed", 5, Some("0x2a"))]))
}

#[test]
fn who_had_the_cpu_is_named_and_a_free_cpu_yields_nothing() {
    let f = only(&waiting_for_cpu(), "waiting_for_cpu");
    assert_eq!(
        (f.warns(), f.ring, f.evidence["share_of_delivery"], f.evidence["p99_ns"]),
        (true, Some(0), 0.75, 4.1e6)
    );
    assert!(f.text.contains("that CPU ran postgres (99) 90 % and unknown 10 %; from 80.0 k followed"), "{}", f.text);
    let with = |change: fn(&mut Runnable)| {
        let mut t = waiting_for_cpu();
        change(t.rings[0].stages.as_mut().unwrap().runnable.as_mut().unwrap());
        codes(&t)
    };
    assert_eq!(with(|r| r.long_share = 0.04), Vec::<String>::new(), "the rare one");
    assert_eq!(with(|r| r.long = 19), Vec::<String>::new(), "no habit");
    assert_eq!(with(|r| r.delivery_ns = 2e6), Vec::<String>::new(), "delivery takes its time elsewhere");
    // Rings of few completions each, as many backends have them: all of them together.
    let mut t = waiting_for_cpu();
    t.total.stages = t.rings[0].stages.clone();
    t.rings[0].stages.as_mut().unwrap().runnable.as_mut().unwrap().completions = 9;
    assert_eq!(only(&t, "waiting_for_cpu").ring, None);
}

#[test]
fn who_waits_for_whose_completions_is_named() {
    let f = only(&reaped_elsewhere(), "reaped_elsewhere");
    assert_eq!((f.warns(), f.ring, f.evidence["waits"]), (true, Some(0), 60_000.0));
    assert!(
        f.text.starts_with(
            "100 % of completions are of requests that ib_writer (1235) submitted, and that ib_reaper (1236) waited for in \
             io_uring_enter: "
        ),
        "{}",
        f.text
    );
    assert!(f.text.contains("took 900 µs on average; delivered by syscall_exit (futex) 100 %"), "{}", f.text);
    let with = |change: fn(&mut RingRecord)| {
        let mut t = reaped_elsewhere();
        change(&mut t.rings[0]);
        codes(&t)
    };
    assert_eq!(with(|r| r.flags = vec!["sqpoll".into()]), Vec::<String>::new());
    assert_eq!(with(|r| r.threads.as_mut().unwrap().threads[1].waits = 3), Vec::<String>::new());
    assert_eq!(with(|r| r.threads.as_mut().unwrap().detour.as_mut().unwrap().share = 0.01), Vec::<String>::new());
    // Another process waits: its use of the ring has a record of its own.
    let mut t = reaped_elsewhere();
    let reaper = t.rings[0].threads.as_mut().unwrap().threads.remove(1);
    let mut other =
        RingRecord { use_of: Some(0), tgid: 77, comm: "cat".into(), requests: 0, completions: 0, ..ring(1) };
    other.threads = Some(RingThreads { threads: vec![reaper], waiting: Some(1), ..RingThreads::default() });
    t.rings.push(other);
    let f = only(&t, "reaped_elsewhere");
    assert!(f.text.contains("that ib_reaper (1236) of process cat (77) waited for"), "{}", f.text);
    // It costs next to nothing where submitters come by at once.
    let mut soon = reaped_elsewhere();
    soon.rings[0].threads.as_mut().unwrap().detour.as_mut().unwrap().delivery_ns = Some(4_000.0);
    assert!(!only(&soon, "reaped_elsewhere").warns());
}

#[test]
fn a_bad_buffer_is_told_by_what_names_it() {
    let f = only(&bad_buffers(), "bad_buffers");
    assert!(f.text.contains("5 of read_fixed (the first followed one has user_data 0x2a) and 3 of read"), "{}", f.text);
    assert!(f.remedy.contains("its index is wrong") && f.remedy.contains("not mapped"), "{}", f.remedy);
    assert_eq!((f.evidence["efault"], f.evidence["of_fixed_opcodes"], f.ring), (8.0, 5.0, Some(0)));
    let mut t = bad_buffers();
    t.total.opcodes.truncate(2);
    let plain = only(&t, "bad_buffers").remedy;
    assert!(!plain.contains("index") && plain.contains("not mapped"), "{plain}");
    // So many are no other finding's.
    let mut many = bad_buffers();
    many.total.opcodes.iter_mut().for_each(|o| o.errnos.iter_mut().for_each(|e| e.count = 4_000));
    assert_eq!(codes(&many), ["bad_buffers"]);
}

#[test]
fn what_has_no_completion_is_told_at_a_commands_end_and_where_a_device_hangs() {
    let f = only(&never_completed(), "never_completed");
    assert!(
        !f.warns() && f.text.contains("20 requests had no completion when the program ended: 20 read in a poll"),
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
    assert!(f.warns() && f.text.contains("with the device, the oldest on fd 7 for 12.0 s (user_data 0x2a)"), "{f:?}");
    let named = OpenRecord { file: Some("/data/x".into()), ..open("write", Course::Block, 3, 12_000_000_000) };
    let [f] = &running(named)[..] else { panic!("one finding") };
    assert!(f.text.contains("3 write with the device, the oldest on fd 7 (/data/x) for 12.0 s"), "{f:?}");
    // A command that only waits, or that has a multishot request open.
    let mut t = never_completed();
    t.total.open =
        vec![open("timeout", Course::Direct, 1, 0), OpenRecord { multishot: 1, ..open("recv", Course::Poll, 1, 9) }];
    assert_eq!(findings(&t), []);
}

fn cq_overflow() -> TraceRecord {
    with_ring(|r| r.overflows = 4_000)
}

fn buffers_exhausted() -> TraceRecord {
    with_ring(|r| {
        let mut o = opcode("recv", 1_200, 20_000);
        (o.more, o.errors) = (800, 400);
        o.errnos = vec![ErrnoCount { errno: "ENOBUFS".into(), count: 400, user_data: None }];
        r.opcodes.push(o);
    })
}

fn errors() -> TraceRecord {
    with_ring(|r| {
        r.opcodes[0].errnos = vec![
            ErrnoCount { errno: "EIO".into(), count: 2_000, user_data: None },
            ErrnoCount { errno: "EAGAIN".into(), count: 9_000, user_data: None },
        ];
        r.opcodes[0].errors = 11_000;
    })
}

/// A success without a completion is an outcome, a notification is none.
#[test]
fn a_share_of_failures_is_of_what_has_an_outcome() {
    let share = |o: OpcodeRecord| {
        let t = with_ring(|r| r.opcodes = vec![o]);
        findings(&t).iter().find(|f| f.code == "errors").map(|f| f.evidence["share"])
    };
    let failing = |name, requests, n| OpcodeRecord {
        errors: n,
        errnos: vec![ErrnoCount { errno: "EBADF".into(), count: n, user_data: None }],
        ..opcode(name, requests, 1_000)
    };
    let quiet = OpcodeRecord { skips: 2_000, completions: 200, bytes: 0, ..failing("write", 2_000, 200) };
    assert_eq!((quiet.silent(), quiet.outcomes(), quiet.bytes_unknown()), (1_800, 2_000, true));
    assert_eq!(share(quiet), Some(0.1));
    let zero_copy =
        OpcodeRecord { completions: 200, more: 100, notifications: 100, bytes: 0, ..failing("send_zc", 100, 100) };
    assert_eq!(share(zero_copy), Some(1.0));
}

/// Four rings on one thread: its time is of the requests of all of them.
#[test]
fn a_threads_time_is_shared_by_the_rings_it_serves() {
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

fn short_reads() -> TraceRecord {
    with_ring(|r| r.opcodes[0].short = Some(20_000))
}

fn short_writes() -> TraceRecord {
    with_ring(|r| {
        r.opcodes = vec![opcode("write", 80_000, 100_000)];
        r.opcodes[0].short = Some(20_000);
    })
}

fn faulting_poller() -> TraceRecord {
    let mut t = delivered_by(vec![
        carried(Vehicle::PageFault, 70_000, None, Some(900)),
        carried(Vehicle::Inline, 10_000, None, None),
    ]);
    t.total.page_faults = Some(400_000);
    t
}

fn chatty_poller() -> TraceRecord {
    let mut t = delivered_by(vec![
        carried(Vehicle::SyscallExit, 60_000, Some("getppid"), Some(900)),
        carried(Vehicle::SyscallExit, 1_000, Some("brk"), Some(900)),
        carried(Vehicle::Inline, 19_000, None, None),
    ]);
    t.total.per_io.syscalls = Some(41.0);
    t
}

fn reordered() -> TraceRecord {
    let mut t = clean();
    let order = t.total.order.as_mut().unwrap();
    (order.inversions, order.max_displacement) = (40_000, 15);
    (order.by.task_work, order.by.device) = (36_000, 4_000);
    t
}

/// Two threads on one ring.
fn delivered_out_of_order() -> TraceRecord {
    let mut t = with_ring(|r| {
        r.flags = vec!["coop_taskrun".into()];
        let mut delivery = delivered_in_order(80_000);
        (delivery.inversions, delivery.by.task_work, delivery.max_displacement) = (35_000, 35_000, 8);
        let by = OrderBy { block: 0, device: 40_000, file_system: Some(0), task_work: 35_000 };
        r.order = Some(Order {
            completions: 80_000,
            inversions: 66_000,
            overtaken: Some(66_000),
            waits: 0,
            max_displacement: 15,
            by,
            delivery: Some(delivery),
        });
    });
    t.total.order = t.rings[0].order.clone();
    t
}

fn left_lying() -> TraceRecord {
    with_ring(|r| r.reaping = Some(reaping()))
}

#[test]
fn completions_are_left_lying_where_a_tenth_of_them_is_and_nobody_waits() {
    let f = only(&left_lying(), "left_lying");
    assert!(
        f.text.starts_with("33 % of the completions lay in the completion queue for 10 ms or longer"),
        "{}",
        f.text
    );
    assert!(f.text.contains("up to 96 lay there at a time, of 128 entries; from 300 followed"), "{}", f.text);
    assert_eq!((f.severity.as_str(), f.evidence["left_p50_ns"]), ("note", 4e6));
    let with = |change: fn(&mut Reaping)| {
        let mut t = left_lying();
        change(t.rings[0].reaping.as_mut().unwrap());
        codes(&t)
    };
    // Fewer than a tenth; too few; and while it waits for more in io_uring_enter they may lie as long.
    assert!(with(|r| r.left_long_estimated = 239).is_empty());
    assert!(with(|r| (r.completions, r.left_long, r.left_ns.max) = (57, 19, Some(99_000_000))).is_empty());
    // Of so long a one, one is enough.
    assert_eq!(with(|r| (r.completions, r.left_long) = (3, 1)), ["left_lying"]);
    assert!(with(|r| (r.left_long, r.left_long_estimated) = (0, 0)).is_empty());
    // What was never taken out counts.
    let mut t = left_lying();
    t.rings[0].overflows = 0;
    let r = t.rings[0].reaping.as_mut().unwrap();
    (r.left_long, r.left_long_estimated) = (64, 64);
    (r.completions, r.estimated, r.unreaped, r.unreaped_estimated) = (0, 0, 64, 64);
    (r.left_ns, r.unreaped_at_least_ns) = (Delay::default(), Some(700_000_000));
    let f = only(&t, "left_lying");
    assert!(
        f.severity == "warning" && f.text.contains("100 %") && f.text.contains("the longest of all at least 700 ms"),
        "{f:?}"
    );
}

type Make = fn() -> TraceRecord;

/// A code, and the trace that has it.
const MATRIX: [(&str, Make); 26] = [
    ("waiting_for_cpu", waiting_for_cpu),
    ("reaped_elsewhere", reaped_elsewhere),
    ("bad_buffers", bad_buffers),
    ("stranded", stranded),
    ("kick_storm", kick_storm),
    ("wrong_core", wrong_core),
    ("one_per_enter", one_per_enter),
    ("capped_batch", capped_batch),
    ("iopoll_without_queues", iopoll_without_queues),
    ("sqpoll_spinning", sqpoll_spinning),
    ("sqpoll_napping", sqpoll_napping),
    ("punted", punted),
    ("iowq_fanout", iowq_fanout),
    ("cq_overflow", cq_overflow),
    ("buffers_exhausted", buffers_exhausted),
    ("errors", errors),
    ("short_reads", short_reads),
    ("short_writes", short_writes),
    ("faulting_poller", faulting_poller),
    ("chatty_poller", chatty_poller),
    ("delivered_out_of_order", delivered_out_of_order),
    ("reordered", reordered),
    ("never_completed", never_completed),
    ("overlapping_buffers", overlapping_buffers),
    ("unregistered_in_flight", unregistered_in_flight),
    ("left_lying", left_lying),
];

#[test]
fn the_codes_are_those_that_findings_have_and_the_documents_list() {
    let mut made = MATRIX.map(|(code, _)| code);
    let mut codes = CODES;
    // One item for each, or for two; before the colon stand the codes.
    let documents = include_str!("../../../../docs/formats.md");
    let list = documents.split_once("### The findings").expect("the list of findings").1;
    let items = list.lines().take_while(|line| !line.starts_with('#')).filter_map(|line| line.strip_prefix("- "));
    let mut documented: Vec<&str> =
        items.flat_map(|item| item.split_once(": ").unwrap().0.split('`').skip(1).step_by(2)).collect();
    made.sort_unstable();
    codes.sort_unstable();
    documented.sort_unstable();
    assert_eq!(made, codes);
    assert_eq!(documented, codes);
}

#[test]
fn a_clean_program_has_no_finding() {
    assert_eq!(codes(&clean()), Vec::<String>::new());
    let busy = sqpoll(|_| {});
    assert_eq!(codes(&busy), Vec::<String>::new());
}

#[test]
fn each_finding_is_on_its_own_trace_and_on_no_other() {
    for (code, make) in MATRIX {
        let mut got = codes(&make());
        got.dedup();
        assert_eq!(got, [code], "in the trace of {code}");
    }
}

#[test]
fn each_finding_has_figures_and_says_what_would_help() {
    for (code, make) in MATRIX {
        for f in findings(&make()) {
            assert!(!f.evidence.is_empty() && f.evidence.values().all(|x| x.is_finite()), "{code}: {f:?}");
            assert!(!f.remedy.is_empty(), "{code}");
            for part in [&f.text, &f.remedy] {
                assert!(!part.ends_with('.') && !part.contains("  "), "{code}: {part}");
            }
        }
    }
}

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

#[test]
fn the_tick_is_explained_by_the_flags_and_the_right_cpu_is_named() {
    let f = only(&stranded(), "stranded");
    assert_eq!(
        f.text,
        "98 % of completions waited for the timer tick (2.00 ms after they were ready, at the median): COOP_TASKRUN sends no \
         interrupt for them and the thread makes no system call while it peeks, so their task work waits until the kernel is \
         entered for another reason, and the next one is the tick; from 500 completions"
    );
    assert!(f.remedy.starts_with("add taskrun_flag"));
    assert!(f.remedy.ends_with("or run the thread on CPU 1, where each interrupt of nvme0q2 would carry them"));
    assert_eq!((f.evidence["delay_p50_ns"], f.evidence["interrupt_cpu"], f.ring), (2e6, 1.0, Some(0)));
    // The tick that comes a moment later carries what nobody waited for.
    let mut soon = stranded();
    soon.rings[0].vehicles[0].delay_ns.as_mut().unwrap().p50 = Some(4_000);
    assert_eq!(codes(&soon), Vec::<String>::new());
}

#[test]
fn kicks_count_by_the_second_and_name_the_ring_that_asks_for_them() {
    let f = only(&kick_storm(), "kick_storm");
    assert!(f.text.starts_with("0.980 kicks per I/O, 39.2 k a second while the rings were in use: "), "{}", f.text);
    assert_eq!((f.warns(), f.ring), (true, Some(0)));
    let mut slow = kick_storm();
    slow.rings[0].active_ns = Some(100_000_000_000);
    slow.total.elapsed_ns = 100_000_000_000;
    assert_eq!(codes(&slow), Vec::<String>::new());
    // A ring in use for less than the tick can tell: over all the time that it was watched, 87 a second.
    let mut short = kick_storm();
    (short.rings[0].active_ns, short.total.elapsed_ns) = (None, 900_000_000_000);
    assert_eq!(codes(&short), Vec::<String>::new());
    // Of a hundred I/Os not every one took a kick: fewer than a hundred kicks are no storm.
    let mut few = kick_storm();
    (few.total.ios, few.rings[0].active_ns, few.total.elapsed_ns) = (101, Some(1_000_000), 1_000_000);
    assert_eq!(codes(&few), Vec::<String>::new());
}

#[test]
fn the_right_core_is_where_the_drive_interrupts() {
    let f = only(&wrong_core(), "wrong_core");
    assert!(
        f.text.starts_with("98.8 % of completions were ready on CPU 1") || f.text.starts_with("99 %"),
        "{}",
        f.text
    );
    assert!(
        f.text
            .contains("nvme0q2 (36), and posted on CPU 0, where the thread runs: CPU 1 had to tell CPU 0 0.988 times")
    );
    assert!(f.remedy.starts_with("run the thread on CPU 1 (`taskset -c 1`)"));
    // In batches, one interrupt across tells of many.
    let mut batches = wrong_core();
    batches.total.ipis[0].count = 5_000;
    assert_eq!(codes(&batches), Vec::<String>::new());
    // A CPU that polls while idle is told without an interrupt, and the thread is woken all the same.
    batches.total.per_io.context_switches = Some(1.0);
    assert_eq!(codes(&batches), ["wrong_core"]);
    // Without a device that interrupts there, it was another thread that made them ready.
    let mut no_device = wrong_core();
    no_device.total.interrupts[0] =
        Interrupt { vector: "LOC".into(), credited: None, ..no_device.total.interrupts[0].clone() };
    assert_eq!(codes(&no_device), Vec::<String>::new());
    let mut idle_device = wrong_core();
    idle_device.total.interrupts[0].credited = Some(900);
    assert_eq!(codes(&idle_device), Vec::<String>::new());
    // However often it interrupts for other programs, and where it is not known for whom.
    for credited in [Some(0), None] {
        let mut others = wrong_core();
        (others.total.interrupts[0].count, others.total.interrupts[0].credited) = (1_000_000, credited);
        assert_eq!(codes(&others), Vec::<String>::new());
    }
    // Threads on every CPU: none is the right one for all.
    let mut many = wrong_core();
    many.total.cpu_pairs = (0..4)
        .map(|cpu| CpuPair { ready_cpu: 1, posted_cpu: cpu, completions: 20_000, estimated: None, threads: Some(1) })
        .collect();
    assert_eq!(codes(&many), Vec::<String>::new());
}

#[test]
fn single_submissions_need_something_to_be_batched_with() {
    let f = only(&one_per_enter(), "one_per_enter");
    assert!(
        f.text.contains("40.0 k calls a second while the ring was in use, with 17.6 requests in flight"),
        "{}",
        f.text
    );
    assert!(f.warns());
    let mut alone = one_per_enter();
    alone.rings[0].opcodes[0].latency_ns = latency(80_000, 20_000);
    assert_eq!(codes(&alone), Vec::<String>::new());
    // Timeouts in flight are none that could go along.
    alone.rings[0].opcodes.push(opcode("timeout", 4_000, 1_000_000_000));
    assert_eq!(codes(&alone), Vec::<String>::new());
}

#[test]
fn single_submissions_that_are_done_at_once_are_system_calls() {
    let f = only(&one_at_a_time(), "one_per_enter");
    assert!(
        f.text.starts_with("each of 40.0 k io_uring_enter calls a second while the ring was in use submitted"),
        "{}",
        f.text
    );
    assert!(!f.warns());
    // A device's reads take longer than the call, and come by an interrupt.
    let mut reads = one_at_a_time();
    reads.rings[0].vehicles = vec![carried(Vehicle::DeviceIrq, 80_000, Some("36 nvme0q2"), Some(2_000))];
    assert_eq!(codes(&reads), Vec::<String>::new());
    let mut rare = one_at_a_time();
    rare.rings[0].active_ns = Some(10_000_000_000);
    assert_eq!(codes(&rare), Vec::<String>::new(), "8 k calls a second");
}

#[test]
fn shared_memory_is_told_by_its_first_two_reads() {
    let f = only(&overlapping_buffers(), "overlapping_buffers");
    assert!(f.text.starts_with("3 reads ended in memory") && f.text.contains("user_data 0x41 and 0x42"), "{}", f.text);
    assert!(!f.warns());
    let mut sampled = overlapping_buffers();
    sampled.total.followed.whole = 0;
    assert!(only(&sampled, "overlapping_buffers").text.starts_with("at least 3 reads"));
    let f = only(&unregistered_in_flight(), "unregistered_in_flight");
    assert!(f.text.starts_with("8 requests were in flight") && f.text.contains("0xb0") && f.warns(), "{}", f.text);
}

#[test]
fn the_limit_is_that_of_the_ring_and_the_kernel() {
    let f = only(&capped_batch(), "capped_batch");
    assert!(f.text.starts_with("94 % of completions came in task-work runs of exactly 20"), "{}", f.text);
    let changed = |change: &dyn Fn(&mut TraceRecord)| {
        let mut t = capped_batch();
        change(&mut t);
        codes(&t)
    };
    let none = Vec::<String>::new();
    assert_eq!(changed(&|t| t.total.host.kernel = "6.12.9".into()), none);
    assert_eq!(changed(&|t| t.total.host.kernel = "?".into()), none);
    assert_eq!(changed(&|t| t.rings[0].flags = vec!["coop_taskrun".into()]), none);
    // The program's own batches of 20.
    let shallow = |t: &mut TraceRecord| t.rings[0].opcodes[0].latency_ns.mean = Some(500_000.0);
    let own = |t: &mut TraceRecord| {
        shallow(t);
        t.rings[0].enter_batches[0].at_least = 16;
    };
    assert_eq!(changed(&own), none);
    // Bursts of 64, with pauses that make few of them in flight on average.
    assert_eq!(changed(&shallow), ["capped_batch"]);
    // It asks for more and gets it.
    assert_eq!(
        changed(&|t| t.rings[0].run_items[0] = RunItems { items: 32, completions: 9_000, estimated: None }),
        none
    );
}

/// 8 before Linux 6.16, and not in its stable kernels of 2025: then there are runs in between.
#[test]
fn a_submission_threads_limit_is_of_its_kernel() {
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
fn a_ring_that_never_polls_is_told_even_without_errors() {
    let mut t = clean();
    t.rings[0].flags = vec!["iopoll".into()];
    let f = only(&t, "iopoll_without_queues");
    assert!(f.text.starts_with("a ring with IOPOLL, and not one of its 80.0 k completions"), "{}", f.text);
    t.rings[0].vehicles = vec![carried(Vehicle::Iopoll, 80_000, None, Some(1_000))];
    assert_eq!(codes(&t), Vec::<String>::new());
}

#[test]
fn the_submission_thread_spins_or_naps() {
    let f = only(&sqpoll_spinning(), "sqpoll_spinning");
    assert!(
        f.text.contains("(tid 1240, last on CPU 1) took 98 % of a CPU for 40 requests, 49.0 ms for each"),
        "{}",
        f.text
    );
    // SqThreadCpu is where it ran last, unless the program asked for that CPU.
    let mut bound = sqpoll_spinning();
    bound.rings[0].flags.push("sq_aff".into());
    assert!(only(&bound, "sqpoll_spinning").text.contains("(tid 1240, bound to CPU 1) took"));
    let f = only(&sqpoll_napping(), "sqpoll_napping");
    assert!(
        f.text.contains("woken 380 times for 400 requests, once in 5.26 ms on average (0.950 wake-ups"),
        "{}",
        f.text
    );
    assert_eq!(codes(&sqpoll(|s| (s.work_ns, s.wakeups) = (None, None))), Vec::<String>::new());
}

#[test]
fn punting_is_told_by_opcode_and_cause() {
    let said = findings(&punted());
    assert!(
        said[0].text.starts_with("100 % of the read requests (80.0 k) went to io-wq because the program asked for it")
    );
    assert!(said[0].warns() && said[0].evidence["asked"] == 1.0);
    assert!(
        said[1]
            .text
            .starts_with("100 % of the fsync requests (900) went to io-wq because the kernel always has a worker")
    );
    assert!(!said[1].warns() && said[1].evidence["would_block"] == 1.0);
    assert_eq!(said.len(), 2);
}

/// What a worker finds not to be ready is handed over again when it is.
#[test]
fn a_request_that_is_handed_over_twice_went_once() {
    let of = |hand_overs, punted_requests: Option<[f64; 3]>| {
        let mut t = with_ring(|r| r.opcodes[0].punted_asked = hand_overs);
        let estimate = |[total, lo, hi]: [f64; 3]| Estimate { total, ci95: [lo, hi] };
        t.total.opcodes[0].punted_requests = punted_requests.map(estimate);
        let f = only(&t, "punted");
        (f.text.split(" because").next().unwrap().to_owned(), f.evidence["punted"])
    };
    let twice = of(80_000, Some([40_000.0; 3]));
    assert_eq!(twice, ("50 % of the read requests (40.0 k) went to io-wq, 80.0 k times in all,".into(), 40_000.0));
    // Nothing is known of them but that no more than all went.
    let more = of(160_000, None);
    assert_eq!(more, ("100 % of the read requests (80.0 k) went to io-wq, 160 k times in all,".into(), 80_000.0));
    // An estimate that may be as many as were counted does not take their place.
    assert_eq!(of(8_000, Some([7_500.0, 6_000.0, 9_000.0])).1, 8_000.0);
    assert_eq!(of(8_000, Some([4_000.0, 3_000.0, 5_000.0])).1, 4_000.0);
}

#[test]
fn chatter_is_not_the_way_out_of_a_call_that_waits_or_writes() {
    let f = only(&chatty_poller(), "chatty_poller");
    assert!(f.text.contains("getppid foremost (41.0 system calls per I/O in all)"), "{}", f.text);
    assert!(f.text.starts_with("76 % of completions"), "{}", f.text);
    for call in ["write", "epoll_wait", "io_uring_enter"] {
        let home = delivered_by(vec![carried(Vehicle::SyscallExit, 80_000, Some(call), Some(900))]);
        assert_eq!(codes(&home), Vec::<String>::new(), "{call}");
    }
}

#[test]
fn calls_that_carry_nothing_count_where_there_are_many_for_each_io() {
    let mut t = delivered_by(vec![carried(Vehicle::DeviceIrq, 80_000, Some("36 nvme0q2"), Some(900))]);
    t.total.stray_calls = Some(t.total.ios * 4);
    let f = only(&t, "chatty_poller");
    assert!(f.text.starts_with("4.00 system calls per I/O beside io_uring_enter"), "{}", f.text);
    t.total.stray_calls = Some(t.total.ios * 2);
    assert_eq!(codes(&t), Vec::<String>::new());
    let mut waits = clean();
    waits.total.stray_calls = Some(waits.total.ios * 4);
    assert_eq!(codes(&waits), Vec::<String>::new());
}

#[test]
fn faults_that_carry_nothing_count_where_the_program_polls() {
    let mut t = delivered_by(vec![carried(Vehicle::DeviceIrq, 80_000, Some("36 nvme0q2"), Some(900))]);
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
fn the_place_where_the_order_was_lost_is_named() {
    let f = only(&reordered(), "reordered");
    assert!(
        f.text.contains("the order was lost in: task work 45 %, device 5 %, block layer 0.2 %; from"),
        "{}",
        f.text
    );
    assert!(f.remedy.contains("in the task work, several CPUs"), "{}", f.remedy);
    let mut writes = reordered();
    let by = &mut writes.total.order.as_mut().unwrap().by;
    (by.file_system, by.task_work) = (Some(by.task_work), 0);
    let f = only(&writes, "reordered");
    assert!(
        f.text.contains("the order was lost in: file system 45 %, device 5 %, block layer 0.2 %; from"),
        "{}",
        f.text
    );
    assert!(f.remedy.contains("in the file system, a kernel worker"), "{}", f.remedy);
    let of = |inversions, max_displacement, device| {
        let mut t = clean();
        let order = t.total.order.as_mut().unwrap();
        (order.inversions, order.max_displacement, order.by.device, order.by.block) =
            (inversions, max_displacement, device, 0);
        order.overtaken = Some(inversions);
        t
    };
    // 16 in an order of the drive's own: 79 % overtake another. All turned round: 94 %.
    assert_eq!(codes(&of(63_200, 15, 63_200)), Vec::<String>::new());
    assert_eq!(codes(&of(75_000, 15, 75_000)), ["reordered"]);
    // A few that take long are overtaken by all, and nothing is turned round.
    let mut long = of(79_992, 2_000, 79_992);
    assert_eq!(codes(&long), ["reordered"]);
    long.total.order.as_mut().unwrap().overtaken = Some(8);
    assert_eq!(codes(&long), Vec::<String>::new());
    // Of 64: 93 and 98 %.
    assert_eq!(codes(&of(74_200, 63, 74_200)), Vec::<String>::new());
    let f = only(&of(78_700, 63, 0), "reordered");
    assert!(
        f.text.contains("the order was lost in: a place that was not followed; from 80.0 k followed completions"),
        "{}",
        f.text
    );
}

#[test]
fn the_order_of_delivery_is_explained_by_the_ring_and_the_kernel() {
    let f = only(&delivered_out_of_order(), "delivered_out_of_order");
    assert_eq!(
        f.text,
        "44 % of the completions that were seen to become ready were posted before one that was ready earlier, by up to 8 places; \
         the order was lost in task work: each thread posts what it submitted itself when it next enters the kernel, whoever \
         else's was ready before; from 80.0 k followed completions"
    );
    assert!(f.remedy.starts_with("let one thread submit"), "{}", f.remedy);
    assert_eq!((f.evidence["inversions_per_completion"], f.evidence["max_displacement"]), (0.4375, 8.0));
    let because = |change: &dyn Fn(&mut TraceRecord)| {
        let mut t = delivered_out_of_order();
        change(&mut t);
        only(&t, "delivered_out_of_order").text.rsplit_once("lost in ").unwrap().1.to_owned()
    };
    let old = because(&|t| t.total.host.kernel = "6.1.0-50-amd64".into());
    assert!(old.starts_with("task work: this kernel runs last what was queued first; from"), "{old}");
    let writes = because(&|t| {
        let by = &mut t.rings[0].order.as_mut().unwrap().delivery.as_mut().unwrap().by;
        (by.file_system, by.task_work) = (Some(35_000), 0);
    });
    assert!(writes.starts_with("the file system: a kernel worker"), "{writes}");
    // A few in a hundred are part of any mixture.
    let mut few = delivered_out_of_order();
    few.rings[0].order.as_mut().unwrap().delivery.as_mut().unwrap().inversions = 3_900;
    assert!(!codes(&few).contains(&"delivered_out_of_order".to_owned()));
}

#[test]
fn reads_and_writes_that_come_back_short() {
    let f = only(&short_reads(), "short_reads");
    assert_eq!(f.text, "25 % of the reads (20.0 k) gave fewer bytes than asked for; from 80.0 k completions");
    assert!(!f.warns());
    let mut t = short_reads();
    t.total.opcodes[0].opcode = "write_fixed".into();
    assert!(only(&t, "short_writes").warns());
}

#[test]
fn a_send_that_moves_a_part_is_a_short_write() {
    let mut t = short_reads();
    t.total.opcodes[0].opcode = "send".into();
    // Writes that are whole do not hide it.
    t.total.opcodes.push(opcode("write", 9_000_000, 1_000));
    let f = only(&t, "short_writes");
    assert!(f.warns() && f.text.starts_with("25 % of the sends (20.0 k) gave fewer"), "{}", f.text);
}

#[test]
fn what_moves_data_and_names_no_length_cannot_be_judged_short() {
    let of = |name: &str| {
        let mut t = clean();
        t.total.opcodes = vec![opcode(name, 100, 1_000)];
        t.total.opcodes[0].short = None;
        t
    };
    let told = |t: &TraceRecord| ["short_reads", "short_writes"].map(|code| unjudged(t, code).is_some());
    for (name, wanted) in [
        ("readv", [true, false]),
        ("recv", [true, false]),
        ("recvmsg", [true, false]),
        ("sendmsg_zc", [false, true]),
        ("splice", [true, true]),
        ("read_multishot", [false, false]),
        ("recv_zc", [false, false]),
        ("fsync", [false, false]),
    ] {
        assert_eq!(told(&of(name)), wanted, "{name}");
    }
    let mut failed = of("recv");
    failed.total.opcodes[0].errors = 100;
    assert_eq!(told(&failed), [false, false], "they moved nothing");
}

#[test]
fn what_native_and_posix_aio_call_a_read_is_one() {
    for name in ["pread", "preadv", "aio_read"] {
        for (mut t, code) in [(errors(), "errors"), (short_reads(), "short_reads")] {
            t.total.opcodes[0].opcode = name.into();
            only(&t, code);
        }
    }
    let mut t = errors();
    t.total.opcodes[0].opcode = "poll".into();
    assert!(findings(&t).iter().all(|f| f.code != "errors"));
}

#[test]
fn many_rings_make_one_finding() {
    let mut t = cq_overflow();
    for n in 1..4 {
        let mut more = ring(n);
        more.overflows = if n == 3 { 0 } else { 10 };
        t.rings.push(more);
    }
    let f = only(&t, "cq_overflow");
    assert!(f.text.starts_with("ring 0 of fio (1234): 4.00 k completions (5 %) found"), "{}", f.text);
    assert!(f.text.ends_with("It holds for 3 of 4 rings, and most for this one"), "{}", f.text);
    assert_eq!((f.ring, f.evidence["rings"]), (Some(0), 3.0));
}

/// Four busy backends of a database are not to share one CPU.
#[test]
fn threads_that_need_more_than_one_cpu_are_not_sent_to_one() {
    let mut t = wrong_core();
    let alone = only(&t, "wrong_core");
    assert!(alone.remedy.contains("`taskset -c 1`") && alone.text.contains("where the thread runs: CPU 1 had"));
    t.total.cpu_pairs[0].threads = Some(4);
    let f = only(&t, "wrong_core");
    assert!(f.text.contains("posted on CPU 0, where the 4 threads that submit run: CPU 1 had"), "{}", f.text);
    assert!(f.remedy.starts_with("give the device an interrupt on each CPU") && !f.remedy.contains("taskset"));
    assert_eq!(f.evidence["threads"], 4.0);
    let mut stranded = stranded();
    stranded.total.interrupts[0].credited = Some(500);
    assert!(only(&stranded, "stranded").remedy.contains("run the thread on CPU 1"));
    stranded.total.cpu_pairs[0].threads = Some(4);
    assert!(!only(&stranded, "stranded").remedy.contains("run the thread"));
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

#[test]
fn a_thread_that_did_nothing_was_not_woken_for_it() {
    let few = sqpoll(|s| (s.wakeups, s.requests, s.cpu_ns) = (Some(400), 3, None));
    assert_eq!(codes(&few), Vec::<String>::new());
    let unknown = sqpoll(|s| (s.elapsed_ns, s.requests) = (None, 40));
    assert_eq!(codes(&unknown), Vec::<String>::new(), "how long it was looked at is not known");
    let none = sqpoll(|s| s.requests = 0);
    let f = only(&none, "sqpoll_spinning");
    assert!(f.text.contains("98 % of a CPU for no request: "), "{}", f.text);
}
