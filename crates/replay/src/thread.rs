//! Executes a thread's steps, with as few clock readings as possible.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::engine::{Engine, Memory, sync};
use crate::program::{Op, OpKind, Step, Thread, Wait};
use iotrail_base::error::{Error, Result};
use iotrail_load::clock::Clock;
use iotrail_stats::histogram;

/// How long a thread computes between its calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Speed {
    /// For as long as recorded.
    #[default]
    Think,
    /// Not at all.
    None,
    /// Submits at the recorded times, regardless of completions.
    Timestamps,
}

/// A thread's results.
#[derive(Debug, Clone)]
pub struct Done {
    pub ios: u64,
    pub calls: u64,
    /// From submission to reaping.
    pub latencies: Histogram<u64>,
    pub errors: u64,
    /// The first errno.
    pub errno: Option<i32>,
    /// In clock ticks.
    pub began: u64,
    pub ended: u64,
}

/// The environment of a thread.
pub(crate) struct Tools<'a> {
    pub thread: &'a Thread,
    pub clock: Clock,
    pub speed: Speed,
    pub files: &'a [RawFd],
    pub memory: Memory,
    pub stop: &'a AtomicBool,
    /// Executes ring requests as synchronous calls.
    pub synchronous: bool,
}

/// A request in flight.
#[derive(Clone, Copy, Default)]
struct Slot {
    tick: u64,
    len: u32,
    /// A complete transfer has the result `len`.
    moves: bool,
    is_tail: bool,
}

/// A ring of the thread.
struct OfRing {
    engine: Box<dyn Engine>,
    /// Number of reaped chain ends.
    tails: u32,
    in_flight: u32,
    /// Requests in flight that a linked request follows.
    heads: u32,
}

impl OfRing {
    /// Number of completions that are certain to include `tails` more chain ends.
    fn completions(&self, tails: u32) -> u32 {
        if tails == 0 { 0 } else { tails.saturating_add(self.heads).min(self.in_flight) }
    }
}

/// Number of steps in which the next one on the same ring is searched.
const AHEAD: usize = 64;

struct Loop<'a> {
    tools: Tools<'a>,
    rings: Vec<Option<OfRing>>,
    slots: Box<[Slot]>,
    free: Vec<u32>,
    done: Done,
    /// Ticks per nanosecond, times 2^20.
    ticks_per_ns: u64,
}

/// Executes all steps. `engines`: one per ring of the program that this thread uses.
pub(crate) fn run(tools: Tools<'_>, engines: Vec<Option<Box<dyn Engine>>>, start: u64) -> Result<Done> {
    let slots = tools.memory.slots;
    let ring = |engine| OfRing { engine, tails: 0, in_flight: 0, heads: 0 };
    let mut all = Loop {
        rings: engines.into_iter().map(|e| e.map(ring)).collect(),
        slots: vec![Slot::default(); slots as usize].into(),
        free: (0..slots).rev().collect(),
        done: Done { ios: 0, calls: 0, latencies: histogram::new(), errors: 0, errno: None, began: 0, ended: 0 },
        ticks_per_ns: (tools.clock.ticks(Duration::from_secs(1)) << 20) / 1_000_000_000,
        tools,
    };
    all.steps(start)?;
    all.done.calls += all.rings.iter().flatten().map(|r| r.engine.calls()).sum::<u64>();
    Ok(all.done)
}

