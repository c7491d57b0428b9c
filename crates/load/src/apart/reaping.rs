//! The reaping thread of a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use probe::probe;

use super::link::Link;
use crate::cpus;
use crate::engine::{Completion, Memory, Reaper, Wait};
use crate::gate;
use crate::job::{self, Part, Shared};
use crate::phases::Ticks;
use crate::rounds;
use crate::scratch::Pages;
use crate::tally::{Slots, Tally};
use crate::usage;
use iotrail_base::error::Result;

/// The reaping thread's result for the measured stage.
pub struct Reaped {
    pub tally: Tally,
    pub part: Part,
    pub ended: u64,
}

pub struct Reaping<'a, 'b, R> {
    pub shared: &'a Shared<'b>,
    pub job: u32,
    pub cpu: Option<u32>,
    pub link: &'a Link,
    pub reaper: R,
    pub scratch: Option<Pages>,
    pub slots: Arc<Slots>,
    pub memory: Memory,
}

impl<R: Reaper> Reaping<'_, '_, R> {
    pub fn all_stages(mut self) -> Result<Option<Reaped>> {
        let (shared, spec) = (self.shared, self.shared.spec);
        match self.cpu {
            Some(cpu) => cpus::bind(cpu)?,
            // May run next to the job instead of only on the job's CPU.
            None => cpus::unbind()?,
        }
        self.reaper.start().map_err(|e| rounds::broken(spec, "starting", e))?;
        let mut found = Vec::with_capacity(spec.depth as usize);
        let mut tally = Tally::new(job::full_result(spec));
        let (mut measured, mut calls, mut stages) = (None, None, 0);
        let usage = gate::stages(&shared.gate, |_| {
            let before = self.reaper.syscalls();
            let (done, futexes) = self.stage(stages, &mut found, &mut tally)?;
            calls = self.reaper.syscalls().zip(before).map(|(after, before)| after - before + futexes);
            measured = Some(done);
            stages += 1;
            Ok(())
        })?;
        let Some(((ticks, ended), usage)) = measured.zip(usage) else { return Ok(None) };
        let bound = self.cpu.map(cpus::is_bound);
        let part = Part { tid: usage::tid(), usage, bound, ticks, syscalls: calls, wakeups: None };
        Ok(Some(Reaped { tally, part, ended }))
    }

    fn stage(&mut self, stages: u32, found: &mut Vec<Completion>, tally: &mut Tally) -> Result<((Ticks, u64), u64)> {
        let (shared, spec, clock, job) = (self.shared, self.shared.spec, &self.shared.clock, self.job);
        let wait = spec.wait;
        let done: &AtomicU64 = &shared.done[job as usize];
        tally.clear();
        let mut ticks = Ticks::default();
        let mut tail = self.link.tail();
        let mut futexes = 0;
        let scratch_before = self.scratch.as_ref().map_or(0, |p| p.syscalls);
        let began = clock.now();
        let mut last = began;
        loop {
            if self.link.is_idle() {
                if self.link.is_over(stages) {
                    break;
                }
                match wait {
                    Wait::Block => futexes += self.link.sleep_for_io(stages, rounds::NAP),
                    Wait::Peek => std::hint::spin_loop(),
                }
                continue;
            }
            let before = clock.now();
            probe!(iotrail, poll_begin, job, 1);
            let polled = self.reaper.poll(1, wait, None, found);
            probe!(iotrail, poll_end, job, found.len());
            let now = clock.now();
            ticks.poll += now - before;
            polled.map_err(|e| rounds::broken(spec, "waiting for completions", e))?;
            if found.is_empty() {
                continue;
            }
            probe!(iotrail, clear_begin, job, found.len());
            self.reaper.clear();
            probe!(iotrail, clear_end, job, found.len());
            ticks.clear += clock.now() - now;
            last = now;
            tally.settle(clock, &self.slots, &self.memory, found, now);
            futexes += self.link.give_back(&mut tail, found.iter().map(|c| c.slot));
            done.store(tally.ios, Ordering::Relaxed);
            if let Some(pages) = &mut self.scratch {
                pages
                    .advance(found.len() as u64)
                    .map_err(|e| rounds::broken(spec, "touching its scratch memory", e))?;
            }
            found.clear();
            if tally.in_vain > 0 {
                rounds::check_errors(shared, tally)?;
            }
        }
        ticks.total = clock.now() - began;
        let scratch = self.scratch.as_ref().map_or(0, |p| p.syscalls) - scratch_before;
        Ok(((ticks, last), futexes + scratch))
    }
}
