//! The end of a process, waited for without taking its number for it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A process's end: a descriptor that becomes readable when all its threads have ended.
#[derive(Debug)]
pub struct End(OwnedFd);

impl End {
    /// Of the process with this number in our PID namespace. Linux 5.3 or later.
    pub fn of(tgid: u32) -> io::Result<Self> {
        // SAFETY: a plain system call without pointers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tgid as libc::pid_t, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened, for us alone.
        Ok(End(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    pub fn is_there(&self) -> bool {
        poll(&mut [self.entry()], Duration::ZERO)
    }

    fn entry(&self) -> libc::pollfd {
        libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 }
    }
}

/// Waits for one of the ends that are not there yet, so long at most; a signal ends it too.
pub fn wait<'a>(ends: impl Iterator<Item = &'a End>, patience: Duration) {
    poll(&mut ends.filter(|end| !end.is_there()).map(End::entry).collect::<Vec<_>>(), patience);
}

fn poll(entries: &mut [libc::pollfd], patience: Duration) -> bool {
    // Rounded up, so that no last fraction of a millisecond is spun away.
    let ms = patience.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
    // SAFETY: live entries, and their number.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, ms) > 0 }
}
