//! Inconsistencies that a complete and ordered recording cannot contain: counted by class.

use serde::{Deserialize, Serialize};

/// All zero if every event's partner was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oddities {
    /// An event earlier than the one before it: the recording was not sorted, or clocks differ between CPUs.
    pub out_of_order: u64,
    /// A run that reports more items than pending completions. The cause may be items that post none (a poll that re-arms),
    /// or lost completions.
    pub overclaimed_runs: u64,
    /// A thread was switched in while it had a CPU: its switch-out was missed.
    pub unseen_switches_out: u64,
    /// An event of a thread that was off the CPU: its switch-in was missed.
    pub unseen_switches_in: u64,
    /// An event of a thread on a CPU different from its own: a switch-out and a switch-in were missed.
    pub unseen_moves: u64,
    /// A run after a sleep in io_uring_enter whose wake-up was missed.
    pub unseen_wakers: u64,
}

impl Oddities {
    /// Each class by its name.
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

    /// Classes that a kernel which skips probes while process 1 runs causes by itself (`docs/accuracy.md`).
    /// They leave no completion without its delivery path; a missed wake-up leaves one without its waker's name.
    pub fn of_blindness(&self) -> u64 {
        self.unseen_switches_in + self.unseen_wakers
    }

    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, n)| n).sum()
    }
}

/// Losses because a map was full or memory was missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Threads' states: then the delivery paths of their completions are wrong, not only too low.
    Threads,
    Counts,
    /// Requests and results of native and POSIX AIO.
    Calls,
    /// Processes that should have been traced.
    Children,
    Errnos,
    Interrupts,
    Ipis,
    Workers,
    /// Waits for completions, by thread and ring.
    Waits,
}
