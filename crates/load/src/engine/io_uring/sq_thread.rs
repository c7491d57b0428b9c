//! Which thread is a ring's SQPOLL thread.

use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use iotrail_host::pid_namespace::{self, Standing};
use iotrail_host::procfs;

/// How long a new SQPOLL thread is waited for.
const PATIENCE: Duration = Duration::from_millis(200);

/// The SQPOLL thread's number in /proc.
pub fn of(fd: RawFd) -> Option<i32> {
    match Standing::of_this_process() {
        Standing::Initial => by_ring(fd),
        Standing::Other { .. } => by_name(),
    }
}

/// Outside the initial PID namespace a ring's fdinfo has the thread's ID in the kernel's numbering, which /proc does not show
/// there. This returns the next thread of this process with such a name that no other ring has. Rings created concurrently may swap their
/// threads, which does not affect the sum.
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

/// From the ring's fdinfo. The thread writes its ID there itself: until it runs, the field has the creator's ID.
fn by_ring(fd: RawFd) -> Option<i32> {
    // SAFETY: gettid takes nothing and cannot fail.
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
