//! What stays when we are killed (SIGKILL): a process that takes the drive's way to memory, so that it does not write into pages
//! that have become somebody else's.
//!
//! It shares our open files, and with them the rings that hold our pages where they are: these are let go when it ends, after
//! the drive was stopped. VFIO does the same by itself.
//!
//! It also looks whether the kernel still has the function: one that was taken off the bus by hand may go on working, with nobody
//! to keep it from memory.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::last_error;

/// The command register of the configuration space (PCI Local Bus Specification), and its bits.
pub const COMMAND: u64 = 4;
/// Whether it may reach memory by itself.
pub const BUS_MASTER: u16 = 1 << 2;

/// Sent by the kernel when we have ended.
const ORPHANED: libc::c_int = libc::SIGTERM;

/// Between two looks.
const LOOK_NS: libc::c_long = 100_000_000;

/// Ends when dropped, having done nothing.
pub struct Warden {
    child: libc::pid_t,
    /// In a page that both processes have.
    gone: NonNull<AtomicBool>,
}

// SAFETY: an atomic in a mapping of our own, and a number.
unsafe impl Send for Warden {}
// SAFETY: as above.
unsafe impl Sync for Warden {}

/// The mapping's size.
const PAGE: usize = super::prp::PAGE;

impl Warden {
    /// Call it before any memory is the drive's, on a thread that lives as long as the drive is used. `configuration`: the
    /// function's, which stays open.
    pub fn post(configuration: &File) -> io::Result<Self> {
        let fd = configuration.as_raw_fd();
        // SAFETY: getpid takes nothing and cannot fail.
        let parent = unsafe { libc::getpid() };
        let flags = libc::CLONE_FILES | libc::SIGCHLD;
        // SAFETY: a new mapping, all zero, at an address of the kernel's choice.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let gone = match NonNull::new(page.cast::<AtomicBool>()) {
            Some(gone) if page != libc::MAP_FAILED => gone,
            _ => return Err(last_error()),
        };
        // SAFETY: as fork, but for the files. The child makes only plain system calls, and touches no lock or allocation that
        // another thread may have held.
        match unsafe { libc::syscall(libc::SYS_clone, flags as libc::c_long, 0, 0, 0, 0) } {
            -1 => Err(last_error()),
            0 => watch(parent, fd, gone),
            child => Ok(Self { child: child as libc::pid_t, gone }),
        }
    }

    /// The kernel has the function no more.
    #[inline]
    pub fn is_gone(&self) -> bool {
        // SAFETY: mapped while `self` lives, and only accessed atomically.
        unsafe { self.gone.as_ref() }.load(Ordering::Relaxed)
    }
}

/// The child's life.
fn watch(parent: libc::pid_t, configuration: RawFd, gone: NonNull<AtomicBool>) -> ! {
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
        let mut word = [0u8; 2];
        let at = COMMAND as libc::off_t;
        let mut read = || libc::pread(configuration, word.as_mut_ptr().cast(), 2, at) == 2;
        let look = libc::timespec { tv_sec: 0, tv_nsec: LOOK_NS };
        // Another process may send the signal too.
        while libc::getppid() == parent {
            if !read() {
                gone.as_ref().store(true, Ordering::Relaxed);
            }
            libc::sigtimedwait(&orphaned, std::ptr::null_mut(), &look);
        }
        if read() {
            let stopped = (u16::from_le_bytes(word) & !BUS_MASTER).to_le_bytes();
            libc::pwrite(configuration, stopped.as_ptr().cast(), stopped.len(), at);
        }
        libc::_exit(0)
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // SAFETY: our own child, not waited for yet, so its number cannot be another's.
        unsafe { libc::kill(self.child, libc::SIGKILL) };
        // SAFETY: a null status is allowed.
        while unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) } == -1
            && last_error().kind() == io::ErrorKind::Interrupted
        {}
        // SAFETY: our own mapping, which nobody uses any more.
        let done = unsafe { libc::munmap(self.gone.as_ptr().cast(), PAGE) };
        debug_assert_eq!(done, 0);
    }
}
