//! Cells that failed during the run: their earlier measurements are a biased sample.

use iotrail_base::words::plural;
use iotrail_schema::run_record::{CONTROL, CellRecord};

/// `sqpoll failed after 3 measurements: it stalled`; `None` if the cell was measured as planned or never.
pub fn failed(cell: &CellRecord) -> Option<String> {
    let why = cell.untestable.as_ref().filter(|_| !cell.measurements.is_empty())?;
    let what = match cell.arm() {
        "" => "it",
        CONTROL => "the control (the first arm, measured again)",
        arm => arm,
    };
    Some(format!("{what} failed after {}: {why}", plural(cell.measurements.len(), "measurement")))
}
