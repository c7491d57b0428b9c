//! Waits for the exit of a process with a pidfd, which is not affected by PID reuse.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{self, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A pidfd. It becomes readable when all threads of the process have exited.
#[derive(Debug)]
pub struct End(OwnedFd);

impl End {
    /// Opens the process with this PID in iotrail's namespace. Linux 5.3 or later.
    pub fn of(tgid: u32) -> io::Result<Self> {
        Ok(End(pidfd_open(pid(tgid)?, PidfdFlags::empty())?))
    }

    pub fn is_there(&self) -> bool {
        poll(&mut [self.entry()], Duration::ZERO)
    }

    /// Sends a signal unless the process has exited.
    pub fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.0, signal).unwrap_or(());
    }

    fn entry(&self) -> PollFd<'_> {
        PollFd::new(&self.0, PollFlags::IN)
    }
}

/// Converts a PID to the kernel's type, if it is in range.
pub(crate) fn pid(tgid: u32) -> io::Result<Pid> {
    Ok(i32::try_from(tgid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?)
}

/// Waits until one of the processes has exited, for at most `patience`. A signal also ends the wait.
pub fn wait<'a>(ends: impl Iterator<Item = &'a End>, patience: Duration) {
    poll(&mut ends.filter(|end| !end.is_there()).map(End::entry).collect::<Vec<_>>(), patience);
}

fn poll(entries: &mut [PollFd<'_>], patience: Duration) -> bool {
    // A timeout too large for the type means infinity.
    event::poll(entries, Timespec::try_from(patience).ok().as_ref()).is_ok_and(|ready| ready > 0)
}
