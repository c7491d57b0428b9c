//! What every run of a program is held against.

use std::time::Duration;

use super::guard::Patience;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    pub exit_status: i32,
    pub patience: Patience,
    /// A trial, with the probes and the commands of the user's around it.
    pub trial: Duration,
    /// A timed run.
    pub each: Duration,
}
