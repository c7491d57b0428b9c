//! Meaning of a completion's records: its kernel entry, and so its delivery path. Pure: no I/O, no kernel, no clock.
//!
//! It uses `iotrail-schema`, `iotrail-stats`.

pub mod assemble;
pub mod delivery;
pub mod distribution;
pub mod division;
pub mod entry;
pub mod event;
pub mod files;
pub mod loss;
pub mod memory;
pub mod multishot;
pub mod order;
pub mod place;
pub mod reaped;
pub mod runnable;
pub mod sample;
pub mod sleep;
pub mod slowest;
pub mod times;
pub mod waits;
