//! What records of a completion mean: its stages and its vehicle. Pure: no I/O, no kernel, no clock.

pub mod vehicle;
