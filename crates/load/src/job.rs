//! State shared by the jobs of a load, and the result of each.

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

/// State that all jobs share.
pub struct Shared<'a> {
    pub spec: &'a LoadSpec,
    pub clock: Clock,
    pub gate: Gate,
    /// Submit no more: the user has stopped the load, or a job has failed.
    pub halt: AtomicBool,
    /// I/Os of the stage that runs, by job; for the progress display.
    pub done: Vec<AtomicU64>,
    /// SQPOLL threads, by job; 0: none, or not known.
    pub sq_tids: Vec<AtomicI32>,
    /// Whole blocks of the target; 0 without one.
    pub blocks: u64,
    /// For a target without files.
    pub passage: Option<&'a Passage>,
    /// Seed of all random decisions of the load.
    pub seed: u32,
}

/// Result of one thread of a job for the measured stage.
pub struct Part {
    pub tid: i32,
    pub usage: usage::Usage,
    /// `None`: it was not pinned; otherwise whether it is still pinned, and runs on its CPU.
    pub bound: Option<bool>,
    pub ticks: Ticks,
    pub syscalls: Option<u64>,
    /// Submitting half: times that it woke the SQPOLL thread; `None` without one.
    pub wakeups: Option<u64>,
}

/// Result of one job for the measured stage.
pub struct JobOutcome {
    pub tally: Tally,
    pub parts: Vec<Part>,
    /// First and last stamp.
    pub began: u64,
    pub ended: u64,
    pub granted: Vec<String>,
    /// Open loop: the largest lag in ns, and due I/Os that were never submitted.
    pub lateness: Option<(u64, u64)>,
}

/// The result that an I/O has when it moved all it should.
pub fn full_result(spec: &LoadSpec) -> i32 {
    let moves_nothing = spec.rw == Rw::Nop && spec.engine.engine().nop == Nop::MovesNothing;
    if moves_nothing { 0 } else { spec.block_bytes as i32 }
}

/// A load whose I/Os all fail or move nothing ends after this many: its target is lost.
pub const LOST: u64 = 10_000;
