//! Finds a ring's SQPOLL thread.

use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use iotrail_host::pid_namespace::{self, Standing};
use iotrail_host::procfs;

/// Maximum time to wait for a new SQPOLL thread.
const PATIENCE: Duration = Duration::from_millis(200);

/// The SQPOLL thread's ID in /proc.
pub fn of(fd: RawFd) -> Option<i32> {
    match Standing::of_this_process() {
        Standing::Initial => by_ring(fd),
        Standing::Other { .. } => by_name(),
    }
}

/// Outside the initial PID namespace, a ring's fdinfo contains the thread ID in the kernel's numbering, which /proc
/// does not show there. This returns this process's next thread with a matching name that no other ring has. Threads of
/// rings created concurrently may be swapped, which does not affect their sum.
fn by_name() -> Option<i32> {
    static GIVEN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    let began = Instant::now();
    let own = pid_namespace::own_number_in_proc()?;
    loop {
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = procfs::threads(own);
        given.retain(|tid| threads.contains(tid));
        let is_one = |tid: u32| procfs::comm(own, tid).is_some_and(|name| name.starts_with("iou-sqp-"));
        if let Some(tid) = threads.into_iter().find(|tid| !given.contains(tid) && is_one(*tid)) {
            given.insert(tid);
            return i32::try_from(tid).ok();
        }
        drop(given);
        if began.elapsed() > PATIENCE {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads the ring's fdinfo. The thread itself writes its ID there; until it runs, the field contains the creator's ID.
fn by_ring(fd: RawFd) -> Option<i32> {
    // SAFETY: gettid takes no arguments and cannot fail.
    let maker = unsafe { libc::gettid() };
    let began = Instant::now();
    loop {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        let tid: i32 = info.lines().find_map(|l| l.strip_prefix("SqThread:"))?.trim().parse().ok()?;
        if tid > 0 && tid != maker {
            return Some(tid);
        }
        if began.elapsed() > PATIENCE {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
