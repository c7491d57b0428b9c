//! Pure numbers: histograms, quantiles, shares of samples, totals estimated from samples.

pub mod estimate;
pub mod histogram;
pub mod quantile;
pub mod share;
