//! Pure numbers: histograms, quantiles, shares of samples.

pub mod histogram;
pub mod quantile;
pub mod share;
