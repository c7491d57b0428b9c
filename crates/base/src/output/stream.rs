//! Outputs that are written and never replaced: pipes, devices, inherited descriptors. Writing waits for a stalled
//! reader; a signal ends the wait.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{FromRawFd as _, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::interrupt;

/// Interval between checks for a signal.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// After a signal, time to wait for a reader that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// A writable pipe accepts this many bytes without blocking (pipe(7), PIPE_BUF).
const AT_ONCE: usize = 4096;

pub struct Stream(File);

impl Stream {
    /// Duplicates a descriptor; the original stays open.
    pub fn of_descriptor(number: RawFd) -> io::Result<Self> {
        // SAFETY: only asks the kernel for a duplicate; an invalid number is rejected.
        let fd = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor; nothing else owns it.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Fails with ENXIO if the pipe has no reader. Never waits for one.
    pub fn to_pipe(path: &Path) -> io::Result<Self> {
        File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path).map(Self)
    }

    pub fn to_device(path: &Path) -> io::Result<Self> {
        File::options().write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).map(Self)
    }

    pub fn is_terminal(&self) -> bool {
        self.0.is_terminal()
    }

    fn wait(&self) -> io::Result<()> {
        let mut asked_at = None;
        loop {
            match poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
            if interrupt::is_asked() && asked_at.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err(io::Error::other("stopped by a signal while waiting for its reader"));
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match self.0.write(&bytes[..bytes.len().min(AT_ONCE)]) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
