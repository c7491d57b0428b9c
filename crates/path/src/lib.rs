//! Interprets the records of a completion: its kernel entry and thus its delivery path. Pure: no I/O, no kernel, no
//! clock.
//!
//! Uses `iotrail-schema` and `iotrail-stats`.

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
