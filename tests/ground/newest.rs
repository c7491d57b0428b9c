//! Features of Linux 6.11 and later: messages without a request, socket commands, entries of two sizes, policies, kinds
//! of waits.

use std::ffi::CStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use io_uring::{opcode, squeue, types};

use crate::load::groups;
use crate::network::{Buffers, MESSAGE, pipe, socketpair, write_all};
use crate::raw::{self, RawRing, entry};
use crate::ring::{DEFER, Ring};
use crate::run::{Run, Scenario, Unsupported};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "messages",
        about: "MSG_RING from a ring to another one of the same thread: posted there at once",
        finding: None,
        allowed: &["one_per_enter"],
        count: 2_000,
        run: |run| messages(run, 0),
    },
    Scenario {
        name: "messages_deferred",
        about: "MSG_RING to a ring with DEFER_TASKRUN: its task work posts them",
        finding: None,
        allowed: &["one_per_enter"],
        count: 2_000,
        run: |run| messages(run, DEFER_TASKRUN | SINGLE_ISSUER),
    },
    Scenario {
        name: "messages_registered",
        about: "IORING_REGISTER_SEND_MSG_RING, without a ring of its own, to rings with and without DEFER_TASKRUN alternately",
        finding: None,
        allowed: &["one_per_enter"],
        count: 1_000,
        run: messages_registered,
    },
    Scenario {
        name: "multishot_commands",
        about: "one command of a socket for the time stamps of what it sends: a completion for each",
        finding: None,
        allowed: &["one_per_enter"],
        count: 200,
        run: multishot_commands,
    },
    Scenario {
        name: "wide_entries",
        about: "no-ops of 128 and 64 bytes on a ring of both, one per call",
        finding: Some("one_per_enter"),
        allowed: &[],
        count: 2_000,
        run: wide_entries,
    },
    Scenario {
        name: "refused_by_policy",
        about: "a ring that is restricted to no-ops is given two of them and a read, again and again",
        finding: Some("refused_by_policy"),
        allowed: &["one_per_enter", "errors", "requests_fail"],
        count: 900,
        run: |run| refused_by_policy(run, Policy::OfRing),
    },
    Scenario {
        name: "refused_by_policy_of_task",
        about: "the same on a ring of a task that is restricted to no-ops (Linux 7.0)",
        finding: Some("refused_by_policy"),
        allowed: &["one_per_enter", "errors", "requests_fail"],
        count: 900,
        run: |run| refused_by_policy(run, Policy::OfTask),
    },
    Scenario {
        name: "refused_by_filter",
        about: "the same on a ring of a task with a BPF filter that rejects reads (Linux 7.0)",
        finding: Some("refused_by_policy"),
        allowed: &["one_per_enter", "errors", "requests_fail"],
        count: 900,
        run: |run| refused_by_policy(run, Policy::Filter),
    },
    Scenario {
        name: "forms_of_waiting",
        about: "waits that have a minimum time, registered arguments, or do not count as iowait",
        finding: None,
        allowed: &["one_per_enter", "empty_enters", "waits_time_out"],
        count: 400,
        run: forms_of_waiting,
    },
    Scenario {
        name: "waits_in_iowait",
        about: "waits of 10 ms each while a poll of an empty pipe is in flight, half of them with IORING_ENTER_NO_IOWAIT",
        finding: None,
        allowed: &["one_per_enter", "empty_enters", "waits_time_out"],
        count: 100,
        run: waits_in_iowait,
    },
    Scenario {
        name: "napi_busy_poll",
        about: "waits of 5 ms for a socket of a veth device, each after 2 ms of NAPI busy polling",
        finding: None,
        allowed: &["one_per_enter", "empty_enters", "waits_time_out"],
        count: 60,
        run: napi_busy_poll,
    },
    Scenario {
        name: "zero_copy_copied",
        about: "SEND_ZC over loopback with IORING_SEND_ZC_REPORT_USAGE: each notification reports a copy",
        finding: Some("copied_zero_copy"),
        allowed: &["one_per_enter"],
        count: 6_400,
        run: zero_copy_copied,
    },
    Scenario {
        name: "buffers_held",
        about: "16 provided buffers: the program has 10 at once, and never gives 3 others back",
        finding: None,
        allowed: &["one_per_enter"],
        count: 420,
        run: |run| buffers_held(run, false),
    },
    Scenario {
        name: "buffers_provided",
        about: "the same with buffers of IORING_OP_PROVIDE_BUFFERS",
        finding: None,
        allowed: &["one_per_enter"],
        count: 420,
        run: |run| buffers_held(run, true),
    },
    Scenario {
        name: "buffers_out_of_order",
        about: "two reads by io-wq take a buffer each, and the second one has its data first",
        finding: None,
        allowed: &["one_per_enter", "punted", "iowq_fanout", "delivered_out_of_order", "reordered", "kick_storm"],
        count: 200,
        run: buffers_out_of_order,
    },
    Scenario {
        name: "buffers_incremental",
        about: "messages share incremental buffers; the program sets every fourth of these back to its beginning",
        finding: None,
        allowed: &["one_per_enter"],
        count: 640,
        run: buffers_incremental,
    },
    Scenario {
        name: "zero_copy_kept",
        about: "the same over a bridge without a port, which drops what it is given: none is copied",
        finding: None,
        allowed: &["one_per_enter"],
        count: 1_000,
        run: zero_copy_kept,
    },
    Scenario {
        name: "zero_copy_received",
        about: "a zero-copy receive without a network device (Linux 7.1): the kernel copies each message to a page of the area",
        finding: Some("copied_zero_copy"),
        allowed: &["one_per_enter"],
        count: 640,
        run: zero_copy_received,
    },
];

