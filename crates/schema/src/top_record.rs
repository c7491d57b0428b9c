//! What a watched program does a second, told once an interval: these types *are* the JSON schema `iotrail.top/1`
//! (`docs/formats.md`).
//!
//! Rates are of counts that are exact; latencies, delays and stages are of the requests that were followed and completed in
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
    /// Version of the iotrail that watches.
    pub version: String,
    /// Number of the interval, from 1.
    pub interval: u64,
    /// Wall-clock end of the interval.
    pub ended_unix_s: u64,
    /// What the rates are taken over.
    pub elapsed_ns: u64,
    /// One request in so many is followed.
    pub one_in: u32,
    /// As in a trace's `followed`.
    #[serde(default)]
    pub adaptive: bool,
    /// Everything.
    pub total: TotalRates,
    /// Each process, the busiest first.
    pub processes: Vec<ProcessRates>,
    /// Each ring, the busiest first; of more than 512 the busiest. Those of processes that have ended are there as long as they did
    /// something.
    pub rings: Vec<RingRates>,
    /// What further rings did; null: there are none. Their processes' rates and the total have it too.
    #[serde(default)]
    pub other_rings: Option<OtherRates>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherRates {
    /// How many rings did something.
    pub rings: u64,
    /// Their rates.
    #[serde(flatten)]
    pub rates: Rates,
}

/// What is told of everything, of a process and of a ring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Requests.
    pub requests_per_s: f64,
    /// Completions. Times `elapsed_ns` / 10⁹ and summed over all intervals, it is what was counted.
    pub completions_per_s: f64,
    /// Bytes of the results.
    pub bytes_per_s: f64,
    /// Completions with an error.
    pub errors_per_s: f64,
    /// Requests handed to io-wq.
    pub punts_per_s: f64,
    /// Completions that found the completion queue full, in the interval.
    pub overflows: u64,
    /// Of the followed requests: posted − submitted.
    pub latency_ns: Latency,
    /// Requests that were kept open until something came; null: none.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// Of the followed requests: posted − ready.
    pub delivery_delay_ns: Latency,
    /// What delivered the completions, the most frequent first. Completions whose delivery path is not decided yet are in the next
    /// interval's.
    pub vehicles: Vec<DeliveryPathShare>,
}

/// What one vehicle carried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryPathShare {
    /// The delivery path.
    pub vehicle: DeliveryPath,
    /// Completions that it delivered.
    pub completions: u64,
    /// Of the completions whose delivery path was decided in this interval.
    pub share: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalRates {
    /// The rates.
    #[serde(flatten)]
    pub rates: Rates,
    /// Of these completions, those of native and POSIX AIO. Their requests, bytes, errors and latencies are in the total as well.
    pub of_no_ring_per_s: f64,
    /// Kicks; null: not counted. They are counted by call site and CPU, so that there is no figure for one ring.
    pub kicks_per_s: Option<f64>,
    /// Context switches of the watched threads.
    pub context_switches_per_s: f64,
    /// Events that the probes lost in this interval and that counts rest on.
    pub lost: u64,
    /// Followed requests that were given up or lost in this interval; no count is affected.
    pub followed_lost: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRates {
    /// Its number.
    pub tgid: u32,
    /// Its name.
    pub comm: String,
    /// How many rings it has.
    pub rings: usize,
    /// Its rates.
    #[serde(flatten)]
    pub rates: Rates,
    /// CPUs that its submission-queue threads took; null: none, or /proc did not say for one.
    pub sqpoll_cpu: Option<f64>,
    /// Where the time of its threads went in this interval; null: not known.
    #[serde(default)]
    pub threads: Option<ThreadTime>,
}

/// Threads of one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// How many, those that ended among them.
    pub threads: u64,
    /// Their wall time.
    pub wall_ns: u64,
    /// As in a trace's account, the longest first. They sum to `wall_ns`.
    pub rows: Vec<ThreadRow>,
}

impl ThreadTime {
    /// Threads in this state, on average over one thread's time.
    pub fn average(&self, state: ThreadState) -> f64 {
        let ns: u64 = self.rows.iter().filter(|row| row.state == state).map(|row| row.ns).sum();
        ns as f64 * self.threads as f64 / self.wall_ns.max(1) as f64
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RingRates {
    /// Its number while this is watched, from 0.
    pub ring: u32,
    /// The process that made it.
    pub tgid: u32,
    /// That process's name.
    pub comm: String,
    /// As in a trace's rings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_of: Option<u32>,
    /// File descriptors that name it; empty: not found in /proc.
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
    /// CPUs that its submission-queue thread took; null: it has none, or /proc did not say.
    pub sqpoll_cpu: Option<f64>,
    /// Its requests by opcode.
    pub opcodes: Vec<OpcodeRates>,
    /// What delivered its completions, with details and delays, the most frequent first.
    pub carried: Vec<DeliveryPathCount>,
    /// The parts of the mean latency; null where too little was followed.
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
    /// Bytes of the results.
    pub bytes_per_s: f64,
    /// Completions with an error.
    pub errors_per_s: f64,
    /// Requests handed to io-wq.
    pub punts_per_s: f64,
    /// Of the followed requests: posted − submitted.
    pub latency_ns: Latency,
    /// Requests that were kept open until something came; null: none.
    #[serde(default)]
    pub waits: Option<Waits>,
}
