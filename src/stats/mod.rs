//! Pure numbers: histograms and quantiles.

pub mod histogram;
pub mod quantile;
