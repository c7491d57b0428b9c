//! The unit that a load counts.

use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::RunRecord;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Io,
    /// A request over the network and its response.
    Request,
}

impl Unit {
    pub fn of(m: &Measurement) -> Self {
        if m.net.is_some() { Unit::Request } else { Unit::Io }
    }

    /// All loads of a run are of the same kind.
    pub fn of_run(run: &RunRecord) -> Self {
        run.first().map_or(Unit::Io, Unit::of)
    }

    pub fn one(self) -> &'static str {
        match self {
            Unit::Io => "I/O",
            Unit::Request => "request",
        }
    }

    /// Rate unit, to follow a number.
    pub fn per_second(self) -> &'static str {
        match self {
            Unit::Io => "IOPS",
            Unit::Request => "requests per second",
        }
    }
}
