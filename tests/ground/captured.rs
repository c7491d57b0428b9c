//! Rounds of requests and calls with known order, offsets, flags and reap counts, for recordings to be replayed.

use std::fs::OpenOptions;
use std::io::{PipeReader, PipeWriter, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context, Result, ensure};
use io_uring::{EnterFlags, IoUring, opcode, squeue, types};

use crate::run::{Run, Scenario};

pub const SCENARIOS: &[Scenario] = &[Scenario {
    name: "captured",
    about: "rounds of batches, a chain, registered buffers, a pipe, and synchronous reads, writes and syncs of one file",
    finding: None,
    allowed: &[],
    count: 50,
    run: captured,
}];

pub const NAME: &str = "known.dat";
const FILE_BYTES: usize = 1 << 20;

/// Enters with exactly these numbers, then reaps this many completions.
fn enter(ring: &mut IoUring, submit: u32, wait: u32, reap: usize) -> Result<()> {
    ring.submission().sync();
    let flags = if wait > 0 { EnterFlags::GETEVENTS.bits() } else { 0 };
    // SAFETY: passes no argument; files and buffers live as long as the ring.
    let taken = unsafe { ring.submitter().enter::<libc::sigset_t>(submit, wait, flags, None) }?;
    ensure!(taken == submit as usize, "{taken} of {submit} submitted");
    let reaped = ring.completion().take(reap).filter(|cqe| cqe.result() >= 0).count();
    ensure!(reaped == reap, "{reaped} of {reap} reaped");
    Ok(())
}

fn captured(run: &mut Run) -> Result<()> {
    let path = run.folder()?.join(NAME);
    std::fs::write(&path, vec![1; FILE_BYTES]).context("writing the file")?;
    let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
    let (mut from, to): (PipeReader, PipeWriter) = std::io::pipe()?;
    let mut memory = vec![2_u8; 1 << 16];
    let at = memory.as_mut_ptr();
    let mut ring = IoUring::new(8)?;
    let parts = [(0, 4096), (8192, 8192)].map(|(offset, len)| libc::iovec {
        // SAFETY: within the buffer.
        iov_base: unsafe { at.add(offset) }.cast(),
        iov_len: len,
    });
    // SAFETY: the buffers live as long as the ring.
    unsafe { ring.submitter().register_buffers(&parts) }.context("registering buffers")?;
    let fd = types::Fd(file.as_raw_fd());
    let push = |ring: &mut IoUring, entry: squeue::Entry| -> Result<()> {
        // SAFETY: as above.
        unsafe { ring.submission().push(&entry) }.context("the submission queue is full")
    };
    run.start()?;
    for round in 0..u64::from(run.count) {
        for i in 0..4 {
            push(&mut ring, opcode::Read::new(fd, at, 4096).offset((round + i) * 4096).build())?;
        }
        enter(&mut ring, 4, 4, 4)?;
        let write = opcode::Write::new(fd, at, 512).offset(8192).build().flags(squeue::Flags::IO_LINK);
        push(&mut ring, write)?;
        push(&mut ring, opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build())?;
        enter(&mut ring, 2, 2, 1)?;
        // One completion is awaited.
        push(&mut ring, opcode::Nop::new().build().flags(squeue::Flags::ASYNC))?;
        enter(&mut ring, 1, 0, 0)?;
        enter(&mut ring, 0, 2, 2)?;
        push(&mut ring, opcode::ReadFixed::new(fd, parts[1].iov_base.cast(), 8192, 1).offset(0).build())?;
        let two = [parts[0], parts[1]];
        push(&mut ring, opcode::Readv::new(fd, two.as_ptr(), 2).offset(4096).build())?;
        push(&mut ring, opcode::Write::new(types::Fd(to.as_raw_fd()), at, 16).build())?;
        enter(&mut ring, 3, 3, 3)?;
        from.read_exact(&mut [0; 16])?;
        ensure!(file.read_at(&mut [0; 100], 12_345)? == 100);
        file.seek(SeekFrom::Start(100))?;
        ensure!(file.read(&mut [0; 10])? == 10 && file.read(&mut [0; 10])? == 10);
        let vectors = [(0, 100), (100, 28)].map(|(offset, iov_len)| libc::iovec {
            // SAFETY: within the buffer.
            iov_base: unsafe { at.add(offset) }.cast(),
            iov_len,
        });
        // SAFETY: the vectors are within the buffer.
        let written = unsafe { libc::pwritev2(file.as_raw_fd(), vectors.as_ptr(), 2, 4096, libc::RWF_DSYNC) };
        ensure!(written == 128, "{written} bytes written");
        file.sync_data()?;
        file.sync_all()?;
    }
    Ok(())
}
