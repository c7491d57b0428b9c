//! Text for a terminal, 80 columns wide. Colour is never the only sign of anything.

mod bench;
mod cost;
mod delivery;
mod layout;
mod run;

use crate::measurement::Measurement;
use crate::run_record::RunRecord;
use crate::store::RunSummary;

pub use self::layout::{Style, WIDTH, sanitise};

/// One measurement, as `bench` prints it.
pub fn bench(m: &Measurement) -> String {
    bench::screen(m, Style::of_stdout())
}

/// A run of an experiment: a table for each group of cells, then what is concluded.
pub fn run(run: &RunRecord) -> String {
    run::screen(run, Style::of_stdout())
}

/// The stored runs, one a line.
pub fn list(runs: &[RunSummary]) -> String {
    run::list(runs, Style::of_stdout())
}

#[cfg(test)]
mod tests;
