//! Waits for the end of a process by a pidfd, so that a reused PID is no problem.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{self, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A pidfd: it becomes readable when all threads of the process have ended.
#[derive(Debug)]
pub struct End(OwnedFd);

impl End {
    /// Of the process with this PID in iotrail's PID namespace. Linux 5.3 or later.
    pub fn of(tgid: u32) -> io::Result<Self> {
        Ok(End(pidfd_open(pid(tgid)?, PidfdFlags::empty())?))
    }

    pub fn is_there(&self) -> bool {
        poll(&mut [self.entry()], Duration::ZERO)
    }

    /// Sends a signal to a process that has not ended.
    pub fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.0, signal).unwrap_or(());
    }

    fn entry(&self) -> PollFd<'_> {
        PollFd::new(&self.0, PollFlags::IN)
    }
}

/// Converts a PID for the kernel, if it is in range.
pub(crate) fn pid(tgid: u32) -> io::Result<Pid> {
    Ok(i32::try_from(tgid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?)
}

/// Waits up to this time for one of the processes that have not ended; a signal ends the wait too.
pub fn wait<'a>(ends: impl Iterator<Item = &'a End>, patience: Duration) {
    poll(&mut ends.filter(|end| !end.is_there()).map(End::entry).collect::<Vec<_>>(), patience);
}

fn poll(entries: &mut [PollFd<'_>], patience: Duration) -> bool {
    // A timeout too large for the type is infinite.
    event::poll(entries, Timespec::try_from(patience).ok().as_ref()).is_ok_and(|ready| ready > 0)
}
