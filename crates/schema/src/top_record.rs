//! What a watched program does a second, told once an interval: these types *are* the JSON schema `iotrail.top/1`
//! (`docs/formats.md`).
//!
//! Rates are of counts that are exact; latencies, delays and stages are of the requests that were followed and completed in
//! the interval. Unknown is `None` (JSON `null`), never 0.

use serde::{Deserialize, Serialize};

use crate::measurement::{Latency, StageRecord, VehicleCount, Waits};
use crate::vehicle::Vehicle;

pub const SCHEMA: &str = "iotrail.top/1";

/// One interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TopRecord {
    pub schema: String,
    pub version: String,
    /// From 1.
    pub interval: u64,
    /// Its end, seconds since the epoch (UTC).
    pub ended_unix_s: u64,
    pub elapsed_ns: u64,
    /// One request in so many is followed.
    pub one_in: u32,
    /// As in a trace's `followed`.
    #[serde(default)]
    pub adaptive: bool,
    pub total: TotalRates,
    /// The busiest first.
    pub processes: Vec<ProcessRates>,
    /// The busiest first. Those of processes that have ended are there as long as they did something.
    pub rings: Vec<RingRates>,
    /// More rings than these, the least busy: how many did something, and what. They are in the total and in their processes; null:
    /// there are none.
    #[serde(default)]
    pub other_rings: Option<OtherRates>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherRates {
    pub rings: u64,
    #[serde(flatten)]
    pub rates: Rates,
}

/// What is told of everything, of a process and of a ring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    pub requests_per_s: f64,
    pub completions_per_s: f64,
    pub bytes_per_s: f64,
    /// Completions with an error.
    pub errors_per_s: f64,
    /// Requests handed to io-wq.
    pub punts_per_s: f64,
    /// Completions that found the completion queue full, in this interval.
    pub overflows: u64,
    /// posted − submitted.
    pub latency_ns: Latency,
    /// As a trace's: in no mean; null: there were none.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// posted − ready.
    pub delivery_delay_ns: Latency,
    /// The most frequent first.
    pub vehicles: Vec<VehicleShare>,
}

/// What one vehicle carried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VehicleShare {
    pub vehicle: Vehicle,
    pub completions: u64,
    /// Of the completions whose vehicle was decided in this interval.
    pub share: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalRates {
    #[serde(flatten)]
    pub rates: Rates,
    /// Of these completions, those of no ring: native aio's.
    pub of_no_ring_per_s: f64,
    /// Reschedule IPIs sent to make a running task notice task work; null where not counted.
    pub kicks_per_s: Option<f64>,
    pub context_switches_per_s: f64,
    /// Events that the probes lost in this interval and that counts rest on.
    pub lost: u64,
    /// Followed requests that were given up or lost in this interval: no count is affected.
    pub followed_lost: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRates {
    pub tgid: u32,
    pub comm: String,
    pub rings: usize,
    #[serde(flatten)]
    pub rates: Rates,
    /// Its submission-queue threads together, in CPUs; null: it has none, or /proc did not say for one.
    pub sqpoll_cpu: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RingRates {
    /// Its number while this is watched, from 0.
    pub ring: u32,
    pub tgid: u32,
    pub comm: String,
    /// As in a trace's rings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_of: Option<u32>,
    /// Empty: not found in /proc.
    pub fds: Vec<u32>,
    pub flags: Vec<String>,
    pub sq_entries: u32,
    pub cq_entries: u32,
    #[serde(flatten)]
    pub rates: Rates,
    /// CPU time of its submission-queue thread a second of time; null: it has none, or /proc did not say.
    pub sqpoll_cpu: Option<f64>,
    pub opcodes: Vec<OpcodeRates>,
    /// By vehicle and detail, the most frequent first.
    pub carried: Vec<VehicleCount>,
    pub stages: Option<StageRecord>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpcodeRates {
    pub opcode: String,
    pub requests_per_s: f64,
    pub completions_per_s: f64,
    pub bytes_per_s: f64,
    pub errors_per_s: f64,
    pub punts_per_s: f64,
    pub latency_ns: Latency,
    /// As in [`Rates`].
    #[serde(default)]
    pub waits: Option<Waits>,
}
