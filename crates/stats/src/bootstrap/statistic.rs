//! A number computed from repeats with multiplicities.

/// A number of one side, computed from its repeats with multiplicities.
pub trait Statistic {
    /// Number of repeats.
    fn repeats(&self) -> usize;

    /// Its logarithm if repeat i was drawn `times[i]` times; not all are 0.
    fn log(&self, times: &[u32]) -> f64;

    /// The relative error of the number, independent of the number of repeats.
    fn resolution(&self) -> f64;
}
