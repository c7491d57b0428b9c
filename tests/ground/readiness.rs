//! Requests that become ready on this program's command: polls of eventfds, timeouts, links. No device is involved.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Result, ensure};
use io_uring::{opcode, squeue, types};

use crate::cores;
use crate::load::{BLOCK, blocking, groups};
use crate::network::{read_all, write_all};
use crate::ring::{DEFER, Flag, Ring};
use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "eventfd_polls",
        about: "polls of 16 eventfds that are made ready in the order of submission",
        finding: None,
        allowed: &[],
        count: 8_000,
        run: eventfd_polls,
    },
    Scenario {
        name: "rings_by_turns",
        about: "8 polls of one eventfd, of two rings by turns: one write makes them ready, and its way out carries them",
        finding: None,
        allowed: &["chatty_poller", "reordered"],
        count: 8_000,
        run: rings_by_turns,
    },
    Scenario {
        name: "reordered",
        about: "polls of 16 eventfds that are made ready in the reverse order of submission",
        finding: Some("reordered"),
        allowed: &[],
        count: 8_000,
        run: reordered,
    },
    Scenario {
        name: "timeouts",
        about: "10 timeouts of 0.3 to 3 ms, waited for in io_uring_enter",
        finding: None,
        allowed: &[],
        count: 1_000,
        run: timeouts,
    },
    Scenario {
        name: "reordered_timeouts",
        about: "10 timeouts of 3 to 0.3 ms: the one submitted last ends first",
        finding: Some("reordered"),
        allowed: &[],
        count: 1_000,
        run: reordered_timeouts,
    },
    Scenario {
        name: "linked",
        about: "chains of 4 linked cached reads, and as many of 3 whose first one fails",
        finding: None,
        allowed: &["errors", "reordered"],
        count: 7_000,
        run: linked,
    },
    Scenario {
        name: "linked_direct",
        about: "chains of a direct read, a second one and a no-op: all are announced before the first is issued",
        finding: None,
        allowed: &["stranded", "one_per_enter"],
        count: 600,
        run: linked_direct,
    },
    Scenario {
        name: "capped_batches",
        about: "256 polls ready at once, io_uring_enter waiting for one: the kernel runs 20 of them per call",
        finding: Some("capped_batch"),
        allowed: &[],
        count: 25_600,
        run: capped_batches,
    },
    Scenario {
        name: "capped_batches_sqpoll",
        about: "256 polls ready at once on a ring with SQPOLL, whose thread runs 32 per turn",
        finding: Some("capped_batch"),
        allowed: &["reordered"],
        count: 25_600,
        run: capped_batches_sqpoll,
    },
    Scenario {
        name: "wake_up_reads",
        about: "3 reads of eventfds kept open, written to twice in all, beside direct reads one at a time",
        finding: None,
        allowed: &[],
        count: 6_000,
        run: wake_up_reads,
    },
    Scenario {
        name: "batches_of_8_sqpoll",
        about: "64 polls of 8 eventfds on a ring with SQPOLL, of which 8 are made ready at once: the program's own batches",
        finding: None,
        allowed: &["reordered", "sqpoll_shares_cpu"],
        count: 3_200,
        run: batches_of_8_sqpoll,
    },
];

fn eventfd_polls(run: &mut Run) -> Result<()> {
    polls(run, |fds| fds.iter().try_for_each(signal))
}

fn rings_by_turns(run: &mut Run) -> Result<()> {
    const POLLS: u32 = 8;
    run.pin_if_asked()?;
    let fd = eventfd()?;
    let mut rings = [Ring::open(POLLS, &[])?, Ring::open(POLLS, &[])?];
    run.start()?;
    groups(run.count, POLLS, |group| {
        for turn in 0..group as usize {
            let ring = &mut rings[turn % 2];
            ring.push(poll(&fd), 0);
            ring.submit()?;
        }
        signal(&fd)?;
        rings.iter_mut().try_for_each(|ring| ring.wait(group / 2).map(|_| ()))?;
        reset(&fd)
    })?;
    rings.into_iter().for_each(|ring| run.finish(ring));
    run.report.mostly("syscall_exit", 0.9);
    Ok(())
}

fn reordered(run: &mut Run) -> Result<()> {
    polls(run, |fds| fds.iter().rev().try_for_each(signal))?;
    run.fact("order_lost_when_made_ready", run.report.rings[0].order.overtaken);
    Ok(())
}

