//! The warnings of a run's measurements, each listed once.

pub mod doubt;
pub mod losses;

use iotrail_schema::measurement::Warning;
use iotrail_schema::run_record::RunRecord;

/// Each warning with the number of affected measurements. Warnings that differ only in numbers are merged into the
/// first.
pub fn each_once(run: &RunRecord) -> Vec<(Warning, usize)> {
    let mut found: Vec<(Warning, usize)> = Vec::new();
    for m in run.measurements() {
        for w in &m.warnings {
            match found.iter_mut().find(|(known, _)| (&known.code, &known.remedy) == (&w.code, &w.remedy)) {
                Some((_, times)) => *times += 1,
                None => found.push((w.clone(), 1)),
            }
        }
    }
    found
}

/// The warning as a sentence, with the number of affected measurements.
pub fn sentence(warning: &Warning, times: usize, measurements: usize) -> String {
    let remedy = if warning.remedy.is_empty() { String::new() } else { format!("; {}", warning.remedy) };
    let often =
        if times == measurements { String::new() } else { format!(" ({times} of {measurements} measurements)") };
    format!("{}{remedy}{often}", warning.text)
}
