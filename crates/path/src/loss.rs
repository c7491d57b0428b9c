//! Inconsistencies that a complete and sorted recording cannot contain, counted by class.

use serde::{Deserialize, Serialize};

/// All zero if no event is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oddities {
    /// An event is earlier than its predecessor: the recording is not sorted, or clocks differ between CPUs.
    pub out_of_order: u64,
    /// A run reports more items than there are pending completions: the items posted none (a poll that re-arms), or
    /// completions were lost.
    pub overclaimed_runs: u64,
    /// A thread was switched in while on a CPU: its switch-out was missed.
    pub unseen_switches_out: u64,
    /// A thread that is off the CPU has an event: its switch-in was missed.
    pub unseen_switches_in: u64,
    /// A thread that is on one CPU has an event on a different CPU: its switch-out and switch-in were missed.
    pub unseen_moves: u64,
    /// A run followed a sleep in io_uring_enter whose wake-up was missed.
    pub unseen_wakers: u64,
}

impl Oddities {
    /// Name and count of each class.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("out_of_order", self.out_of_order),
            ("overclaimed_runs", self.overclaimed_runs),
            ("unseen_switches_out", self.unseen_switches_out),
            ("unseen_switches_in", self.unseen_switches_in),
            ("unseen_moves", self.unseen_moves),
            ("unseen_wakers", self.unseen_wakers),
        ]
    }

    /// Number of inconsistencies that occur on kernels which skip probes while process 1 runs (`docs/accuracy.md`).
    /// Every completion still gets its delivery path; after a missed wake-up, the name of its waker is missing.
    pub fn of_blindness(&self) -> u64 {
        self.unseen_switches_in + self.unseen_wakers
    }

    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, n)| n).sum()
    }
}

/// Data lost because a map was full or no memory was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Thread states. The delivery paths of their completions are then wrong, not just too low.
    Threads,
    Counts,
    /// Requests and results of native and POSIX AIO.
    Calls,
    /// Child processes that should have been traced.
    Children,
    Errnos,
    Interrupts,
    Ipis,
    Workers,
    /// Waits for completions, by thread and ring.
    Waits,
}
