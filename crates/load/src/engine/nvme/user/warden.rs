//! A helper process that survives a SIGKILL of this process and then revokes the drive's access to memory, so that the
//! drive does not write into other processes' pages.
//!
//! It shares the open files, and with them the rings that pin the pages. These are therefore released when the helper
//! exits, after the drive was stopped. VFIO does the same by itself.
//!
//! The helper also checks whether the kernel still has the function: a function removed manually from the bus may keep
//! running without memory protection.

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

/// The command register in configuration space (PCI Local Bus Specification), and its bits.
pub const COMMAND: u64 = 4;
/// Enables DMA.
pub const BUS_MASTER: u16 = 1 << 2;

/// Sent by the kernel when the parent exits.
const ORPHANED: Signal = Signal::TERM;

/// Interval between checks.
const LOOK_NS: libc::c_long = 100_000_000;

/// On drop, stops the helper without further effects.
pub struct ResetGuard {
    child: Pid,
    gone: Flag,
}

/// A flag on a page shared by both processes.
struct Flag(Mapping);

impl Flag {
    fn new() -> io::Result<Self> {
        Mapping::anonymous(super::prp::PAGE, MapFlags::SHARED).map(Self)
    }

    #[inline]
    fn get(&self) -> &AtomicBool {
        // SAFETY: initially zero, mapped as long as `self` exists, and only accessed atomically.
        unsafe { self.0.base().cast().as_ref() }
    }
}

impl ResetGuard {
    /// Call this before the drive can access memory, on a thread that lives as long as the drive is in use.
    /// `configuration`: the function's file, which stays open.
    pub fn post(configuration: &File) -> io::Result<Self> {
        let parent = getpid();
        let gone = Flag::new()?;
        let flags = libc::CLONE_FILES | libc::SIGCHLD;
        // SAFETY: like fork, except that files are shared. The child makes only plain system calls, and uses no lock or
        // allocation that another thread may have held.
        match unsafe { libc::syscall(libc::SYS_clone, flags as libc::c_long, 0, 0, 0, 0) } {
            -1 => Err(last_error()),
            0 => watch(parent, configuration, gone.get()),
            child => Ok(Self { child: Pid::from_raw(child as i32).expect("a child has a number"), gone }),
        }
    }

    /// Whether the kernel has removed the function.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.get().load(Ordering::Relaxed)
    }
}

/// The child's main loop.
fn watch(parent: Pid, configuration: &File, gone: &AtomicBool) -> ! {
    // Ignores signals to the parent's group, and all signals except the expected one. Failures cannot be reported
    // anywhere.
    let _ = setsid();
    set_name(c"iotrail-warden").unwrap_or(());
    // SAFETY: plain system calls on live structures.
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
    // Other processes may send the signal, too.
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
    // SAFETY: exits only this process, without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}

impl Drop for ResetGuard {
    fn drop(&mut self) {
        // The child has not been reaped, so its PID cannot belong to another process.
        kill_process(self.child, Signal::KILL).unwrap_or(());
        while matches!(waitpid(Some(self.child), WaitOptions::empty()), Err(Errno::INTR)) {}
    }
}
