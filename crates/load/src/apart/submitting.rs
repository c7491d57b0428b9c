//! The submitting thread of a job.

use std::sync::atomic::Ordering;

use probe::probe;

use super::link::Link;
use crate::cpus;
use crate::engine::{Queued, Submitter, Wait};
use crate::feeder::Feeder;
use crate::gate::{self, Stage};
use crate::job::{self, JobOutcome, Part, Shared};
use crate::phases::Ticks;
use crate::rounds::{self, Limits};
use crate::tally::Tally;
use crate::usage;
use iotrail_base::error::Result;

pub struct Submitting<'a, 'b, S> {
    pub shared: &'a Shared<'b>,
    pub job: u32,
    pub link: &'a Link,
    pub submitter: S,
    pub feeder: Feeder,
    /// Number of slots taken back so far (mod 2^32).
    pub head: u32,
    /// Futex calls.
    pub syscalls: u64,
}

impl<S: Submitter> Submitting<'_, '_, S> {
    pub fn all_stages(mut self) -> Result<Option<JobOutcome>> {
        let (shared, spec) = (self.shared, self.shared.spec);
        self.submitter.start().map_err(|e| rounds::broken(spec, "starting", e))?;
        let (mut measured, mut before, mut wakeups_before) = (None, None, None);
        let usage = gate::stages(&shared.gate, |stage| {
            (before, wakeups_before) = (self.calls(), self.submitter.wakeups());
            let done = self.stage(stage);
            self.link.stage_over();
            measured = Some(done?);
            Ok(())
        })?;
        let Some(((ticks, began, ended), usage)) = measured.zip(usage) else { return Ok(None) };
        let until = rounds::limits(shared, self.job, Stage::Measured, began).until;
        let bound = spec.cpus.get(self.job as usize).map(|&c| cpus::is_bound(c));
        let syscalls = self.calls().zip(before).map(|(after, before)| after - before);
        let wakeups = self.submitter.wakeups().zip(wakeups_before).map(|(after, before)| after - before);
        Ok(Some(JobOutcome {
            tally: Tally::new(job::full_result(spec)),
            parts: vec![Part { tid: usage::tid(), usage, bound, ticks, syscalls, wakeups }],
            began,
            ended,
            granted: Vec::new(),
            lateness: self.feeder.lateness(ended.min(until), &shared.clock),
        }))
    }

    fn calls(&self) -> Option<u64> {
        self.submitter.syscalls().map(|s| s + self.syscalls + self.feeder.naps)
    }

    fn take_back(&mut self) {
        self.link.take_back(&mut self.head, |slot| self.feeder.give_back(slot));
    }

    fn stage(&mut self, stage: Stage) -> Result<(Ticks, u64, u64)> {
        let (shared, spec, clock, job) = (self.shared, self.shared.spec, &self.shared.clock, self.job);
        let wait = spec.wait;
        let mut ticks = Ticks::default();
        let began = clock.now();
        let Limits { ios, until, pace } = rounds::limits(shared, job, stage, began);
        self.feeder.begin(stage, ios, pace);
        let mut ending = false;
        loop {
            let now = clock.now();
            if self.link.has_failed() {
                break; // the other thread reports the reason
            }
            if !ending && (now >= until || self.feeder.exhausted() || shared.halt.load(Ordering::Relaxed)) {
                ending = true;
                self.feeder.end();
            }
            let back = self.head;
            self.take_back();
            if back != self.head && spec.think_ns > 0 {
                rounds::think(clock, spec.think_ns);
            }
            if !ending {
                self.feeder.prepare(now);
            }
            if !self.feeder.batch.is_empty() || self.submitter.pending() > 0 {
                let before = clock.now();
                self.submit_batch(before)?;
                ticks.submit += clock.now() - before;
                continue;
            }
            if ending && self.link.is_idle() {
                self.take_back();
                break;
            }
            match self.feeder.next_due() {
                Some(due) => self.feeder.naps += rounds::wait_until(clock, due.min(until), now, wait),
                None if wait == Wait::Block => self.syscalls += self.link.sleep_for_slot(self.head, rounds::NAP),
                None => std::hint::spin_loop(),
            }
        }
        let ended = clock.now();
        ticks.total = ended - began;
        Ok((ticks, began, ended))
    }

    fn submit_batch(&mut self, before: u64) -> Result<()> {
        probe!(iotrail, submit_begin, self.job, self.feeder.batch.len());
        let mut taken = 0;
        for (i, io) in self.feeder.batch.iter().enumerate() {
            self.feeder.slots.begin(io.slot, self.feeder.since(i, before));
            // Engines that complete in `queue` have nothing to reap; resolve() rejects a reaper thread with them.
            match self.submitter.queue(io) {
                Queued::Queued | Queued::Completed(_) => taken += 1,
                Queued::Busy => break,
            }
        }
        self.link.queued(taken);
        let submitted = self.submitter.submit();
        probe!(iotrail, submit_end, self.job, taken);
        self.feeder.taken(taken as usize);
        if let Err(e) = submitted {
            self.link.refused(self.submitter.pending());
            return Err(rounds::broken(self.shared.spec, "submitting", e));
        }
        self.syscalls += self.link.wake_reaper();
        Ok(())
    }
}
