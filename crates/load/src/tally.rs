//! Totals over a job's completions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;

use crate::engine::{Completion, Memory};
use iotrail_stats::histogram;

use super::clock::Clock;
use super::verify::{self, Mismatch};

/// Data about each I/O in flight, by slot. The submitting thread writes it before submission; the reaping thread reads
/// it after completion.
pub struct Slots {
    /// The tick from which latency counts.
    since: Box<[AtomicU64]>,
    /// For reads to be verified: the offset + 1; otherwise 0. Empty without `--verify`.
    expects: Box<[AtomicU64]>,
}

impl Slots {
    pub fn new(depth: u32, verify: bool) -> Self {
        let zeroes = |n: u32| (0..n).map(|_| AtomicU64::new(0)).collect();
        Self { since: zeroes(depth), expects: zeroes(if verify { depth } else { 0 }) }
    }

    #[inline]
    pub fn begin(&self, slot: u32, tick: u64) {
        // Relaxed: submission and completion order this store before the reader's load.
        self.since[slot as usize].store(tick, Ordering::Relaxed);
    }

    pub fn expect(&self, slot: u32, offset: Option<u64>) {
        self.expects[slot as usize].store(offset.map_or(0, |o| o + 1), Ordering::Relaxed);
    }
}

/// Maximum number of distinct corrupt blocks per job: 64 MiB of memory.
const MOST_WRONG: usize = 1 << 20;

/// Totals over a job's completions in one stage. Memory: one histogram and a few numbers, for any duration.
pub struct Tally {
    pub histogram: Histogram<u64>,
    pub ios: u64,
    pub bytes: u64,
    pub errors: u64,
    pub short_ios: u64,
    /// Errors by negated result.
    pub failures: BTreeMap<i32, u64>,
    /// I/Os since the last one that transferred data: failed and empty ones. (Reads of a vanished disk hit its end.)
    pub in_vain: u64,
    /// Offsets of blocks with corrupt data, each once, however often it was read; at most [`MOST_WRONG`].
    pub wrong: BTreeSet<u64>,
    pub first_mismatch: Option<Mismatch>,
    /// The result of an I/O that transferred everything: the block size, 0 for a no-op.
    full: i32,
}

impl Tally {
    pub fn new(full: i32) -> Self {
        Self {
            histogram: histogram::new(),
            ios: 0,
            bytes: 0,
            errors: 0,
            short_ios: 0,
            failures: BTreeMap::new(),
            in_vain: 0,
            wrong: BTreeSet::new(),
            first_mismatch: None,
            full,
        }
    }

    /// Resets everything at the start of a stage. The previous stage touched the memory, so no page is faulted in while
    /// measuring.
    pub fn clear(&mut self) {
        self.histogram.reset();
        (self.ios, self.bytes, self.errors, self.short_ios) = (0, 0, 0, 0);
        self.failures.clear();
        self.in_vain = 0;
        // Mismatches are kept: corrupt data read during warm-up is still corrupt.
    }

    /// Counts the completions of a poll at tick `now`. I/Os that were submitted together and found together have the
    /// same latency, and are recorded as one value with a count.
    #[inline]
    pub fn settle(&mut self, clock: &Clock, slots: &Slots, memory: &Memory, found: &[Completion], now: u64) {
        let mut run = 0;
        let mut since = 0;
        let (mut full, mut in_vain) = (0u64, 0);
        for c in found {
            let began = slots.since[c.slot as usize].load(Ordering::Relaxed);
            if began != since {
                self.record(clock, since, now, run);
                (since, run) = (began, 0);
            }
            run += 1;
            if c.result == self.full {
                full += 1;
            } else {
                in_vain += u64::from(c.result <= 0);
                self.imperfect(c.result);
            }
        }
        self.record(clock, since, now, run);
        self.in_vain = if in_vain == found.len() as u64 { self.in_vain + in_vain } else { 0 };
        self.ios += found.len() as u64;
        self.bytes += full * self.full as u64;
        if !slots.expects.is_empty() {
            self.verify(slots, memory, found);
        }
    }

