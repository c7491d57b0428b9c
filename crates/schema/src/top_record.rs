//! The rates of a traced program, reported per interval. These types *are* the JSON schema `iotrail.top/1` (`docs/formats.md`).
//!
//! Rates are based on exact counts; latencies, delays and stages are those of the requests that were traced and completed in
//! the interval. Unknown is `None` (JSON `null`), never 0.

use serde::{Deserialize, Serialize};

use crate::account::{ThreadRow, ThreadState};
use crate::delivery_path::DeliveryPath;
use crate::measurement::{DeliveryPathCount, Latency, StageRecord, Waits};

pub const SCHEMA: &str = "iotrail.top/1";

/// One interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TopRecord {
    /// `iotrail.top/1`.
    pub schema: String,
    /// iotrail version that is tracing.
    pub version: String,
    /// Interval number, from 1.
    pub interval: u64,
    /// Wall-clock end of the interval.
    pub ended_unix_s: u64,
    /// Time over which the rates are computed.
    pub elapsed_ns: u64,
    /// N, if 1 in N requests is traced.
    pub one_in: u32,
    /// As in a trace's `followed`.
    #[serde(default)]
    pub adaptive: bool,
    /// Totals.
    pub total: TotalRates,
    /// Processes, busiest first.
    pub processes: Vec<ProcessRates>,
    /// Rings, busiest first; at most 512. Closed rings and rings of exited processes are listed as long as they have events.
    pub rings: Vec<RingRates>,
    /// Rates of unlisted rings; null if none. The rates of their processes and the total include them.
    #[serde(default)]
    pub other_rings: Option<OtherRates>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherRates {
    /// Number of rings with events.
    pub rings: u64,
    /// Their rates.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Rates common to the total, a process and a ring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Requests.
    pub requests_per_s: f64,
    /// Completions. The sum of rate × `elapsed_ns` / 10⁹ over all intervals equals the total count.
    pub completions_per_s: f64,
    /// Bytes transferred, from the results.
    pub bytes_per_s: f64,
    /// Completions with an error.
    pub errors_per_s: f64,
    /// Requests punted to io-wq.
    pub punts_per_s: f64,
    /// Completions in the interval that found the completion queue full.
    pub overflows: u64,
    /// posted − submitted of the traced requests.
    pub latency_ns: Latency,
    /// Requests that wait for an event of unknown time; null: none.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// posted − ready of the traced requests.
    pub delivery_delay_ns: Latency,
    /// Completions by delivery path, most frequent first. Completions whose delivery path is not yet known are counted
    /// in the next interval.
    pub vehicles: Vec<DeliveryPathShare>,
}

/// Completions of one delivery path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryPathShare {
    /// The delivery path.
    pub vehicle: DeliveryPath,
    /// Completions that it delivered.
    pub completions: u64,
    /// Share of the completions whose delivery path was determined in this interval.
    pub share: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalRates {
    /// The rates.
    #[serde(flatten)]
    pub rates: Rates,
    /// Part of these completions: those of native and POSIX AIO. The total includes their requests, bytes, errors and
    /// latencies.
    pub of_no_ring_per_s: f64,
    /// Kicks; null: not counted. They are counted by call site and CPU, not by ring.
    pub kicks_per_s: Option<f64>,
    /// Context switches of the traced threads.
    pub context_switches_per_s: f64,
    /// Events that were lost in this interval and affect counts.
    pub lost: u64,
    /// Traced requests that were abandoned or lost in this interval; counts are not affected.
    pub followed_lost: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRates {
    /// Process ID.
    pub tgid: u32,
    /// Its name.
    pub comm: String,
    /// Number of its rings.
    pub rings: usize,
    /// Its rates.
    #[serde(flatten)]
    pub rates: Rates,
    /// CPUs used by its SQPOLL threads; null: none, or /proc did not report one of them.
    pub sqpoll_cpu: Option<f64>,
    /// Breakdown of its threads' time in this interval; null: not known.
    #[serde(default)]
    pub threads: Option<ThreadTime>,
}

/// Threads of one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// Number of threads, including those that exited.
    pub threads: u64,
    /// Their wall time.
    pub wall_ns: u64,
    /// As in a trace's account, longest first. Their sum is `wall_ns`.
    pub rows: Vec<ThreadRow>,
}

impl ThreadTime {
    /// Mean number of threads in this state.
    pub fn average(&self, state: ThreadState) -> f64 {
        let ns: u64 = self.rows.iter().filter(|row| row.state == state).map(|row| row.ns).sum();
        ns as f64 * self.threads as f64 / self.wall_ns.max(1) as f64
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RingRates {
    /// Its number in this trace, from 0.
    pub ring: u32,
    /// The process that created it.
    pub tgid: u32,
    /// That process's name.
    pub comm: String,
    /// As in a trace's rings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_of: Option<u32>,
    /// File descriptors that refer to it; empty: not found in /proc.
    pub fds: Vec<u32>,
    /// Setup flags, by the names of `--ring`.
    pub flags: Vec<String>,
    /// Entries of the submission queue.
    pub sq_entries: u32,
    /// Entries of the completion queue.
    pub cq_entries: u32,
    /// Its rates.
    #[serde(flatten)]
    pub rates: Rates,
    /// CPUs used by its SQPOLL thread; null: it has none, or /proc did not report it.
    pub sqpoll_cpu: Option<f64>,
    /// Its requests by opcode.
    pub opcodes: Vec<OpcodeRates>,
    /// Its completions by delivery path, with details and delays, most frequent first.
    pub carried: Vec<DeliveryPathCount>,
    /// The parts of the mean latency; null: too few traced requests.
    pub stages: Option<StageRecord>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpcodeRates {
    /// The operation.
    pub opcode: String,
    /// Requests.
    pub requests_per_s: f64,
    /// Completions.
    pub completions_per_s: f64,
    /// Bytes transferred, from the results.
    pub bytes_per_s: f64,
    /// Completions with an error.
    pub errors_per_s: f64,
    /// Requests punted to io-wq.
    pub punts_per_s: f64,
    /// posted − submitted of the traced requests.
    pub latency_ns: Latency,
    /// Requests that wait for an event of unknown time; null: none.
    #[serde(default)]
    pub waits: Option<Waits>,
}
