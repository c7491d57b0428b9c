//! A program of the user's as a load: what one run of it yields beside the counts, and what became of the arms that were to be tried.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::delivery_path::DeliveryPath;

/// One run of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramRecord {
    /// The command.
    pub argv: Vec<String>,
    /// Options of `iotrail try` that make the arm; empty: the program as it is.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Its exit status; 128 + the signal where one killed it.
    pub exit_status: i32,
    /// The probes watched this run. Otherwise nothing is known of its I/Os: `ios`, `bytes`, `iops` and the counts per I/O say nothing.
    pub watched: bool,
    /// The program's own figures.
    pub figures: Vec<OwnFigure>,
    /// Rings that its processes set up, in their order.
    pub rings: Vec<ProgramRing>,
}

/// A number that the program printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnFigure {
    /// As `--metric` calls it.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Which way is better.
    pub less_is_better: bool,
}

/// A ring that a program set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRing {
    /// The process, in iotrail's PID namespace.
    pub pid: u32,
    /// Setup flags that the program asked for.
    pub asked: Vec<String>,
    /// Setup flags that the kernel was given.
    pub granted: Vec<String>,
    /// The kernel's io_uring_create event showed a ring with these flags; left out where nobody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<bool>,
    /// Why it was left as the program asked; left out where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_as_asked: Option<String>,
}

/// An arm of a program, judged before it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriedArm {
    /// The arm.
    pub name: String,
    /// Whether it can be.
    pub legal: Legal,
    /// Why it is not legal, or what the risk is; empty: nothing stands against it.
    pub reason: String,
    /// Rings of its first run.
    pub rings: Vec<ProgramRing>,
    /// Why it is not measured, though it may be legal; null: it is measured.
    pub dropped: Option<String>,
    /// What the probes counted in its first run; null: it was not watched.
    #[serde(default)]
    pub watched: Option<WatchedRun>,
    /// A run that hung, of this arm or of one whose settings this arm has too. Left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hang: Option<Hang>,
}

/// A run that did not end, or completed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hang {
    /// The arm that hung.
    pub arm: String,
    /// After this time it was ended.
    pub waited_ns: u64,
}

impl TriedArm {
    pub fn is_measured(&self) -> bool {
        self.legal != Legal::No && self.dropped.is_none()
    }
}

/// By the kernel's rules, and by what the program as it is does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Legal {
    /// Nothing stands against it.
    Yes,
    /// The program may not be able to live with it.
    Risky,
    /// The kernel does not take it from this program: it is not run.
    No,
}

/// What the probes counted in one run of an arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedRun {
    /// Completions.
    pub completions: u64,
    /// As a trace's; null in older records.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Wall time.
    pub elapsed_ns: u64,
    /// As a measurement's; null: not counted.
    pub kicks_per_io: Option<f64>,
    /// As a measurement's; null: not counted.
    pub syscalls_per_io: Option<f64>,
    /// Context switches per I/O; null: not counted.
    pub sleeps_per_io: Option<f64>,
    /// CPU time of the program per I/O; null: not known.
    pub cpu_per_io_ns: Option<f64>,
    /// 95 % intervals of the estimates among the counts per I/O, by their names in a trace's `per_io`. A count without one is exact.
    #[serde(default)]
    pub per_io_intervals: BTreeMap<String, [f64; 2]>,
    /// Completions by delivery path.
    pub vehicles: Vec<(DeliveryPath, u64)>,
    /// Requests by opcode.
    pub opcodes: Vec<(String, u64)>,
}

impl WatchedRun {
    /// Completions per operation; `None`: it had no operation, or they are not known.
    pub fn completions_per_operation(&self) -> Option<f64> {
        self.operations.filter(|n| *n > 0).map(|n| self.completions as f64 / n as f64)
    }
}
