//! The metrics of a scrape while a trace continues. Counts only grow from the start of the trace. Those of `delays` and
//! `latency` are estimates from the traced requests, each counted with its weight. Unknown is `None`, never 0.

use crate::delivery_path::DeliveryPath;
use crate::measurement::{Interrupt, Ipi, Missed, ModeSwitch};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricsRecord {
    pub elapsed_ns: u64,
    pub one_in: u32,
    /// As in a trace's `followed`.
    pub adaptive: bool,
    /// Rings and contexts, by number.
    pub rings: Vec<RingMetrics>,
    /// Completions outside all rings and contexts.
    pub apart: Vec<(DeliveryPath, u64)>,
    pub followed: u64,
    /// Selected requests that were given up, by cause.
    pub followed_lost: Vec<(&'static str, u64)>,
    pub latency: Buckets,
    pub delays: Vec<(DeliveryPath, Buckets)>,
    pub kicks: Option<u64>,
    pub resched_ipis: Option<u64>,
    pub task_work_runs: Option<u64>,
    pub page_faults: Option<u64>,
    pub context_switches: u64,
    pub mode_switches: Vec<ModeSwitch>,
    pub interrupts: Vec<Interrupt>,
    pub ipis: Vec<Ipi>,
    pub lost: u64,
    pub missed: Vec<Missed>,
    /// Native aio requests whose io_submit entry was not seen.
    pub submissions_unseen: u64,
    pub observer: Observer,
}

/// One io_uring instance, one native aio context, or the POSIX AIO of one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RingMetrics {
    /// Its number; the largest possible number: a sum over several.
    pub ring: u32,
    /// `io_uring`, `libaio`, `posix_aio`.
    pub interface: &'static str,
    pub tgid: u32,
    pub comm: String,
    pub vehicles: Vec<(DeliveryPath, u64)>,
    pub opcodes: Vec<OpcodeMetrics>,
    /// `None`: it does not have a queue that can overflow.
    pub overflows: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpcodeMetrics {
    pub opcode: String,
    pub requests: u64,
    pub bytes: u64,
    pub errors: u64,
    pub punted_asked: u64,
    pub punted_would_block: u64,
    pub punted_drained: u64,
}

/// Nanoseconds, counted by [`BOUNDS_NS`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Buckets {
    pub count: u64,
    /// Accurate to the histogram's error (`stats::histogram`).
    pub sum_ns: u64,
    /// Number of values per bound: those at most this bound, and above the previous one. One more entry at the end
    /// counts values above all bounds.
    pub counts: Vec<u64>,
}

/// Upper bounds.
pub const BOUNDS_NS: [u64; 19] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
];

/// CPU use of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observer {
    pub user_ns: u64,
    pub system_ns: u64,
}