impl Loop<'_> {
    fn ticks(&self, ns: u64) -> u64 {
        u64::try_from((u128::from(ns) * u128::from(self.ticks_per_ns)) >> 20).unwrap_or(u64::MAX)
    }

    fn steps(&mut self, start: u64) -> Result<()> {
        let thread = self.tools.thread;
        let first = thread.steps.first().map_or(0, |s| s.at_ns);
        if self.tools.speed != Speed::None {
            self.sleep_until(start.saturating_add(self.ticks(first)));
        }
        let mut last = self.tools.clock.now();
        self.done.began = last;
        let (mut at, mut next_op) = (0, 0);
        while at < thread.steps.len() {
            let step = &thread.steps[at];
            let mut ops = next_op..next_op + step.ops as usize;
            at += 1;
            if at.is_multiple_of(64) && self.tools.stop.load(Ordering::Relaxed) {
                break;
            }
            match self.tools.speed {
                Speed::Timestamps => self.sleep_until(start.saturating_add(self.ticks(step.at_ns))),
                Speed::Think => last = self.think(last, step.think_before_ns),
                Speed::None => {}
            }
            if self.tools.speed == Speed::Think && step.idle_ns > 0 {
                last += self.ticks(step.idle_ns.into());
                self.sleep_until(last);
            }
            let Some(ring) = step.ring.filter(|_| !self.tools.synchronous) else {
                if self.tools.speed == Speed::Think {
                    self.think(last, step.think_ns);
                }
                for op in &thread.ops[ops.clone()] {
                    self.call(op);
                }
                last = self.tools.clock.now();
                next_op = ops.end;
                continue;
            };
            if self.tools.speed != Speed::Timestamps && self.meet(usize::from(ring), step)? {
                last = self.tools.clock.now();
            }
            if self.tools.speed == Speed::Think {
                last = self.think(last, step.think_ns);
            }
            let mut merged = *step;
            if thread.merges && self.tools.speed != Speed::Timestamps {
                at = self.merge(at, &mut merged, &mut ops, &mut last)?;
            }
            next_op = ops.end;
            let next = thread.steps[at..].iter().take(AHEAD).find(|next| next.ring == step.ring);
            let needs = next.map_or(u32::MAX, |next| next.needs);
            last = self.submit(usize::from(ring), &merged, &thread.ops[ops], needs)?;
        }
        self.drain()?;
        self.done.ended = self.tools.clock.now();
        Ok(())
    }

    /// Computes for as long as the program did since `last`. Returns when the computation was due to end.
    #[inline]
    fn think(&self, last: u64, ns: u32) -> u64 {
        if ns == 0 {
            return last;
        }
        let due = last + ((u64::from(ns) * self.ticks_per_ns) >> 20);
        while self.tools.clock.now() < due {
            std::hint::spin_loop();
        }
        due
    }

    fn sleep_until(&self, due: u64) {
        loop {
            let now = self.tools.clock.now();
            if now >= due || self.tools.stop.load(Ordering::Relaxed) {
                return;
            }
            let left = self.tools.clock.ns(due - now);
            match left {
                ..60_000 => std::hint::spin_loop(),
                _ => std::thread::sleep(Duration::from_nanos((left - 50_000).min(100_000_000))),
            }
        }
    }

    /// Reaps until a step's needs are met. Returns whether it had to wait.
    #[inline]
    fn meet(&mut self, ring: usize, step: &Step) -> Result<bool> {
        let wait = self.tools.thread.waits[ring];
        let mut has_waited = false;
        loop {
            let Some(of) = self.rings[ring].as_mut() else { return Ok(has_waited) };
            let missing = step.needs.saturating_sub(of.tails);
            if missing == 0 || of.in_flight == 0 {
                return Ok(has_waited);
            }
            if of.engine.available() > 0 {
                self.reap(ring, missing);
                continue;
            }
            let min = step.wait_for.max(1).min(of.completions(missing));
            of.engine.wait(wait, min, missing)?;
            has_waited = true;
            if wait == Wait::Peek && self.tools.stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
        }
    }

    /// Takes completions until `tails` chain ends have been reaped, or none is left. Heads that follow are taken too: they would
    /// end the next wait, before which the program had reaped them.
    #[inline]
    fn reap(&mut self, ring: usize, tails: u32) {
        let Some(of) = self.rings[ring].as_mut() else { return };
        let mut left = tails;
        let mut now = 0;
        let has_links = self.tools.thread.has_links;
        let is_head =
            |engine: &mut Box<dyn Engine>| engine.next().is_some_and(|number| !self.slots[number as usize].is_tail);
        while (left > 0 || has_links && is_head(&mut of.engine))
            && let Some((number, result)) = of.engine.take()
        {
            if now == 0 {
                now = self.tools.clock.now();
            }
            let slot = self.slots[number as usize];
            of.in_flight -= 1;
            if slot.is_tail {
                of.tails += 1;
                left -= 1;
            } else {
                of.heads -= 1;
            }
            self.done.latencies.saturating_record(self.tools.clock.ns(now.saturating_sub(slot.tick)));
            self.done.outcome(&slot, result);
            self.free.push(number);
        }
    }

    /// Merges following steps whose needs are already met. Returns the index of the next step.
    fn merge(
        &mut self,
        from: usize,
        step: &mut Step,
        ops: &mut std::ops::Range<usize>,
        last: &mut u64,
    ) -> Result<usize> {
        let thread = self.tools.thread;
        let ring = usize::from(step.ring.unwrap_or_default());
        let mut at = from;
        while let Some(next) = thread.steps.get(at).filter(|next| next.ring == step.ring) {
            let Some(of) = self.rings[ring].as_mut() else { break };
            let missing = next.needs.saturating_sub(of.tails);
            if missing > 0 && of.engine.available() >= missing {
                self.reap(ring, missing);
            }
            let is_met = self.rings[ring].as_ref().is_some_and(|of| next.needs <= of.tails);
            if !is_met || ops.len() + next.ops as usize > self.free.len() {
                break;
            }
            if self.tools.speed == Speed::Think {
                *last = self.think(*last, next.think_before_ns.saturating_add(next.think_ns));
            }
            ops.end += next.ops as usize;
            (step.min_complete, step.gets_events) = (next.min_complete, next.gets_events);
            at += 1;
        }
        Ok(at)
    }

    /// Submits a step's requests. `next`: needs of the following step on the same ring.
    #[inline]
    fn submit(&mut self, ring: usize, step: &Step, ops: &[Op], next: u32) -> Result<u64> {
        while self.free.len() < ops.len().min(self.slots.len()) {
            self.make_room(ring)?;
        }
        if self.tools.thread.has_links {
            self.reap(ring, 0);
        }
        let Some(of) = self.rings[ring].as_mut() else { return Ok(self.tools.clock.now()) };
        let now = self.tools.clock.now();
        for op in ops {
            // A batch that exceeds the buffers is submitted in parts.
            let Some(number) = self.free.pop() else { break };
            let moves = matches!(op.kind, OpKind::Read | OpKind::Write);
            self.slots[number as usize] = Slot { tick: now, len: op.len, moves, is_tail: op.ends_chain() };
            of.in_flight += 1;
            of.heads += u32::from(!op.ends_chain());
            self.done.ios += 1;
            of.engine.queue(op, number)?;
        }
        // Available completions count, as they do in the program's call.
        let min = step.min_complete.min(of.completions(next.saturating_sub(of.tails)));
        of.engine.submit(min, step.gets_events)?;
        Ok(self.tools.clock.now())
    }

    /// More requests are in flight than in the recording, so waits for one to complete.
    #[cold]
    fn make_room(&mut self, ring: usize) -> Result<()> {
        let busy = |of: &Option<OfRing>| of.as_ref().is_some_and(|of| of.in_flight > 0);
        let ring = if busy(&self.rings[ring]) { Some(ring) } else { self.rings.iter().position(busy) };
        let of = ring.and_then(|ring| Some((ring, self.rings[ring].as_mut()?)));
        let Some((ring, of)) = of else {
            return Err(Error::internal("a replay has no free slot and no request in flight"));
        };
        if of.engine.available() == 0 {
            of.engine.wait(Wait::Sleep, 1, 1)?;
        }
        self.reap(ring, 1);
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        for ring in 0..self.rings.len() {
            while let Some(of) = self.rings[ring].as_mut().filter(|of| of.in_flight > 0) {
                if of.engine.available() == 0 {
                    of.engine.wait(Wait::Sleep, 1, u32::MAX)?;
                }
                self.reap(ring, u32::MAX);
            }
        }
        Ok(())
    }

    /// A synchronous call.
    fn call(&mut self, op: &Op) {
        let before = self.tools.clock.now();
        let result = sync::call(op, self.tools.files, self.tools.memory.address(0));
        let ns = self.tools.clock.ns(self.tools.clock.now().saturating_sub(before));
        self.done.ios += 1;
        self.done.calls += 1;
        self.done.latencies.saturating_record(ns);
        let moves = matches!(op.kind, OpKind::Read | OpKind::Write);
        self.done.outcome(&Slot { tick: before, len: op.len, moves, is_tail: true }, result);
    }
}

impl Done {
    #[inline]
    fn outcome(&mut self, slot: &Slot, result: i32) {
        if result < 0 || slot.moves && result as u32 != slot.len {
            self.errors += 1;
            self.errno.get_or_insert(-result.min(0));
        }
    }
}