const SINGLE_ISSUER: u32 = 1 << 12;
const DEFER_TASKRUN: u32 = 1 << 13;
const MSG_RING: u8 = 40;
const REPORT_USAGE: u16 = 1 << 3;

fn messages(run: &mut Run, flags: u32) -> Result<()> {
    run.pin_if_asked()?;
    let (mut sender, mut receiver) = (RawRing::open(4, 0)?, RawRing::open(4, flags)?);
    run.start()?;
    for i in 0..u64::from(run.count / 2) {
        sender.push("msg_ring", &entry(MSG_RING, receiver.as_raw_fd(), 1 << 40 | i, 0, 0, 0, i));
        sender.enter(1, 1, raw::GETEVENTS)?;
        ensure!(sender.reap(|_| "msg_ring") == 1, "the sender has a completion");
        receive(&mut receiver)?;
    }
    run.report.rings.extend([sender.report(), receiver.report()]);
    run.report.expected.other.max = u64::from(run.count);
    Ok(())
}

fn receive(receiver: &mut RawRing) -> Result<()> {
    while receiver.reap(|_| "msg_ring") == 0 {
        receiver.enter(0, 1, raw::GETEVENTS)?;
    }
    Ok(())
}

fn messages_registered(run: &mut Run) -> Result<()> {
    const SEND_MSG_RING: libc::c_long = 31;
    run.pin_if_asked()?;
    let mut receivers = [RawRing::open(4, 0)?, RawRing::open(4, DEFER_TASKRUN | SINGLE_ISSUER)?];
    run.start()?;
    for i in 0..run.count {
        let receiver = &mut receivers[i as usize % 2];
        let mut message = entry(MSG_RING, receiver.as_raw_fd(), 1 << 40 | u64::from(i), 0, 0, 0, 0);
        // SAFETY: one live entry; the call needs no ring.
        let done = unsafe { libc::syscall(libc::SYS_io_uring_register, -1, SEND_MSG_RING, message.as_mut_ptr(), 1) };
        if done < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Unsupported(format!("IORING_REGISTER_SEND_MSG_RING: {error}")).into());
        }
        receive(receiver)?;
    }
    run.report.rings.extend(receivers.map(RawRing::report));
    run.report.expected.other.max = u64::from(run.count);
    Ok(())
}

fn multishot_commands(run: &mut Run) -> Result<()> {
    const URING_CMD: u8 = 46;
    const ASYNC_CANCEL: u8 = 14;
    const TX_TIMESTAMP: u64 = 4;
    const SO_TIMESTAMPING: libc::c_int = 37;
    /// TX_SOFTWARE, SOFTWARE, OPT_ID, OPT_TSONLY.
    static STAMPS: libc::c_int = 1 << 1 | 1 << 4 | 1 << 7 | 1 << 11;
    run.pin_if_asked()?;
    let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    here.connect(there.local_addr()?)?;
    let size = size_of::<libc::c_int>() as u32;
    // SAFETY: a live integer of that size.
    let set = unsafe {
        libc::setsockopt(here.as_raw_fd(), libc::SOL_SOCKET, SO_TIMESTAMPING, (&raw const STAMPS).cast(), size)
    };
    ensure!(set == 0, "SO_TIMESTAMPING: {}", std::io::Error::last_os_error());
    let mut ring = RawRing::open(8, raw::CQE32)?;
    run.start()?;
    ring.push("uring_cmd", &entry(URING_CMD, here.as_raw_fd(), TX_TIMESTAMP, 0, 0, 0, 7));
    ring.enter(1, 0, 0)?;
    for _ in 0..run.count {
        here.send(b"stamped")?;
        let mut failed = None;
        while ring.reap(|seen| {
            failed = (seen.result < 0).then_some(seen.result);
            "uring_cmd"
        }) == 0
        {
            ring.enter(0, 1, raw::GETEVENTS)?;
        }
        if let Some(errno) = failed {
            let error = std::io::Error::from_raw_os_error(-errno);
            run.report.rings.push(ring.report());
            run.report.expected.other.max = 1;
            return Err(Unsupported(format!("SOCKET_URING_OP_TX_TIMESTAMP: {error}")).into());
        }
        there.recv(&mut [0; 16])?;
    }
    ring.push("async_cancel", &entry(ASYNC_CANCEL, -1, 0, 7, 0, 0, 8));
    ring.enter(1, 0, 0)?;
    let mut left = 2;
    while left > 0 {
        left -= ring.reap(|seen| if seen.user_data == 8 { "async_cancel" } else { "uring_cmd" });
        if left > 0 {
            ring.enter(0, 1, raw::GETEVENTS)?;
        }
    }
    run.report.rings.push(ring.report());
    run.report.expected.other.max = u64::from(run.count) + 2;
    Ok(())
}

