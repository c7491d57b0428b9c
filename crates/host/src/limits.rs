//! Limits of this process. A file that reaches its size limit is an error of the write instead of a signal that kills. The soft
//! limit of open files is raised to the hard one at the start, and child programs get the
//! original one: soft limits are low for programs that use select(2), which iotrail does not.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, Rlimit, setrlimit};

/// As it was when this process began.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();
/// SIGXFSZ was not ignored then.
static SIZE_KILLS: AtomicBool = AtomicBool::new(false);

/// The current limit. rustix cannot report a seccomp filter that refuses the call, so libc is used.
pub fn now(of: Resource) -> io::Result<Rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live structure that the call fills.
    if unsafe { libc::getrlimit(of as libc::__rlimit_resource_t, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let bounded = |v| (v != libc::RLIM_INFINITY).then_some(v);
    Ok(Rlimit { current: bounded(limit.rlim_cur), maximum: bounded(limit.rlim_max) })
}

/// Called once, first. If it is not allowed, operations that need more files report it.
pub fn raise() {
    // SAFETY: no handler is installed.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    SIZE_KILLS.store(before == libc::SIG_DFL, Ordering::Relaxed);
    let Ok(given) = now(Resource::Nofile) else { return };
    let raised = Rlimit { current: given.maximum, ..given };
    if given != raised && setrlimit(Resource::Nofile, raised).is_ok() {
        GIVEN.get_or_init(|| given);
    }
}

/// Files that may be open now; `None`: it can't be read.
pub fn open_files() -> Option<u64> {
    now(Resource::Nofile).ok().map(|limit| limit.current.unwrap_or(u64::MAX))
}

/// The program that this process executes gets the original limits.
pub fn give_back(command: &mut Command) {
    let give_back = || {
        if SIZE_KILLS.load(Ordering::Relaxed) {
            // SAFETY: no handler is installed.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        }
        GIVEN.get().map_or(Ok(()), |given| Ok(setrlimit(Resource::Nofile, *given)?))
    };
    // SAFETY: two system calls, which take no lock and allocate nothing.
    unsafe { command.pre_exec(give_back) };
}
