//! The cost of each program for the traced processes, by the kernel's own accounting (bpf_stats), which itself adds some time to every run.

use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

use super::support;
use iotrail_base::error::{Error, Result};

/// Runs of one program, and their time. Without the kernel's overhead to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    pub program: &'static str,
    /// Its attachment point.
    pub tracepoint: &'static str,
    pub runs: u64,
    pub spent_ns: u64,
}

/// Nanoseconds in the programs, up to a point in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// In programs on io_uring's own events, with the completions of these events.
    pub requests_ns: u64,
    pub completions: u64,
    /// In programs on switches, interrupts, system calls, block I/O.
    pub others_ns: u64,
    /// Of these, in programs that can be attached in windows separately.
    pub costly_ns: u64,
}

/// Runs and nanoseconds, by program.
pub(super) type Runs = BTreeMap<&'static str, (u64, u64)>;

/// The kernel measures the run time of all programs while this exists.
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
                "the kernel does not measure the cost of BPF programs here",
                "Linux 5.8 and CAP_SYS_ADMIN are needed; leave out --cost",
            )
            .because(std::io::Error::from_raw_os_error(-fd)));
        }
        // SAFETY: it is new, and nobody else's.
        Ok(Account { _measured: unsafe { OwnedFd::from_raw_fd(fd) }, before: Runs::new() })
    }

    /// `now`: runs and nanoseconds of the program so far.
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