fn wide_entries(run: &mut Run) -> Result<()> {
    const NOP: u8 = 0;
    const NOP128: u8 = 63;
    run.pin_if_asked()?;
    let mut ring = RawRing::open(64, raw::SQE_MIXED)?;
    run.start()?;
    let name = |seen: raw::Seen| if seen.user_data == 2 { "nop128" } else { "nop" };
    for i in 0..run.count {
        // A 128-byte entry must not wrap around the end of the queue.
        let wide = i % 3 > 0 && ring.before_the_end() > 1;
        if wide {
            let mut words = [0; 16];
            words[..8].copy_from_slice(&entry(NOP128, -1, 0, 0, 0, 0, 2));
            ring.push("nop128", &words);
        } else {
            ring.push("nop", &entry(NOP, -1, 0, 0, 0, 0, 1));
        }
        ring.enter(1 + u32::from(wide), 0, 0)?;
        ensure!(ring.reap(name) == 1, "a no-op is done at once");
    }
    run.fact("enter_calls", ring.enters);
    run.report.rings.push(ring.report());
    run.report.all("inline");
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Policy {
    OfRing,
    OfTask,
    Filter,
}

/// Registers a policy of the calling task.
fn of_task<T>(name: &str, operation: u32, argument: *mut T) -> Result<()> {
    // SAFETY: the argument has the operation's type and lives during the call. A descriptor of -1 means the task.
    let done = unsafe { libc::syscall(libc::SYS_io_uring_register, -1, operation, argument, 1) };
    if done < 0 {
        return Err(Unsupported(format!("{name} of a task: {}", std::io::Error::last_os_error())).into());
    }
    Ok(())
}

fn refused_by_policy(run: &mut Run, policy: Policy) -> Result<()> {
    const NOP: u8 = 0;
    const READ: u8 = 22;
    const RESTRICTIONS: u32 = 11;
    const ENABLE_RINGS: u32 = 12;
    const BPF_FILTER: u32 = 37;
    /// IORING_RESTRICTION_SQE_OP, and the no-op: `struct io_uring_restriction` has 16 bytes.
    const ALLOW_NOP: [u16; 8] = [1, NOP as u16, 0, 0, 0, 0, 0, 0];
    run.pin_if_asked()?;
    // Before the ring, which an unsupported scenario does not have.
    match policy {
        Policy::OfRing => {}
        Policy::OfTask => {
            // struct io_uring_task_restriction: flags, the number of restrictions, and the restrictions.
            let mut allowed = [[0, 1, 0, 0, 0, 0, 0, 0], ALLOW_NOP];
            of_task("IORING_REGISTER_RESTRICTIONS", RESTRICTIONS, allowed.as_mut_ptr())?;
        }
        Policy::Filter => {
            // struct sock_filter: return 0, which rejects the request.
            let program = [0x06u64];
            // struct io_uring_bpf: IO_URING_BPF_CMD_FILTER; opcode and flags; length of the program and size of its
            // opcode's data; the program.
            let mut filter = [1, u64::from(READ), 1, program.as_ptr() as u64, 0, 0, 0, 0, 0];
            of_task("IORING_REGISTER_BPF_FILTER", BPF_FILTER, filter.as_mut_ptr())?;
        }
    }
    let mut ring = RawRing::open(8, raw::R_DISABLED)?;
    if policy == Policy::OfRing {
        let mut allowed = ALLOW_NOP;
        ring.register(RESTRICTIONS, allowed.as_mut_ptr(), 1).context("restricting the ring")?;
    }
    ring.register(ENABLE_RINGS, std::ptr::null_mut::<u8>(), 0).context("enabling the ring")?;
    run.start()?;
    let name = |seen: raw::Seen| if seen.user_data == 2 { "read" } else { "nop" };
    let mut buffer = [0u8; 8];
    for _ in 0..run.count / 3 {
        ring.push("nop", &entry(NOP, -1, 0, 0, 0, 0, 1));
        ring.push("nop", &entry(NOP, -1, 0, 0, 0, 0, 1));
        ring.push("read", &entry(READ, 0, 0, buffer.as_mut_ptr() as u64, 8, 0, 2));
        ring.enter(3, 0, 0)?;
        ring.refused += 1;
        ensure!(ring.reap(name) == 3, "each is done or refused at once");
    }
    let refused = ring.refused;
    run.fact("denied", refused);
    run.report.rings.push(ring.report());
    run.report.all("inline");
    Ok(())
}

/// `struct io_uring_reg_wait`.
#[repr(C)]
#[derive(Default)]
struct RegisteredWait {
    seconds: i64,
    nanoseconds: i64,
    min_wait_usec: u32,
    flags: u32,
    sigmask: u64,
    sigmask_size: u32,
    pad: [u32; 3],
    pad2: [u64; 2],
}

fn forms_of_waiting(run: &mut Run) -> Result<()> {
    const EXT_ARG: u32 = 1 << 3;
    const EXT_ARG_REG: u32 = 1 << 6;
    const NO_IOWAIT: u32 = 1 << 7;
    const MEM_REGION: u32 = 34;
    const ENABLE_RINGS: u32 = 12;
    const PAGE: usize = 4096;
    const NOP: u8 = 0;
    run.pin_if_asked()?;
    let mut ring = RawRing::open(8, raw::R_DISABLED)?;
    // SAFETY: a new mapping, which stays mapped.
    let page = unsafe {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0)
    };
    ensure!(page != libc::MAP_FAILED, "no page");
    // struct io_uring_region_desc: address, size, flags (user memory), ID; struct io_uring_mem_region_reg: for waits.
    let mut region = [page as u64, PAGE as u64, 1, 0, 0, 0, 0, 0];
    let mut registration = [region.as_mut_ptr() as u64, 1, 0, 0];
    let can_register = ring.register(MEM_REGION, registration.as_mut_ptr(), 1).is_ok();
    ring.register(ENABLE_RINGS, std::ptr::null_mut::<u8>(), 0).context("enabling the ring")?;
    run.start()?;
    ring.push("nop", &entry(NOP, -1, 0, 0, 0, 0, 1));
    ring.enter(1, 0, 0)?;
    ensure!(ring.reap(|_| "nop") == 1, "a no-op is done at once");
    // Nothing is in flight, so each wait blocks and ends with its timeout.
    let limit = [0i64, 100_000];
    // struct io_uring_getevents_arg: no signals, a minimum of 1 µs or none, the timeout.
    let (plain, minimum) = ([0u64, 0, limit.as_ptr() as u64], [0u64, 1 << 32, limit.as_ptr() as u64]);
    let registered = RegisteredWait { nanoseconds: limit[1], min_wait_usec: 1, flags: 1, ..RegisteredWait::default() };
    // SAFETY: an owned page, zeroed and aligned.
    unsafe { page.cast::<RegisteredWait>().write(registered) };
    let mut begun = [0u64; 4];
    for form in (0..4).cycle().take(run.count as usize) {
        let size = size_of_val(&plain);
        let waited = match form {
            0 => ring.enter_with(0, 1, raw::GETEVENTS | EXT_ARG, plain.as_ptr(), size),
            1 => ring.enter_with(0, 1, raw::GETEVENTS | EXT_ARG, minimum.as_ptr(), size),
            2 => ring.enter_with(0, 1, raw::GETEVENTS | EXT_ARG | NO_IOWAIT, plain.as_ptr(), size),
            _ if !can_register => continue,
            _ => {
                let flags = raw::GETEVENTS | EXT_ARG | EXT_ARG_REG;
                ring.enter_with(0, 1, flags, std::ptr::null::<u8>(), size_of::<RegisteredWait>())
            }
        };
        // An older kernel rejects the flag, or ignores the minimum.
        let refused = waited.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL));
        begun[form] += u64::from(!refused);
    }
    let [_, min_wait, no_iowait, registered] = begun;
    run.fact("min_waits", min_wait + registered);
    run.fact("no_iowait", no_iowait);
    run.fact("registered_waits", registered);
    run.report.rings.push(ring.report());
    run.report.all("inline");
    Ok(())
}

