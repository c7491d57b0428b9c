//! Limits of this process. A file that reaches its limit of size is an error of the write, and no signal that kills. Of open files the soft limit is raised to the hard one at start, and what is started gets back what
//! was given: soft limits are low for programs that use select(2), which ours is none of.

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

/// As it is now. rustix has no answer for a seccomp filter that refuses to tell, so libc is asked.
pub fn now(of: Resource) -> io::Result<Rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live structure that the call fills.
    if unsafe { libc::getrlimit(of as libc::__rlimit_resource_t, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let bounded = |v| (v != libc::RLIM_INFINITY).then_some(v);
    Ok(Rlimit { current: bounded(limit.rlim_cur), maximum: bounded(limit.rlim_max) })
}

/// To be called once, first. Where it is not allowed, what needs more files than it gets says so.
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

/// The program that this becomes has the limits that were given to us.
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
