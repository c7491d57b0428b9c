//! Memory that the kernel cannot use for a request.

use anyhow::{Context, Result, ensure};
use io_uring::{opcode, types};

use crate::load::{BLOCK, Memory, groups};
use crate::ring::Ring;
use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[Scenario {
    name: "bad_buffers",
    about: "of 8 cached reads: one into a page that is not mapped any more, one with a registered buffer that does not exist",
    finding: Some("bad_buffers"),
    allowed: &[],
    count: 2_400,
    run: bad_buffers,
}];

fn bad_buffers(run: &mut Run) -> Result<()> {
    run.pin_if_asked()?;
    let mut target = run.cached()?;
    let mut ring = Ring::open(8, &[])?;
    let registered = vec![0u8; BLOCK];
    let only = [libc::iovec { iov_base: registered.as_ptr().cast_mut().cast(), iov_len: BLOCK }];
    // SAFETY: the buffer outlives its use by the ring, and its contents are not read.
    unsafe { ring.uring.submitter().register_buffers(&only) }.context("registering a buffer")?;
    run.start()?;
    let gone = unmapped()?;
    let (mut number, mut first) = (0, [0u64; 2]);
    groups(run.count, 8, |group| {
        for index in 0..group {
            number += 1;
            let (offset, buffer, file) = (target.offset(), target.buffer(), types::Fd(target.fd()));
            let length = BLOCK as u32;
            let fixed = |index| {
                let into = registered.as_ptr().cast_mut();
                opcode::ReadFixed::new(file, into, length, index).offset(offset).build()
            };
            let read = match index {
                0 => opcode::Read::new(file, gone, length).offset(offset).build(),
                1 => fixed(1),
                2 => fixed(0),
                _ => opcode::Read::new(file, buffer, length).offset(offset).build(),
            };
            if let Some(first) = first.get_mut(index as usize).filter(|first| **first == 0) {
                *first = number;
            }
            ring.push(read, length);
        }
        // Before 6.15, a request with an unregistered buffer is rejected before submission, which ends the call.
        let taken = ring.enter(group, 0)?;
        ring.refused(u64::from(taken < group));
        ring.submit()?;
        ring.wait(group)
    })?;
    run.finish(ring);
    run.fact("first_unmapped", first[0]);
    run.fact("first_unregistered", first[1]);
    run.report.all("inline");
    Ok(())
}

/// The address of a page that is no longer mapped.
fn unmapped() -> Result<*mut u8> {
    // The middle of three pages: later mappings do not fit there, except a single page, and none is mapped from here
    // on.
    let pages = Memory::new(3)?;
    let gone = pages.page(1);
    // SAFETY: an owned page whose address only the kernel has; drop unmaps the other pages.
    unsafe { ensure!(libc::munmap(gone.cast(), BLOCK) == 0, std::io::Error::last_os_error()) };
    std::mem::forget(pages);
    Ok(gone)
}