fn waits_in_iowait(run: &mut Run) -> Result<()> {
    const POLL_ADD: u8 = 6;
    const EXT_ARG: u32 = 1 << 3;
    const NO_IOWAIT: u32 = 1 << 7;
    const LIMIT_NS: i64 = 10_000_000;
    run.pin_if_asked()?;
    let mut ring = RawRing::open(8, 0)?;
    let (reader, writer) = std::io::pipe()?;
    run.start()?;
    ring.push("poll_add", &entry(POLL_ADD, reader.as_raw_fd(), 0, 0, 0, libc::POLLIN as u32, 1));
    ring.enter(1, 0, 0)?;
    let limit = [0i64, LIMIT_NS];
    let argument = [0u64, 0, limit.as_ptr() as u64];
    let (mut waits, mut outside, mut most_ns) = (0, 0, 0);
    for i in 0..run.count {
        let flag = if i % 2 == 0 { 0 } else { NO_IOWAIT };
        let began = Instant::now();
        let flags = raw::GETEVENTS | EXT_ARG | flag;
        let waited = ring.enter_with(0, 1, flags, argument.as_ptr(), size_of_val(&argument));
        match waited.err().and_then(|e| e.raw_os_error()) {
            Some(libc::ETIME) if flag == 0 => {
                waits += 1;
                most_ns += began.elapsed().as_nanos() as u64;
            }
            Some(libc::ETIME) => outside += 1,
            // Linux before 6.15.
            Some(libc::EINVAL) if flag != 0 => {}
            other => anyhow::bail!("a wait ended with {other:?}"),
        }
    }
    drop(writer);
    ensure!(ring.reap(|_| "poll_add") == 1, "the end of the pipe completes the poll");
    run.fact("iowait_least_ns", waits * LIMIT_NS as u64);
    run.fact("iowait_most_ns", most_ns);
    run.fact("waits_outside", outside);
    run.report.rings.push(ring.report());
    run.report.all("syscall_exit");
    run.report.all("syscall_exit:close");
    Ok(())
}

