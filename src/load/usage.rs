//! CPU time of threads.

use std::io;

use crate::error::{Error, Result};

/// User and system time of one thread. Their sum is exact to the scheduler's clock; the split is sampled at each
/// timer tick by most kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub user_ns: u64,
    pub system_ns: u64,
}

impl Usage {
    pub fn since(self, before: Usage) -> Usage {
        Usage { user_ns: self.user_ns - before.user_ns, system_ns: self.system_ns - before.system_ns }
    }
}

/// Of the calling thread, so far.
pub fn of_thread() -> Result<Usage> {
    // SAFETY: a plain C structure, valid when all zero, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
        return Err(Error::machine("cannot read a thread's CPU time", "").because(io::Error::last_os_error()));
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    Ok(Usage { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) })
}

/// CPU time of another thread of this process (an SQPOLL thread), so far; `None` where the kernel keeps none.
pub fn of_tid(tid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
    stat.split_whitespace().next()?.parse().ok()
}

/// Thread id of the caller.
pub fn tid() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() }
}
