//! Commands and completions in the queues' format.

use super::status::Status;

/// A submission queue entry, little-endian.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Command {
    pub opcode: u8,
    /// Fused operation and type of data pointer; 0 for PRPs.
    pub flags: u8,
    pub id: u16,
    pub nsid: u32,
    pub cdw2: u32,
    pub cdw3: u32,
    pub metadata: u64,
    pub prp1: u64,
    pub prp2: u64,
    pub cdw10: u32,
    pub cdw11: u32,
    pub cdw12: u32,
    pub cdw13: u32,
    pub cdw14: u32,
    pub cdw15: u32,
}

/// A completion queue entry, little-endian.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completed {
    pub result: u32,
    pub reserved: u32,
    pub sq_head: u16,
    pub sq_id: u16,
    pub id: u16,
    /// Phase tag in bit 0, status field above.
    pub status: u16,
}

const _: () = assert!(size_of::<Command>() == 64 && size_of::<Completed>() == 16);

impl Completed {
    #[cfg(test)]
    fn phase(&self) -> bool {
        self.status & 1 != 0
    }

    /// `None` on success.
    pub fn failed(&self) -> Option<Status> {
        Status::of_field(self.status >> 1)
    }
}

/// Opcodes of the admin queue.
pub mod admin {
    pub const DELETE_SQ: u8 = 0x00;
    pub const CREATE_SQ: u8 = 0x01;
    pub const DELETE_CQ: u8 = 0x04;
    pub const CREATE_CQ: u8 = 0x05;
    pub const IDENTIFY: u8 = 0x06;
    pub const SET_FEATURES: u8 = 0x09;
}

/// Opcodes of the NVM command set.
pub mod io {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
}

/// Position and length of a read or write in blocks: command words 10 to 12.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub cdw10: u32,
    pub cdw11: u32,
    pub cdw12: u32,
}

impl Range {
    /// `offset` and `bytes` are multiples of the namespace's block size, 2^`block_shift` bytes; at most 65,536 blocks.
    #[inline]
    pub fn new(offset: u64, bytes: u32, block_shift: u32) -> Self {
        let first = offset >> block_shift;
        Self { cdw10: first as u32, cdw11: (first >> 32) as u32, cdw12: (bytes >> block_shift).wrapping_sub(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn queue_entries_have_the_layout_of_the_nvme_specification() {
        assert_eq!((offset_of!(Command, nsid), offset_of!(Command, metadata)), (4, 16));
        assert_eq!((offset_of!(Command, prp1), offset_of!(Command, prp2), offset_of!(Command, cdw10)), (24, 32, 40));
        assert_eq!((offset_of!(Completed, sq_head), offset_of!(Completed, id)), (8, 12));
    }

    #[test]
    fn the_number_of_blocks_is_zero_based_and_the_lba_has_64_bits() {
        assert_eq!(Range::new(8192, 4096, 9), Range { cdw10: 16, cdw11: 0, cdw12: 7 });
        assert_eq!(Range::new(1 << 45, 512, 9), Range { cdw10: 0, cdw11: 16, cdw12: 0 });
        assert_eq!(Range::new(4096, 65536 * 4096, 12).cdw12, 0xffff);
    }

    #[test]
    fn the_phase_bit_and_the_status_share_a_word() {
        let done = Completed { status: 1, ..Completed::default() };
        assert!(done.phase() && done.failed().is_none());
        let bad = Completed { status: 0x80 << 1, ..Completed::default() };
        assert!(!bad.phase());
        assert_eq!(bad.failed().unwrap().name(), Some("LBA Out of Range"));
    }
}