const GROUP: u16 = 3;

/// Receives a message into a buffer of the group: returns the buffer's number, and whether the kernel keeps the rest of
/// it.
fn receive_one(ring: &mut Ring, ours: RawFd, theirs: RawFd) -> Result<(u16, bool)> {
    const BUF_MORE: u32 = 1 << 4;
    write_all(theirs, &[7; MESSAGE])?;
    let recv = opcode::Recv::new(types::Fd(ours), std::ptr::null_mut(), MESSAGE as u32).buf_group(GROUP);
    ring.push(recv.build().flags(squeue::Flags::BUFFER_SELECT), MESSAGE as u32);
    ring.enter(1, 1)?;
    let mut buffer = None;
    ring.reap_each(|done| {
        buffer = io_uring::cqueue::buffer_select(done.flags).map(|buffer| (buffer, done.flags & BUF_MORE != 0));
    });
    buffer.context("a message has a buffer")
}

/// Adds a buffer to the group by a request.
fn provide(ring: &mut Ring, messages: &mut [u8], buffer: u16) -> Result<()> {
    let at = messages[MESSAGE * usize::from(buffer)..].as_mut_ptr();
    ring.push(opcode::ProvideBuffers::new(at, MESSAGE as i32, 1, GROUP, buffer).build(), 0);
    ring.enter(1, 1)?;
    let mut provided = false;
    ring.reap_each(|done| provided = done.result >= 0);
    ensure!(provided, "the group takes the buffer");
    Ok(())
}

fn buffers_held(run: &mut Run, by_requests: bool) -> Result<()> {
    const BUFFERS: u16 = 16;
    const AT_ONCE: usize = 10;
    const KEPT: usize = 3;
    const SINGLE: u32 = 20;
    run.pin_if_asked()?;
    let (ours, theirs) = socketpair(libc::SOCK_SEQPACKET)?;
    let mut ring = Ring::open(16, &DEFER)?;
    let mut messages = vec![0; MESSAGE * usize::from(BUFFERS)];
    let mut buffers = if by_requests { None } else { Some(Buffers::register(&ring, GROUP, BUFFERS)?) };
    let mut give = |ring: &mut Ring, buffer| match &mut buffers {
        Some(buffers) => {
            buffers.give(buffer);
            Ok(())
        }
        None => provide(ring, &mut messages, buffer),
    };
    (0..BUFFERS).try_for_each(|buffer| give(&mut ring, buffer))?;
    run.start()?;
    let (mut available, mut sum, mut kept) = (u64::from(BUFFERS), 0, 0);
    let rounds = (run.count - SINGLE) as usize / AT_ONCE;
    for at_once in std::iter::repeat_n(AT_ONCE, rounds).chain(std::iter::repeat_n(1, SINGLE as usize)) {
        let mut held = Vec::new();
        for _ in 0..at_once {
            held.push(receive_one(&mut ring, ours.as_raw_fd(), theirs.as_raw_fd())?.0);
            sum += available;
            available -= 1;
        }
        let keeps = if kept < KEPT { KEPT } else { 0 };
        kept += keeps;
        for buffer in &held[keeps..] {
            give(&mut ring, *buffer)?;
            available += 1;
        }
    }
    run.fact("buffers_taken", u64::from(run.count));
    run.fact(if by_requests { "buffers_provided" } else { "buffers_entries" }, BUFFERS.into());
    run.fact("buffers_available", sum);
    run.fact("buffers_sufficient", (AT_ONCE + KEPT) as u64);
    run.fact("buffers_not_returned", KEPT as u64);
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}