    #[inline]
    fn record(&mut self, clock: &Clock, since: u64, now: u64, count: u64) {
        if count > 0 {
            // In an open loop, no I/O is submitted before its time, so `now` is later. A counter read on another CPU
            // may be a few ticks behind.
            let ns = clock.ns(now.saturating_sub(since));
            self.histogram.saturating_record_n(ns.max(1), count);
        }
    }

    #[cold]
    fn imperfect(&mut self, result: i32) {
        if result < 0 {
            self.errors += 1;
            *self.failures.entry(-result).or_default() += 1;
        } else {
            self.short_ios += 1;
            self.bytes += result as u64;
        }
    }

    #[cold]
    fn verify(&mut self, slots: &Slots, memory: &Memory, found: &[Completion]) {
        for c in found.iter().filter(|c| c.result > 0) {
            let Some(offset) = slots.expects[c.slot as usize].load(Ordering::Relaxed).checked_sub(1) else { continue };
            // SAFETY: the I/O was reaped, so this half owns its buffer, of which `result` bytes were written.
            let block = unsafe { std::slice::from_raw_parts(memory.address(c.slot), c.result as usize) };
            if let Err(m) = verify::check(block, offset) {
                if self.wrong.len() < MOST_WRONG {
                    self.wrong.insert(offset);
                }
                self.first_mismatch.get_or_insert(m);
            }
        }
    }

    /// Adds another job's totals.
    pub fn add(&mut self, other: &Tally) -> Result<(), hdrhistogram::errors::AdditionError> {
        self.histogram.add(&other.histogram)?;
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.short_ios += other.short_ios;
        self.in_vain = self.in_vain.max(other.in_vain);
        for (failure, n) in &other.failures {
            *self.failures.entry(*failure).or_default() += n;
        }
        self.wrong.extend(&other.wrong);
        if self.first_mismatch.is_none() {
            self.first_mismatch = other.first_mismatch;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::buffers::Buffers;
    use super::*;

    #[test]
    fn completions_errors_and_short_ios_are_counted() {
        let (clock, slots) = (Clock::get(), Slots::new(4, false));
        let memory = Buffers::new(4, 4096).unwrap();
        let begin = 1_000_000_000;
        let tick = clock.ticks(std::time::Duration::from_micros(100));
        for (slot, since) in [(0, begin), (1, begin), (2, begin + tick), (3, begin + tick)] {
            slots.begin(slot, since);
        }
        let mut t = Tally::new(4096);
        let found = [(0, 4096), (1, 4096), (2, -libc::EIO), (3, 512)].map(|(slot, result)| Completion { slot, result });
        t.settle(&clock, &slots, &memory.memory(), &found, begin + 2 * tick);
        assert_eq!((t.ios, t.bytes, t.errors, t.short_ios), (4, 2 * 4096 + 512, 1, 1));
        assert_eq!(t.failures, BTreeMap::from([(libc::EIO, 1)]));
        assert_eq!(t.histogram.len(), 4);
        assert!(t.histogram.min().abs_diff(100_000) <= 200 && t.histogram.max().abs_diff(200_000) <= 400);
        let mut sum = Tally::new(4096);
        sum.add(&t).unwrap();
        sum.add(&t).unwrap();
        assert_eq!((sum.ios, sum.histogram.len(), sum.failures[&libc::EIO]), (8, 8, 2));
        assert_eq!(t.in_vain, 0);
        for ended in [vec![0, 1], vec![2]] {
            let failed: Vec<_> = ended
                .into_iter()
                .map(|slot| Completion { slot, result: if slot == 1 { 0 } else { -libc::EIO } })
                .collect();
            t.settle(&clock, &slots, &memory.memory(), &failed, begin + 3 * tick);
        }
        assert_eq!((t.in_vain, t.errors, t.short_ios), (3, 3, 2));
        t.settle(&clock, &slots, &memory.memory(), &found[..1], begin + 3 * tick);
        assert_eq!(t.in_vain, 0);
    }
}
