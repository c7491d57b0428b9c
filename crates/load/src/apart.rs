//! A job whose completions are reaped by a thread of its own.
//!
//! The submitting thread draws, submits, and gets its slots back through a ring of indices; the reaping thread polls,
//! counts, and returns slots. Each sleeps only where it has nothing to do and `--wait block` is set, on a futex that
//! the other wakes; these system calls are counted with the engine's.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use probe::probe;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::engine::{Completion, Queued, Reaper, Submitter, Wait};
use iotrail_base::error::{Error, Result};

use super::cpus;
use super::feeder::Feeder;
use super::gate::{self, AtGate, Stage};
use super::job::{self, JobOutcome, Part, Shared};
use super::phases::Ticks;
use super::rounds::{self, Limits};
use super::scratch::Pages;
use super::tally::Tally;
use super::usage;

/// Between the two threads of a job.
struct Link {
    /// Slots on their way back; as many as there are slots at least, so it never overflows.
    returned: Box<[AtomicU32]>,
    /// Slots returned so far (mod 2^32); written by the reaping thread, which wakes a submitter asleep on it.
    tail: AtomicU32,
    submitter_asleep: AtomicBool,
    /// Queued and not reaped; the reaping thread sleeps on it at 0.
    in_flight: AtomicU32,
    reaper_asleep: AtomicBool,
    /// Stages whose submissions are over.
    finished: AtomicU32,
    /// Either side has failed.
    failed: AtomicBool,
}

/// Sleeps while `word` holds `value`, for `span` at most. Spurious wake-ups are the caller's to expect.
fn futex_wait(word: &AtomicU32, value: u32, span: Duration) {
    let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
    futex::wait(word, Flags::PRIVATE, value, Some(&span)).unwrap_or(());
}

fn futex_wake(word: &AtomicU32) {
    futex::wake(word, Flags::PRIVATE, 1).unwrap_or(0);
}

impl Link {
    fn new(depth: u32) -> Self {
        Self {
            returned: (0..depth.next_power_of_two()).map(|_| AtomicU32::new(0)).collect(),
            tail: AtomicU32::new(0),
            submitter_asleep: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            reaper_asleep: AtomicBool::new(false),
            finished: AtomicU32::new(0),
            failed: AtomicBool::new(false),
        }
    }

    fn cell(&self, index: u32) -> &AtomicU32 {
        &self.returned[index as usize & (self.returned.len() - 1)]
    }

    /// Sleeps while no slot beyond `head` was returned. SeqCst on both sides: either the sleeper sees the slot or the
    /// other side sees the sleeper. Returns the system calls made.
    fn sleep_for_slot(&self, head: u32, span: Duration) -> u64 {
        self.submitter_asleep.store(true, Ordering::SeqCst);
        let mut calls = 0;
        if self.tail.load(Ordering::SeqCst) == head && !self.failed.load(Ordering::SeqCst) {
            calls = 1;
            futex_wait(&self.tail, head, span);
        }
        self.submitter_asleep.store(false, Ordering::SeqCst);
        calls
    }

    fn wake_submitter(&self) -> u64 {
        if !self.submitter_asleep.load(Ordering::SeqCst) {
            return 0;
        }
        futex_wake(&self.tail);
        1
    }

    fn sleep_for_io(&self, stages: u32) -> u64 {
        self.reaper_asleep.store(true, Ordering::SeqCst);
        let mut calls = 0;
        if self.in_flight.load(Ordering::SeqCst) == 0 && self.finished.load(Ordering::SeqCst) == stages {
            calls = 1;
            // A span, since `finished` can change without the word changing.
            futex_wait(&self.in_flight, 0, rounds::NAP);
        }
        self.reaper_asleep.store(false, Ordering::SeqCst);
        calls
    }

    fn wake_reaper(&self) -> u64 {
        if !self.reaper_asleep.load(Ordering::SeqCst) {
            return 0;
        }
        futex_wake(&self.in_flight);
        1
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.wake_submitter();
        self.wake_reaper();
    }
}

/// What the reaping thread has after the measured stage.
struct Reaped {
    tally: Tally,
    part: Part,
    ended: u64,
}

/// Runs a job's two threads; the calling one submits. `left` is set to the I/Os that could not be reaped.
#[allow(clippy::too_many_arguments)]
pub fn run<S: Submitter, R: Reaper>(
    shared: &Shared,
    job: u32,
    cpu: Option<u32>,
    submitter: S,
    reaper: R,
    feeder: Feeder,
    scratch: Option<Pages>,
    granted: Vec<String>,
    left: &mut u32,
) -> Result<JobOutcome> {
    let link = Link::new(shared.spec.depth);
    let memory = feeder.memory();
    let slots = std::sync::Arc::clone(&feeder.slots);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let outcome = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(format!("reap-{job}"));
        let reaping = Reaping { shared, job, cpu, link: &link, reaper, scratch, slots, memory };
        let handle = thread.spawn_scoped(scope, || {
            let _at_gate = AtGate(&shared.gate);
            let reaped = reaping.all_stages();
            reaped.unwrap_or_else(|e| {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                shared.halt.store(true, Ordering::Relaxed);
                link.fail();
                None
            })
        });
        let handle = match handle {
            Ok(handle) => handle,
            Err(e) => {
                shared.gate.leave(); // in the place of the thread that is not there
                return Err(Error::machine("cannot start a reaper thread", "use fewer --jobs").because(e));
            }
        };
        let submitting = Submitting { shared, job, link: &link, submitter, feeder, head: 0, syscalls: 0 };
        let submitted = submitting.all_stages();
        if submitted.is_err() {
            shared.halt.store(true, Ordering::Relaxed);
            link.fail();
        }
        let reaped = handle.join().map_err(|payload| Error::of_panic("a reaper thread", payload.as_ref()))?;
        let failed = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (submitted, failed, reaped) {
            (_, Some(e), _) | (Err(e), None, _) => Err(e),
            (Ok(Some(mut of_submitter)), None, Some(reaped)) => {
                of_submitter.tally = reaped.tally;
                of_submitter.ended = of_submitter.ended.max(reaped.ended);
                of_submitter.parts.push(reaped.part);
                of_submitter.granted = granted;
                Ok(of_submitter)
            }
            _ => Err(gate::called_off()),
        }
    });
    *left = link.in_flight.load(Ordering::SeqCst);
    outcome
}

