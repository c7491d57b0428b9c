//! Made-up records that tests of several crates start from. No program uses it.

pub mod hostile;
pub mod run;
pub mod sample;
pub mod state;
pub mod trace;
