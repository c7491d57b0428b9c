//! Chooses the next block, and whether to read or write it.

use crate::engine::{Io, Op};

use super::gate::Stage;
use super::options::Rw;
use iotrail_stats::random::Random;

/// A job's blocks: `first..first + blocks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub first: u64,
    pub blocks: u64,
}

impl Region {
    /// The region of `job` among `jobs`: its own share if `apart`, otherwise the entire target. The last job's share
    /// includes the remainder.
    pub fn of(job: u32, jobs: u32, blocks: u64, apart: bool) -> Self {
        if !apart {
            return Self { first: 0, blocks };
        }
        let share = blocks / u64::from(jobs);
        let first = share * u64::from(job);
        Self { first, blocks: if job + 1 == jobs { blocks - first } else { share } }
    }
}

/// The order of a job's I/Os; endless, and reproducible for a given seed.
#[derive(Debug, Clone)]
pub struct Pattern {
    rw: Rw,
    region: Region,
    block_bytes: u64,
    seed: u64,
    random: Random,
    next: u64,
}

impl Pattern {
    /// `region.blocks` must be positive, except for no-ops, which use no blocks.
    pub fn new(rw: Rw, region: Region, block_bytes: u64, seed: u64) -> Self {
        Self { rw, region, block_bytes, seed, random: Random::new(seed), next: 0 }
    }

    /// Restarts at a fixed position per stage. The warm-up's progress depends on its speed; if the measured stage
    /// continued from there, no two measurements would do the same I/Os. A sequential warm-up starts with the other
    /// half, so that its data is not what the measured stage reads first. Appends continue after those of the warm-up.
    pub fn restart(&mut self, stage: Stage) {
        if self.rw == Rw::Append {
            return;
        }
        let seed;
        (seed, self.next) = match stage {
            Stage::Warmup => (!self.seed, self.region.blocks / 2),
            Stage::Measured => (self.seed, 0),
        };
        self.random = Random::new(seed);
    }

    /// Maximum number of I/Os in a stage. Appends fill a file up to its region's end, and in the warm-up up to the
    /// middle.
    pub fn most(&self, stage: Stage) -> u64 {
        match (self.rw, stage) {
            (Rw::Append, Stage::Warmup) => self.region.blocks / 2,
            (Rw::Append, Stage::Measured) => self.region.blocks - self.next,
            _ => u64::MAX,
        }
    }

    /// Appends the next I/Os, one per slot. Same order as `next`, but decided once per batch.
    #[inline]
    pub fn extend(&mut self, batch: &mut Vec<Io>, slots: &[u32]) {
        let Self { region, block_bytes, random, .. } = self;
        let mut at_random = |op| {
            batch.extend(slots.iter().map(|&slot| {
                let offset = (region.first + random.below(region.blocks)) * *block_bytes;
                Io { op, slot, offset }
            }));
        };
        match self.rw {
            Rw::Nop => batch.extend(slots.iter().map(|&slot| Io { op: Op::Nop, slot, offset: 0 })),
            Rw::RandRead => at_random(Op::Read),
            Rw::RandWrite => at_random(Op::Write),
            Rw::Read | Rw::Write | Rw::Append | Rw::RandRw => batch.extend(slots.iter().map(|&slot| {
                let (op, offset) = self.next_io();
                Io { op, slot, offset }
            })),
        }
    }

    /// The next I/O: operation, and byte offset.
    #[inline]
    pub fn next_io(&mut self) -> (Op, u64) {
        let op = match self.rw {
            Rw::Nop => return (Op::Nop, 0),
            Rw::RandRead | Rw::Read => Op::Read,
            Rw::RandWrite | Rw::Write | Rw::Append => Op::Write,
            Rw::RandRw if self.random.draw() >> 63 == 0 => Op::Read,
            Rw::RandRw => Op::Write,
        };
        let block = match self.rw {
            Rw::Read | Rw::Write | Rw::Append => {
                let block = self.next;
                self.next = if block + 1 == self.region.blocks { 0 } else { block + 1 };
                block
            }
            _ => self.random.below(self.region.blocks),
        };
        (op, (self.region.first + block) * self.block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_offsets_wrap_within_the_jobs_region() {
        assert_eq!(Region::of(0, 2, 7, true), Region { first: 0, blocks: 3 });
        let last = Region::of(1, 2, 7, true);
        assert_eq!(last, Region { first: 3, blocks: 4 });
        let mut p = Pattern::new(Rw::Write, last, 4096, 1);
        let offsets: Vec<u64> = (0..5).map(|_| p.next_io().1 / 4096).collect();
        assert_eq!(offsets, [3, 4, 5, 6, 3]);
        assert_eq!(Region::of(1, 2, 7, false), Region { first: 0, blocks: 7 });
    }

    #[test]
    fn random_offsets_are_uniform_and_mixed_loads_are_half_reads() {
        let mut p = Pattern::new(Rw::RandRw, Region { first: 10, blocks: 8 }, 512, 7);
        let (mut hits, mut reads) = ([0u32; 8], 0u32);
        for _ in 0..80_000 {
            let (op, offset) = p.next_io();
            assert_eq!(offset % 512, 0);
            hits[(offset / 512 - 10) as usize] += 1;
            reads += u32::from(op == Op::Read);
        }
        // 10,000 are expected with a standard deviation of 94, and 40,000 with a standard deviation of 141.
        assert!(hits.iter().all(|h| h.abs_diff(10_000) < 500), "{hits:?}");
        assert!(reads.abs_diff(40_000) < 750, "{reads}");
    }

    #[test]
    fn equal_seeds_produce_equal_offsets() {
        let order = |seed| {
            let mut p = Pattern::new(Rw::RandRead, Region { first: 0, blocks: 1 << 20 }, 1, seed);
            (0..8).map(|_| p.next_io().1).collect::<Vec<_>>()
        };
        let mut p = Pattern::new(Rw::RandRead, Region { first: 0, blocks: 1 << 20 }, 1, 3);
        for warmed_up in [0, 5, 1000] {
            p.restart(Stage::Warmup);
            (0..warmed_up).for_each(|_| _ = p.next_io());
            p.restart(Stage::Measured);
            let measured: Vec<u64> = (0..8).map(|_| p.next_io().1).collect();
            assert_eq!(measured, order(3), "however many I/Os the warm-up did");
        }
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(4));
        for rw in [Rw::RandRead, Rw::Write, Rw::RandRw] {
            let mut one = Pattern::new(rw, Region { first: 2, blocks: 9 }, 512, 3);
            let (mut other, mut batch) = (one.clone(), Vec::new());
            other.extend(&mut batch, &[5, 6, 7]);
            let singly: Vec<_> = (0..3).map(|_| one.next_io()).collect();
            assert_eq!(batch.iter().map(|io| (io.op, io.offset)).collect::<Vec<_>>(), singly);
            assert_eq!(batch.iter().map(|io| io.slot).collect::<Vec<_>>(), [5, 6, 7]);
        }
    }
}
