//! A job: a thread that submits, and also reaps unless another thread does (`apart.rs`).

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use probe::probe;

use crate::engine::{self, Completion, Drive, Opened, Opening, Queued, Reaper, Submitter, Wait};
use iotrail_base::error::{OrFail, Result};

use super::buffers::Buffers;
use super::feeder::Feeder;
use super::gate::{self, AtGate, Stage};
use super::job::{JobOutcome, Part, Shared, full_result};
use super::options::{Commit, Rw};
use super::pattern::{Pattern, Region};
use super::phases::Ticks;
use super::rounds::{Limits, NAP, broken, check_errors, limits, think, wait_until};
use super::scratch::Pages;
use super::spec::ReaperKind;
use super::tally::{Slots, Tally};
use super::{apart, cpus, usage};

/// Runs job `job` on the calling thread. `fd`: its target.
pub fn run(shared: &Shared, job: u32, fd: Option<RawFd>) -> Result<JobOutcome> {
    let _at_gate = AtGate(&shared.gate);
    let outcome = open_and_drive(shared, job, fd);
    if outcome.is_err() {
        shared.halt.store(true, Ordering::Relaxed);
    }
    outcome
}

fn open_and_drive(shared: &Shared, job: u32, fd: Option<RawFd>) -> Result<JobOutcome> {
    let spec = shared.spec;
    if let Some(&cpu) = spec.cpus.get(job as usize) {
        cpus::bind(cpu)?;
    }
    let buffers = Buffers::placed(spec.depth, spec.block_bytes, seed_of(shared, job))
        .or_machine("cannot allocate the I/O buffers", "use a smaller --depth, --bs or --jobs")?;
    let memory = buffers.memory();
    let opening = Opening {
        engine: spec.engine.engine(),
        job: engine::Job { memory, fd, batch: spec.batch, commit: spec.commit },
        ring: &spec.ring,
        passage: shared.passage,
    };
    spec.engine.open(&opening, Start { shared, job, buffers })
}

