//! State shared by a load's jobs, and each job's result.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};

use crate::engine::Passage;
use crate::engine::capabilities::Nop;

use super::clock::Clock;
use super::gate::Gate;
use super::options::Rw;
use super::phases::Ticks;
use super::spec::LoadSpec;
use super::tally::Tally;
use super::usage;

/// State shared by all jobs.
pub struct Shared<'a> {
    pub spec: &'a LoadSpec,
    pub clock: Clock,
    pub gate: Gate,
    /// Stops submissions: the user has stopped the load, or a job has failed.
    pub halt: AtomicBool,
    /// I/Os of the current stage, by job; for the progress display.
    pub done: Vec<AtomicU64>,
    /// Thread IDs of SQPOLL threads, by job; 0 if none or unknown.
    pub sq_tids: Vec<AtomicI32>,
    /// Complete blocks of the target; 0 without a target.
    pub blocks: u64,
    /// For a target without files.
    pub passage: Option<&'a Passage>,
    /// Seed of all the load's random decisions.
    pub seed: u32,
}

/// Result of one of a job's threads for the measured stage.
pub struct Part {
    pub tid: i32,
    pub usage: usage::Usage,
    /// `None` if the thread was not pinned; otherwise whether it is still pinned and runs on its CPU.
    pub bound: Option<bool>,
    pub ticks: Ticks,
    pub syscalls: Option<u64>,
    /// Wake-ups of the SQPOLL thread by the submitting half; `None` without one.
    pub wakeups: Option<u64>,
}

/// Result of a job for the measured stage.
pub struct JobOutcome {
    pub tally: Tally,
    pub parts: Vec<Part>,
    /// First and last timestamp.
    pub began: u64,
    pub ended: u64,
    pub granted: Vec<String>,
    /// Open loop: the largest lag in ns, and the number of due I/Os that were never submitted.
    pub lateness: Option<(u64, u64)>,
}

/// The result of an I/O that transferred everything.
pub fn full_result(spec: &LoadSpec) -> i32 {
    let moves_nothing = spec.rw == Rw::Nop && spec.engine.engine().nop == Nop::MovesNothing;
    if moves_nothing { 0 } else { spec.block_bytes as i32 }
}

/// If this many I/Os all fail or transfer nothing, the load ends, because its target is lost.
pub const LOST: u64 = 10_000;
