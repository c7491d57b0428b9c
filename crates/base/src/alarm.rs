//! A time limit that raises the flag of [`interrupt`](crate::interrupt), as Ctrl-C does.
//!
//! Uses a process timer, so that no thread wakes up during a measurement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::interrupt;

static RANG: AtomicBool = AtomicBool::new(false);

extern "C" fn ring(_signal: libc::c_int) {
    RANG.store(true, Ordering::Relaxed);
    interrupt::raise();
}

/// Dropping it lowers the flag, unless a signal has also arrived.
#[derive(Debug)]
pub struct Alarm(());

impl Alarm {
    /// Only one alarm may exist at a time.
    pub fn after(time: Duration) -> Result<Self> {
        interrupt::raise_flag()?;
        RANG.store(false, Ordering::Relaxed);
        // SAFETY: an all-zero sigaction is valid. The handler only stores to atomics.
        let handled = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ring as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut())
        };
        // A time of 0 would not set the timer.
        if handled != 0 || !set(time.max(Duration::from_millis(1))) {
            let cause = std::io::Error::last_os_error();
            return Err(Error::machine("cannot set a timer", "a seccomp filter may forbid setitimer").because(cause));
        }
        Ok(Self(()))
    }

    /// Whether the time has expired without a signal.
    pub fn rang(&self) -> bool {
        RANG.load(Ordering::Relaxed) && !interrupt::is_asked()
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        set(Duration::ZERO);
        interrupt::lower();
    }
}

fn set(time: Duration) -> bool {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let it_value =
        libc::timeval { tv_sec: time.as_secs() as libc::time_t, tv_usec: time.subsec_micros() as libc::suseconds_t };
    let timer = libc::itimerval { it_interval: none, it_value };
    // SAFETY: `timer` outlives the call.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) == 0 }
}
