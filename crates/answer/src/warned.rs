//! The warnings of a run's measurements, each said once.

use iotrail_schema::measurement::Warning;
use iotrail_schema::run_record::RunRecord;

/// Each warning, and how many measurements gave it. Those that differ in nothing but their figures are one: the first.
pub fn each_once(run: &RunRecord) -> Vec<(&Warning, usize)> {
    let mut all: Vec<(&Warning, usize)> = Vec::new();
    for w in run.cells.iter().flat_map(|c| &c.measurements).flat_map(|m| &m.warnings) {
        match all.iter_mut().find(|(seen, _)| seen.code == w.code && seen.remedy == w.remedy) {
            Some((_, n)) => *n += 1,
            None => all.push((w, 1)),
        }
    }
    all
}

/// The warning as a sentence, and how often it was given.
pub fn sentence(warning: &Warning, times: usize, measurements: usize) -> String {
    let remedy = if warning.remedy.is_empty() { String::new() } else { format!("; {}", warning.remedy) };
    let often =
        if times == measurements { String::new() } else { format!(" ({times} of {measurements} measurements)") };
    format!("{}{remedy}{often}", warning.text)
}
