//! What a scrape tells of a watch that goes on. Counts only grow, from the watch's beginning on; those of `delays` and `latency`
//! are estimated from the followed requests, each of which counts as often as it stands for. Unknown is `None`, never 0.

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
    /// Of no ring and no context.
    pub apart: Vec<(DeliveryPath, u64)>,
    pub followed: u64,
    /// Chosen requests that were given up, by cause.
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
    /// Requests of native aio whose submission's beginning was not seen.
    pub submissions_unseen: u64,
    pub observer: Observer,
}

/// One ring of io_uring, one context of native aio, or one process's POSIX AIO.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RingMetrics {
    /// Its number; the largest there is: of several that are told together.
    pub ring: u32,
    /// `io_uring`, `libaio`, `posix_aio`.
    pub interface: &'static str,
    pub tgid: u32,
    pub comm: String,
    pub vehicles: Vec<(DeliveryPath, u64)>,
    pub opcodes: Vec<OpcodeMetrics>,
    /// `None`: it has no queue to overflow.
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
    /// To the histogram's error (`stats::histogram`).
    pub sum_ns: u64,
    /// Up to each bound, and above the one before it; one more for what is above all.
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

/// This process's own use of the CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observer {
    pub user_ns: u64,
    pub system_ns: u64,
}
