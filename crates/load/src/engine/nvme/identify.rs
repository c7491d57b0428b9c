//! Parses a drive's Identify pages.

/// Page size in bytes.
pub const PAGE: usize = 4096;

/// Kind of page: CNS of Identify.
pub const NAMESPACE: u32 = 0;
pub const CONTROLLER: u32 = 1;
pub const NAMESPACES: u32 = 2;

fn u32_at(page: &[u8; PAGE], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| page[at + i]))
}

fn u64_at(page: &[u8; PAGE], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| page[at + i]))
}

/// The format of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    pub id: u32,
    pub blocks: u64,
    /// log2 of the block size in bytes.
    pub block_shift: u32,
    /// Metadata bytes per block.
    pub metadata_bytes: u16,
}

impl Namespace {
    /// `None` if no namespace has this number, or if its page is unusable.
    pub fn parse(id: u32, page: &[u8; PAGE]) -> Option<Self> {
        let blocks = u64_at(page, 0);
        // FLBAS: bits 3:0 and 6:5 are the index of the current format.
        let flbas = usize::from(page[26]);
        let format = u32_at(page, 128 + 4 * ((flbas & 0xf) | (flbas >> 5 & 3) << 4));
        let block_shift = format >> 16 & 0xff;
        let sound = blocks > 0 && (9..=16).contains(&block_shift) && blocks.checked_mul(1 << block_shift).is_some();
        sound.then_some(Self { id, blocks, block_shift, metadata_bytes: format as u16 })
    }

    pub fn block_bytes(&self) -> u32 {
        1 << self.block_shift
    }

    pub fn bytes(&self) -> u64 {
        self.blocks << self.block_shift
    }
}

/// A controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// log2 of the maximum data per command, in pages of the controller's minimum size; 0 for no limit.
    pub mdts: u8,
    /// Written data may be lost on power failure until it is flushed.
    pub volatile_cache: bool,
}

impl Controller {
    pub fn parse(page: &[u8; PAGE]) -> Self {
        Self { mdts: page[77], volatile_cache: page[525] & 1 != 0 }
    }

    /// Maximum bytes per command; `least_page_shift`: CAP.MPSMIN + 12. `None` for no limit.
    pub fn transfer_bytes(&self, least_page_shift: u32) -> Option<u64> {
        (self.mdts > 0).then(|| 1u64.checked_shl(u32::from(self.mdts) + least_page_shift).unwrap_or(u64::MAX))
    }

    /// Whether the controller supports the queue entry sizes used here (2^6 and 2^4 bytes).
    pub fn entries_fit(page: &[u8; PAGE]) -> bool {
        let holds = |sizes: u8, size: u8| (sizes & 0xf) <= size && sizes >> 4 >= size;
        holds(page[512], 6) && holds(page[513], 4)
    }
}

/// Numbers of active namespaces, in ascending order.
pub fn namespaces(page: &[u8; PAGE]) -> Vec<u32> {
    (0..PAGE / 4).map(|i| u32_at(page, i * 4)).take_while(|id| *id != 0).collect()
}

/// Queues granted by Set Features, Number of Queues: (submission, completion).
pub fn queues_granted(result: u32) -> (u32, u32) {
    ((result & 0xffff) + 1, (result >> 16) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace_page(blocks: u64, flbas: u8, formats: &[(usize, u32)]) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        page[..8].copy_from_slice(&blocks.to_le_bytes());
        page[26] = flbas;
        for (i, format) in formats {
            page[128 + 4 * i..132 + 4 * i].copy_from_slice(&format.to_le_bytes());
        }
        page
    }

    #[test]
    fn the_block_size_is_that_of_the_formatted_lba_format() {
        let ns = Namespace::parse(1, &namespace_page(2048, 0, &[(0, 9 << 16), (1, 12 << 16)])).unwrap();
        assert_eq!((ns.block_bytes(), ns.bytes(), ns.metadata_bytes), (512, 1 << 20, 0));
        let ns = Namespace::parse(1, &namespace_page(10, 1, &[(0, 9 << 16), (1, 12 << 16 | 8)])).unwrap();
        assert_eq!((ns.block_bytes(), ns.metadata_bytes), (4096, 8));
        // The 18th format, whose index does not fit into four bits.
        let ns = Namespace::parse(3, &namespace_page(10, 1 | 1 << 5, &[(17, 12 << 16)])).unwrap();
        assert_eq!((ns.id, ns.block_bytes()), (3, 4096));
    }

    #[test]
    fn an_empty_identify_page_is_not_a_namespace() {
        assert_eq!(Namespace::parse(9, &[0; PAGE]), None);
        assert_eq!(Namespace::parse(9, &namespace_page(10, 0, &[(0, 3 << 16)])), None);
        assert_eq!(Namespace::parse(9, &namespace_page(u64::MAX, 0, &[(0, 12 << 16)])), None);
    }

    #[test]
    fn controller_limits_are_parsed_from_the_identify_page() {
        let mut page = [0; PAGE];
        (page[77], page[525], page[512], page[513]) = (7, 7, 0x66, 0x44);
        let c = Controller::parse(&page);
        assert!(c.volatile_cache && Controller::entries_fit(&page));
        assert_eq!(c.transfer_bytes(12), Some(512 << 10));
        assert_eq!(Controller { mdts: 0, ..c }.transfer_bytes(12), None);
        page[512] = 0x77;
        assert!(!Controller::entries_fit(&page));
    }

    #[test]
    fn namespace_lists_and_granted_queue_counts_are_decoded() {
        let mut page = [0; PAGE];
        page[0] = 1;
        page[4] = 7;
        assert_eq!(namespaces(&page), [1, 7]);
        assert_eq!(queues_granted(0x0003_0001), (2, 4));
    }
}
