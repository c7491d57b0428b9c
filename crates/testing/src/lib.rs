//! Synthetic records, and a small sysfs and procfs, for tests of several crates; not used outside tests.

pub mod fixture;
pub mod hostile;
pub mod run;
pub mod sample;
pub mod state;
pub mod trace;
