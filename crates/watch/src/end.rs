//! The end of a process, waited for without taking its number for it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{self, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process's end: a descriptor that becomes readable when all its threads have ended.
#[derive(Debug)]
pub struct End(OwnedFd);

impl End {
    /// Of the process with this number in our PID namespace. Linux 5.3 or later.
    pub fn of(tgid: u32) -> io::Result<Self> {
        Ok(End(pidfd_open(pid(tgid)?, PidfdFlags::empty())?))
    }

    pub fn is_there(&self) -> bool {
        poll(&mut [self.entry()], Duration::ZERO)
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.0, signal).unwrap_or(());
    }

    fn entry(&self) -> PollFd<'_> {
        PollFd::new(&self.0, PollFlags::IN)
    }
}

/// As the kernel takes it, where it can be one.
pub(crate) fn pid(tgid: u32) -> io::Result<Pid> {
    Ok(i32::try_from(tgid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?)
}

/// Waits for one of the ends that are not there yet, so long at most; a signal ends it too.
pub fn wait<'a>(ends: impl Iterator<Item = &'a End>, patience: Duration) {
    poll(&mut ends.filter(|end| !end.is_there()).map(End::entry).collect::<Vec<_>>(), patience);
}

fn poll(entries: &mut [PollFd<'_>], patience: Duration) -> bool {
    // Longer than can be said is for ever.
    event::poll(entries, Timespec::try_from(patience).ok().as_ref()).is_ok_and(|ready| ready > 0)
}