fn polls(run: &mut Run, make_ready: impl Fn(&[OwnedFd]) -> Result<()>) -> Result<()> {
    const POLLS: u32 = 16;
    run.pin_if_asked()?;
    let fds: Vec<OwnedFd> = (0..POLLS).map(|_| eventfd()).collect::<Result<_>>()?;
    let mut ring = Ring::open(POLLS, &DEFER)?;
    run.start()?;
    groups(run.count, POLLS, |group| {
        let fds = &fds[..group as usize];
        fds.iter().for_each(|fd| ring.push(poll(fd), 0));
        ring.submit()?;
        make_ready(fds)?;
        ring.wait(group)?;
        fds.iter().try_for_each(reset)
    })?;
    run.finish(ring);
    run.report.all("enter");
    run.report.all("enter:ready");
    Ok(())
}

fn timeouts(run: &mut Run) -> Result<()> {
    timed(run, |index| index + 1)
}

fn reordered_timeouts(run: &mut Run) -> Result<()> {
    timed(run, |index| 10 - index)
}

/// `step`: when each of 10 timeouts expires, in units of 0.3 ms.
fn timed(run: &mut Run, step: impl Fn(u32) -> u32) -> Result<()> {
    run.pin_if_asked()?;
    let times: Vec<_> = (0..10).map(|index| types::Timespec::new().nsec(300_000 * step(index))).collect();
    let mut ring = Ring::open(16, &DEFER)?;
    run.start()?;
    groups(run.count, 10, |group| {
        times.iter().take(group as usize).for_each(|time| ring.push(opcode::Timeout::new(time).build(), 0));
        ring.enter(group, group)?;
        ring.wait(group)
    })?;
    run.finish(ring);
    run.report.all("enter");
    let all = run.report.completions();
    run.report.between("enter:slept", all * 9 / 10, all);
    Ok(())
}

fn linked(run: &mut Run) -> Result<()> {
    const NO_FILE: types::Fd = types::Fd(-1);
    run.pin_if_asked()?;
    let mut target = run.cached()?;
    let mut ring = Ring::open(8, &DEFER)?;
    run.start()?;
    let chains = u64::from(run.count / 7);
    groups(run.count / 7, 1, |_| {
        let link = squeue::Flags::IO_LINK;
        for flags in [link, link, link, squeue::Flags::empty()] {
            let read = target.read().flags(flags);
            ring.push(read, BLOCK as u32);
        }
        let broken = opcode::Read::new(NO_FILE, target.buffer(), BLOCK as u32).build().flags(link);
        ring.push(broken, BLOCK as u32);
        for flags in [link, squeue::Flags::empty()] {
            let read = target.read().flags(flags);
            ring.push(read, BLOCK as u32);
        }
        ring.enter(7, 7)?;
        ring.wait(7)
    })?;
    run.finish(ring);
    run.fact("whole_chains", chains);
    run.fact("broken_chains", chains);
    // The first request of each chain completes during submission, the others in task work queued by their predecessor.
    run.report.exactly("inline", 2 * chains);
    run.report.exactly("enter", 5 * chains);
    Ok(())
}

fn linked_direct(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.direct()?;
    let mut ring = Ring::open(8, &DEFER)?;
    run.start()?;
    let link = squeue::Flags::IO_LINK;
    groups(run.count / 3, 1, |_| {
        for _ in 0..2 {
            let read = target.read().flags(link);
            ring.push(read, BLOCK as u32);
        }
        ring.push(opcode::Nop::new().build(), 0);
        ring.enter(3, 3)?;
        ring.wait(3)
    })?;
    run.finish(ring);
    run.report.all("enter");
    Ok(())
}

const POLLERS: u32 = 256;

fn capped_batches(run: &mut Run) -> Result<()> {
    // IO_LOCAL_TW_DEFAULT_MAX, since Linux 6.13.
    const CAP: u32 = 20;
    run.pin_if_asked()?;
    let fds: Vec<OwnedFd> = (0..POLLERS).map(|_| eventfd()).collect::<Result<_>>()?;
    let mut ring = Ring::open(POLLERS, &DEFER)?;
    run.start()?;
    let (mut capped, mut largest) = (0, 0);
    groups(run.count, POLLERS, |group| {
        let fds = &fds[..group as usize];
        fds.iter().for_each(|fd| ring.push(poll(fd), 0));
        ring.submit()?;
        fds.iter().try_for_each(signal)?;
        let mut left = group;
        while left > 0 {
            ring.enter(0, 1)?;
            let batch = ring.reap();
            capped += u64::from(batch == CAP);
            largest = largest.max(u64::from(batch));
            left -= batch;
        }
        fds.iter().try_for_each(reset)
    })?;
    run.finish(ring);
    run.fact("batches_of_20", capped);
    run.fact("largest_batch", largest);
    run.report.all("enter");
    Ok(())
}

