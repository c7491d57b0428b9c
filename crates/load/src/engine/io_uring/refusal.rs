//! Explains a rejection by the kernel: flag or limit, rule, remedy.

use std::io;

use linux_raw_sys::io_uring as sys;

use super::Config;
use super::flags::Flag;
use super::ring;
use crate::engine::Memory;
use iotrail_base::error::{Error, Result};
use iotrail_host::kernel;
use iotrail_host::privileges::Privileges;
use iotrail_host::refusal::{Circumstances, Refusal};

/// The user's options that affect a rejected ring, named as in the current command.
pub struct Words {
    pub without_rings: &'static str,
    pub fewer_rings: &'static str,
    pub smaller_ring: &'static str,
}

pub(crate) const LOAD: Words = Words {
    without_rings: "use --engine libaio",
    fewer_rings: "use fewer --jobs",
    smaller_ring: "use a smaller --depth",
};

/// Explains a failed io_uring_setup. `iotrail_host::refusal` knows the reason; this adds the remedy.
pub(crate) fn of_setup(config: &Config, words: &Words, cause: io::Error) -> Error {
    const WHAT: &str = "cannot set up an io_uring";
    let (what, instead) = match cause.raw_os_error() {
        Some(libc::EINVAL) => return invalid(config, words, cause),
        Some(libc::EPERM | libc::ENOSYS) => (WHAT.to_owned(), words.without_rings.to_owned()),
        Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN) => (WHAT.to_owned(), words.fewer_rings.to_owned()),
        Some(libc::ENOMEM) => (
            format!("{WHAT} of {} entries", config.sq_entries),
            format!("{} or {}", words.smaller_ring, words.fewer_rings),
        ),
        _ => return Error::machine(WHAT, "see `iotrail check`").because(cause),
    };
    let Refusal { why, restore } = Circumstances::read().ring(cause.raw_os_error().unwrap_or_default());
    Error::machine(format!("{what}: {why}"), format!("{restore}, or {instead}")).with_errno(cause.raw_os_error())
}

/// EINVAL has no details, so this tries each flag separately to find the unsupported one.
fn invalid(config: &Config, words: &Words, cause: io::Error) -> Error {
    for flag in config.setup.flags.iter().copied() {
        let mut params = ring::params(flag.bit() | flag.companions());
        if flag == Flag::Cqsize {
            params.cq_entries = 2;
        }
        if let Err(e) = ring::setup(1, &mut params)
            && e.raw_os_error() == Some(libc::EINVAL)
        {
            let (major, minor) = flag.since();
            return Error::machine(
                format!(
                    "this kernel ({1}) rejects ring flag {0}, which requires Linux {major}.{minor} or later",
                    flag.name(),
                    release(),
                ),
                format!("omit {} or use a newer kernel; see `iotrail check`", flag.name()),
            );
        }
    }
    if config.big_entries != 0 && ring::setup(1, &mut ring::params(config.big_entries)).is_err() {
        return Error::machine(
            format!(
                "this kernel ({}) does not support rings with big entries, which passthrough needs: they require Linux 5.19 or later",
                release()
            ),
            "use a newer kernel, or --engine io_uring on the block device",
        );
    }
    if let Some(cpu) = config.sq_cpu {
        return Error::machine(
            format!(
                "cannot bind the SQPOLL thread to CPU {cpu}: the kernel rejects it (offline, or outside this process's cpuset)"
            ),
            "choose another --sq-cpu",
        );
    }
    let names = config.setup.names().join(", ");
    Error::machine(
        format!(
            "this kernel ({}) rejects a ring of {} entries with the flag combination [{names}]",
            release(),
            config.sq_entries
        ),
        format!("omit some flags, or {}", words.smaller_ring),
    )
    .because(cause)
}

/// Fails if the kernel did not grant a requested flag.
pub(crate) fn not_granted(asked: u32, answer: &sys::io_uring_params) -> Result<()> {
    let missing = super::flags::names(asked & !answer.flags, None);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::machine(
        format!("the kernel ({}) set up the ring without {}", release(), missing.join(", ")),
        "omit that flag or use a newer kernel",
    ))
}

/// Explains a failed io_uring_register for `what`.
pub(crate) fn of_register(what: &str, config: &Config, memory: &Memory, cause: io::Error) -> Error {
    let buffers = what == "the buffers";
    let kib = (memory.slots as usize * memory.stride).div_ceil(1024);
    match cause.raw_os_error() {
        Some(libc::ENOMEM) if buffers => Error::machine(
            format!("cannot register {kib} KiB of buffers with the ring: {}", locked_limit()),
            format!(
                "raise it (ulimit -l {}, per job), use a smaller --depth, or remove buffers from --register",
                kib + 64
            ),
        ),
        Some(libc::EINVAL) if buffers && memory.slots > 16384 => Error::input(
            format!("cannot register {} buffers: the kernel allows at most 16384", memory.slots),
            "use a --depth of at most 16384, or remove buffers from --register",
        ),
        Some(libc::EMFILE) => Error::machine(
            format!("cannot register {what} with the ring: over the open file limit"),
            "raise it (ulimit -n), or remove files from --register",
        ),
        _ => Error::machine(
            format!("cannot register {what} with the ring of {} entries", config.sq_entries),
            "remove it from --register",
        )
        .because(cause),
    }
}

fn release() -> String {
    kernel::release().unwrap_or_else(|| "release unknown".into())
}

fn locked_limit() -> String {
    match Privileges::read().memlock_bytes {
        Some((Some(bytes), _)) => format!("the locked memory limit is {} KiB", bytes / 1024),
        _ => "the locked memory limit is too low".into(),
    }
}
