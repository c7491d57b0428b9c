//! The order of a run: repeats are blocks, each block holds every cell once in an order of its own. What drifts during a run
//! (temperature, a neighbour, the disk's own housekeeping) then falls on all arms alike, and each block is a set of pairs.

/// One measurement to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// The block, from 1.
    pub repeat: u32,
    /// The cell's number in the plan.
    pub cell: u32,
}

/// All slots of a run. The same seed gives the same order in every version: the generator is written out here for that.
pub fn order(cells: &[u32], repeats: u32, seed: u32) -> Vec<Slot> {
    let mut slots = Vec::with_capacity(cells.len() * repeats as usize);
    for repeat in 1..=repeats {
        // Each block has a stream of its own, so that a run with more repeats begins like one with fewer.
        let mut random = SplitMix64((u64::from(seed) << 32) | u64::from(repeat));
        let mut block = cells.to_vec();
        for i in (1..block.len()).rev() {
            block.swap(i, random.below(i as u64 + 1) as usize);
        }
        slots.extend(block.into_iter().map(|cell| Slot { repeat, cell }));
    }
    slots
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `n`, by the high half of the product; the bias, n / 2^64, is far below what any run could show.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// A seed for a run that was given none.
pub fn fresh_seed() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    SplitMix64(now.as_nanos() as u64).next() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_holds_every_cell_once() {
        let slots = order(&[1, 2, 5, 9], 3, 7);
        assert_eq!(slots.len(), 12);
        for (i, block) in slots.chunks(4).enumerate() {
            let mut cells: Vec<u32> = block.iter().map(|s| s.cell).collect();
            cells.sort_unstable();
            assert_eq!(cells, [1, 2, 5, 9]);
            assert!(block.iter().all(|s| s.repeat == i as u32 + 1));
        }
    }

    #[test]
    fn the_seed_makes_the_order_and_a_longer_run_begins_like_a_shorter_one() {
        let cells: Vec<u32> = (1..=20).collect();
        assert_eq!(order(&cells, 2, 42), order(&cells, 2, 42));
        assert_ne!(order(&cells, 2, 42), order(&cells, 2, 43));
        assert_eq!(order(&cells, 2, 42), order(&cells, 5, 42)[..40]);
        let blocks = order(&cells, 2, 42);
        assert_ne!(
            blocks[..20].iter().map(|s| s.cell).collect::<Vec<_>>(),
            blocks[20..].iter().map(|s| s.cell).collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // First output for the state 0, as in the reference implementation.
        assert_eq!(SplitMix64(0).next(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn all_orders_of_three_cells_turn_up_about_equally_often() {
        let mut seen = std::collections::HashMap::new();
        for block in order(&[1, 2, 3], 6000, 1).chunks(3) {
            *seen.entry([block[0].cell, block[1].cell, block[2].cell]).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        // 1000 expected each, standard deviation 29.
        assert!(seen.values().all(|n| (880..=1120).contains(n)), "{seen:?}");
    }
}
