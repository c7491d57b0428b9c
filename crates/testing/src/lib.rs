//! Synthetic records for tests of several crates; not used outside tests.

pub mod hostile;
pub mod run;
pub mod sample;
pub mod state;
pub mod trace;
