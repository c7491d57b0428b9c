//! A value computed from repeats with multiplicities.

/// A value of one side, computed from its repeats with multiplicities.
pub trait Statistic {
    /// Number of repeats.
    fn repeats(&self) -> usize;

    /// Logarithm of the value if repeat i was drawn `times[i]` times. Not all are 0.
    fn log(&self, times: &[u32]) -> f64;

    /// Relative error of the value, independent of the number of repeats.
    fn resolution(&self) -> f64;
}