fn capped_batches_sqpoll(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let fd = eventfd()?;
    let mut ring = Ring::open(POLLERS, &[Flag::Sqpoll(1_000, None)])?;
    run.start()?;
    groups(run.count, POLLERS, |group| {
        (0..group).for_each(|_| ring.push(poll(&fd), 0));
        ring.submit()?;
        // All are polls of the same eventfd, so a single write makes them ready at once, the newest first. All are
        // armed some time after the thread has reaped the last one.
        while !ring.uring.submission().is_empty() {
            std::hint::spin_loop();
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        signal(&fd)?;
        let mut left = group;
        while left > 0 {
            left -= ring.reap();
        }
        reset(&fd)
    })?;
    run.finish(ring);
    run.report.all("sqpoll");
    Ok(())
}

fn wake_up_reads(run: &mut Run) -> Result<()> {
    const WAKE_UPS: usize = 3;
    let mut target = run.direct()?;
    run.pin_with_interrupt(&mut target)?;
    let fds: Vec<OwnedFd> = (0..WAKE_UPS).map(|_| eventfd()).collect::<Result<_>>()?;
    let mut buffers = [0u64; WAKE_UPS];
    let mut ring = Ring::open(16, &DEFER)?;
    run.start()?;
    for _ in 0..2 {
        for (fd, buffer) in fds.iter().zip(&mut buffers) {
            let read = opcode::Read::new(types::Fd(fd.as_raw_fd()), std::ptr::from_mut(buffer).cast(), 8);
            ring.push(read.offset(u64::MAX).build(), 8);
        }
        ring.submit()?;
        blocking(&mut ring, &mut target, run.count / 2, 1)?;
        fds.iter().try_for_each(signal)?;
        ring.wait(WAKE_UPS as u32)?;
    }
    run.finish(ring);
    run.fact("waits", 2 * WAKE_UPS as u64);
    run.report.all("enter");
    Ok(())
}

fn batches_of_8_sqpoll(run: &mut Run) -> Result<()> {
    const BATCH: u32 = 8;
    // Both on one CPU, so that its thread does not run before all requests of a batch are ready.
    let cpu = cores::allowed()?[0];
    run.pin(cpu)?;
    let fds: Vec<OwnedFd> = (0..8).map(|_| eventfd()).collect::<Result<_>>()?;
    let mut ring = Ring::open(8 * BATCH, &[Flag::Sqpoll(1, run.report.cpu)])?;
    run.start()?;
    groups(run.count, 8 * BATCH, |group| {
        let used = &fds[..group.div_ceil(BATCH) as usize];
        (0..group).for_each(|poll_of| ring.push(poll(&used[(poll_of / BATCH) as usize]), 0));
        ring.submit()?;
        while !ring.uring.submission().is_empty() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        let mut left = group;
        for fd in used {
            let mut of_it = BATCH.min(left);
            left -= of_it;
            // One write makes all requests on the eventfd ready at once.
            signal(fd)?;
            while of_it > 0 {
                of_it -= ring.reap();
                std::thread::yield_now();
            }
            reset(fd)?;
        }
        Ok(())
    })?;
    run.finish(ring);
    run.report.all("sqpoll");
    Ok(())
}

pub fn poll(fd: &OwnedFd) -> squeue::Entry {
    opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), libc::POLLIN as u32).build()
}

pub fn eventfd() -> Result<OwnedFd> {
    // SAFETY: the call returns a new descriptor, which this process then owns.
    unsafe {
        let fd = libc::eventfd(0, libc::EFD_CLOEXEC);
        ensure!(fd >= 0, std::io::Error::last_os_error());
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

pub fn signal(fd: &OwnedFd) -> Result<()> {
    write_all(fd.as_raw_fd(), &1u64.to_ne_bytes())
}

pub fn reset(fd: &OwnedFd) -> Result<()> {
    read_all(fd.as_raw_fd(), &mut [0; 8])
}
