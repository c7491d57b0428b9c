//! Synthetic records for the tests of several crates. No program uses it.

pub mod hostile;
pub mod run;
pub mod sample;
pub mod state;
pub mod trace;
