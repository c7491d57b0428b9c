//! What was counted by ring and opcode, as plain data.

use crate::measurement::VehicleCount;

/// One io_uring instance of a watched process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RingCounts {
    /// Number within the watched span, from 0: that of `Trail::ring`.
    pub ring: u32,
    /// The process that was first seen to use it.
    pub tgid: u32,
    pub comm: String,
    /// Setup flags as the kernel has them (IORING_SETUP_…).
    pub setup_flags: u32,
    pub sq_entries: u32,
    pub cq_entries: u32,
    /// It was not seen to be made: it was there before.
    pub found: bool,
    /// Completions that found the completion queue full.
    pub overflows: u64,
    pub opcodes: Vec<OpcodeCounts>,
    /// Sums to the completions of `opcodes`, `unknown` included.
    pub vehicles: Vec<VehicleCount>,
}

/// Exact counts of one opcode. Meanings as in [`crate::trace_record::OpcodeRecord`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpcodeCounts {
    pub opcode: String,
    pub requests: u64,
    pub skips: u64,
    pub completions: u64,
    pub bytes: u64,
    pub errors: u64,
    pub short: u64,
    pub more: u64,
    pub notifications: u64,
    pub punted_asked: u64,
    pub punted_would_block: u64,
    /// (positive errno, count)
    pub errnos: Vec<(i32, u64)>,
}

/// A watched process as the programs know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub tgid: u32,
    /// Its program's name, or that of the thread that made it or was met at its I/O.
    pub comm: String,
    /// When it was seen to become that program, CLOCK_MONOTONIC; 0: it was not.
    pub executed_ns: u64,
}

/// What became of the requests that were chosen to be followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FollowLoss {
    /// Given up: no room to keep them.
    pub no_room: u64,
    /// Whole, but the ring buffer was full.
    pub ring_buffer_full: u64,
    /// Their place was used again before a completion was seen: it overflowed, or was missed.
    pub no_completion: u64,
    /// They asked for no completion if they succeed (IOSQE_CQE_SKIP_SUCCESS), and none was seen.
    pub skipped: u64,
    /// Of the others, not complete when watching ended.
    pub unfinished: u64,
}
