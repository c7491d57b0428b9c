//! Ctrl-C: asked once, the run ends after what is whole has been stored; asked twice, the process dies.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::error::{Error, Result};

static STOP: AtomicBool = AtomicBool::new(false);

/// The signal, if a process sent it; 0: none did, or the kernel did (a terminal's Ctrl-C).
static SENT: AtomicI32 = AtomicI32::new(0);

extern "C" fn ask_to_stop(signal: libc::c_int, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    // Stores to atomics are all that is done here: nothing else is safe in a signal handler.
    // SAFETY: with SA_SIGINFO the kernel hands over a live structure, and the code is valid for every signal.
    if unsafe { (*info).si_code } <= 0 {
        SENT.store(signal, Ordering::Relaxed);
    }
    STOP.store(true, Ordering::Relaxed);
}

/// The signal that raised the flag, where a process sent it to us: our children have not got it. `None` for a terminal's,
/// which goes to all of its foreground group.
pub fn sent_to_us_alone() -> Option<libc::c_int> {
    Some(SENT.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// From now on SIGINT and SIGTERM raise the returned flag instead of killing the process, the first time each. System calls
/// that they hit are restarted where the kernel can.
pub fn raise_flag() -> Result<&'static AtomicBool> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: an all-zero sigaction is a valid one (no flags, empty mask, default handler).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = ask_to_stop as *const () as libc::sighandler_t;
        // The handler is gone after one delivery, so that the second signal kills.
        action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND | libc::SA_SIGINFO;
        // SAFETY: `action` lives through the call and its handler is async-signal-safe; the old action is not asked for.
        if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
            return Err(Error::machine("cannot take Ctrl-C", "a seccomp filter may forbid rt_sigaction")
                .because(std::io::Error::last_os_error()));
        }
    }
    Ok(&STOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_raises_the_flag_and_the_second_would_kill() {
        let stop = raise_flag().unwrap();
        assert!(!stop.load(Ordering::Relaxed));
        // SAFETY: raises a signal in this thread, whose handler was set above.
        unsafe { libc::raise(libc::SIGTERM) };
        assert!(stop.load(Ordering::Relaxed));
        assert_eq!(sent_to_us_alone(), Some(libc::SIGTERM));
        // SAFETY: only asks for the present action, into a valid place.
        let now = unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            assert_eq!(libc::sigaction(libc::SIGTERM, std::ptr::null(), &mut now), 0);
            now.sa_sigaction
        };
        assert_eq!(now, libc::SIG_DFL);
    }
}
