//! The unit that a load counts, in words.

use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::RunRecord;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Io,
    /// Over the network, with its response.
    Request,
}

impl Unit {
    pub fn of(m: &Measurement) -> Self {
        if m.net.is_some() { Unit::Request } else { Unit::Io }
    }

    /// A run's loads are of one kind.
    pub fn of_run(run: &RunRecord) -> Self {
        run.first().map_or(Unit::Io, Unit::of)
    }

    pub fn one(self) -> &'static str {
        match self {
            Unit::Io => "I/O",
            Unit::Request => "request",
        }
    }

    /// Behind a number.
    pub fn per_second(self) -> &'static str {
        match self {
            Unit::Io => "IOPS",
            Unit::Request => "requests per second",
        }
    }
}
