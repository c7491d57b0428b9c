//! Pure numbers: histograms, quantiles, shares of samples, totals estimated from samples, courses over time, ratios of repeats with
//! their intervals. It reads nothing and decides nothing: what a number means is said elsewhere.
//!
//! It uses the records of `iotrail-schema`, which it fills.

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

/// The standard normal's quantile at 97.5 %: of intervals at 95 %.
const Z: f64 = 1.959_963_984_540_054;