/// Number of the group's buffers that the kernel has consumed (IORING_REGISTER_PBUF_STATUS, Linux 6.8).
fn taken(ring: &Ring) -> Result<u32> {
    const PBUF_STATUS: libc::c_long = 26;
    let mut status = [u32::from(GROUP), 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: a live struct io_uring_buf_status of 40 bytes.
    let done = unsafe {
        libc::syscall(libc::SYS_io_uring_register, ring.uring.as_raw_fd(), PBUF_STATUS, status.as_mut_ptr(), 1)
    };
    match done {
        0 => Ok(status[1]),
        _ => Err(Unsupported(format!("IORING_REGISTER_PBUF_STATUS: {}", std::io::Error::last_os_error())).into()),
    }
}

fn buffers_out_of_order(run: &mut Run) -> Result<()> {
    const BUFFERS: u16 = 8;
    run.pin_if_asked()?;
    let pipes = [pipe()?, pipe()?];
    let mut ring = Ring::open(16, &[])?;
    let mut buffers = Buffers::register(&ring, GROUP, BUFFERS)?;
    (0..BUFFERS).for_each(|buffer| buffers.give(buffer));
    taken(&ring)?;
    run.start()?;
    let mut taken_before = 0u16;
    for _ in 0..run.count / 2 {
        for (reader, _) in &pipes {
            let read = opcode::Read::new(types::Fd(reader.as_raw_fd()), std::ptr::null_mut(), MESSAGE as u32);
            let flags = squeue::Flags::BUFFER_SELECT | squeue::Flags::ASYNC;
            ring.push(read.offset(u64::MAX).buf_group(GROUP).build().flags(flags), MESSAGE as u32);
            ring.enter(1, 0)?;
            taken_before = taken_before.wrapping_add(1);
            let began = std::time::Instant::now();
            while taken(&ring)? as u16 != taken_before {
                ensure!(began.elapsed().as_secs() < 10, "a worker takes a buffer when it begins");
                std::thread::yield_now();
            }
        }
        for (_, writer) in pipes.iter().rev() {
            write_all(writer.as_raw_fd(), &[7; MESSAGE])?;
            let mut found = None;
            while found.is_none() {
                ring.enter(0, 1)?;
                ring.reap_each(|done| found = io_uring::cqueue::buffer_select(done.flags));
            }
            buffers.give(found.context("a read has a buffer")?);
        }
    }
    run.fact("buffers_taken", u64::from(run.count));
    run.fact("buffers_out_of_order", u64::from(run.count / 2));
    ring.punted(opcode::Read::CODE);
    run.finish(ring);
    run.report.expected.other.max = u64::from(run.count);
    Ok(())
}

fn buffers_incremental(run: &mut Run) -> Result<()> {
    const BUFFERS: u16 = 4;
    const INC: u16 = 2;
    const BYTES: usize = 16 * MESSAGE;
    run.pin_if_asked()?;
    let (ours, theirs) = socketpair(libc::SOCK_SEQPACKET)?;
    let mut ring = Ring::open(16, &DEFER)?;
    let mut buffers = Buffers::with(&ring, GROUP, BUFFERS, BYTES, INC)
        .map_err(|error| Unsupported(format!("IOU_PBUF_RING_INC: {error}")))?;
    (0..BUFFERS).for_each(|buffer| buffers.give(buffer));
    run.start()?;
    let (mut used_up, mut repeated, mut of_this) = (0u16, 0, 0);
    for _ in 0..run.count {
        let (buffer, more) = receive_one(&mut ring, ours.as_raw_fd(), theirs.as_raw_fd())?;
        of_this += 1;
        if !more {
            used_up += 1;
            of_this = 0;
            buffers.give(buffer);
        } else if used_up % 4 == 0 && of_this == 5 {
            buffers.rewind(used_up, buffer);
            repeated += 1;
        }
    }
    run.fact("buffers_taken", used_up.into());
    run.fact("buffers_repeated", repeated);
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}

fn zero_copy_copied(run: &mut Run) -> Result<()> {
    const BYTES: usize = 16 << 10;
    run.pin_if_asked()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("listening on the loopback device")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    sender.set_nodelay(true)?;
    let (mut receiver, _) = listener.accept()?;
    let (message, mut received) = (vec![7u8; BYTES], vec![0u8; BYTES]);
    let mut ring = Ring::open(1, &DEFER)?;
    run.start()?;
    groups(run.count, 1, |_| {
        let send = opcode::SendZc::new(types::Fd(sender.as_raw_fd()), message.as_ptr(), BYTES as u32);
        ring.push(send.zc_flags(REPORT_USAGE).build(), BYTES as u32);
        ring.submit()?;
        let sent = ring.wait(1)?;
        receiver.read_exact(&mut received)?;
        ring.wait(2 - sent)
    })?;
    zero_copy_report(run, ring)
}

fn zero_copy_report(run: &mut Run, ring: Ring) -> Result<()> {
    run.finish(ring);
    if run.report.rings[0].opcodes["send_zc"].notif == 0 {
        return Err(Unsupported("this kernel does not report zero-copy usage (Linux 6.2)".into()).into());
    }
    let sent = u64::from(run.count);
    run.report.between("inline", sent, 2 * sent);
    run.report.between("enter", 0, sent);
    run.fact("reporting", sent);
    Ok(())
}

fn zero_copy_kept(run: &mut Run) -> Result<()> {
    const BYTES: usize = 1400;
    run.pin_if_asked()?;
    bridge()?;
    let sender = UdpSocket::bind("10.9.0.1:0").context("binding to the bridge's address")?;
    sender.connect("10.9.0.2:9")?;
    let message = vec![7u8; BYTES];
    let mut ring = Ring::open(1, &DEFER)?;
    run.start()?;
    groups(run.count, 1, |_| {
        let send = opcode::SendZc::new(types::Fd(sender.as_raw_fd()), message.as_ptr(), BYTES as u32);
        ring.push(send.zc_flags(REPORT_USAGE).build(), BYTES as u32);
        ring.submit()?;
        ring.wait(2)
    })?;
    zero_copy_report(run, ring)
}

/// The area has a page for each message, and none is given back.
fn zero_copy_received(run: &mut Run) -> Result<()> {
    const REGISTER_ZCRX_IFQ: u32 = 32;
    const RECV_ZC: u64 = 58;
    const RECV_MULTISHOT: u64 = 1 << 1;
    const NODEV: u64 = 2;
    const REFILL_ENTRIES: u64 = 64;
    const PAGE: usize = 4096;
    run.pin_if_asked()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("listening on the loopback device")?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    sender.set_nodelay(true)?;
    let (receiver, _) = listener.accept()?;
    let mut ring = RawRing::open(8, DEFER_TASKRUN | SINGLE_ISSUER | raw::CQE32)?;
    let pages = run.count as usize + 64;
    let (area, refill) = (mapped(pages * PAGE)?, mapped(PAGE)?);
    // struct io_uring_zcrx_area_reg, io_uring_region_desc (memory of the program), io_uring_zcrx_ifq_reg.
    let mut area = [area, (pages * PAGE) as u64, 0, 0, 0, 0];
    let mut region = [refill, PAGE as u64, 1, 0, 0, 0, 0, 0];
    let pointers = [area.as_mut_ptr() as u64, region.as_mut_ptr() as u64];
    let mut queue = [0, REFILL_ENTRIES | NODEV << 32, pointers[0], pointers[1], 0, 0, 0, 0, 0, 0, 0, 0];
    if let Err(error) = ring.register(REGISTER_ZCRX_IFQ, queue.as_mut_ptr(), 1) {
        run.report.rings.push(ring.report());
        return Err(Unsupported(format!("IORING_REGISTER_ZCRX_IFQ with ZCRX_REG_NODEV: {error}")).into());
    }
    let id = queue[8] << 32;
    run.start()?;
    let first = RECV_ZC | RECV_MULTISHOT << 16 | (receiver.as_raw_fd() as u64) << 32;
    ring.push("recv_zc", &[first, 0, 0, 0, 7, id, 0, 0]);
    ring.enter(1, 0, 0)?;
    let (mut bytes, mut copies) = (0, 0);
    for _ in 0..run.count {
        sender.write_all(&[7; MESSAGE])?;
        let mut received = 0;
        while received < MESSAGE {
            ring.enter(0, 1, raw::GETEVENTS)?;
            let mut failed = None;
            ring.reap(|seen| {
                failed = failed.or((seen.result <= 0).then_some(seen.result));
                received += seen.result.max(0) as usize;
                copies += 1;
                "recv_zc"
            });
            ensure!(failed.is_none(), "a zero-copy receive ended with {failed:?}");
        }
        bytes += received as u64;
    }
    drop(sender);
    while ring.reap(|_| "recv_zc") == 0 {
        ring.enter(0, 1, raw::GETEVENTS)?;
    }
    let op = ring.ops.get_mut("recv_zc").expect("it has completions");
    (op.bytes, op.copied) = (bytes, copies);
    run.fact("reporting", copies);
    run.report.rings.push(ring.report());
    run.report.all("enter");
    Ok(())
}

fn mapped(bytes: usize) -> Result<u64> {
    let (protection, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, which lives until the process ends.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, private, -1, 0) };
    ensure!(at != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    Ok(at as u64)
}

fn napi_busy_poll(run: &mut Run) -> Result<()> {
    const POLL_ADD: u8 = 6;
    const REGISTER_NAPI: u32 = 27;
    const EXT_ARG: u32 = 1 << 3;
    run.pin_if_asked()?;
    namespace(
        "ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 && ip addr add 10.9.0.1/24 dev v0 && \
         ip link set v0 up && ip link set v1 up",
    )?;
    // With GRO, the receiving end has NAPI; packets of a sending end with TSO do not pass through it.
    const SET_GRO: u32 = 0x2c;
    const SET_TSO: u32 = 0x1f;
    ethtool(c"v0", SET_GRO, 1)?;
    ethtool(c"v1", SET_TSO, 0)?;
    let socket = UdpSocket::bind("10.9.0.1:9")?;
    socket.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
    send_over(c"v1")?;
    socket.recv(&mut [0; 64]).context("a message over veth")?;
    let mut napi_id = 0u32;
    let mut size = size_of::<u32>() as libc::socklen_t;
    // SAFETY: a live integer of that size.
    unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID);
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut napi_id).cast(), &raw mut size)
    };
    if napi_id == 0 {
        return Err(Unsupported("veth has no NAPI ID".into()).into());
    }
    let mut ring = RawRing::open(4, DEFER_TASKRUN | SINGLE_ISSUER)?;
    // struct io_uring_napi: 2 ms.
    let mut napi = [2000u32, 0, 0, 0];
    if let Err(error) = ring.register(REGISTER_NAPI, napi.as_mut_ptr(), 1) {
        return Err(Unsupported(format!("IORING_REGISTER_NAPI: {error}")).into());
    }
    run.start()?;
    ring.push("poll_add", &entry(POLL_ADD, socket.as_raw_fd(), 0, 0, 0, libc::POLLIN as u32, 1));
    ring.enter(1, 0, 0)?;
    let limit = [0i64, 5_000_000];
    let arg = [0u64, 0, limit.as_ptr() as u64];
    let before = own_cpu_ns();
    for _ in 0..run.count {
        let waited = ring.enter_with(0, 1, raw::GETEVENTS | EXT_ARG, arg.as_ptr(), size_of_val(&arg));
        ensure!(waited.is_err_and(|e| e.raw_os_error() == Some(libc::ETIME)), "no packet arrives");
    }
    run.fact("busy_poll_cpu_ns", own_cpu_ns() - before);
    run.fact("busy_poll_ns", u64::from(run.count) * 2_000_000);
    send_over(c"v1")?;
    ring.enter(0, 1, raw::GETEVENTS)?;
    ensure!(ring.reap(|_| "poll_add") == 1, "the message completes the poll");
    run.report.rings.push(ring.report());
    run.report.all("enter");
    Ok(())
}

