//! A job's next submissions: free slots, the pattern's blocks, due times.

use std::sync::Arc;

use crate::engine::{Completion, Io, Memory, Op};

use super::clock::Clock;
use super::gate::Stage;
use super::pace::Pace;
use super::pattern::Pattern;
use super::tally::Slots;
use super::verify;

/// Blocks with an I/O in flight. In a verified load, none may overlap, because a read could otherwise see a partial
/// write.
struct Occupied {
    bits: Vec<u64>,
    first: u64,
    block_bytes: u64,
    /// The block of each slot's I/O.
    of_slot: Vec<u64>,
    /// Seed of the written data.
    generation: u64,
}

impl Occupied {
    fn has(&self, block: u64) -> bool {
        self.bits[(block / 64) as usize] >> (block % 64) & 1 != 0
    }

    fn flip(&mut self, block: u64) {
        self.bits[(block / 64) as usize] ^= 1 << (block % 64);
    }
}

pub struct Feeder {
    pattern: Pattern,
    /// Free slots, most recently used first: its buffer is the warmest in the cache.
    free: Vec<u32>,
    /// I/Os generated but not yet accepted by the engine.
    pub batch: Vec<Io>,
    /// Their intended times; empty in a closed loop.
    intended: Vec<u64>,
    batch_size: usize,
    /// Whether a batch may contain fewer I/Os, for as many slots as are free.
    partial: bool,
    /// I/Os left to generate in this stage.
    remaining: u64,
    pub pace: Option<Pace>,
    occupied: Option<Occupied>,
    memory: Memory,
    pub slots: Arc<Slots>,
    /// System calls for sleeping until an I/O was due.
    pub naps: u64,
}

impl Feeder {
    pub fn new(pattern: Pattern, batch_size: u32, memory: Memory, slots: Arc<Slots>) -> Self {
        Self {
            pattern,
            free: (0..memory.slots).rev().collect(),
            batch: Vec::with_capacity(batch_size as usize),
            intended: Vec::with_capacity(batch_size as usize),
            batch_size: batch_size as usize,
            partial: false,
            remaining: 0,
            pace: None,
            occupied: None,
            memory,
            slots,
            naps: 0,
        }
    }

    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Whether a wait may end with fewer completions than a batch has.
    pub fn partial(self, partial: bool) -> Self {
        Self { partial, ..self }
    }

    /// Each write contains its offset and a checksum, and each read is checked. The region must have more blocks than
    /// slots.
    pub fn verify(mut self, region: super::pattern::Region, generation: u64) -> Self {
        self.occupied = Some(Occupied {
            bits: vec![0; region.blocks.div_ceil(64) as usize],
            first: region.first,
            block_bytes: u64::from(self.memory.block_bytes),
            of_slot: vec![0; self.memory.slots as usize],
            generation,
        });
        self
    }

    /// Starts a stage of `ios` I/Os (`u64::MAX` if it ends by time). A stage does not depend on how far the previous
    /// one progressed.
    pub fn begin(&mut self, stage: Stage, ios: u64, pace: Option<Pace>) {
        self.pattern.restart(stage);
        self.remaining = ios.min(self.pattern.most(stage));
        self.pace = pace;
    }

    /// Stops generating I/Os in this stage.
    pub fn end(&mut self) {
        self.remaining = 0;
        while let Some(io) = self.batch.pop() {
            self.give_back(io.slot);
        }
        self.intended.clear();
    }

    /// Whether a stage that ends by count has generated its last I/O.
    pub fn exhausted(&self) -> bool {
        self.remaining == 0 && self.batch.is_empty()
    }

    /// Prepares the next batch, if due and if slots are free. A closed loop waits for a full batch of slots; an open
    /// loop uses the slots for due I/Os.
    #[inline]
    pub fn prepare(&mut self, now: u64) {
        if !self.batch.is_empty() {
            return; // first the I/Os for which the engine had no space
        }
        let mut want = self.batch_size.min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        if self.partial {
            want = want.min(self.free.len());
        }
        if self.pace.is_none() && self.free.len() < want {
            return;
        }
        if self.pace.is_none() && self.occupied.is_none() {
            // The hot path has no branch per I/O.
            let rest = self.free.len() - want;
            self.pattern.extend(&mut self.batch, &self.free[rest..]);
            self.free.truncate(rest);
            self.remaining -= want as u64;
            return;
        }
        for _ in 0..want.min(self.free.len()) {
            if let Some(pace) = &mut self.pace {
                match pace.take(now) {
                    Some(tick) => self.intended.push(tick),
                    None => break,
                }
            }
            let Some(slot) = self.free.pop() else { break };
            let io = self.draw(slot);
            self.batch.push(io);
            self.remaining -= 1;
        }
    }

    fn draw(&mut self, slot: u32) -> Io {
        let (op, offset) = self.pattern.next_io();
        match &mut self.occupied {
            None => Io { op, slot, offset },
            Some(_) => self.draw_verified(slot, op, offset),
        }
    }

