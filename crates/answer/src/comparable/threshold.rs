//! From when on a difference matters.

/// Differences below it are within what an interrupt here and a page there make; above it they would show in a comparison,
/// whose smallest visible difference is seldom under 5 %.
pub(super) const MATTERS: f64 = 0.05;
