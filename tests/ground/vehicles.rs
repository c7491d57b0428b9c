//! One scenario per delivery path of a ring's completions.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use io_uring::{opcode, squeue, types};

use crate::cores;
use crate::load::{BLOCK, Memory, blocking, groups, nops, peeking, sleeps, spin};
use crate::ring::{DEFER, Flag, Ring};
use crate::run::{Run, Scenario, Unsupported};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "inline_nop",
        about: "no-ops in batches of 16: each completes while it is submitted",
        finding: None,
        allowed: &[],
        count: 20_000,
        run: inline_nop,
    },
    Scenario {
        name: "inline_cached",
        about: "buffered reads of cached pages in batches of 16: each completes while it is submitted",
        finding: None,
        allowed: &[],
        count: 20_000,
        run: inline_cached,
    },
    Scenario {
        name: "enter_ready",
        about: "DEFER_TASKRUN direct reads that have long ended when io_uring_enter comes for them",
        finding: None,
        allowed: &["reordered", "pending_work_not_run"],
        count: 1_600,
        run: enter_ready,
    },
    Scenario {
        name: "enter_after_timeout",
        about: "DEFER_TASKRUN receives: a wait of 1 ms brings nothing, then something comes, and io_uring_enter takes it at once",
        finding: None,
        allowed: &["waits_time_out"],
        count: 200,
        run: enter_after_timeout,
    },
    Scenario {
        name: "enter_slept",
        about: "DEFER_TASKRUN direct reads, one at a time, waited for in io_uring_enter on the interrupt's CPU",
        finding: None,
        allowed: &[],
        count: 3_000,
        run: enter_slept,
    },
    Scenario {
        name: "resched_ipi",
        about: "no flags, one direct read at a time, looked for from user mode on a CPU without the interrupt",
        finding: None,
        allowed: &["kick_storm", "wrong_core"],
        count: 3_000,
        run: resched_ipi,
    },
    Scenario {
        name: "device_irq",
        about: "no flags, one direct read at a time, looked for from user mode on the interrupt's CPU",
        finding: None,
        allowed: &[],
        count: 3_000,
        run: device_irq,
    },
    Scenario {
        name: "device_irq_buffered",
        about: "the same with buffered reads of blocks that are not in the page cache",
        finding: None,
        allowed: &[],
        count: 1_000,
        run: device_irq_buffered,
    },
    Scenario {
        name: "timer_tick",
        about: "COOP_TASKRUN, one direct read at a time, looked for from user mode on a CPU without the interrupt",
        finding: Some("stranded"),
        allowed: &["wrong_core"],
        count: 400,
        run: timer_tick,
    },
    Scenario {
        name: "other_irq",
        about: "the same, while another thread's membarrier(2) sends function-call interrupts",
        finding: None,
        allowed: &["wrong_core"],
        count: 2_000,
        run: other_irq,
    },
    Scenario {
        name: "syscall_exit",
        about: "COOP_TASKRUN, with a getppid(2) after every look: its way out carries",
        finding: Some("chatty_poller"),
        allowed: &["wrong_core"],
        count: 2_000,
        run: syscall_exit,
    },
    Scenario {
        name: "page_fault",
        about: "COOP_TASKRUN, touching a fresh page every few microseconds: the fault carries",
        finding: Some("faulting_poller"),
        allowed: &["wrong_core"],
        count: 2_000,
        run: page_fault,
    },
    Scenario {
        name: "sqpoll",
        about: "direct reads submitted and completed by the submission-queue thread, depth 8",
        finding: None,
        allowed: &["reordered"],
        count: 4_000,
        run: sqpoll,
    },
    Scenario {
        name: "iopoll",
        about: "IOPOLL direct reads, 16 at a time, on a device with poll queues",
        finding: None,
        allowed: &[],
        count: 4_000,
        run: iopoll,
    },
    Scenario {
        name: "iowq",
        about: "cached reads that IOSQE_ASYNC hands to io-wq, 8 at a time",
        finding: Some("punted"),
        allowed: &["iowq_fanout", "reordered"],
        count: 4_000,
        run: iowq,
    },
];

fn inline_nop(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut ring = Ring::open(16, &[])?;
    run.start()?;
    nops(&mut ring, run.count, 16)?;
    run.finish(ring);
    run.report.all("inline");
    Ok(())
}

