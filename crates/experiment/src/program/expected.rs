//! The reference for all runs of a program.

use std::time::Duration;

use super::guard::Patience;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    pub exit_status: i32,
    pub patience: Patience,
    /// A trial, with the probes and the user's commands before and after it.
    pub trial: Duration,
    /// A timed run.
    pub each: Duration,
}
