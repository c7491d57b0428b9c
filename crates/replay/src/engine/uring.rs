//! io_uring, with the recorded setup flags or those of a variant.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use linux_raw_sys::io_uring as sys;

use super::{Engine, Memory};
use crate::program::{Op, OpKind, Wait};
use iotrail_base::error::{Error, Result, errno_name};
use iotrail_load::engine::io_uring::ring::{Handle, Ring};

/// Recorded flags that a replay never sets: SQPOLL, attaching to other rings, user-provided memory, entries of a
/// different size.
const NEVER: u32 = sys::IORING_SETUP_SQPOLL
    | sys::IORING_SETUP_SQ_AFF
    | sys::IORING_SETUP_ATTACH_WQ
    | sys::IORING_SETUP_R_DISABLED
    | sys::IORING_SETUP_SQE128
    | sys::IORING_SETUP_CQE32
    | sys::IORING_SETUP_NO_MMAP
    | sys::IORING_SETUP_REGISTERED_FD_ONLY;

/// How to set up a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    pub sq_entries: u32,
    pub cq_entries: u32,
    pub flags: u32,
    pub register_files: bool,
    pub register_buffers: bool,
}

pub(crate) struct Uring {
    ring: Ring,
    handle: Handle,
    files: Box<[RawFd]>,
    memory: Memory,
    setup: Setup,
    /// Each poll needs a system call, because task work is deferred or the device is polled.
    looks_by_call: bool,
    sq_tail: u32,
    queued: u32,
    cq_head: u32,
    cq_tail: u32,
    calls: u64,
}

impl Uring {
    /// Must be called on the submitting thread (SINGLE_ISSUER). The memory must outlive the ring.
    pub fn open(setup: Setup, files: &[RawFd], memory: Memory) -> Result<Self> {
        let refused = |e: std::io::Error| {
            Error::machine("cannot set up an io_uring for the replay", "see `iotrail check`, or use --engine sync")
                .because(e)
        };
        let mut flags = setup.flags & !NEVER;
        let sq = setup.sq_entries.clamp(1, 32768).next_power_of_two();
        // SAFETY: a plain C structure, valid when zeroed.
        let mut params: sys::io_uring_params = unsafe { std::mem::zeroed() };
        if setup.cq_entries > sq * 2 {
            flags |= sys::IORING_SETUP_CQSIZE;
            params.cq_entries = setup.cq_entries.min(65536);
        } else {
            flags &= !sys::IORING_SETUP_CQSIZE;
        }
        params.flags = flags;
        let ring = Ring::open(sq, params).map_err(refused)?;
        let handle = Handle::by_descriptor(&ring);
        if setup.register_files && !files.is_empty() {
            // SAFETY: an array of live descriptors.
            let done = unsafe {
                let op = sys::io_uring_register_op::IORING_REGISTER_FILES;
                ring.register(op, files.as_ptr().cast(), files.len() as u32)
            };
            done.map_err(|e| Error::machine("cannot register the files", "remove files from --register").because(e))?;
        }
        if setup.register_buffers {
            let vectors: Vec<libc::iovec> = (0..memory.slots)
                .map(|slot| libc::iovec { iov_base: memory.address(slot).cast(), iov_len: memory.stride })
                .collect();
            // SAFETY: an array of live buffers, which outlive the ring.
            let done = unsafe {
                let op = sys::io_uring_register_op::IORING_REGISTER_BUFFERS;
                ring.register(op, vectors.as_ptr().cast(), vectors.len() as u32)
            };
            done.map_err(|e| {
                Error::machine("cannot register the buffers", "raise `ulimit -l`, or remove buffers from --register")
                    .because(e)
            })?;
        }
        let looks_by_call = ring.params.flags & (sys::IORING_SETUP_DEFER_TASKRUN | sys::IORING_SETUP_IOPOLL) != 0;
        let (sq_tail, cq_head) = (ring.sq_tail().load(Ordering::Relaxed), ring.cq_head().load(Ordering::Relaxed));
        Ok(Self {
            ring,
            handle,
            files: files.into(),
            memory,
            setup,
            looks_by_call,
            sq_tail,
            queued: 0,
            cq_head,
            cq_tail: cq_head,
            calls: 0,
        })
    }

