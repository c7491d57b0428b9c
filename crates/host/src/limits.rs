//! Limits of this process. Reaching the file size limit becomes a write error in place of a fatal signal. The soft
//! limit of open files is raised to the hard limit at startup, and child programs get the original one back: soft
//! limits are low because of select(2), which iotrail does not use.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, Rlimit, setrlimit};

/// The original limit of open files.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();
/// Whether SIGXFSZ was originally not ignored.
static SIZE_KILLS: AtomicBool = AtomicBool::new(false);

/// The current limit. Uses libc, because rustix cannot report a seccomp filter's rejection.
pub fn now(of: Resource) -> io::Result<Rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live; the call fills it.
    if unsafe { libc::getrlimit(of as libc::__rlimit_resource_t, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let bounded = |v| (v != libc::RLIM_INFINITY).then_some(v);
    Ok(Rlimit { current: bounded(limit.rlim_cur), maximum: bounded(limit.rlim_max) })
}

/// Call it once, first. If raising is not allowed, operations that need more files report it.
pub fn raise() {
    // SAFETY: installs no handler.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    SIZE_KILLS.store(before == libc::SIG_DFL, Ordering::Relaxed);
    let Ok(given) = now(Resource::Nofile) else { return };
    let raised = Rlimit { current: given.maximum, ..given };
    if given != raised && setrlimit(Resource::Nofile, raised).is_ok() {
        GIVEN.get_or_init(|| given);
    }
}

/// Maximum number of open files; `None` if unreadable.
pub fn open_files() -> Option<u64> {
    now(Resource::Nofile).ok().map(|limit| limit.current.unwrap_or(u64::MAX))
}

/// Restores the original limits in the program that `command` executes.
pub fn give_back(command: &mut Command) {
    let give_back = || {
        if SIZE_KILLS.load(Ordering::Relaxed) {
            // SAFETY: installs no handler.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        }
        GIVEN.get().map_or(Ok(()), |given| Ok(setrlimit(Resource::Nofile, *given)?))
    };
    // SAFETY: two system calls, without locks or allocation.
    unsafe { command.pre_exec(give_back) };
}
