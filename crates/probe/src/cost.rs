//! Cost of each BPF program for the traced processes, from the kernel's own statistics (bpf_stats), which add some time
//! to every run.

use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

use super::support;
use iotrail_base::error::{Error, Result};

/// Runs of one program and their total time, without the kernel's call overhead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    pub program: &'static str,
    /// Its attachment point.
    pub tracepoint: &'static str,
    pub runs: u64,
    pub spent_ns: u64,
}

/// Total time in the programs at one moment, in ns, as far as the kernel measured it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// In programs on io_uring events, and the number of completions that they counted.
    pub requests_ns: u64,
    pub completions: u64,
    /// In programs on context switches, interrupts, system calls and block I/O.
    pub others_ns: u64,
    /// The part of `others_ns` in programs that can be attached in windows separately.
    pub costly_ns: u64,
}

/// Runs and nanoseconds, by program.
pub(super) type Runs = BTreeMap<&'static str, (u64, u64)>;

/// Keeps the kernel's run-time statistics of all programs enabled.
pub struct Account {
    _measured: OwnedFd,
    pub(super) before: Runs,
}

impl Account {
    pub(super) fn open() -> Result<Self> {
        // SAFETY: takes no pointers; returns a new descriptor or an error.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(Error::machine(
                "the kernel does not measure the cost of BPF programs here",
                "use Linux 5.8 or later with CAP_SYS_ADMIN, or omit --cost",
            )
            .because(std::io::Error::from_raw_os_error(-fd)));
        }
        // SAFETY: the descriptor is new and owned by nothing else.
        Ok(Account { _measured: unsafe { OwnedFd::from_raw_fd(fd) }, before: Runs::new() })
    }

    /// `now`: total runs and ns of the program.
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
