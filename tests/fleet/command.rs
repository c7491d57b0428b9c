//! Runs commands of these tests with a time limit.

#[path = "../it/ended.rs"]
mod ended;

use std::process::{Child, Command};

pub use self::ended::{Ended, kill};
use crate::cluster::PATIENCE;

/// Waits until the command exits, within the limit.
#[track_caller]
pub fn end(child: Child) -> Ended {
    ended::end_within(PATIENCE, child)
}

#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    end(command.spawn().expect("the command starts"))
}
