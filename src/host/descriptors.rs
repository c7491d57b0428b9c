//! How many files this process may have open: its connections are among them.

use crate::error::{Error, Result};

/// Raises the soft limit to the hard one, and returns it.
pub fn raise() -> Result<u64> {
    let failed = || {
        Error::machine("cannot ask how many files this process may open", "a seccomp filter may forbid getrlimit")
            .because(std::io::Error::last_os_error())
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live, writable rlimit; the call keeps nothing.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(failed());
    }
    let soft = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the pointer is to a live rlimit, which the call reads.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(limit.rlim_max),
        // It stays as it was, which is what this asks for.
        _ => Ok(soft),
    }
}
