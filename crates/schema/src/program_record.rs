//! The user's program as a load: the results of one run besides the counts, and the outcome for each arm.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::delivery_path::DeliveryPath;

/// One run of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramRecord {
    /// The command.
    pub argv: Vec<String>,
    /// Options of `iotrail try` that define the arm; empty: the program unmodified.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Its exit status; 128 + the signal number if a signal killed it.
    pub exit_status: i32,
    /// Whether this run was traced. Otherwise `ios`, `bytes`, `iops` and the counts per I/O are not valid.
    pub watched: bool,
    /// The program's own metrics.
    pub figures: Vec<OwnFigure>,
    /// Rings that its processes set up, in order of creation.
    pub rings: Vec<ProgramRing>,
}

/// A number that the program printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnFigure {
    /// The name from `--metric`.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Whether less is better.
    pub less_is_better: bool,
}

/// A ring that a program set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRing {
    /// Process ID in iotrail's PID namespace.
    pub pid: u32,
    /// Setup flags that the program requested.
    pub asked: Vec<String>,
    /// Setup flags that were passed to the kernel.
    pub granted: Vec<String>,
    /// Whether the kernel's io_uring_create event showed these flags; omitted if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<bool>,
    /// Why iotrail left the flags unmodified; omitted if it changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_as_asked: Option<String>,
}

/// An arm of a program, checked before it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriedArm {
    /// The arm.
    pub name: String,
    /// Whether the arm is possible.
    pub legal: Legal,
    /// Why it is not legal, or the risk; empty: no objection.
    pub reason: String,
    /// Rings of its first run.
    pub rings: Vec<ProgramRing>,
    /// Why it is not measured, although it may be legal; null: it is measured.
    pub dropped: Option<String>,
    /// The probes' counts in its first run; null: without probes.
    #[serde(default)]
    pub watched: Option<WatchedRun>,
    /// A run that hung, of this arm or of an arm whose settings this arm includes. Omitted if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hang: Option<Hang>,
}

/// A run that did not finish, or did not complete any I/O.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hang {
    /// The arm that hung.
    pub arm: String,
    /// iotrail ended the run after this time.
    pub waited_ns: u64,
}

impl TriedArm {
    /// Without an objection, and not run yet.
    pub fn new(name: &str) -> Self {
        TriedArm {
            name: name.into(),
            legal: Legal::Yes,
            reason: String::new(),
            rings: Vec::new(),
            dropped: None,
            watched: None,
            hang: None,
        }
    }

    pub fn is_measured(&self) -> bool {
        self.legal != Legal::No && self.dropped.is_none()
    }
}

/// Legality by the kernel's rules and by the behaviour of the unmodified program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Legal {
    /// No objection.
    Yes,
    /// The program may fail with it.
    Risky,
    /// The kernel rejects it for this program; iotrail does not run it.
    No,
}

/// The probes' counts in one run of an arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedRun {
    /// Completions.
    pub completions: u64,
    /// As in a trace; null in older records.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Wall time.
    pub elapsed_ns: u64,
    /// As in a measurement; null: not counted.
    pub kicks_per_io: Option<f64>,
    /// As in a measurement; null: not counted.
    pub syscalls_per_io: Option<f64>,
    /// Context switches per I/O; null: not counted.
    pub sleeps_per_io: Option<f64>,
    /// CPU time of the program per I/O; null: not known.
    pub cpu_per_io_ns: Option<f64>,
    /// 95 % intervals of estimates among the counts per I/O. Names are those of a trace's `per_io`; a count without an interval is
    /// exact.
    #[serde(default)]
    pub per_io_intervals: BTreeMap<String, [f64; 2]>,
    /// Completions by delivery path.
    pub vehicles: Vec<(DeliveryPath, u64)>,
    /// Requests by opcode.
    pub opcodes: Vec<(String, u64)>,
}

impl WatchedRun {
    /// Completions per operation; `None`: the number of operations is 0 or unknown.
    pub fn completions_per_operation(&self) -> Option<f64> {
        self.operations.filter(|n| *n > 0).map(|n| self.completions as f64 / n as f64)
    }
}
