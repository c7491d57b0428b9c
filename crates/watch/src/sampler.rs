//! Samples of the traced processes' CPU time, including processes that start during the trace.

use std::collections::BTreeSet;

use super::processes::Processes;
use iotrail_base::error::Result;
use iotrail_probe::profile::{ObjectSlot, Profiler, Subject, Whom};
use iotrail_probe::sampled::CpuShares;
use iotrail_probe::sampling::Sampling;
use iotrail_schema::measurement::Warning;

/// A process is sampled from the time it is found, by a sample of its parent or by a traced request.
pub struct Sampler<'room> {
    profiler: Profiler<'room>,
    told: BTreeSet<u32>,
    refused: u64,
}

impl<'room> Sampler<'room> {
    pub fn open(room: &'room mut ObjectSlot, sampling: Sampling) -> Result<Self> {
        let subject = Subject { whom: Whom::Tgids(vec![]), exclude_tid: 0, sampling };
        Ok(Sampler { profiler: Profiler::open(room, subject)?, told: BTreeSet::new(), refused: 0 })
    }

    pub fn begin(&mut self) -> Result<()> {
        self.profiler.begin()
    }

    /// Adds processes that are traced by now.
    pub fn tell(&mut self, processes: &Processes) {
        for (tgid, _) in processes.names() {
            if self.told.insert(tgid) && self.profiler.watch(tgid).is_err() {
                self.refused += 1;
            }
        }
    }

    pub fn end(&mut self) -> Result<CpuShares> {
        Ok(self.profiler.end()?.shares(None))
    }

    /// Warns about processes that did not fit in the sampled set.
    pub fn doubt(&self) -> Option<Warning> {
        (self.refused > 0).then(|| {
            Warning::new(
                "not_sampled",
                format!("{} of {} processes were not sampled: the map is full", self.refused, self.told.len()),
                "the shares cover the others",
            )
        })
    }
}
