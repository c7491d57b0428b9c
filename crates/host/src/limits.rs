//! How many files this process may have open: the soft limit is raised to the hard one at start, and what is started gets back
//! what was given. Soft limits are low for programs that use select(2), which ours is none of.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

/// As it was when this process began.
static GIVEN: OnceLock<libc::rlimit> = OnceLock::new();

fn now() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live structure that the call fills.
    (unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0).then_some(limit)
}

/// To be called once, first. Where it is not allowed, what needs more files than it gets says so.
pub fn raise() {
    let Some(given) = now() else { return };
    let raised = libc::rlimit { rlim_cur: given.rlim_max, rlim_max: given.rlim_max };
    // SAFETY: a live structure that the call reads.
    if given.rlim_cur < given.rlim_max && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
        GIVEN.get_or_init(|| given);
    }
}

/// Files that may be open now; `None`: it can't be read.
pub fn open_files() -> Option<u64> {
    now().map(|limit| limit.rlim_cur)
}

/// The program that this becomes has the limits that were given to us.
pub fn give_back(command: &mut Command) {
    let Some(given) = GIVEN.get().copied() else { return };
    // SAFETY: setrlimit is async-signal-safe, and the limit is a copy.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &given) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
}
