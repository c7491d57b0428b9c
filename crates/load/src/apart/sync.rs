//! The primitives for the link between the two threads.

pub use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

/// Sleeps for at most `span` while `word` equals `value`. Callers must handle spurious wake-ups.
pub fn futex_wait(word: &AtomicU32, value: u32, span: Duration) {
    let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
    futex::wait(word, Flags::PRIVATE, value, Some(&span)).unwrap_or(());
}

pub fn futex_wake(word: &AtomicU32) {
    futex::wake(word, Flags::PRIVATE, 1).unwrap_or(0);
}
