//! The result of a replay: these types *are* the JSON schema `iotrail.replay/1` (`docs/formats.md`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::comparison::Comparison;

pub const SCHEMA: &str = "iotrail.replay/1";

/// A recording, replayed unchanged and with variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayRecord {
    /// `iotrail.replay/1`.
    pub schema: String,
    /// The recording's path.
    pub recording: String,
    /// The answer in one sentence.
    pub answer: String,
    /// Requests and synchronous calls of one replay.
    pub ios: u64,
    /// Threads that are replayed.
    pub threads: usize,
    /// Pairs that were measured.
    pub pairs: usize,
    /// How the program chooses the size of its submissions.
    pub batches: BatchKind,
    /// The self-check, by figure: `iops`, `latency_p50`, `latency_p99`, `in_flight`, `calls_per_io`.
    pub fidelity: BTreeMap<String, Fidelity>,
    /// Duration of a recorded replay divided by that of a replay without probes; null: none was recorded.
    pub capture_slowdown: Option<f64>,
    /// Replays, the unchanged one first.
    pub arms: Vec<ReplayArm>,
    /// The limits of the answer.
    pub limits: Vec<ReplayLimit>,
}

/// How the recorded program chooses the size of its submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchKind {
    /// Always the same size; a replay never merges submissions.
    Fixed,
    /// As many requests as were reaped; a replay merges and divides submissions.
    AsReaped,
    /// Sizes that do not depend on the number reaped; a replay never merges submissions.
    Varied,
    /// Unknown: there are too few submissions, or only synchronous calls.
    Unknown,
}

/// One figure of the recording and of its unchanged replay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    /// The recorded program's value; null if the recording does not have it.
    pub recorded: Option<f64>,
    /// Median of the unchanged replays that were recorded too; null: none was.
    pub replayed: Option<f64>,
    /// Replayed value divided by recorded value, minus 1.
    pub error: Option<f64>,
    /// 95 % interval of the error.
    pub ci95: Option<[f64; 2]>,
}

/// One way of replaying.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayArm {
    /// `unchanged`, or the options of the variant.
    pub name: String,
    /// Whether more requests are in flight than recorded, as if none depended on another.
    pub upper_bound: bool,
    /// Whether think time is per call (in the previous arm, it is per request); omitted: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_call: bool,
    /// Counts per I/O, from one traced replay, which is not timed.
    pub counts: ReplayCounts,
    /// CPU time per I/O in nanoseconds, of all threads: median of the timed replays.
    pub cpu_per_io_ns: Option<f64>,
    /// I/Os per second: median of the timed replays.
    pub iops: Option<f64>,
    /// Comparison of this arm with the unchanged replay. Empty for the unchanged replay itself. If the verdict is
    /// `equivalent`, the interval includes the self-check's error, and `equivalent_within` is 0.15 or less.
    pub comparisons: Vec<Comparison>,
}

/// Counts of one arm, per I/O. Null: the probes could not be loaded, or the interface does not have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayCounts {
    /// I/Os that were counted.
    pub ios: u64,
    /// I/Os that failed, or transferred fewer bytes than recorded.
    pub errors: u64,
    /// System calls that submit, wait, read, write or sync.
    pub calls_per_io: Option<f64>,
    /// Requests per submission.
    pub batch: Option<f64>,
    /// Reschedule IPIs that the kernel sent to make a running thread run its task work.
    pub kicks_per_io: Option<f64>,
    /// Device interrupts.
    pub device_irqs_per_io: Option<f64>,
    /// Reschedule interrupts.
    pub resched_ipis_per_io: Option<f64>,
    /// Context switches.
    pub context_switches_per_io: Option<f64>,
    /// Runs of task work.
    pub task_work_runs_per_io: Option<f64>,
    /// Requests punted to io-wq.
    pub punts_per_io: Option<f64>,
}

/// A limit of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayLimit {
    /// Stable name: `page_cache`.
    pub code: String,
    /// The limit, and its effect on the numbers.
    pub text: String,
}
