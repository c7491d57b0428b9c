//! The warnings of a run's measurements, each listed once.

pub mod doubt;
pub mod losses;

use iotrail_schema::measurement::Warning;
use iotrail_schema::run_record::RunRecord;

/// Each warning, and the number of measurements that gave it. Warnings that differ only in their numbers are one: the first.
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

/// The warning as a sentence, and the number of measurements that gave it.
pub fn sentence(warning: &Warning, times: usize, measurements: usize) -> String {
    let remedy = if warning.remedy.is_empty() { String::new() } else { format!("; {}", warning.remedy) };
    let often =
        if times == measurements { String::new() } else { format!(" ({times} of {measurements} measurements)") };
    format!("{}{remedy}{often}", warning.text)
}
