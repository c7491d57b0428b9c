//! pread and pwrite: one I/O at a time, complete when `queue` returns.

use std::os::fd::RawFd;

use super::null::Nothing;
use super::{Io, Job, Memory, Op, Queued, Submitter, last_error};

pub struct Sync {
    fd: RawFd,
    memory: Memory,
    syscalls: u64,
}

/// `fd` is the target: pread and pwrite need one.
pub fn open(job: &Job, fd: RawFd) -> (Sync, Nothing) {
    (Sync { fd, memory: job.memory, syscalls: 0 }, Nothing)
}

impl Submitter for Sync {
    fn queue(&mut self, io: &Io) -> Queued {
        let (buffer, bytes) = (self.memory.address(io.slot).cast(), self.memory.block_bytes as usize);
        loop {
            self.syscalls += 1;
            // SAFETY: the slot's buffer has `block_bytes` bytes and is ours until this call returns.
            let done = unsafe {
                match io.op {
                    Op::Read => libc::pread(self.fd, buffer, bytes, io.offset as libc::off_t),
                    Op::Write => libc::pwrite(self.fd, buffer, bytes, io.offset as libc::off_t),
                    Op::Nop => return Queued::Completed(-libc::EOPNOTSUPP),
                }
            };
            if done >= 0 {
                return Queued::Completed(done as i32);
            }
            // An errno is always set after -1; EIO stands for a libc that forgot.
            match last_error().raw_os_error().unwrap_or(libc::EIO) {
                libc::EINTR => continue,
                errno => return Queued::Completed(-errno),
            }
        }
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }
}
