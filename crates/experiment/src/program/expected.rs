//! The reference for all runs of a program.

use std::time::Duration;

use super::guard::Patience;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    pub exit_status: i32,
    pub patience: Patience,
    /// Duration of a trial, including probes and the user's commands before and after it.
    pub trial: Duration,
    /// Duration of a timed run.
    pub each: Duration,
}
