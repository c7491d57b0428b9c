//! Ctrl-C, and the other signals with which a user or a terminal ends a program. After the first, the run stores all complete measurements
//! and ends; the second kills.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::error::{Error, Result};

static STOP: AtomicBool = AtomicBool::new(false);

/// A signal raised the flag, and not only an [`Alarm`](crate::alarm::Alarm).
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// The signal, if a process sent it; 0: none did, or the kernel did (a terminal's Ctrl-C).
static SENT: AtomicI32 = AtomicI32::new(0);

/// The last signal, from a process or the kernel.
static LAST: AtomicI32 = AtomicI32::new(0);

extern "C" fn ask_to_stop(signal: libc::c_int, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    // Only stores to atomics: nothing else is safe in a signal handler.
    SIGNALLED.store(true, Ordering::Relaxed);
    // SAFETY: with SA_SIGINFO the kernel hands over a live structure, and the code is valid for every signal.
    if unsafe { (*info).si_code } <= 0 {
        SENT.store(signal, Ordering::Relaxed);
    }
    LAST.store(signal, Ordering::Relaxed);
    STOP.store(true, Ordering::Relaxed);
}

static LAST_WORDS: OnceLock<String> = OnceLock::new();

/// The second signal: it kills as it would without this, but not silently.
extern "C" fn ask_to_stop_or_leave(signal: libc::c_int, info: *const libc::siginfo_t, context: *const libc::c_void) {
    if !SIGNALLED.load(Ordering::Relaxed) {
        return ask_to_stop(signal, info, context);
    }
    if let Some(words) = LAST_WORDS.get() {
        // SAFETY: write, signal and raise are async-signal-safe, and the bytes are never freed.
        unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
    }
    // SAFETY: as above. The signal is blocked until this returns, and kills then.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// From now on the second signal prints this line on standard error before it kills. The first caller decides the text.
pub fn leave_with(line: &str) -> Result<()> {
    LAST_WORDS.get_or_init(|| format!("{line}\n"));
    handle(ask_to_stop_or_leave as *const () as libc::sighandler_t, 0)
}

/// The signal that raised the flag, if a process sent it to this process: the children have not received it. `None` for a
/// terminal's signal, which goes to the complete foreground group.
pub fn sent_to_us_alone() -> Option<libc::c_int> {
    Some(SENT.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// The last signal, if it ends this process but not its jobs on other machines: SIGTERM from a process, or SIGHUP.
pub fn ends_this_process_only() -> Option<&'static str> {
    match (LAST.load(Ordering::Relaxed), sent_to_us_alone()) {
        (libc::SIGHUP, _) => Some("SIGHUP"),
        (_, Some(libc::SIGTERM)) => Some("SIGTERM"),
        _ => None,
    }
}

/// Whether a signal has raised the flag.
pub(crate) fn is_asked() -> bool {
    SIGNALLED.load(Ordering::Relaxed)
}

/// Raises the flag without a signal.
pub(crate) fn raise() {
    STOP.store(true, Ordering::Relaxed);
}

/// Lowers the flag, unless a signal raised it.
pub(crate) fn lower() {
    STOP.store(is_asked(), Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM, SIGQUIT and SIGHUP raise the returned flag instead of killing the process, the first time each. System calls
/// that they hit are restarted where the kernel can.
pub fn raise_flag() -> Result<&'static AtomicBool> {
    // The handler is removed after one delivery, so that the second signal kills.
    handle(ask_to_stop as *const () as libc::sighandler_t, libc::SA_RESETHAND)?;
    Ok(&STOP)
}

/// Until [`let_go`] a second signal does not kill either: something has to be restored first.
pub fn hold() -> Result<()> {
    handle(ask_to_stop as *const () as libc::sighandler_t, 0)
}

/// As before [`hold`]: where a signal has come meanwhile, the next one kills.
pub fn let_go() -> Result<()> {
    if is_asked() { handle(libc::SIG_DFL, 0) } else { raise_flag().map(drop) }
}

/// SIGHUP asked to reload.
static RELOAD: AtomicBool = AtomicBool::new(false);

extern "C" fn ask_to_reload(_signal: libc::c_int) {
    RELOAD.store(true, Ordering::Relaxed);
}

/// From now on SIGHUP does not end this process; [`reload`] reports it.
pub fn reload_by_sighup() -> Result<()> {
    action(libc::SIGHUP, ask_to_reload as *const () as libc::sighandler_t, 0)
}

/// Whether SIGHUP has come since this was called last.
pub fn reload() -> bool {
    RELOAD.swap(false, Ordering::Relaxed)
}

fn handle(handler: libc::sighandler_t, once: libc::c_int) -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP] {
        if signal == libc::SIGHUP && is_ignored(signal) {
            // By nohup(1).
            continue;
        }
        // When a terminal is lost, the kernel and the shell both send SIGHUP: the second must not kill.
        let once = if signal == libc::SIGHUP { 0 } else { once };
        action(signal, handler, once | libc::SA_SIGINFO)?;
    }
    Ok(())
}

fn action(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) -> Result<()> {
    // SAFETY: an all-zero sigaction is a valid one (no flags, empty mask, default handler).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART | flags;
    // SAFETY: `action` outlives the call and its handler is async-signal-safe; the old action is not requested.
    if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
        return Err(Error::machine("cannot take Ctrl-C", "a seccomp filter may forbid rt_sigaction")
            .because(std::io::Error::last_os_error()));
    }
    Ok(())
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: asks for the present action, into a valid place.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
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
        let now = || {
            // SAFETY: only asks for the present action, into a valid place.
            unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                assert_eq!(libc::sigaction(libc::SIGTERM, std::ptr::null(), &mut now), 0);
                now.sa_sigaction
            }
        };
        assert_eq!(now(), libc::SIG_DFL);
        hold().unwrap();
        // SAFETY: as above; the handler is set again.
        unsafe { libc::raise(libc::SIGTERM) };
        assert_ne!(now(), libc::SIG_DFL, "as often as it comes");
        let_go().unwrap();
        assert_eq!(now(), libc::SIG_DFL);
    }
}
