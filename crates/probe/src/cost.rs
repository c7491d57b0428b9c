//! What each program costs those who are watched, by the kernel's own account (bpf_stats), which costs every run some time itself.

use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

use super::support;
use iotrail_base::error::{Error, Result};

/// Runs of one program, and the time that they took. Without what the kernel needs to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    pub program: &'static str,
    /// What it is attached to.
    pub tracepoint: &'static str,
    pub runs: u64,
    pub spent_ns: u64,
}

/// Nanoseconds in the programs, up to some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// In those on io_uring's own events, with the completions that these were for.
    pub requests_ns: u64,
    pub completions: u64,
    /// In those on switches, interrupts, system calls, block I/O.
    pub others_ns: u64,
    /// Of these, in those that can be attached in windows without the others.
    pub costly_ns: u64,
}

/// Runs and nanoseconds, by program.
pub(super) type Runs = BTreeMap<&'static str, (u64, u64)>;

/// As long as it lives the kernel measures the run time of all programs.
pub struct Account {
    _measured: OwnedFd,
    pub(super) before: Runs,
}

impl Account {
    pub(super) fn open() -> Result<Self> {
        // SAFETY: a plain call; what it returns is a new descriptor, or an error.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(Error::machine(
                "the kernel does not measure what BPF programs cost here",
                "Linux 5.8 and CAP_SYS_ADMIN are needed; leave out --cost",
            )
            .because(std::io::Error::from_raw_os_error(-fd)));
        }
        // SAFETY: it is new, and nobody else's.
        Ok(Account { _measured: unsafe { OwnedFd::from_raw_fd(fd) }, before: Runs::new() })
    }

    /// `now`: runs and nanoseconds of the program up to here.
    pub(super) fn cost(&self, program: &'static str, now: (u64, u64)) -> Cost {
        let before = self.before.get(program).copied().unwrap_or_default();
        Cost {
            program,
            tracepoint: support::tracepoint(program),
            runs: now.0.saturating_sub(before.0),
            spent_ns: now.1.saturating_sub(before.1),
        }
    }
}