/// This thread's CPU time.
fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sets a property of a network device (SIOCETHTOOL).
fn ethtool(device: &CStr, command: u32, value: u32) -> Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let set = [command, value];
    // struct ifreq: the name, and the command's address.
    let mut request = [0u64; 5];
    for (i, byte) in device.to_bytes().iter().enumerate() {
        request[i / 8] |= u64::from(*byte) << (8 * (i % 8));
    }
    request[2] = set.as_ptr() as u64;
    // SAFETY: both structures are live.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, request.as_mut_ptr()) };
    ensure!(done == 0, "SIOCETHTOOL {command:#x}: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Sends a UDP datagram from 10.9.0.2 to 10.9.0.1:9 over a device, as an Ethernet frame.
fn send_over(device: &CStr) -> Result<()> {
    const IP: u16 = 0x0800;
    #[rustfmt::skip]
    let mut frame = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0,
        0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1,
        0, 9, 0, 9, 0, 12, 0, 0, 7, 7, 7, 7u8,
    ];
    let words = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    // SAFETY: plain system calls with live structures and an owned descriptor.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        ensure!(socket >= 0, "AF_PACKET: {}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(socket);
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_protocol = IP.to_be();
        to.sll_ifindex = libc::if_nametoindex(device.as_ptr()) as i32;
        let size = size_of_val(&to) as libc::socklen_t;
        let sent =
            libc::sendto(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, (&raw const to).cast(), size);
        ensure!(sent == frame.len() as isize, "sending a frame: {}", std::io::Error::last_os_error());
    }
    Ok(())
}

/// Creates a bridge in this process's network namespace.
fn bridge() -> Result<()> {
    namespace(
        "ip link add br0 type bridge && ip addr add 10.9.0.1/24 dev br0 && ip link set br0 up && \
         ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev br0",
    )
}

/// Moves this process to a new network namespace with these devices.
fn namespace(script: &str) -> Result<()> {
    // SAFETY: the call takes no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Unsupported(format!("no network namespace: {error}")).into());
    }
    let done = std::process::Command::new("sh").args(["-c", script]).output()?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(Unsupported(format!("no such devices: {why}")).into());
    }
    Ok(())
}