fn inline_cached(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.cached()?;
    let mut ring = Ring::open(16, &[])?;
    run.start()?;
    let mut late = 0;
    groups(run.count, 16, |group| {
        for _ in 0..group {
            let read = target.read();
            ring.push(read, BLOCK as u32);
        }
        ring.submit()?;
        let at_once = ring.reap();
        late += u64::from(group - at_once);
        ring.wait(group - at_once)
    })?;
    run.finish(ring);
    // A page that the kernel dropped meanwhile is read from disk.
    run.fact("not_cached", late);
    let all = run.report.completions();
    run.report.between("inline", all - late, all);
    run.report.expected.other.max = late;
    Ok(())
}

fn enter_ready(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.direct()?;
    let mut ring = Ring::open(16, &DEFER)?;
    run.start()?;
    let mut slept = 0;
    groups(run.count, 16, |group| {
        for _ in 0..group {
            let read = target.read();
            ring.push(read, BLOCK as u32);
        }
        ring.submit()?;
        std::thread::sleep(Duration::from_millis(10));
        let before = sleeps();
        ring.wait(group)?;
        if sleeps() > before {
            slept += u64::from(group);
        }
        Ok(())
    })?;
    run.finish(ring);
    run.fact("not_ready_after_10_ms", slept);
    let all = run.report.completions();
    run.report.mostly("enter", 0.99);
    run.report.between("enter:ready", (all * 99 / 100).saturating_sub(slept), all);
    Ok(())
}

fn enter_after_timeout(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let (mine, peer) = UnixStream::pair()?;
    let mut ring = Ring::open(4, &DEFER)?;
    let mut byte = 0u8;
    let while_waiting = types::Timespec::new().nsec(1_000_000);
    let arguments = types::SubmitArgs::new().timespec(&while_waiting);
    run.start()?;
    let mut slept = 0;
    for _ in 0..run.count {
        ring.push(opcode::Recv::new(types::Fd(mine.as_raw_fd()), &raw mut byte, 1).build(), 1);
        ring.submit()?;
        let waited = ring.uring.submitter().submit_with_args(1, &arguments);
        let error = waited.err().and_then(|e| e.raw_os_error());
        ensure!(error == Some(libc::ETIME), "the first wait ended with {error:?}");
        (&peer).write_all(&[1])?;
        let before = sleeps();
        ring.wait(1)?;
        slept += sleeps() - before;
    }
    run.finish(ring);
    let all = run.report.completions();
    run.report.mostly("enter", 1.0);
    run.report.between("enter:ready", all - slept, all);
    Ok(())
}

fn enter_slept(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_with_interrupt(&mut target)?;
    let mut ring = Ring::open(1, &DEFER)?;
    run.start()?;
    let before = sleeps();
    blocking(&mut ring, &mut target, run.count, 1)?;
    let slept = sleeps() - before;
    run.finish(ring);
    run.fact("sleeps", slept);
    run.report.mostly("enter", 0.99);
    let all = run.report.completions();
    run.report.between("enter:slept", slept.min(all) * 99 / 100, all);
    Ok(())
}

fn resched_ipi(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_without_interrupt(&mut target)?;
    let mut ring = Ring::open(1, &[])?;
    run.start()?;
    let count = run.count;
    peeking(&mut ring, &mut target, count, 1, || spin(1))?;
    run.finish(ring);
    run.report.mostly("resched_ipi", 0.9);
    Ok(())
}

fn device_irq(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_with_interrupt(&mut target)?;
    let mut ring = Ring::open(1, &[])?;
    run.start()?;
    peeking(&mut ring, &mut target, run.count, 1, || spin(1))?;
    run.finish(ring);
    run.report.mostly("device_irq", 0.9);
    Ok(())
}

fn device_irq_buffered(run: &mut Run) -> Result<()> {
    let mut direct = run.direct()?;
    run.pin_with_interrupt(&mut direct)?;
    let mut target = run.cold()?;
    let mut ring = Ring::open(1, &[])?;
    run.start()?;
    for block in 0..u64::from(run.count) {
        let read = target.read_at(block * BLOCK as u64);
        ring.push(read, BLOCK as u32);
        ring.submit()?;
        while ring.reap() == 0 {
            spin(1);
        }
    }
    run.finish(ring);
    run.report.mostly("device_irq", 0.9);
    Ok(())
}

