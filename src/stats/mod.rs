//! Pure numbers: histograms, quantiles, shares of samples, totals estimated from samples, courses over time.

pub mod estimate;
pub mod histogram;
pub mod quantile;
pub mod share;
pub mod steady;

/// The standard normal's quantile at 97.5 %: of intervals at 95 %.
const Z: f64 = 1.959_963_984_540_054;
