//! Submission entries: the fields common to a job's I/Os, and those of each kind.

use linux_raw_sys::io_uring as sys;

use super::Config;
use crate::engine::{Io, Job, Memory, Op};
use crate::options::Commit;

/// Builds submission entries of one kind.
pub trait Entry: Send {
    /// Fills a submission entry in place.
    ///
    /// # Safety
    /// `at` is an entry of the ring's size that the caller owns.
    unsafe fn fill(&self, at: *mut sys::io_uring_sqe, io: &Io);
}

/// The parts of a submission entry that are the same for every I/O of a job, regardless of its kind.
pub(super) struct Common {
    pub memory: Memory,
    fd: i32,
    flags: u8,
    /// Flags of a write (RWF_…).
    rw_flags: u32,
    pub fixed_buffers: bool,
}

impl Common {
    pub fn new(config: &Config, job: &Job) -> Self {
        let mut flags = 0;
        if config.register_files {
            flags |= FIXED_FILE;
        }
        if config.force_async {
            flags |= 1 << sys::io_uring_sqe_flags_bit::IOSQE_ASYNC_BIT as u8;
        }
        Self {
            memory: job.memory,
            // If registered, the index of the only file. Without a target, only no-ops are queued, which use no file.
            fd: if config.register_files { 0 } else { job.fd.unwrap_or(-1) },
            flags,
            rw_flags: if job.commit == Commit::Dsync { libc::RWF_DSYNC as u32 } else { 0 },
            fixed_buffers: config.register_buffers,
        }
    }

    /// The file's descriptor or index, and the flags of all entries.
    pub fn file(&self) -> (i32, u8) {
        (self.fd, self.flags)
    }

    /// Fills in the common fields. A no-op needs no others, because IORING_OP_NOP is 0.
    #[inline]
    pub fn fill(&self, sqe: &mut sys::io_uring_sqe, io: &Io) {
        sqe.flags = self.flags;
        sqe.fd = self.fd;
        sqe.user_data = u64::from(io.slot);
    }
}

/// IORING_OP_READ and IORING_OP_WRITE, or their fixed forms.
pub struct ReadWrite(pub(super) Common);

impl Entry for ReadWrite {
    #[inline]
    unsafe fn fill(&self, at: *mut sys::io_uring_sqe, io: &Io) {
        use sys::io_uring_op::*;
        // SAFETY: the caller owns the entry; a plain C structure, valid when zeroed.
        let sqe = unsafe {
            at.write_bytes(0, 1);
            &mut *at
        };
        let common = &self.0;
        common.fill(sqe, io);
        let fixed = common.fixed_buffers;
        sqe.opcode = match io.op {
            Op::Nop => return,
            Op::Read if fixed => IORING_OP_READ_FIXED,
            Op::Read => IORING_OP_READ,
            Op::Write if fixed => IORING_OP_WRITE_FIXED,
            Op::Write => IORING_OP_WRITE,
        } as u8;
        sqe.__bindgen_anon_1.off = io.offset;
        sqe.__bindgen_anon_2.addr = common.memory.address(io.slot) as u64;
        sqe.len = common.memory.block_bytes;
        if io.op == Op::Write {
            sqe.__bindgen_anon_3.rw_flags = common.rw_flags;
        }
        if fixed {
            // At most 16,384 buffers can be registered; otherwise `open` failed.
            sqe.__bindgen_anon_4.buf_index = io.slot as u16;
        }
    }
}

/// Marks an fsync in its user data.
pub(super) const SYNC: u64 = 1 << 32;

/// Fills in an fsync of the file at `fd`. `flags` are IOSQE_…; `of` is the user data of the linked write, or 0.
///
/// # Safety
/// `at` is an owned entry of a ring.
pub(super) unsafe fn fill_sync(at: *mut sys::io_uring_sqe, fd: i32, flags: u8, of: u64, data_only: bool) {
    // SAFETY: the caller owns the entry; a plain C structure, valid when zeroed.
    let sync = unsafe {
        at.write_bytes(0, 1);
        &mut *at
    };
    sync.opcode = sys::io_uring_op::IORING_OP_FSYNC as u8;
    sync.flags = flags & FIXED_FILE;
    sync.fd = fd;
    sync.__bindgen_anon_3.fsync_flags = if data_only { sys::IORING_FSYNC_DATASYNC } else { 0 };
    sync.user_data = of | SYNC;
}

const FIXED_FILE: u8 = 1 << sys::io_uring_sqe_flags_bit::IOSQE_FIXED_FILE_BIT as u8;

/// Links an fsync at `at` after the write at `write`. Only one of them has a completion: the fsync, or the write if it fails or is
/// short, since it skips its completion on success.
///
/// # Safety
/// Both are owned entries of a ring; the first contains a write.
pub(super) unsafe fn link_sync(write: *mut sys::io_uring_sqe, at: *mut sys::io_uring_sqe) {
    use sys::io_uring_sqe_flags_bit::{IOSQE_CQE_SKIP_SUCCESS_BIT, IOSQE_IO_LINK_BIT};
    // SAFETY: the caller owns the entry.
    let write = unsafe { &mut *write };
    // SAFETY: as above.
    unsafe { fill_sync(at, write.fd, write.flags, write.user_data, true) };
    write.flags |= 1 << IOSQE_IO_LINK_BIT as u8 | 1 << IOSQE_CQE_SKIP_SUCCESS_BIT as u8;
}
