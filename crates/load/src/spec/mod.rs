//! A load's validated plan. No later code parses options or chooses defaults.
//!
//! | file | responsible for |
//! |---|---|
//! | `resolve` | options → the plan, once |
//! | `ring` | the options that are io_uring's |
//! | `record` | the plan as a measurement records it |

mod record;
mod resolve;
mod ring;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use super::options::{Commit, EngineKind, Rw, Scratch, Trace, Wait};
use crate::engine;
use iotrail_base::error::{Error, Result};
use iotrail_base::units::Span;
use iotrail_schema::measurement::Warning;

/// Default duration of the measured stage.
const RUNTIME: Duration = Duration::from_secs(5);

/// Which thread reaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaperKind {
    /// The submitting thread.
    Same,
    /// A separate thread on this CPU; `None` to let the scheduler choose.
    Thread { cpu: Option<u32> },
}

/// When the measured stage ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    After(Duration),
    /// This many I/Os over all jobs.
    Ios(u64),
}

impl End {
    /// By `--count`, by `--runtime`, or after [`RUNTIME`] by default.
    pub fn of(count: Option<u64>, runtime: Option<Span>) -> Result<Self> {
        match (count, runtime) {
            (Some(_), Some(_)) => Err(Error::input("--count and --runtime are both specified", "use only one of them")),
            (Some(0), _) => Err(Error::input("--count 0 measures nothing", "use 1 or more")),
            (Some(n), None) => Ok(End::Ios(n)),
            (None, Some(span)) if span.0.is_zero() => {
                Err(Error::input("--runtime 0 measures nothing", "use a longer time"))
            }
            (None, Some(span)) => Ok(End::After(span.0)),
            (None, None) => Ok(End::After(RUNTIME)),
        }
    }

    pub fn span(self) -> Option<Duration> {
        match self {
            End::After(span) => Some(span),
            End::Ios(_) => None,
        }
    }

    pub fn ios(self) -> Option<u64> {
        match self {
            End::After(_) => None,
            End::Ios(n) => Some(n),
        }
    }
}

/// A resolved load: every accepted combination can run, as far as known without accessing the target.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSpec {
    pub engine: EngineKind,
    /// The ring's configuration; ignored by engines without a ring.
    pub ring: engine::io_uring::Config,
    pub rw: Rw,
    pub commit: Commit,
    pub block_bytes: u32,
    pub depth: u32,
    pub batch: u32,
    pub jobs: u32,
    pub cpus_requested: Option<String>,
    /// Each job's CPU; empty if not pinned.
    pub cpus: Vec<u32>,
    pub wait: Wait,
    pub reaper: ReaperKind,
    pub think_ns: u64,
    pub scratch: Scratch,
    /// Compute-bound processes on each of `neighbour_cpus`.
    pub neighbours: u32,
    /// The load's CPUs without duplicates: those of the jobs, or all online CPUs if jobs are not pinned.
    pub neighbour_cpus: Vec<u32>,
    pub file: Option<PathBuf>,
    pub size: Option<u64>,
    pub direct: bool,
    pub end: End,
    pub warmup: Duration,
    /// I/Os per second over all jobs; `None` for a closed loop.
    pub rate: Option<f64>,
    pub verify: bool,
    /// Seed of the pattern; `None` for a random one at the load's start.
    pub seed: Option<u32>,
    pub allow_write: bool,
    pub trace: Trace,
    /// Options that were resolved differently from the request.
    pub warnings: Vec<Warning>,
}

impl LoadSpec {
    /// Whether the load writes to its target.
    pub fn writes(&self) -> bool {
        self.rw.writes()
    }
}
