//! Synthetic programs with one finding each.

use super::*;

pub(super) fn delivered_by(vehicles: Vec<DeliveryPathCount>) -> TraceRecord {
    with_ring(|r| {
        r.flags = vec!["coop_taskrun".into()];
        r.vehicles = vehicles;
    })
}

pub(super) fn stranded() -> TraceRecord {
    let mut t = with_ring(|r| {
        r.flags = vec!["coop_taskrun".into()];
        r.vehicles = vec![
            carried(DeliveryPath::TimerTick, 490, None, Some(2_000_000)),
            carried(DeliveryPath::DeviceIrq, 10, Some("36 nvme0q2"), Some(2_000)),
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

/// A thread on another CPU writes to the sockets.
pub(super) fn kick_storm() -> TraceRecord {
    let mut t = with_ring(|r| {
        r.flags.clear();
        r.vehicles = vec![carried(DeliveryPath::ReschedIpi, 80_000, None, Some(2_000))];
        r.run_items = vec![RunItems { items: 1, completions: 80_000, estimated: None }];
    });
    t.total.per_io.kicks = Some(0.98);
    t.total.ipis = vec![Ipi { site: "task_work_add".into(), from_cpu: 0, to_cpu: 1, count: 78_400 }];
    t.total.cpu_pairs =
        vec![CpuPair { ready_cpu: 0, posted_cpu: 1, completions: 80_000, estimated: None, threads: Some(1) }];
    t
}

/// Waits in the kernel, one request at a time, on a CPU that the drive does not interrupt.
pub(super) fn wrong_core() -> TraceRecord {
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

pub(super) fn one_per_enter() -> TraceRecord {
    with_ring(|r| {
        r.opcodes = vec![opcode("read", 80_000, 400_000)];
        r.enter_batches = vec![
            EnterBatch { at_least: 1, requests: 79_984, estimated: None, calls: 79_984.0, calls_ci95: None },
            EnterBatch { at_least: 16, requests: 16, estimated: None, calls: 1.0, calls_ci95: None },
        ];
    })
}

pub(super) fn capped_batch() -> TraceRecord {
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

pub(super) fn iopoll_without_queues() -> TraceRecord {
    with_ring(|r| {
        r.flags = vec!["iopoll".into()];
        let mut o = opcode("read", 80_000, 1_000);
        (o.bytes, o.errors) = (0, 80_000);
        o.errnos = vec![ErrnoCount { errno: "EOPNOTSUPP".into(), count: 80_000, user_data: None }];
        (r.opcodes, r.errors) = (vec![o], 80_000);
        r.vehicles = vec![carried(DeliveryPath::Inline, 80_000, None, None)];
    })
}

pub(super) fn sqpoll(change: impl FnOnce(&mut SqpollRecord)) -> TraceRecord {
    with_ring(|r| {
        r.flags = vec!["sqpoll".into()];
        r.vehicles = vec![carried(DeliveryPath::Sqpoll, 80_000, None, Some(2_000))];
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

pub(super) fn sqpoll_spinning() -> TraceRecord {
    sqpoll(|s| (s.work_ns, s.requests) = (Some(20_000_000), 40))
}

pub(super) fn sqpoll_napping() -> TraceRecord {
    sqpoll(|s| (s.cpu_ns, s.work_ns, s.wakeups, s.requests) = (Some(900_000_000), Some(5_000_000), Some(380), 400))
}

pub(super) fn punted() -> TraceRecord {
    with_ring(|r| {
        r.opcodes[0].punted_asked = 80_000;
        let mut fsync = opcode("fsync", 900, 2_000_000);
        fsync.punted_would_block = 900;
        r.opcodes.push(fsync);
        r.vehicles = vec![carried(DeliveryPath::Iowq, 80_900, None, None)];
    })
}

pub(super) fn iowq_fanout() -> TraceRecord {
    let mut t = with_ring(|r| r.vehicles = vec![carried(DeliveryPath::Iowq, 80_000, None, None)]);
    // The workers handled too few requests per opcode to be reported.
    t.total.opcodes[0].punted_would_block = 3_000;
    t.total.iowq = IowqRecord { workers: 40, most_at_once: Some(32), completions: 3_000, cpu_ns: None };
    t
}

pub(super) fn overlapping_buffers() -> TraceRecord {
    let mut t = clean();
    let user_data = ["0x41".into(), "0x42".into()];
    let overlap = Some(OverlapRecord { opcode: "read_fixed".into(), bytes: 4096, user_data });
    t.total.memory =
        Some(MemoryRecord { overlapping: 3, overlap, outlived: 0, outlived_user_data: None, ring: Some(0) });
    t
}

pub(super) fn unregistered_in_flight() -> TraceRecord {
    let mut t = clean();
    let outlived_user_data = Some("0xb0".into());
    t.total.memory =
        Some(MemoryRecord { overlapping: 0, overlap: None, outlived: 8, outlived_user_data, ring: Some(0) });
    t
}

/// No-ops, each submitted and completed by a call of its own.
pub(super) fn one_at_a_time() -> TraceRecord {
    let mut t = one_per_enter();
    t.rings[0].opcodes[0].latency_ns = latency(80_000, 1_000);
    t.rings[0].vehicles = vec![carried(DeliveryPath::Inline, 80_000, None, None)];
    t
}

pub(super) fn never_completed() -> TraceRecord {
    let mut t = clean();
    t.total.open = vec![open("recv", Course::Poll, 20, 30_000_000)];
    t
}

pub(super) fn open(opcode: &str, course: Course, requests: u64, oldest_ns: u64) -> OpenRecord {
    OpenRecord {
        ring: Some(0),
        tgid: 1234,
        opcode: opcode.into(),
        course,
        requests,
        estimated: requests,
        multishot: 0,
        closed: 0,
        oldest_ns,
        user_data: "0x2a".into(),
        descriptor: Some("fd 7".into()),
        file: None,
    }
}

/// A quarter of its completions waited for a CPU that other programs used.
pub(super) fn waiting_for_cpu() -> TraceRecord {
    with_ring(|r| {
        let delay_ns =
            Latency { p50: Some(10_000), p99: Some(4_100_000), max: Some(9_000_000), ..latency(80_000, 372_000) };
        let had = |tid, comm: Option<&str>, share| HadCpu { tid, comm: comm.map(Into::into), share };
        r.stages.as_mut().unwrap().runnable = Some(
            Runnable {
                completions: 80_000,
                mean_ns: 300_000.0,
                delivery_ns: 400_000.0,
                long: 20_800,
                long_share: 0.26,
                others_share: 1.0,
                delay_ns,
                by: vec![had(Some(99), Some("postgres"), 0.9), had(None, None, 0.1)],
            }
            .into(),
        );
    })
}

/// One thread submits and then does other work; another thread waits.
pub(super) fn reaped_elsewhere() -> TraceRecord {
    with_ring(|r| {
        r.flags.clear();
        r.vehicles = vec![carried(DeliveryPath::SyscallExit, 80_000, Some("futex"), Some(900_000))];
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
                vehicles: vec![DeliveryPathShare {
                    vehicle: DeliveryPath::SyscallExit,
                    detail: Some("futex".into()),
                    share: 1.0,
                }],
            }),
        });
    })
}

pub(super) fn bad_buffers() -> TraceRecord {
    let faults = |name: &str, count, user_data: Option<&str>| {
        let user_data = user_data.map(Into::into);
        let errnos = vec![ErrnoCount { errno: "EFAULT".into(), count, user_data }];
        OpcodeRecord { errors: count, errnos, ..opcode(name, 4_000, 100_000) }
    };
    with_ring(|r| r.opcodes.extend([faults("read", 3, None), faults("read_fixed", 5, Some("0x2a"))]))
}

pub(super) fn cq_overflow() -> TraceRecord {
    with_ring(|r| r.overflows = 4_000)
}

pub(super) fn buffers_exhausted() -> TraceRecord {
    with_ring(|r| {
        let mut o = opcode("recv", 1_200, 20_000);
        (o.more, o.errors) = (800, 400);
        o.errnos = vec![ErrnoCount { errno: "ENOBUFS".into(), count: 400, user_data: None }];
        r.opcodes.push(o);
    })
}

pub(super) fn errors() -> TraceRecord {
    with_ring(|r| {
        r.opcodes[0].errnos = vec![
            ErrnoCount { errno: "EIO".into(), count: 2_000, user_data: None },
            ErrnoCount { errno: "EAGAIN".into(), count: 9_000, user_data: None },
        ];
        r.opcodes[0].errors = 11_000;
    })
}

pub(super) fn refused_by_policy() -> TraceRecord {
    with_ring(|r| {
        let mut o = opcode("openat", 40, 1_000);
        (o.errors, o.denied, o.bytes) = (40, 40, 0);
        o.errnos = vec![ErrnoCount { errno: "EACCES".into(), count: 40, user_data: None }];
        r.opcodes.push(o);
    })
}

pub(super) fn copied_zero_copy() -> TraceRecord {
    with_ring(|r| {
        let mut zc = opcode("send_zc", 6_400, 9_000);
        (zc.completions, zc.more, zc.notifications, zc.reporting, zc.copied) = (12_800, 6_400, 6_400, 6_400, 6_400);
        r.opcodes.push(zc);
    })
}

pub(super) fn short_reads() -> TraceRecord {
    with_ring(|r| r.opcodes[0].short = Some(20_000))
}

pub(super) fn short_writes() -> TraceRecord {
    with_ring(|r| {
        r.opcodes = vec![opcode("write", 80_000, 100_000)];
        r.opcodes[0].short = Some(20_000);
    })
}

pub(super) fn faulting_poller() -> TraceRecord {
    let mut t = delivered_by(vec![
        carried(DeliveryPath::PageFault, 70_000, None, Some(900)),
        carried(DeliveryPath::Inline, 10_000, None, None),
    ]);
    t.total.page_faults = Some(400_000);
    t
}

pub(super) fn chatty_poller() -> TraceRecord {
    let mut t = delivered_by(vec![
        carried(DeliveryPath::SyscallExit, 60_000, Some("getppid"), Some(900)),
        carried(DeliveryPath::SyscallExit, 1_000, Some("brk"), Some(900)),
        carried(DeliveryPath::Inline, 19_000, None, None),
    ]);
    t.total.per_io.syscalls = Some(41.0);
    t
}

pub(super) fn reordered() -> TraceRecord {
    let mut t = clean();
    let order = t.total.order.as_mut().unwrap();
    (order.inversions, order.max_displacement) = (40_000, 15);
    (order.by.task_work, order.by.device) = (36_000, 4_000);
    t
}

/// Two threads on one ring.
pub(super) fn delivered_out_of_order() -> TraceRecord {
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

pub(super) fn left_lying() -> TraceRecord {
    with_ring(|r| r.reaping = Some(reaping()))
}

fn with_state(change: impl FnOnce(&mut StateRecord)) -> TraceRecord {
    let mut state = state::calm();
    change(&mut state);
    TraceRecord { state: Some(state), ..clean() }
}

pub(super) fn with_ring_state(change: impl FnOnce(&mut RingState)) -> TraceRecord {
    with_state(|state| change(&mut state.rings[0]))
}

pub(super) fn pending_work_not_run() -> TraceRecord {
    with_ring_state(|ring| (ring.unrun, ring.unrun_longest_ns, ring.runner) = (90, 1_900_000_000, Some(77)))
}

pub(super) fn overflow_not_flushed() -> TraceRecord {
    with_ring_state(|ring| (ring.overflowed, ring.most_overflowed) = (95, Some(136)))
}

pub(super) fn unreaped_asleep() -> TraceRecord {
    with_ring_state(|ring| ring.unreaped = 80)
}

pub(super) fn unsubmitted() -> TraceRecord {
    with_ring_state(|ring| ring.unsubmitted = 80)
}

pub(super) fn held_by_requests() -> TraceRecord {
    with_ring_state(|ring| ring.most_held = Some(20))
}

pub(super) fn nagle() -> TraceRecord {
    with_state(|state| {
        let sum = state.nagle.as_mut().unwrap();
        (sum.held, sum.held_asleep, sum.fd_held, sum.unsent_bytes) = (95, 90, 95, 200);
        (sum.tgid, sum.fd) = (Some(7), Some(4));
    })
}

pub(super) fn unread_socket() -> TraceRecord {
    with_state(|state| {
        let (tid, comm) = (7, "server".to_owned());
        let of = UnreadSocket {
            tgid: 7,
            fd: 5,
            bytes: 488,
            for_ns: 2_100_000_000,
            at_end: true,
            tid,
            comm,
            ..UnreadSocket::default()
        };
        state.unread = Some(of);
    })
}

/// A parent waits for its child, whose output it does not read.
pub(super) fn deadlock() -> TraceRecord {
    let process = |tgid| NamedProcess { tgid, comm: "build".into(), syscall: None };
    let wait = |tid, syscall: &str, reason, fd, by| LongWait {
        tid,
        tgid: tid,
        comm: "build".into(),
        syscall: syscall.into(),
        reason,
        fd,
        for_ns: 3_200_000_000,
        by: vec![process(by)],
        owner: None,
        cannot_end: true,
    };
    with_state(|state| {
        state.waits = vec![wait(7, "wait4", Reason::Child, None, 8), wait(8, "write", Reason::PipeFull, Some(4), 7)];
    })
}

pub(super) fn socket_drops() -> TraceRecord {
    with_state(|state| {
        let (dropped, listens, limit, is_set) = (17_000, false, 4096, true);
        state.drops = Some(SocketDrops { tgid: 7, fd: 5, dropped, listens, limit, is_set });
    })
}

pub(super) fn small_send_buffer() -> TraceRecord {
    with_state(|state| {
        state.send_buffer = Some(SendBuffer { tgid: 7, fd: 5, bytes: 4608, samples: 90, asleep: 88 });
    })
}

pub(super) fn cgroup_io_max() -> TraceRecord {
    with_state(|state| (state.cgroup.as_mut().unwrap().throttled, state.cgroup.as_mut().unwrap().most_bios) = (60, 12))
}

pub(super) fn memory_limit() -> TraceRecord {
    with_state(|state| {
        let (limit_bytes, refaulted_bytes) = (24 << 20, 200 << 20);
        state.memory =
            Some(MemoryLimit { cgroup: "/sys/fs/cgroup/a".into(), limit_bytes, reached: 5_000, refaulted_bytes });
    })
}

pub(super) fn distant_timeout() -> TraceRecord {
    with_ring_state(|ring| ring.least_timeout_ns = Some(1_080_000_000_000_000))
}

pub(super) fn no_progress() -> TraceRecord {
    let mut t = with_state(|state| state.end = Some(state::hanging()));
    t.total.ios = 0;
    t
}
