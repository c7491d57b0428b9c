//! Synchronous calls.

use std::os::fd::RawFd;

use linux_raw_sys::io_uring as sys;

use super::errno;
use crate::program::{Op, OpKind};

/// Executes one request as a system call. A negative result is an errno.
pub(crate) fn call(op: &Op, files: &[RawFd], memory: *mut u8) -> i32 {
    if op.kind == OpKind::Nop {
        return 0;
    }
    let (fd, len, offset) = (files[usize::from(op.file)], op.len as usize, op.offset as libc::off_t);
    let vector = libc::iovec { iov_base: memory.cast(), iov_len: len };
    // SAFETY: a live descriptor, and memory of at least `len` bytes, because the buffer fits the longest request.
    let done = unsafe {
        match op.kind {
            OpKind::Read if op.flags == 0 => libc::pread(fd, memory.cast(), len, offset),
            OpKind::Write if op.flags == 0 => libc::pwrite(fd, memory.cast(), len, offset),
            OpKind::Read => libc::preadv2(fd, &vector, 1, offset, op.flags as i32),
            OpKind::Write => libc::pwritev2(fd, &vector, 1, offset, op.flags as i32),
            OpKind::Fsync if op.flags & sys::IORING_FSYNC_DATASYNC != 0 => libc::fdatasync(fd) as isize,
            OpKind::Fsync => libc::fsync(fd) as isize,
            OpKind::SyncFileRange => libc::sync_file_range(fd, offset, op.len.into(), op.flags) as isize,
            OpKind::Fallocate => libc::fallocate(fd, op.flags as i32, offset, op.len.into()) as isize,
            OpKind::Nop => 0,
        }
    };
    if done < 0 { -errno() } else { i32::try_from(done).unwrap_or(i32::MAX) }
}
