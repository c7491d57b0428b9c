//! One watched cell: the load with the probes around it.

use std::sync::atomic::AtomicBool;

use hdrhistogram::Histogram;

use crate::error::{Error, Result};
use crate::load::Progress;
use crate::load::options::LoadOptions;
use crate::measurement::Measurement;

/// What one cell yields.
pub struct Measured {
    pub measurement: Measurement,
    /// Latencies in nanoseconds, all jobs together.
    pub histogram: Histogram<u64>,
    /// Stopped before its end: the numbers are of a shorter run than was asked for.
    pub interrupted: bool,
}

/// Runs the load once, watched.
pub fn run(_options: &LoadOptions, _progress: &mut dyn FnMut(Progress), _stop: &AtomicBool) -> Result<Measured> {
    Err(Error::machine("this build has no load to run", "use a release of iotrail"))
}
