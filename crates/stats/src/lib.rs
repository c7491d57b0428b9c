//! Numeric code without I/O: histograms, quantiles, shares of samples, estimated totals, trends over time, ratios of
//! repeats with intervals. It makes no decisions; other crates interpret the numbers.
//!
//! Uses the records of `iotrail-schema`, which it fills.

pub mod bootstrap;
pub mod changes;
mod chi_square;
pub mod durations;
pub mod estimate;
pub mod expansion;
pub mod histogram;
pub mod holm;
pub mod machines;
pub mod mean;
pub mod middle;
pub mod quantile;
pub mod random;
pub mod search;
pub mod share;
mod sparse;
pub mod steady;
pub mod student;

/// The standard normal quantile at 97.5 %, for 95 % intervals.
const Z: f64 = 1.959_963_984_540_054;
