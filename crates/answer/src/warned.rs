//! The warnings of a run's measurements, each said once.

use iotrail_base::grouped::grouped;
use iotrail_schema::measurement::Warning;
use iotrail_schema::run_record::RunRecord;

/// Each warning, and how many measurements gave it. Those that differ in nothing but their figures are one: the first.
pub fn each_once(run: &RunRecord) -> Vec<(&Warning, usize)> {
    let all = run.measurements().flat_map(|m| &m.warnings);
    grouped(all.map(|w| ((&w.code, &w.remedy), w))).into_iter().map(|(_, alike)| (alike[0], alike.len())).collect()
}

/// The warning as a sentence, and how often it was given.
pub fn sentence(warning: &Warning, times: usize, measurements: usize) -> String {
    let remedy = if warning.remedy.is_empty() { String::new() } else { format!("; {}", warning.remedy) };
    let often =
        if times == measurements { String::new() } else { format!(" ({times} of {measurements} measurements)") };
    format!("{}{remedy}{often}", warning.text)
}
