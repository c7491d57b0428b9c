//! Ctrl-C and other signals with which a user or terminal ends a program. The first one makes the run store its
//! complete measurements and exit; the second one kills the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::error::{Error, Result};

static STOP: AtomicBool = AtomicBool::new(false);

/// Whether a signal raised the flag, rather than an [`Alarm`](crate::alarm::Alarm).
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Last signal that a process sent; 0: none, or the kernel sent it (a terminal's Ctrl-C).
static SENT: AtomicI32 = AtomicI32::new(0);

/// Last signal from a process or the kernel.
static LAST: AtomicI32 = AtomicI32::new(0);

extern "C" fn ask_to_stop(signal: libc::c_int, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    // Only stores to atomics, which is safe in a signal handler.
    SIGNALLED.store(true, Ordering::Relaxed);
    // SAFETY: with SA_SIGINFO the kernel passes a live structure whose code is valid for every signal.
    if unsafe { (*info).si_code } <= 0 {
        SENT.store(signal, Ordering::Relaxed);
    }
    LAST.store(signal, Ordering::Relaxed);
    STOP.store(true, Ordering::Relaxed);
}

static LAST_WORDS: OnceLock<String> = OnceLock::new();

/// The second signal kills as it would by default, but prints a line first.
extern "C" fn ask_to_stop_or_leave(signal: libc::c_int, info: *const libc::siginfo_t, context: *const libc::c_void) {
    if !SIGNALLED.load(Ordering::Relaxed) {
        return ask_to_stop(signal, info, context);
    }
    if let Some(words) = LAST_WORDS.get() {
        // SAFETY: write, signal and raise are async-signal-safe, and the bytes are never freed.
        unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
    }
    // SAFETY: as above. The signal is blocked until the handler returns, and then kills.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Makes the second signal print this line to standard error before it kills. The first caller decides the text.
pub fn leave_with(line: &str) -> Result<()> {
    LAST_WORDS.get_or_init(|| format!("{line}\n"));
    handle(ask_to_stop_or_leave as *const () as libc::sighandler_t, 0)
}

/// The signal that raised the flag, if a process sent it to this process, so that children did not receive it. `None`
/// for a terminal's signal, which the whole foreground group receives.
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

/// Makes the first SIGINT, SIGTERM, SIGQUIT or SIGHUP raise the returned flag in place of killing the process.
/// Interrupted system calls are restarted if the kernel can.
pub fn raise_flag() -> Result<&'static AtomicBool> {
    // The handler is removed after one delivery, so that the second signal kills.
    handle(ask_to_stop as *const () as libc::sighandler_t, libc::SA_RESETHAND)?;
    Ok(&STOP)
}

/// Until [`let_go`] is called, a second signal does not kill either, because something must be restored first.
pub fn hold() -> Result<()> {
    handle(ask_to_stop as *const () as libc::sighandler_t, 0)
}

/// Restores the behaviour before [`hold`]: if a signal has arrived since, the next one kills.
pub fn let_go() -> Result<()> {
    if is_asked() { handle(libc::SIG_DFL, 0) } else { raise_flag().map(drop) }
}

/// SIGHUP requested a reload.
static RELOAD: AtomicBool = AtomicBool::new(false);

extern "C" fn ask_to_reload(_signal: libc::c_int) {
    RELOAD.store(true, Ordering::Relaxed);
}

/// Makes SIGHUP request a reload, see [`reload`], in place of ending this process.
pub fn reload_by_sighup() -> Result<()> {
    action(libc::SIGHUP, ask_to_reload as *const () as libc::sighandler_t, 0)
}

/// Whether SIGHUP has arrived since the last call.
pub fn reload() -> bool {
    RELOAD.swap(false, Ordering::Relaxed)
}

fn handle(handler: libc::sighandler_t, once: libc::c_int) -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP] {
        if signal == libc::SIGHUP && is_ignored(signal) {
            // Ignored by nohup(1).
            continue;
        }
        // When a terminal is lost, both the kernel and the shell send SIGHUP; the second one must not kill.
        let once = if signal == libc::SIGHUP { 0 } else { once };
        action(signal, handler, once | libc::SA_SIGINFO)?;
    }
    Ok(())
}

fn action(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) -> Result<()> {
    // SAFETY: an all-zero sigaction is valid (no flags, empty mask, default handler).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART | flags;
    // SAFETY: `action` outlives the call, and its handler is async-signal-safe; the old action is not requested.
    if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
        return Err(Error::machine("cannot install a handler for Ctrl-C", "a seccomp filter may forbid rt_sigaction")
            .because(std::io::Error::last_os_error()));
    }
    Ok(())
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: only queries the current action into a valid structure.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_sets_the_flag_and_restores_the_default_action() {
        let stop = raise_flag().unwrap();
        assert!(!stop.load(Ordering::Relaxed));
        // SAFETY: raises a signal in this thread, whose handler was set above.
        unsafe { libc::raise(libc::SIGTERM) };
        assert!(stop.load(Ordering::Relaxed));
        assert_eq!(sent_to_us_alone(), Some(libc::SIGTERM));
        let now = || {
            // SAFETY: only queries the current action into a valid structure.
            unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                assert_eq!(libc::sigaction(libc::SIGTERM, std::ptr::null(), &mut now), 0);
                now.sa_sigaction
            }
        };
        assert_eq!(now(), libc::SIG_DFL);
        hold().unwrap();
        // SAFETY: as above; the handler is installed again.
        unsafe { libc::raise(libc::SIGTERM) };
        assert_ne!(now(), libc::SIG_DFL, "as often as it comes");
        let_go().unwrap();
        assert_eq!(now(), libc::SIG_DFL);
    }
}
