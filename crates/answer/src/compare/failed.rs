//! A cell that failed during its run: its earlier measurements are not a valid sample.

use iotrail_base::words::plural;
use iotrail_schema::run_record::CellRecord;

/// `sqpoll failed after 3 measurements: it stalled`; `None`: it was measured as planned, or not at all.
pub fn failed(cell: &CellRecord) -> Option<String> {
    let why = cell.untestable.as_ref().filter(|_| !cell.measurements.is_empty())?;
    let what = if cell.arm().is_empty() { "it" } else { cell.arm() };
    Some(format!("{what} failed after {}: {why}", plural(cell.measurements.len(), "measurement")))
}
