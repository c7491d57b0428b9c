//! What the assembler meets that a whole and ordered recording cannot contain: by class, counted.

use serde::{Deserialize, Serialize};

/// Zero throughout: every event's partner was there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oddities {
    /// An event earlier than the one before it: the recording was not sorted, or clocks differ between CPUs.
    pub out_of_order: u64,
    /// A run that reports more items than completions were pending. Items that post none do that (a poll that re-arms), and so
    /// do lost completions.
    pub overclaimed_runs: u64,
    /// A thread got a CPU while it had one: it was not seen to leave.
    pub unseen_switches_out: u64,
    /// A thread did something while it was off the CPU: it was not seen to get one.
    pub unseen_switches_in: u64,
    /// A thread did something on another CPU than the one it had: it was not seen to leave, nor to get one.
    pub unseen_moves: u64,
    /// A run after a sleep in io_uring_enter that nobody was seen to end.
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

    /// Those that a kernel which skips probes while process 1 runs brings about by itself (`docs/accuracy.md`).
    /// They leave no completion without its vehicle; an unseen waker leaves one without its waker's name.
    pub fn of_blindness(&self) -> u64 {
        self.unseen_switches_in + self.unseen_wakers
    }

    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, n)| n).sum()
    }
}

/// What was lost for want of room in a map, or of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Threads' states: what carried their completions is wrong then, not only too low.
    Threads,
    Counts,
    /// Requests and results of native and POSIX AIO.
    Calls,
    /// Processes that were to be watched.
    Children,
    Errnos,
    Interrupts,
    Ipis,
    Workers,
    /// Waits for completions, by thread and ring.
    Waits,
}