struct Submitting<'a, 'b, S> {
    shared: &'a Shared<'b>,
    job: u32,
    link: &'a Link,
    submitter: S,
    feeder: Feeder,
    /// Slots taken back so far (mod 2^32).
    head: u32,
    /// Futex calls.
    syscalls: u64,
}

impl<S: Submitter> Submitting<'_, '_, S> {
    fn all_stages(mut self) -> Result<Option<JobOutcome>> {
        let (shared, spec) = (self.shared, self.shared.spec);
        self.submitter.start().map_err(|e| rounds::broken(spec, "starting", e))?;
        let (mut measured, mut before, mut wakeups_before) = (None, None, None);
        let usage = gate::stages(&shared.gate, |stage| {
            (before, wakeups_before) = (self.calls(), self.submitter.wakeups());
            let done = self.stage(stage);
            // The reaping thread ends its stage when nothing is in flight any more.
            self.link.finished.fetch_add(1, Ordering::SeqCst);
            self.link.wake_reaper();
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
        // Acquire: the reaping thread is done with the slots it has returned.
        let tail = self.link.tail.load(Ordering::Acquire);
        while self.head != tail {
            let slot = self.link.cell(self.head).load(Ordering::Relaxed);
            self.feeder.give_back(slot);
            self.head = self.head.wrapping_add(1);
        }
    }

    fn stage(&mut self, stage: Stage) -> Result<(Ticks, u64, u64)> {
        let (shared, spec, clock, job) = (self.shared, self.shared.spec, &self.shared.clock, self.job);
        let wait = spec.engine_wait();
        let mut ticks = Ticks::default();
        let began = clock.now();
        let Limits { ios, until, pace } = rounds::limits(shared, job, stage, began);
        self.feeder.begin(stage, ios, pace);
        let mut ending = false;
        loop {
            let now = clock.now();
            if self.link.failed.load(Ordering::Relaxed) {
                break; // the other thread tells why
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
            if ending && self.link.in_flight.load(Ordering::Acquire) == 0 {
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
            // Engines that complete in `queue` have nothing to reap: resolve() refuses a reaper thread with them.
            match self.submitter.queue(io) {
                Queued::Queued | Queued::Completed(_) => taken += 1,
                Queued::Busy => break,
            }
        }
        // Counted before the kernel has them, so that the reaping thread never counts below 0.
        self.link.in_flight.fetch_add(taken, Ordering::SeqCst);
        let submitted = self.submitter.submit();
        probe!(iotrail, submit_end, self.job, taken);
        self.feeder.taken(taken as usize);
        if let Err(e) = submitted {
            self.link.in_flight.fetch_sub(self.submitter.pending(), Ordering::SeqCst);
            return Err(rounds::broken(self.shared.spec, "submitting", e));
        }
        self.syscalls += self.link.wake_reaper();
        Ok(())
    }
}

struct Reaping<'a, 'b, R> {
    shared: &'a Shared<'b>,
    job: u32,
    cpu: Option<u32>,
    link: &'a Link,
    reaper: R,
    scratch: Option<Pages>,
    slots: std::sync::Arc<super::tally::Slots>,
    memory: crate::engine::Memory,
}

impl<R: Reaper> Reaping<'_, '_, R> {
    fn all_stages(mut self) -> Result<Option<Reaped>> {
        let (shared, spec) = (self.shared, self.shared.spec);
        match self.cpu {
            Some(cpu) => cpus::bind(cpu)?,
            // Beside the job rather than behind it on the job's CPU.
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
        let wait = spec.engine_wait();
        let done: &AtomicU64 = &shared.done[job as usize];
        tally.clear();
        let mut ticks = Ticks::default();
        let mut tail = self.link.tail.load(Ordering::Relaxed);
        let mut futexes = 0;
        let scratch_before = self.scratch.as_ref().map_or(0, |p| p.syscalls);
        let began = clock.now();
        let mut last = began;
        loop {
            if self.link.in_flight.load(Ordering::Acquire) == 0 {
                if self.link.finished.load(Ordering::SeqCst) > stages || self.link.failed.load(Ordering::SeqCst) {
                    break;
                }
                match wait {
                    Wait::Block => futexes += self.link.sleep_for_io(stages),
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
            for c in found.iter() {
                self.link.cell(tail).store(c.slot, Ordering::Relaxed);
                tail = tail.wrapping_add(1);
            }
            self.link.in_flight.fetch_sub(found.len() as u32, Ordering::SeqCst);
            self.link.tail.store(tail, Ordering::SeqCst);
            futexes += self.link.wake_submitter();
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
