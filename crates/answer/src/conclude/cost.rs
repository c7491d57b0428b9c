//! The arm with the shortest total time over all requests, which is hard to find in a table with many arms.

use super::part::Part;
use crate::spread::Spread;
use iotrail_base::words::{plural, span};
use iotrail_schema::run_record::CellRecord;

pub fn least(part: &Part<'_>) -> Option<String> {
    let elapsed = |c: &CellRecord| Spread::over(c, |m| Some(m.elapsed_ns as f64));
    let all = part.group.rows.iter().flat_map(|r| &r.cells).filter_map(|c| Some((c.arm(), elapsed(c)?)));
    let (arm, time) = all.min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let (middle, low, high) = (span(time.median), span(time.min), span(time.max));
    Some(format!("{arm} has the lowest median: {middle} ({low} to {high} in {}).", plural(time.repeats, "repeat")))
}
