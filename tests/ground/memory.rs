//! Memory that requests in flight share, or that is released before they complete: no request fails.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use io_uring::{opcode, squeue, types};

use crate::network::{pipe, write_all};
use crate::ring::{DEFER, Ring};
use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "overlapping_buffers",
        about: "two reads of two pipes at a time, both into the same buffer",
        finding: Some("overlapping_buffers"),
        allowed: &[],
        count: 400,
        run: |run| shared_buffer(run, squeue::Flags::empty()),
    },
    Scenario {
        name: "linked_buffers",
        about: "the same, linked: one is done after the other",
        finding: None,
        allowed: &[],
        count: 400,
        run: |run| shared_buffer(run, squeue::Flags::IO_LINK),
    },
    Scenario {
        name: "unregistered_in_flight",
        about: "8 reads of empty pipes into registered buffers, which are unregistered before the pipes have something",
        finding: Some("unregistered_in_flight"),
        allowed: &[],
        count: 8,
        run: unregistered_in_flight,
    },
    Scenario {
        name: "one_at_a_time",
        about: "no-ops, each submitted with an io_uring_enter of its own that waits for it",
        finding: Some("one_per_enter"),
        allowed: &[],
        count: 20_000,
        run: one_at_a_time,
    },
];

const BYTES: usize = 8;

fn read(from: &OwnedFd, buffer: &mut [u8; BYTES]) -> squeue::Entry {
    opcode::Read::new(types::Fd(from.as_raw_fd()), buffer.as_mut_ptr(), BYTES as u32).offset(u64::MAX).build()
}

fn shared_buffer(run: &mut Run, first: squeue::Flags) -> Result<()> {
    run.pin_if_asked()?;
    let pipes = [pipe()?, pipe()?];
    let mut buffer = [0; BYTES];
    let mut ring = Ring::open(8, &DEFER)?;
    run.start()?;
    for _ in 0..run.count / 2 {
        ring.push(read(&pipes[0].0, &mut buffer).flags(first), BYTES as u32);
        ring.push(read(&pipes[1].0, &mut buffer), BYTES as u32);
        ring.submit()?;
        pipes.iter().try_for_each(|(_, to)| write_all(to.as_raw_fd(), &[7; BYTES]))?;
        ring.wait(2)?;
    }
    run.finish(ring);
    run.fact("overlapping", u64::from(run.count / 2));
    run.report.expected.other.max = run.report.completions();
    Ok(())
}

fn unregistered_in_flight(run: &mut Run) -> Result<()> {
    let count = run.count as usize;
    let mut buffers = vec![[0u8; BYTES]; count];
    let pipes: Vec<(OwnedFd, OwnedFd)> = (0..count).map(|_| pipe()).collect::<Result<_>>()?;
    let vectors: Vec<libc::iovec> =
        buffers.iter_mut().map(|b| libc::iovec { iov_base: b.as_mut_ptr().cast(), iov_len: BYTES }).collect();
    let mut ring = Ring::open(run.count, &[])?;
    // SAFETY: the buffers live until the ring is closed.
    unsafe { ring.uring.submitter().register_buffers(&vectors) }.context("registering buffers")?;
    run.start()?;
    for (i, ((from, _), buffer)) in pipes.iter().zip(&mut buffers).enumerate() {
        let read = opcode::ReadFixed::new(types::Fd(from.as_raw_fd()), buffer.as_mut_ptr(), BYTES as u32, i as u16);
        ring.push(read.offset(u64::MAX).build(), BYTES as u32);
    }
    ring.submit()?;
    std::thread::scope(|scope| -> Result<()> {
        // Before 6.13, the kernel waits for the reads before it releases the buffers.
        let writer = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            pipes.iter().try_for_each(|(_, to)| write_all(to.as_raw_fd(), &[7; BYTES]))
        });
        ring.uring.submitter().unregister_buffers().context("unregistering buffers")?;
        writer.join().expect("it does not panic")
    })?;
    ring.wait(run.count)?;
    run.finish(ring);
    run.fact("outlived", u64::from(run.count));
    run.report.expected.other.max = run.report.completions();
    Ok(())
}

fn one_at_a_time(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut ring = Ring::open(8, &DEFER)?;
    run.start()?;
    for _ in 0..run.count {
        ring.push(opcode::Nop::new().build(), 0);
        ring.enter(1, 1)?;
        ring.reap();
    }
    run.finish(ring);
    run.report.mostly("inline", 0.99);
    Ok(())
}
