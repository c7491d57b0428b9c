//! The options of a load, as resolved.

use serde::{Deserialize, Serialize};

/// The load's options as resolved. Optional values are null where the option was not given and has no default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRecord {
    pub engine: String,
    pub ring: Ring,
    pub sq_cpu: Option<u32>,
    pub sq_idle_ms: Option<u32>,
    pub register: Vec<String>,
    pub force_async: bool,
    pub rw: String,
    /// Block size.
    pub bs: u64,
    pub depth: u32,
    pub batch: u32,
    pub jobs: u32,
    /// `irq`, `non-irq` or the list, as asked for; null: not pinned.
    pub cpus_requested: Option<String>,
    /// The CPU of each job, in order; empty: not pinned.
    pub cpus: Vec<u32>,
    pub wait: String,
    pub reaper: String,
    pub think_ns: u64,
    pub scratch: String,
    pub neighbour: String,
    pub file: Option<String>,
    pub size: Option<u64>,
    pub direct: bool,
    /// Set when the run ends by time.
    pub runtime_ns: Option<u64>,
    /// Set when the run ends by number of I/Os.
    pub count: Option<u64>,
    pub warmup_ns: u64,
    /// I/Os per second over all jobs; null: closed loop.
    pub rate: Option<f64>,
    pub verify: bool,
    /// Of everything random in the load: the same seed gives the same I/Os in the same order. Null: measured before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    pub trace: String,
}

/// Ring setup flags asked for and, as the kernel's answer says, granted. Empty for other engines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ring {
    pub requested: Vec<String>,
    pub granted: Vec<String>,
}
