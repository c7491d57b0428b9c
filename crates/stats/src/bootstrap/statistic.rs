//! A number of repeats that are drawn some times each.

/// A number of one side, of its repeats drawn some times each.
pub trait Statistic {
    /// How many repeats there are.
    fn repeats(&self) -> usize;

    /// Its logarithm, where repeat i was drawn `times[i]` times; not all are 0.
    fn log(&self, times: &[u32]) -> f64;

    /// The relative error that the number has however many repeats there are.
    fn resolution(&self) -> f64;
}
