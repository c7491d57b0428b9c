//! A helper process that survives SIGKILL of this one: it revokes the drive's access to memory, so that the drive does not write
//! into pages of other processes.
//!
//! It shares the open files, and with them the rings that pin the pages: these are released when it ends, after
//! the drive was stopped. VFIO does the same by itself.
//!
//! It also checks whether the kernel still has the function: a function that was removed from the bus by hand may continue to run
//! without protection of memory.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, pread, pwrite};
use rustix::mm::MapFlags;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, setsid, waitpid,
};
use rustix::thread::set_name;

use crate::engine::last_error;
use iotrail_base::mapping::Mapping;

/// The command register of the configuration space (PCI Local Bus Specification), and its bits.
pub const COMMAND: u64 = 4;
/// Whether it may reach memory by itself.
pub const BUS_MASTER: u16 = 1 << 2;

/// Sent by the kernel when the parent has ended.
const ORPHANED: Signal = Signal::TERM;

/// Interval of checks.
const LOOK_NS: libc::c_long = 100_000_000;

/// Ends when dropped, having done nothing.
pub struct ResetGuard {
    child: Pid,
    gone: Flag,
}

/// In a page that both processes have.
struct Flag(Mapping);

impl Flag {
    fn new() -> io::Result<Self> {
        Mapping::anonymous(super::prp::PAGE, MapFlags::SHARED).map(Self)
    }

    #[inline]
    fn get(&self) -> &AtomicBool {
        // SAFETY: all zero at first, mapped while `self` lives, and only accessed atomically.
        unsafe { self.0.base().cast().as_ref() }
    }
}

impl ResetGuard {
    /// Call it before any memory is the drive's, on a thread that lives as long as the drive is used. `configuration`: the
    /// function's, which stays open.
    pub fn post(configuration: &File) -> io::Result<Self> {
        let parent = getpid();
        let gone = Flag::new()?;
        let flags = libc::CLONE_FILES | libc::SIGCHLD;
        // SAFETY: as fork, but for the files. The child makes only plain system calls, and touches no lock or allocation that
        // another thread may have held.
        match unsafe { libc::syscall(libc::SYS_clone, flags as libc::c_long, 0, 0, 0, 0) } {
            -1 => Err(last_error()),
            0 => watch(parent, configuration, gone.get()),
            child => Ok(Self { child: Pid::from_raw(child as i32).expect("a child has a number"), gone }),
        }
    }

    /// The kernel has the function no more.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.get().load(Ordering::Relaxed)
    }
}

/// The child's life.
fn watch(parent: Pid, configuration: &File, gone: &AtomicBool) -> ! {
    // Ignores signals to the parent's group, and all signals except the expected one. There is no channel to report
    // a failure.
    let _ = setsid();
    set_name(c"iotrail-warden").unwrap_or(());
    // SAFETY: plain system calls, on live structures.
    let orphaned = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        let mut orphaned: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut orphaned);
        libc::sigaddset(&mut orphaned, ORPHANED.as_raw());
        orphaned
    };
    set_parent_process_death_signal(Some(ORPHANED)).unwrap_or(());
    let mut word = [0u8; 2];
    let mut read = || pread(configuration, &mut word, COMMAND) == Ok(2);
    let look = libc::timespec { tv_sec: 0, tv_nsec: LOOK_NS };
    // Another process may send the signal too.
    while getppid() == Some(parent) {
        if !read() {
            gone.store(true, Ordering::Relaxed);
        }
        // SAFETY: live structures; the signal's details are not requested.
        unsafe { libc::sigtimedwait(&orphaned, std::ptr::null_mut(), &look) };
    }
    if read() {
        let stopped = (u16::from_le_bytes(word) & !BUS_MASTER).to_le_bytes();
        pwrite(configuration, &stopped, COMMAND).unwrap_or(0);
    }
    // SAFETY: ends only this process, without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}

impl Drop for ResetGuard {
    fn drop(&mut self) {
        // An unreaped child, so its PID cannot belong to another process.
        kill_process(self.child, Signal::KILL).unwrap_or(());
        while matches!(waitpid(Some(self.child), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}