    fn enter(&mut self, submit: u32, min: u32, flags: u32) -> Result<u32> {
        self.calls += 1;
        match self.handle.enter(submit, min, flags) {
            Ok(n) => Ok(n),
            Err(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(0),
            Err(e) => Err(Error::machine(
                format!("io_uring_enter(2) failed in the replay: {}", errno_name(e)),
                "see `iotrail check`, or use --engine sync",
            )),
        }
    }
}

impl Engine for Uring {
    #[inline]
    fn queue(&mut self, op: &Op, slot: u32) -> Result<()> {
        use sys::io_uring_op::*;
        if self.queued == self.ring.params.sq_entries {
            self.submit(0, false)?;
        }
        // SAFETY: fewer than all entries are queued, so this one is owned here; a plain C structure, valid when zeroed.
        let sqe = unsafe {
            let at = self.ring.sqe(self.sq_tail);
            at.write_bytes(0, 1);
            &mut *at
        };
        sqe.user_data = u64::from(slot);
        sqe.flags = op.sqe_flags;
        let fixed = self.setup.register_buffers;
        if op.kind != OpKind::Nop {
            if self.setup.register_files {
                sqe.flags |= 1 << sys::io_uring_sqe_flags_bit::IOSQE_FIXED_FILE_BIT as u8;
                sqe.fd = i32::from(op.file);
            } else {
                sqe.fd = self.files[usize::from(op.file)];
            }
            sqe.__bindgen_anon_1.off = op.offset;
            sqe.len = op.len;
        }
        sqe.opcode = match op.kind {
            OpKind::Nop => IORING_OP_NOP,
            OpKind::Read | OpKind::Write => {
                sqe.__bindgen_anon_2.addr = self.memory.address(slot) as u64;
                sqe.__bindgen_anon_3.rw_flags = op.flags as _;
                if fixed {
                    sqe.__bindgen_anon_4.buf_index = slot as u16;
                }
                match (op.kind, fixed) {
                    (OpKind::Read, false) => IORING_OP_READ,
                    (OpKind::Read, true) => IORING_OP_READ_FIXED,
                    (_, false) => IORING_OP_WRITE,
                    (_, true) => IORING_OP_WRITE_FIXED,
                }
            }
            OpKind::Fsync => {
                sqe.__bindgen_anon_3.fsync_flags = op.flags;
                IORING_OP_FSYNC
            }
            OpKind::SyncFileRange => {
                sqe.__bindgen_anon_3.sync_range_flags = op.flags;
                IORING_OP_SYNC_FILE_RANGE
            }
            OpKind::Fallocate => {
                // fallocate passes the length in the address field, and the mode in the length field.
                sqe.__bindgen_anon_2.addr = u64::from(op.len);
                sqe.len = op.flags;
                IORING_OP_FALLOCATE
            }
        } as u8;
        self.sq_tail = self.sq_tail.wrapping_add(1);
        self.queued += 1;
        Ok(())
    }

    #[inline]
    fn submit(&mut self, min: u32, gets_events: bool) -> Result<()> {
        // Release: the entries are written before the kernel sees the tail.
        self.ring.sq_tail().store(self.sq_tail, Ordering::Release);
        let flags = if gets_events || min > 0 { sys::IORING_ENTER_GETEVENTS } else { 0 };
        let mut idle = 0;
        while self.queued > 0 {
            let taken = self.enter(self.queued, min, flags)?;
            self.queued -= taken.min(self.queued);
            idle = if taken == 0 { idle + 1 } else { 0 };
            if idle > MOST_REFUSALS {
                return Err(Error::machine(
                    "the kernel accepts no more requests from the replay",
                    "use a smaller --depth",
                ));
            }
        }
        Ok(())
    }

    #[inline]
    fn available(&mut self) -> u32 {
        if self.cq_tail == self.cq_head {
            // Acquire: the entries up to the tail have been written.
            self.cq_tail = self.ring.cq_tail().load(Ordering::Acquire);
        }
        self.cq_tail.wrapping_sub(self.cq_head)
    }

    #[inline]
    fn next(&mut self) -> Option<u32> {
        // SAFETY: the head is before a tail that was read with acquire order.
        (self.available() > 0).then(|| unsafe { self.ring.cqe(self.cq_head) }.0 as u32)
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, i32)> {
        if self.available() == 0 {
            return None;
        }
        // SAFETY: the head is before a tail read with acquire ordering.
        let (slot, result, _) = unsafe { self.ring.cqe(self.cq_head) };
        self.cq_head = self.cq_head.wrapping_add(1);
        // Release: the entry is read before the kernel may overwrite it.
        self.ring.cq_head().store(self.cq_head, Ordering::Release);
        Some((slot as u32, result))
    }

    #[inline]
    fn wait(&mut self, wait: Wait, min: u32, _max: u32) -> Result<()> {
        let min = if wait == Wait::Sleep { min } else { 0 };
        if wait == Wait::Peek && !self.looks_by_call {
            let flags = self.ring.sq_flags().load(Ordering::Relaxed);
            if flags & (sys::IORING_SQ_TASKRUN | sys::IORING_SQ_CQ_OVERFLOW) == 0 {
                std::hint::spin_loop();
                return Ok(());
            }
        }
        self.enter(0, min, sys::IORING_ENTER_GETEVENTS).map(drop)
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}

/// Maximum number of consecutive calls that accept no request.
const MOST_REFUSALS: u32 = 10_000;
