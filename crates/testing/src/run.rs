//! Runs without measurements.

use iotrail_schema::run_record::RunRecord;

/// Two depths with two arms each, three repeats.
pub fn two_by_two() -> RunRecord {
    serde_json::from_str(include_str!("two_by_two.json")).expect("a run as it is stored")
}
