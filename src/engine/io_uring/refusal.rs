//! What a refusal of the kernel means, in words: which flag or limit it was, its rule, the remedy.

use std::io;

use linux_raw_sys::io_uring as sys;

use super::Config;
use super::flags::Flag;
use super::ring;
use crate::engine::Memory;
use crate::error::{Error, Result};

/// io_uring_setup failed.
pub fn of_setup(config: &Config, cause: io::Error) -> Error {
    const WHAT: &str = "cannot set up an io_uring";
    match cause.raw_os_error() {
        Some(libc::EPERM) => match setting("io_uring_disabled") {
            Some(2) => Error::machine(
                format!("{WHAT}: io_uring is switched off on this machine (kernel.io_uring_disabled = 2)"),
                "as root: sysctl kernel.io_uring_disabled=0, or use --engine libaio",
            ),
            Some(1) => Error::machine(
                format!("{WHAT}: io_uring is kept to privileged users here (kernel.io_uring_disabled = 1)"),
                who_may(setting("io_uring_group")),
            ),
            _ => Error::machine(
                format!("{WHAT}: not permitted: a seccomp filter or security module forbids it"),
                "run outside the container or allow io_uring_setup in its profile, or use --engine libaio",
            ),
        },
        Some(libc::ENOSYS) => Error::machine(
            format!("{WHAT}: this kernel has none or one before 5.11, or a seccomp filter hides it"),
            "use a kernel from 5.11, leave the container, or use --engine libaio",
        ),
        Some(libc::EMFILE) => Error::machine(
            format!("{WHAT}: this process has no file descriptor left"),
            "raise the limit (ulimit -n), or use fewer --jobs",
        ),
        Some(libc::ENFILE) => {
            Error::machine(format!("{WHAT}: the machine has no file descriptor left"), "raise sysctl fs.file-max")
        }
        Some(libc::ENOMEM) => Error::machine(
            format!("{WHAT} of {} entries: not enough memory, or {}", config.sq_entries, locked_limit()),
            "use a smaller --depth or fewer --jobs, or raise ulimit -l",
        ),
        Some(libc::EINVAL) => invalid(config, cause),
        _ => Error::machine(WHAT, "see `iotrail check`").because(cause),
    }
}

/// EINVAL says nothing more: asks the kernel about each flag alone to find the one that it does not take.
fn invalid(config: &Config, cause: io::Error) -> Error {
    for flag in config.setup.flags.iter().copied() {
        let mut params = ring::params(flag.bit() | flag.companions());
        if flag == Flag::Cqsize {
            params.cq_entries = 2;
        }
        if let Err(e) = ring::setup(1, &mut params)
            && e.raw_os_error() == Some(libc::EINVAL)
        {
            return Error::machine(
                format!(
                    "ring flag {} is refused by this kernel ({}): it is there since {}",
                    flag.name(),
                    release(),
                    flag.since()
                ),
                format!("leave {} away or use a newer kernel; see `iotrail check`", flag.name()),
            );
        }
    }
    if let Some(cpu) = config.sq_cpu {
        return Error::machine(
            format!(
                "cannot bind the SQPOLL thread to CPU {cpu}: the kernel refuses it (offline, or outside this process's cpuset)"
            ),
            "choose another --sq-cpu",
        );
    }
    let names = config.setup.names().join(", ");
    Error::machine(
        format!(
            "this kernel ({}) refuses a ring of {} entries with the flags [{names}] together",
            release(),
            config.sq_entries
        ),
        "leave some away, or use a smaller --depth",
    )
    .because(cause)
}

/// Requested is not granted: an answer without a flag that was asked for is an error.
pub fn not_granted(asked: u32, answer: &sys::io_uring_params) -> Result<()> {
    let missing = super::flags::names(asked & !answer.flags, None);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::machine(
        format!("the kernel ({}) set up the ring without {}", release(), missing.join(", ")),
        "leave that flag away or use a newer kernel",
    ))
}

/// io_uring_register failed for `what`.
pub fn of_register(what: &str, config: &Config, memory: &Memory, cause: io::Error) -> Error {
    let buffers = what == "the buffers";
    let kib = (memory.slots as usize * memory.stride).div_ceil(1024);
    match cause.raw_os_error() {
        Some(libc::ENOMEM) if buffers => Error::machine(
            format!("cannot register {kib} KiB of buffers with the ring: {}", locked_limit()),
            format!(
                "raise it (ulimit -l {}, for each job), use a smaller --depth, or leave buffers out of --register",
                kib + 64
            ),
        ),
        Some(libc::EINVAL) if buffers && memory.slots > 16384 => Error::input(
            format!("cannot register {} buffers: the kernel takes at most 16384", memory.slots),
            "use a --depth up to 16384, or leave buffers out of --register",
        ),
        Some(libc::EMFILE) => Error::machine(
            format!("cannot register {what} with the ring: over the limit of open files"),
            "raise it (ulimit -n), or leave files out of --register",
        ),
        _ => Error::machine(
            format!("cannot register {what} with the ring of {} entries", config.sq_entries),
            "leave it out of --register",
        )
        .because(cause),
    }
}

/// What helps while io_uring is kept to root and to the group that kernel.io_uring_group names (none: -1).
fn who_may(group: Option<i32>) -> String {
    let group = group.filter(|gid| *gid >= 0).map(|gid| format!(" or in the group {gid}")).unwrap_or_default();
    format!("run as root{group}, open it to all (as root: sysctl kernel.io_uring_disabled=0), or use --engine libaio")
}

/// A setting of the kernel's, `kernel.NAME`.
fn setting(name: &str) -> Option<i32> {
    std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}

fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").map_or("release unknown".into(), |s| s.trim().to_string())
}

fn locked_limit() -> String {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live structure of the right type.
    match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } {
        0 if limit.rlim_cur != libc::RLIM_INFINITY => {
            format!("the limit of locked memory is {} KiB", limit.rlim_cur / 1024)
        }
        _ => "the limit of locked memory is too small".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_may_is_named_where_there_is_one() {
        let rest = ", open it to all (as root: sysctl kernel.io_uring_disabled=0), or use --engine libaio";
        assert_eq!(who_may(Some(-1)), format!("run as root{rest}"));
        assert_eq!(who_may(None), format!("run as root{rest}"));
        assert_eq!(who_may(Some(7)), format!("run as root or in the group 7{rest}"));
    }
}