/// A job's random decisions depend only on the load's seed.
fn seed_of(shared: &Shared, job: u32) -> u64 {
    u64::from(shared.seed) ^ u64::from(job + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A job that is about to start its engine.
struct Start<'a, 'b> {
    shared: &'a Shared<'b>,
    job: u32,
    buffers: Buffers,
}

impl Drive for Start<'_, '_> {
    type Outcome = JobOutcome;

    fn drive<S: Submitter, R: Reaper>(self, opened: Opened<S, R>) -> Result<JobOutcome> {
        let Opened { submitter, reaper, granted, sq_tid } = opened;
        if let Some(tid) = sq_tid {
            self.shared.sq_tids[self.job as usize].store(tid, Ordering::Relaxed);
        }
        let (shared, job) = (self.shared, self.job);
        let spec = shared.spec;
        let memory = self.buffers.memory();
        let slots = Arc::new(Slots::new(spec.depth, spec.verify));
        let apart = spec.rw.is_sequential() || spec.verify;
        let region = match spec.rw {
            // The job has a file of its own.
            Rw::Append => Region { first: 0, blocks: shared.blocks / u64::from(spec.jobs) },
            _ => Region::of(job, spec.jobs, shared.blocks, apart),
        };
        let seed = seed_of(shared, job);
        let pattern = Pattern::new(spec.rw, region, u64::from(spec.block_bytes), seed);
        let mut feeder = Feeder::new(pattern, spec.batch, memory, slots).partial(spec.ring.waits.min_us > 0);
        if spec.verify {
            feeder = feeder.verify(region, seed);
        }
        let scratch = Pages::new(spec.scratch).or_machine("cannot allocate the scratch memory", "omit --scratch")?;
        let mut in_flight = 0;
        let outcome = match spec.reaper {
            ReaperKind::Same => {
                let mut worker =
                    Same { shared, job, submitter, reaper, feeder, scratch, found: Vec::new(), in_flight: 0 };
                worker.found.reserve_exact(spec.depth as usize);
                let outcome = worker.all_stages(granted);
                in_flight = worker.in_flight;
                outcome
            }
            ReaperKind::Thread { cpu } => {
                apart::run(shared, job, cpu, submitter, reaper, feeder, scratch, granted, &mut in_flight)
            }
        };
        if in_flight > 0 {
            // The failed engine does not know when the kernel stops using the buffers.
            self.buffers.leak();
        }
        outcome
    }
}

/// A job that submits and reaps on the same thread.
struct Same<'a, 'b, S, R> {
    shared: &'a Shared<'b>,
    job: u32,
    submitter: S,
    reaper: R,
    feeder: Feeder,
    scratch: Option<Pages>,
    found: Vec<Completion>,
    /// I/Os queued but not reaped.
    in_flight: u32,
}

impl<S: Submitter, R: Reaper> Same<'_, '_, S, R> {
    fn all_stages(&mut self, granted: Vec<String>) -> Result<JobOutcome> {
        let (shared, spec) = (self.shared, self.shared.spec);
        self.submitter.start().map_err(|e| broken(spec, "starting", e))?;
        self.reaper.start().map_err(|e| broken(spec, "starting", e))?;
        let mut measured = None;
        let (mut calls_before, mut wakeups_before) = (None, None);
        let mut tally = Tally::new(full_result(spec));
        let usage = gate::stages(&shared.gate, |stage| {
            (calls_before, wakeups_before) = (self.syscalls(), self.submitter.wakeups());
            measured = Some(self.stage(stage, &mut tally)?);
            Ok(())
        })?;
        let Some(((ticks, began, ended), usage)) = measured.zip(usage) else {
            return Err(gate::called_off());
        };
        let calls = self.syscalls().zip(calls_before).map(|(after, before)| after - before);
        let wakeups = self.submitter.wakeups().zip(wakeups_before).map(|(after, before)| after - before);
        let cpu = spec.cpus.get(self.job as usize);
        Ok(JobOutcome {
            lateness: self
                .feeder
                .lateness(ended.min(limits(shared, self.job, Stage::Measured, began).until), &shared.clock),
            tally,
            parts: vec![Part {
                tid: usage::tid(),
                usage,
                bound: cpu.map(|&c| cpus::is_bound(c)),
                ticks,
                syscalls: calls,
                wakeups,
            }],
            began,
            ended,
            granted,
        })
    }

    fn syscalls(&self) -> Option<u64> {
        let scratch = self.scratch.as_ref().map_or(0, |p| p.syscalls);
        self.submitter.syscalls().zip(self.reaper.syscalls()).map(|(s, r)| s + r + scratch + self.feeder.naps)
    }

    /// Runs one stage, starting and ending with an empty ring. Adds to `tally`; returns the phases, and the first and
    /// last timestamps.
    fn stage(&mut self, stage: Stage, tally: &mut Tally) -> Result<(Ticks, u64, u64)> {
        let (shared, spec, clock, job) = (self.shared, self.shared.spec, &self.shared.clock, self.job);
        let (wait, think_ns, syncs) = (spec.wait, spec.think_ns, spec.commit.is_of_batch());
        let memory = self.feeder.memory();
        let done = &shared.done[job as usize];
        tally.clear();
        let mut ticks = Ticks::default();
        let began = clock.now();
        let Limits { ios, until, pace } = limits(shared, job, stage, began);
        self.feeder.begin(stage, ios, pace);
        let mut now = began;
        let mut ending = false;
        loop {
            if !ending && (now >= until || self.feeder.exhausted() || shared.halt.load(Ordering::Relaxed)) {
                ending = true;
                self.feeder.end();
            }
            if !ending {
                self.feeder.prepare(now);
            }
            if !self.feeder.batch.is_empty() || self.submitter.pending() > 0 {
                let before = clock.now();
                probe!(iotrail, submit_begin, job, self.feeder.batch.len());
                let mut taken = 0;
                for (i, io) in self.feeder.batch.iter().enumerate() {
                    self.feeder.slots.begin(io.slot, self.feeder.since(i, before));
                    match self.submitter.queue(io) {
                        Queued::Queued => self.in_flight += 1,
                        Queued::Completed(result) => self.found.push(Completion { slot: io.slot, result }),
                        Queued::Busy => break,
                    }
                    taken += 1;
                }
                let submitted = self.submitter.submit();
                probe!(iotrail, submit_end, job, taken);
                now = clock.now();
                ticks.submit += now - before;
                self.feeder.taken(taken);
                submitted.map_err(|e| broken(spec, "submitting", e))?;
            }
            let mut found_at = now;
            if self.in_flight > 0 {
                let (min, deadline) = self.how_to_wait(now, ending, wait);
                let inline = self.found.len();
                probe!(iotrail, poll_begin, job, min);
                let polled = self.reaper.poll(min, wait, deadline, &mut self.found);
                let count = self.found.len() - inline;
                probe!(iotrail, poll_end, job, count);
                let looked = clock.now();
                ticks.poll += looked - now;
                now = looked;
                polled.map_err(|e| broken(spec, "waiting for completions", e))?;
                found_at = now;
                if count > 0 {
                    probe!(iotrail, clear_begin, job, count);
                    self.reaper.clear();
                    probe!(iotrail, clear_end, job, count);
                    self.in_flight -= count as u32;
                    now = clock.now();
                    ticks.clear += now - found_at;
                }
            } else if ending && self.found.is_empty() {
                break;
            } else if let Some(due) = self.feeder.next_due()
                && self.found.is_empty()
                && due > now
            {
                self.feeder.naps += wait_until(clock, due.min(until), now, wait);
                now = clock.now();
            }
            if !(self.found.is_empty() || syncs && self.in_flight > 0) {
                if syncs {
                    self.make_durable(wait, &mut ticks, &mut now)?;
                    found_at = now;
                }
                tally.settle(clock, &self.feeder.slots, &memory, &self.found, found_at);
                self.feeder.give_all_back(&self.found);
                if let Some(pages) = &mut self.scratch {
                    pages
                        .advance(self.found.len() as u64)
                        .map_err(|e| broken(spec, "touching its scratch memory", e))?;
                }
                self.found.clear();
                done.store(tally.ios, Ordering::Relaxed);
                if tally.in_vain > 0 {
                    check_errors(shared, tally)?;
                }
                if think_ns > 0 {
                    think(clock, think_ns);
                }
            }
        }
        let ended = clock.now();
        ticks.total = ended - began;
        Ok((ticks, began, ended))
    }

    /// Syncs the writes that were found; a write that cannot be made durable counts as failed.
    fn make_durable(&mut self, wait: Wait, ticks: &mut Ticks, now: &mut u64) -> Result<()> {
        let (shared, spec) = (self.shared, self.shared.spec);
        let mut synced = Vec::with_capacity(1);
        let result = loop {
            match self.submitter.sync(spec.commit == Commit::Fdatasync) {
                Queued::Completed(result) => break result,
                Queued::Busy => self.submitter.submit().map_err(|e| broken(spec, "submitting", e))?,
                Queued::Queued => {
                    while self.submitter.pending() > 0 {
                        self.submitter.submit().map_err(|e| broken(spec, "submitting", e))?;
                    }
                    let submitted = shared.clock.now();
                    ticks.submit += submitted - *now;
                    *now = submitted;
                    while synced.is_empty() {
                        self.reaper
                            .poll(1, wait, None, &mut synced)
                            .map_err(|e| broken(spec, "waiting for completions", e))?;
                    }
                    self.reaper.clear();
                    break synced[0].result;
                }
            }
        };
        let ended = shared.clock.now();
        *(if synced.is_empty() { &mut ticks.submit } else { &mut ticks.poll }) += ended - *now;
        *now = ended;
        if result < 0 {
            self.found.iter_mut().for_each(|c| c.result = result);
        }
        Ok(())
    }

    /// Number of completions to wait for, and the deadline. Only waits if nothing more can be submitted.
    #[inline]
    fn how_to_wait(&self, now: u64, ending: bool, wait: Wait) -> (u32, Option<Instant>) {
        let in_kernel = self.in_flight - self.submitter.pending();
        if in_kernel == 0 {
            return (0, None);
        }
        let due = self.feeder.next_due();
        let min = match wait {
            _ if self.shared.spec.commit.is_of_batch() => in_kernel,
            _ if !self.found.is_empty() || !self.feeder.batch.is_empty() => 0,
            Wait::Block if ending || self.feeder.exhausted() => in_kernel.min(self.shared.spec.batch),
            Wait::Block if self.shared.spec.ring.waits.min_us > 0 && due.is_some() => {
                in_kernel.min(self.shared.spec.batch)
            }
            _ if ending || self.feeder.exhausted() || due.is_some() => 1,
            // A closed loop waits for its next batch's slots; when polling, it timestamps each completion when found.
            Wait::Block => self.feeder.missing().min(in_kernel),
            Wait::Peek => self.feeder.missing().min(1),
        };
        let deadline = match due {
            Some(due) if due <= now => return (0, None),
            Some(due) => {
                let span = Duration::from_nanos(self.shared.clock.ns(due - now)).min(NAP);
                Some(Instant::now() + span)
            }
            None => None,
        };
        (min, deadline)
    }
}
