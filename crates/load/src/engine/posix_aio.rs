//! glibc's POSIX AIO: a user-space thread pool that calls pread and pwrite. glibc processes requests for the same
//! descriptor sequentially, so a job has at most one request at the device.
//!
//! glibc's threads make its system calls, which cannot be counted here.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::capabilities::{Completions, Engine, Nop, TargetKind, no_other_remedy};
use super::{Completion, Io, Memory, Op, Opened, Opening, Queued, Reaper, Submitter, Wait, last_error, time_left};
use iotrail_base::error::Result;
use iotrail_host::aio;

pub static ENGINE: Engine = Engine {
    name: "posix_aio",
    help: None,
    fio: &["posixaio"],
    target: TargetKind::File,
    ring: None,
    nop: Nop::Refused,
    completions: Completions::HelperCalls,
    completes_in_queue: false,
    one_in_flight: None,
    sleeps: true,
    synchronous_if_buffered: None,
    here: |_| aio::posix().map(|()| "glibc's: a read was done by its helper thread".into()),
    remedy: no_other_remedy,
};

/// One control block per slot. glibc owns a block from `submit` until its result is taken. At all other times the half
/// that holds the slot owns it: the submitting half until it sets `busy`, the reaping half from then until it clears
/// `busy`.
struct Blocks {
    blocks: Box<[UnsafeCell<libc::aiocb>]>,
    busy: Box<[AtomicBool]>,
}

// SAFETY: `busy` determines which half may access a block (see above); it is set and cleared with release ordering.
unsafe impl Send for Blocks {}
// SAFETY: as above.
unsafe impl Sync for Blocks {}

pub fn open(at: &Opening) -> Result<Opened<Submit, Reap>> {
    let (fd, job) = (at.target()?, &at.job);
    let slots = job.memory.slots as usize;
    // SAFETY: a plain C structure, valid when zeroed.
    let empty = || unsafe { std::mem::zeroed::<libc::aiocb>() };
    let blocks = Arc::new(Blocks {
        blocks: (0..slots).map(|_| UnsafeCell::new(empty())).collect(),
        busy: (0..slots).map(|_| AtomicBool::new(false)).collect(),
    });
    let submit = Submit {
        blocks: Arc::clone(&blocks),
        fd,
        memory: job.memory,
        queued: Vec::with_capacity(job.batch as usize),
        slots: Vec::with_capacity(job.batch as usize),
    };
    Ok(Opened::ringless(submit, Reap { blocks, waiting: Vec::with_capacity(slots) }))
}

/// The submitting half.
pub struct Submit {
    blocks: Arc<Blocks>,
    fd: RawFd,
    memory: Memory,
    /// Queued blocks, and their slots.
    queued: Vec<*mut libc::aiocb>,
    slots: Vec<u32>,
}

// SAFETY: the addresses point into the shared blocks, whose ownership is documented at `Blocks`.
unsafe impl Send for Submit {}

impl Submitter for Submit {
    fn queue(&mut self, io: &Io) -> Queued {
        let opcode = match io.op {
            Op::Read => libc::LIO_READ,
            Op::Write => libc::LIO_WRITE,
            Op::Nop => return Queued::Completed(-libc::EOPNOTSUPP),
        };
        let block = self.blocks.blocks[io.slot as usize].get();
        // SAFETY: the slot is free, so this half owns the block: neither glibc nor the other half accesses it.
        unsafe {
            block.write(std::mem::zeroed());
            (*block).aio_fildes = self.fd;
            (*block).aio_lio_opcode = opcode;
            (*block).aio_buf = self.memory.address(io.slot).cast();
            (*block).aio_nbytes = self.memory.block_bytes as usize;
            (*block).aio_offset = io.offset as libc::off_t;
            (*block).aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        }
        self.queued.push(block);
        self.slots.push(io.slot);
        Queued::Queued
    }

    fn submit(&mut self) -> io::Result<()> {
        if self.queued.is_empty() {
            return Ok(());
        }
        // SAFETY: live blocks with live buffers, which stay until their results are taken; no notification is
        // requested.
        let done = unsafe {
            match self.queued[..] {
                [block] if (*block).aio_lio_opcode == libc::LIO_READ => libc::aio_read(block),
                [block] => libc::aio_write(block),
                _ => libc::lio_listio(
                    libc::LIO_NOWAIT,
                    self.queued.as_ptr(),
                    self.queued.len() as libc::c_int,
                    std::ptr::null_mut(),
                ),
            }
        };
        if done != 0 {
            // Which requests were accepted is unknown; aio_error reports it for each, except after EAGAIN for a single
            // request.
            let e = last_error();
            if self.queued.len() == 1 || !matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EIO | libc::EINTR)) {
                if e.raw_os_error() == Some(libc::EAGAIN) {
                    return Ok(()); // stays queued
                }
                return Err(e);
            }
        }
        for slot in self.slots.drain(..) {
            // Release: the block is filled before the other half reads it.
            self.blocks.busy[slot as usize].store(true, Ordering::Release);
        }
        self.queued.clear();
        Ok(())
    }

    fn pending(&self) -> u32 {
        self.queued.len() as u32
    }

    fn syscalls(&self) -> Option<u64> {
        None
    }
}

/// The reaping half.
pub struct Reap {
    blocks: Arc<Blocks>,
    /// Blocks that the last poll found incomplete, for aio_suspend.
    waiting: Vec<*const libc::aiocb>,
}

// SAFETY: as for `Submit`.
unsafe impl Send for Reap {}

impl Reap {
    /// Takes all complete requests; the rest are stored in `waiting`.
    fn look(&mut self, out: &mut Vec<Completion>) -> u32 {
        self.waiting.clear();
        let mut found = 0;
        for (slot, busy) in self.blocks.busy.iter().enumerate() {
            if !busy.load(Ordering::Acquire) {
                continue;
            }
            let block = self.blocks.blocks[slot].get();
            // SAFETY: the request was submitted and not taken, so glibc knows the block.
            let errno = unsafe { libc::aio_error(block) };
            if errno == libc::EINPROGRESS {
                self.waiting.push(block);
                continue;
            }
            // SAFETY: the request is complete, and its result is taken once.
            let moved = unsafe { libc::aio_return(block) };
            busy.store(false, Ordering::Release);
            let result = if errno == 0 { moved as i32 } else { -errno };
            out.push(Completion { slot: slot as u32, result });
            found += 1;
        }
        found
    }
}

impl Reaper for Reap {
    fn poll(&mut self, min: u32, wait: Wait, deadline: Option<Instant>, out: &mut Vec<Completion>) -> io::Result<()> {
        let mut found = self.look(out);
        while found < min && deadline.is_none_or(|d| Instant::now() < d) {
            match wait {
                Wait::Peek => std::hint::spin_loop(),
                Wait::Block => {
                    let timeout = deadline.map(time_left);
                    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
                    // SAFETY: live blocks, owned by glibc or complete; a null or live timeout.
                    let done =
                        unsafe { libc::aio_suspend(self.waiting.as_ptr(), self.waiting.len() as libc::c_int, timeout) };
                    if done != 0 {
                        match last_error() {
                            e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
                            e => return Err(e),
                        }
                    }
                }
            }
            found += self.look(out);
        }
        Ok(())
    }

    fn syscalls(&self) -> Option<u64> {
        None
    }
}
