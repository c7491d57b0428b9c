//! The order of a run: repeats are blocks, and each block contains every cell once in random order. Drift during a run
//! (temperature, a neighbour, background work in the disk) then affects all arms equally, and each block is a set of
//! pairs.

use iotrail_stats::random::SplitMix64;
pub use iotrail_stats::random::fresh_seed;

/// One planned measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// The block, 1-based.
    pub repeat: u32,
    /// Index of the cell in the plan.
    pub cell: u32,
}

/// All slots of a run. A given seed produces the same order in all versions.
pub fn order(cells: &[u32], repeats: u32, seed: u32) -> Vec<Slot> {
    let mut slots = Vec::with_capacity(cells.len() * repeats as usize);
    for repeat in 1..=repeats {
        // Each block has a random stream of its own, so the first blocks do not depend on the number of repeats.
        let mut random = SplitMix64::new((u64::from(seed) << 32) | u64::from(repeat));
        let mut block = cells.to_vec();
        for i in (1..block.len()).rev() {
            block.swap(i, random.below(i as u64 + 1) as usize);
        }
        slots.extend(block.into_iter().map(|cell| Slot { repeat, cell }));
    }
    slots
}

/// The seed of a block's loads: all arms of a block do the same I/Os in the same order, and different blocks do
/// different I/Os.
pub fn load_seed(seed: u32, repeat: u32) -> u32 {
    // Independent of the stream for the block's order.
    SplitMix64::new(((u64::from(seed) << 32) | u64::from(repeat)) ^ 0x6c6f_6164_6c6f_6164).draw() as u32
}

/// An environment variable for a measured program. The environment's size moves the program's stack, which alone can
/// change its speed. The size varies between blocks, but all arms of a block have the same.
pub fn padding(load_seed: u32) -> (&'static str, String) {
    ("IOTRAIL_PADDING", "x".repeat(SplitMix64::new(u64::from(load_seed) ^ 0x7061_6464).below(4096) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_contains_each_cell_once() {
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
    fn the_seed_determines_the_order_independently_of_the_run_length() {
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
    fn all_orders_of_three_cells_are_equally_frequent() {
        let mut seen = std::collections::HashMap::new();
        for block in order(&[1, 2, 3], 6000, 1).chunks(3) {
            *seen.entry([block[0].cell, block[1].cell, block[2].cell]).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        // 1,000 each are expected, with a standard deviation of 29.
        assert!(seen.values().all(|n| (880..=1120).contains(n)), "{seen:?}");
    }

    #[test]
    fn the_environment_padding_depends_only_on_the_blocks_seed() {
        let sizes: std::collections::BTreeSet<usize> =
            (1..50).map(|block| padding(load_seed(7, block)).1.len()).collect();
        assert!(sizes.len() > 40 && sizes.iter().all(|size| *size < 4096), "{sizes:?}");
        assert_eq!(padding(load_seed(7, 1)), padding(load_seed(7, 1)));
    }
}
