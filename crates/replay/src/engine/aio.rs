//! Native AIO, using raw system calls. It has no links; the submitting thread executes no-ops, sync_file_range and
//! fallocate itself.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use super::{Engine, Memory, errno, sync};
use crate::program::{Op, OpKind, Wait};
use iotrail_base::error::{Error, Result, errno_name};
use iotrail_load::engine::libaio::{Event, Iocb};

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_CMD_FSYNC: u16 = 2;
const IOCB_CMD_FDSYNC: u16 = 3;

pub(crate) struct Aio {
    context: u64,
    files: Box<[RawFd]>,
    memory: Memory,
    /// One iocb per slot; the kernel copies it on submission.
    blocks: Box<[Iocb]>,
    queued: Vec<*const Iocb>,
    events: Vec<Event>,
    done: VecDeque<(u32, i32)>,
    calls: u64,
}

impl Aio {
    pub fn open(files: &[RawFd], memory: Memory) -> Result<Self> {
        let mut context = 0u64;
        // SAFETY: the kernel writes a context ID, which must be 0 before.
        if unsafe { libc::syscall(libc::SYS_io_setup, memory.slots, &mut context) } != 0 {
            return Err(Error::machine(
                format!("cannot set up native aio for {} I/Os in flight: {}", memory.slots, errno_name(errno())),
                "as root: sysctl fs.aio-max-nr=1048576, or use a smaller --depth",
            ));
        }
        let slots = memory.slots as usize;
        Ok(Self {
            context,
            files: files.into(),
            memory,
            blocks: vec![Iocb::default(); slots].into(),
            queued: Vec::with_capacity(slots),
            events: vec![Event::default(); slots],
            done: VecDeque::with_capacity(slots),
            calls: 0,
        })
    }

    fn events(&mut self, min: u32, max: u32) -> Result<()> {
        self.calls += 1;
        let max = (max.max(min).max(1) as usize).min(self.events.len());
        let (context, events) = (self.context, self.events.as_mut_ptr());
        // SAFETY: memory for `max` events.
        let got = unsafe {
            libc::syscall(libc::SYS_io_getevents, context, min, max, events, std::ptr::null_mut::<libc::timespec>())
        };
        match got {
            n if n >= 0 => {
                self.done.extend(self.events[..n as usize].iter().map(|e| (e.data as u32, e.res as i32)));
                Ok(())
            }
            _ => match errno() {
                libc::EINTR => Ok(()),
                e => Err(Error::machine(
                    format!("io_getevents(2) failed in the replay: {}", errno_name(e)),
                    "use --engine sync",
                )),
            },
        }
    }
}

impl Engine for Aio {
    fn queue(&mut self, op: &Op, slot: u32) -> Result<()> {
        let opcode = match op.kind {
            OpKind::Read => IOCB_CMD_PREAD,
            OpKind::Write => IOCB_CMD_PWRITE,
            OpKind::Fsync if op.flags != 0 => IOCB_CMD_FDSYNC,
            OpKind::Fsync => IOCB_CMD_FSYNC,
            OpKind::Nop | OpKind::SyncFileRange | OpKind::Fallocate => {
                let result = sync::call(op, &self.files, self.memory.address(slot));
                self.done.push_back((slot, result));
                return Ok(());
            }
        };
        let moves = matches!(op.kind, OpKind::Read | OpKind::Write);
        let block = &mut self.blocks[slot as usize];
        *block = Iocb { data: u64::from(slot), opcode, fd: self.files[usize::from(op.file)] as u32, ..Iocb::default() };
        if moves {
            block.rw_flags = op.flags as i32;
            block.buf = self.memory.address(slot) as u64;
            block.nbytes = u64::from(op.len);
            block.offset = op.offset as i64;
        }
        self.queued.push(std::ptr::from_ref(block));
        Ok(())
    }

    fn submit(&mut self, min: u32, _gets_events: bool) -> Result<()> {
        while !self.queued.is_empty() {
            self.calls += 1;
            let (context, n, at) = (self.context, self.queued.len(), self.queued.as_ptr());
            // SAFETY: addresses of live iocbs, whose buffers live as long as this engine.
            match unsafe { libc::syscall(libc::SYS_io_submit, context, n, at) } {
                taken if taken > 0 => drop(self.queued.drain(..taken as usize)),
                _ => match errno() {
                    libc::EINTR => {}
                    // The context is full.
                    libc::EAGAIN => self.events(1, u32::MAX)?,
                    e => {
                        // The kernel rejected the first iocb; io_uring would post a completion with that error.
                        // SAFETY: the address of an iocb in `blocks`.
                        let slot = unsafe { (*self.queued.remove(0)).data } as u32;
                        self.done.push_back((slot, -e));
                    }
                },
            }
        }
        // Native AIO waits in a separate call.
        let ready = self.done.len() as u32;
        if min > ready { self.events(min - ready, u32::MAX) } else { Ok(()) }
    }

    fn available(&mut self) -> u32 {
        self.done.len() as u32
    }

    fn next(&mut self) -> Option<u32> {
        self.done.front().map(|(slot, _)| *slot)
    }

    fn take(&mut self) -> Option<(u32, i32)> {
        self.done.pop_front()
    }

    fn wait(&mut self, wait: Wait, min: u32, max: u32) -> Result<()> {
        self.events(if wait == Wait::Sleep { min } else { 0 }, max)
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // io_destroy waits for requests in flight.
        // SAFETY: this engine's context, which is not used again.
        let done = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        debug_assert_eq!(done, 0);
    }
}