fn timer_tick(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_without_interrupt(&mut target)?;
    let mut ring = Ring::open(1, &[Flag::CoopTaskrun])?;
    run.start()?;
    peeking(&mut ring, &mut target, run.count, 1, || spin(1))?;
    run.finish(ring);
    run.report.mostly("timer_tick", 0.8);
    Ok(())
}

fn other_irq(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_without_interrupt(&mut target)?;
    let helper = cores::another(run.report.cpu.expect("pinned above"))?;
    let mut ring = Ring::open(1, &[Flag::CoopTaskrun])?;
    // SAFETY: registers the process for the command below, without using memory.
    let registered = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) };
    if registered != 0 {
        return Err(Unsupported("membarrier(2) is refused".into()).into());
    }
    let over = AtomicBool::new(false);
    run.start()?;
    let sent = std::thread::scope(|scope| -> Result<u64> {
        let sender = scope.spawn(|| -> Result<u64> {
            cores::pin(helper)?;
            let mut sent = 0;
            while !over.load(Ordering::Relaxed) {
                // SAFETY: no memory is used.
                unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) };
                sent += 1;
                spin(200);
            }
            Ok(sent)
        });
        let load = peeking(&mut ring, &mut target, run.count, 1, || spin(1));
        over.store(true, Ordering::Relaxed);
        load?;
        sender.join().expect("the sender does not panic")
    })?;
    run.finish(ring);
    run.fact("membarriers", sent);
    run.report.mostly("other_irq", 0.8);
    Ok(())
}

const MEMBARRIER_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn syscall_exit(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_without_interrupt(&mut target)?;
    let mut ring = Ring::open(1, &[Flag::CoopTaskrun])?;
    run.start()?;
    let mut calls = 0;
    peeking(&mut ring, &mut target, run.count, 1, || {
        calls += 1;
        // SAFETY: getppid takes no arguments and cannot fail.
        unsafe { libc::getppid() };
    })?;
    run.finish(ring);
    run.fact("getppid_calls", calls);
    run.report.mostly("syscall_exit", 0.95);
    let all = run.report.completions();
    run.report.between("syscall_exit:getppid", all * 9 / 10, all);
    Ok(())
}

fn page_fault(run: &mut Run) -> Result<()> {
    const PAGES: usize = 1 << 18;
    let mut target = run.direct()?;
    run.pin_without_interrupt(&mut target)?;
    let fresh = Memory::new(PAGES)?;
    let mut ring = Ring::open(1, &[Flag::CoopTaskrun])?;
    run.start()?;
    let mut touched = 0;
    peeking(&mut ring, &mut target, run.count, 1, || {
        if touched < PAGES {
            fresh.touch(touched);
            touched += 1;
        }
        spin(100);
    })?;
    ensure!(touched < PAGES, "the fresh pages ran out: a smaller --count");
    run.finish(ring);
    run.fact("page_faults", touched as u64);
    run.report.mostly("page_fault", 0.8);
    Ok(())
}

fn sqpoll(run: &mut Run) -> Result<()> {
    let mut target = run.direct()?;
    run.pin_without_interrupt(&mut target)?;
    let other = cores::another(run.report.cpu.expect("pinned above"))?;
    let mut ring = Ring::open(8, &[Flag::Sqpoll(1_000, Some(other))])?;
    run.start()?;
    peeking(&mut ring, &mut target, run.count, 8, || spin(1))?;
    run.finish(ring);
    run.report.all("sqpoll");
    Ok(())
}

fn iopoll(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.direct()?;
    let mut ring = Ring::open(16, &[Flag::Iopoll])?;
    run.start()?;
    blocking(&mut ring, &mut target, run.count, 16)?;
    run.finish(ring);
    let read = &run.report.rings[0].opcodes["read"];
    run.report.expected.other.max = read.completions;
    if read.errnos.contains_key(&libc::EOPNOTSUPP) {
        return Err(Unsupported("the device has no poll queues: reads end with EOPNOTSUPP".into()).into());
    }
    run.report.mostly("iopoll", 0.99);
    Ok(())
}

fn iowq(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.cached()?;
    let mut ring = Ring::open(8, &[])?;
    run.start()?;
    groups(run.count, 8, |group| {
        for _ in 0..group {
            let read = target.read().flags(squeue::Flags::ASYNC);
            ring.push(read, BLOCK as u32);
        }
        ring.submit()?;
        ring.wait(group)
    })?;
    ring.punted(opcode::Read::CODE);
    run.finish(ring);
    run.report.all("iowq");
    Ok(())
}
