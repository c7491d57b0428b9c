//! The threshold of a significant difference.

/// Smaller differences are within the effect of single interrupts and pages. A larger one would show in a comparison,
/// whose minimum detectable effect is rarely below 5 %.
pub(super) const MATTERS: f64 = 0.05;
