//! pread and pwrite: a single I/O at a time, complete when `queue` returns.

use std::os::fd::RawFd;

use super::capabilities::{Completions, Engine, Nop, TargetKind, no_other_remedy};
use super::null::Nothing;
use super::{Io, Memory, Op, Opened, Opening, Queued, Submitter, last_error};
use crate::options::Commit;
use iotrail_base::error::Result;

pub static ENGINE: Engine = Engine {
    name: "sync",
    help: None,
    fio: &["psync", "sync"],
    target: TargetKind::File,
    ring: None,
    nop: Nop::Refused,
    completions: Completions::OwnCalls,
    completes_in_queue: true,
    one_in_flight: Some("pread and pwrite"),
    sleeps: true,
    synchronous_if_buffered: None,
    here: |_| Ok("pread and pwrite: needs nothing".into()),
    remedy: no_other_remedy,
};

pub struct Sync {
    fd: RawFd,
    memory: Memory,
    commit: Commit,
    syscalls: u64,
}

pub fn open(at: &Opening) -> Result<Opened<Sync, Nothing>> {
    Ok(Opened::ringless(Sync { fd: at.target()?, memory: at.job.memory, commit: at.job.commit, syscalls: 0 }, Nothing))
}

impl Submitter for Sync {
    fn queue(&mut self, io: &Io) -> Queued {
        let (buffer, bytes) = (self.memory.address(io.slot).cast(), self.memory.block_bytes as usize);
        loop {
            self.syscalls += 1;
            // SAFETY: the slot's buffer has `block_bytes` bytes, and is owned here until this call returns.
            let done = unsafe {
                match io.op {
                    Op::Read => libc::pread(self.fd, buffer, bytes, io.offset as libc::off_t),
                    Op::Write if self.commit == Commit::Dsync => {
                        let one = libc::iovec { iov_base: buffer, iov_len: bytes };
                        libc::pwritev2(self.fd, &raw const one, 1, io.offset as libc::off_t, libc::RWF_DSYNC)
                    }
                    Op::Write => libc::pwrite(self.fd, buffer, bytes, io.offset as libc::off_t),
                    Op::Nop => return Queued::Completed(-libc::EOPNOTSUPP),
                }
            };
            if done >= 0 {
                return Queued::Completed(done as i32);
            }
            // After -1, errno is always set; EIO is a fallback for a libc that does not set it.
            match last_error().raw_os_error().unwrap_or(libc::EIO) {
                libc::EINTR => continue,
                errno => return Queued::Completed(-errno),
            }
        }
    }

    fn sync(&mut self, data_only: bool) -> Queued {
        self.syscalls += 1;
        // SAFETY: these calls take a descriptor and no memory.
        let done = unsafe { if data_only { libc::fdatasync(self.fd) } else { libc::fsync(self.fd) } };
        Queued::Completed(if done == 0 { 0 } else { -last_error().raw_os_error().unwrap_or(libc::EIO) })
    }

    fn syscalls(&self) -> Option<u64> {
        Some(self.syscalls)
    }
}
