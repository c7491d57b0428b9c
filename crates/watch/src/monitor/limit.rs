//! Timeouts of waits in io_uring_enter(2), from the call's arguments and the program's memory.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use iotrail_probe::snapshot::Thread;

use crate::namespace::Numbers;
use crate::state::sums::waits;

const EXT_ARG: u64 = linux_raw_sys::io_uring::IORING_ENTER_EXT_ARG as u64;
/// Flags of other argument types: registered arguments, absolute time.
const OTHERS: u64 =
    (linux_raw_sys::io_uring::IORING_ENTER_EXT_ARG_REG | linux_raw_sys::io_uring::IORING_ENTER_ABS_TIMER) as u64;

/// Offset of `ts` in struct io_uring_getevents_arg.
const TS: u64 = 16;

/// `None` if the wait has no timeout, or memory is unreadable.
pub fn of(t: &Thread, numbers: &Numbers) -> Option<Duration> {
    if !waits(t) || t.arguments[3] & EXT_ARG == 0 || t.arguments[3] & OTHERS != 0 {
        return None;
    }
    let memory = File::open(format!("/proc/{}/mem", numbers.in_proc(t.tgid)?)).ok()?;
    let word = |at: u64| {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, at).ok().map(|()| u64::from_ne_bytes(bytes))
    };
    let time = word(t.arguments[4].checked_add(TS)?).filter(|at| *at != 0)?;
    let (seconds, nanoseconds) = (word(time)?, word(time.checked_add(8)?)?);
    (nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds as u32))
}
