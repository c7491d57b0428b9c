//! Ctrl-C: asked once, the run ends after what is whole has been stored; asked twice, the process dies.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn ask_to_stop(_signal: libc::c_int) {
    // A store to an atomic is all that is done here: nothing else is safe in a signal handler.
    STOP.store(true, Ordering::Relaxed);
}

/// From now on SIGINT and SIGTERM raise the returned flag instead of killing the process, the first time each. System calls
/// that they hit are restarted where the kernel can.
pub fn raise_flag() -> Result<&'static AtomicBool> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: an all-zero sigaction is a valid one (no flags, empty mask, default handler).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = ask_to_stop as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // The handler is gone after one delivery, so that the second signal kills.
        action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
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
        // SAFETY: only asks for the present action, into a valid place.
        let now = unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            assert_eq!(libc::sigaction(libc::SIGTERM, std::ptr::null(), &mut now), 0);
            now.sa_sigaction
        };
        assert_eq!(now, libc::SIG_DFL);
    }
}