    #[cold]
    fn draw_verified(&mut self, slot: u32, mut op: Op, mut offset: u64) -> Io {
        let Some(o) = &mut self.occupied else { return Io { op, slot, offset } };
        // Terminates because there are more blocks than slots.
        while o.has(offset / o.block_bytes - o.first) {
            (op, offset) = self.pattern.next_io();
        }
        let block = offset / o.block_bytes - o.first;
        o.flip(block);
        o.of_slot[slot as usize] = block;
        if op == Op::Write {
            // SAFETY: the slot is free: no I/O in flight uses its buffer, and no other thread reads it.
            let buffer =
                unsafe { std::slice::from_raw_parts_mut(self.memory.address(slot), self.memory.block_bytes as usize) };
            verify::fill(buffer, offset, o.generation);
        }
        self.slots.expect(slot, (op == Op::Read).then_some(offset));
        Io { op, slot, offset }
    }

    /// Records when the first `taken` I/Os of the batch were submitted, and removes them from it.
    #[inline]
    pub fn taken(&mut self, taken: usize) {
        if taken == self.batch.len() {
            self.batch.clear();
            self.intended.clear();
        } else {
            self.batch.drain(..taken);
            self.intended.drain(..taken.min(self.intended.len()));
        }
    }

    /// The tick from which latency of the batch's `i`-th I/O counts: its intended time, or its submission.
    #[inline]
    pub fn since(&self, i: usize, submission: u64) -> u64 {
        self.intended.get(i).copied().unwrap_or(submission)
    }

    /// Returns the slots of reaped I/Os.
    #[inline]
    pub fn give_all_back(&mut self, found: &[Completion]) {
        if self.occupied.is_none() {
            self.free.extend(found.iter().map(|c| c.slot));
        } else {
            found.iter().for_each(|c| self.give_back(c.slot));
        }
    }

    /// Returns the slot of a reaped I/O.
    #[inline]
    pub fn give_back(&mut self, slot: u32) {
        if let Some(o) = &mut self.occupied {
            let block = o.of_slot[slot as usize];
            o.flip(block);
        }
        self.free.push(slot);
    }

    /// Number of slots missing for the next batch; 0 if it can be generated.
    #[inline]
    pub fn missing(&self) -> u32 {
        let want = self.batch_size.min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        let want = if self.pace.is_some() { want.min(1) } else { want };
        want.saturating_sub(self.free.len()) as u32
    }

    /// Due time of the next I/O, in an open loop with a free slot.
    pub fn next_due(&self) -> Option<u64> {
        if self.remaining == 0 || self.free.is_empty() { None } else { self.pace.as_ref().map(Pace::next) }
    }

    /// Largest lag in ticks, and number of I/Os missed until `end`, in an open loop.
    pub fn lateness(&self, end: u64, clock: &Clock) -> Option<(u64, u64)> {
        self.pace.as_ref().map(|p| (clock.ns(p.worst_lag), p.missed(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::buffers::Buffers;
    use super::super::options::Rw;
    use super::super::pattern::Region;
    use super::*;

    fn feeder(depth: u32, batch: u32, blocks: u64) -> (Feeder, Buffers) {
        let buffers = Buffers::new(depth, 512).unwrap();
        let region = Region { first: 5, blocks };
        let pattern = Pattern::new(Rw::RandRw, region, 512, 1);
        let slots = Arc::new(Slots::new(depth, true));
        (Feeder::new(pattern, batch, buffers.memory(), slots).verify(region, 9), buffers)
    }

    #[test]
    fn a_batch_waits_for_free_slots_and_the_last_batch_may_be_smaller() {
        let (mut f, _buffers) = feeder(4, 3, 64);
        f.begin(Stage::Measured, 5, None);
        f.prepare(0);
        assert_eq!((f.batch.len(), f.missing()), (3, 1));
        let slots: Vec<u32> = f.batch.iter().map(|io| io.slot).collect();
        f.taken(3);
        f.prepare(0);
        assert!(f.batch.is_empty() && !f.exhausted(), "two are left to draw, one slot is free");
        f.give_back(slots[0]);
        f.prepare(0);
        assert_eq!(f.batch.len(), 2);
        f.taken(2);
        assert!(f.exhausted());
    }

    #[test]
    fn verified_ios_in_flight_do_not_overlap() {
        let (mut f, _buffers) = feeder(8, 8, 9);
        f.begin(Stage::Measured, u64::MAX, None);
        for _ in 0..1000 {
            f.prepare(0);
            let mut offsets: Vec<u64> = f.batch.iter().map(|io| io.offset / 512).collect();
            let slots: Vec<u32> = f.batch.iter().map(|io| io.slot).collect();
            offsets.sort_unstable();
            offsets.dedup();
            assert_eq!(offsets.len(), 8);
            assert!(offsets.iter().all(|o| (5..14).contains(o)));
            f.taken(8);
            slots.into_iter().for_each(|s| f.give_back(s));
        }
    }
}
