//! A program of the user's as a load: what one run of it yields beside the counts, and what became of the arms that were to be tried.

use serde::{Deserialize, Serialize};

use crate::vehicle::Vehicle;

/// One run of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramRecord {
    pub argv: Vec<String>,
    /// 128 + the signal where one killed it.
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
    pub name: String,
    pub value: f64,
    pub less_is_better: bool,
}

/// A ring that a program set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRing {
    pub pid: u32,
    /// Setup flags that the program asked for, and
    pub asked: Vec<String>,
    /// those that the kernel was given and granted.
    pub granted: Vec<String>,
    /// Why it was left as the program asked; null: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_as_asked: Option<String>,
}

/// An arm of a program, judged before it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriedArm {
    pub name: String,
    pub legal: Legal,
    /// Why it is not, or what the risk is; empty: nothing stands against it.
    pub reason: String,
    /// Of its watched run.
    pub rings: Vec<ProgramRing>,
    /// Why it is not measured, though it may be legal; null: it is measured.
    pub dropped: Option<String>,
    /// What delivered its completions, and how many requests each opcode had, of its watched run; null: it had none.
    #[serde(default)]
    pub watched: Option<WatchedRun>,
}

impl TriedArm {
    pub fn is_measured(&self) -> bool {
        self.legal != Legal::No && self.dropped.is_none()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Legal {
    Yes,
    Risky,
    No,
}

/// What the probes counted in one run of an arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedRun {
    pub completions: u64,
    pub elapsed_ns: u64,
    pub kicks_per_io: Option<f64>,
    pub syscalls_per_io: Option<f64>,
    pub sleeps_per_io: Option<f64>,
    pub cpu_per_io_ns: Option<f64>,
    /// Vehicle → completions.
    pub vehicles: Vec<(Vehicle, u64)>,
    /// Opcode → requests.
    pub opcodes: Vec<(String, u64)>,
}
