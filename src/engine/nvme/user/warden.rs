//! What stays when we are killed (SIGKILL): a process that takes the drive's way to memory, so that it does not write into pages
//! that have become somebody else's.
//!
//! It shares our open files, and with them the rings that hold our pages where they are: these are let go when it ends, after
//! the drive was stopped. VFIO does the same by itself.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::device::{BUS_MASTER, COMMAND};
use crate::engine::last_error;

/// Sent by the kernel when we have ended.
const ORPHANED: libc::c_int = libc::SIGTERM;

/// Ends when dropped, having done nothing.
pub struct Warden(libc::pid_t);

impl Warden {
    /// Call it before any memory is the drive's, on a thread that lives as long as the drive is used. `configuration`: the
    /// function's, which stays open.
    pub fn post(configuration: &File) -> io::Result<Self> {
        let fd = configuration.as_raw_fd();
        // SAFETY: getpid takes nothing and cannot fail.
        let parent = unsafe { libc::getpid() };
        let flags = libc::CLONE_FILES | libc::SIGCHLD;
        // SAFETY: as fork, but for the files. The child makes only plain system calls, and touches no lock or allocation that
        // another thread may have held.
        match unsafe { libc::syscall(libc::SYS_clone, flags as libc::c_long, 0, 0, 0, 0) } {
            -1 => Err(last_error()),
            0 => watch(parent, fd),
            child => Ok(Self(child as libc::pid_t)),
        }
    }
}

/// The child's life.
fn watch(parent: libc::pid_t, configuration: RawFd) -> ! {
    // SAFETY: plain system calls, on live structures.
    unsafe {
        // Signals to our parent's group are not for us, and none but the one that is waited for ends the wait.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"iotrail-warden".as_ptr());
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        let mut orphaned: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut orphaned);
        libc::sigaddset(&mut orphaned, ORPHANED);
        libc::prctl(libc::PR_SET_PDEATHSIG, ORPHANED);
        // Another process may send it too.
        while libc::getppid() == parent {
            libc::sigwaitinfo(&orphaned, std::ptr::null_mut());
        }
        let mut word = [0u8; 2];
        let at = COMMAND as libc::off_t;
        if libc::pread(configuration, word.as_mut_ptr().cast(), word.len(), at) == word.len() as isize {
            let stopped = (u16::from_le_bytes(word) & !BUS_MASTER).to_le_bytes();
            libc::pwrite(configuration, stopped.as_ptr().cast(), stopped.len(), at);
        }
        libc::_exit(0)
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // SAFETY: our own child, not waited for yet, so its number cannot be another's.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        // SAFETY: a null status is allowed.
        while unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) } == -1
            && last_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}
