//! Memory of sends, kept until the kernel no longer uses it: shared blocks for immediate answers, and separate memory
//! for data that a socket did not accept.

use crate::server::connection::ROOM;

/// Answers are written to a block while it has less than `ROOM` bytes. A call adds at most `ROOM`, and a batch is
/// copied before it is extended only if it is small, so a block's memory never moves. Only written pages become
/// resident.
const BLOCK: usize = 3 * ROOM;
/// A batch of answers up to this size is moved to the end of the block when it is extended.
pub const MOVABLE: usize = 16 << 10;
/// Maximum number of unused blocks that are kept.
const KEPT: usize = 8;

#[derive(Default)]
struct Slot {
    bytes: Vec<u8>,
    /// Sends that will report completion.
    users: u32,
    /// Immediate sends read from it up to this submission entry.
    until: u64,
    /// A block, for answers to many connections.
    shared: bool,
}

impl Slot {
    fn is_free(&self, settled: u64) -> bool {
        self.users == 0 && self.until <= settled
    }

    fn block() -> Self {
        Self { bytes: Vec::with_capacity(BLOCK), shared: true, ..Slot::default() }
    }
}

pub struct Output {
    slots: Vec<Slot>,
    /// Slots without memory.
    empty: Vec<u32>,
    /// Blocks: the current one, and the others.
    current: u32,
    blocks: Vec<u32>,
    settled: u64,
}

/// A range of bytes in a slot.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    pub slot: u32,
    pub at: u32,
    pub len: u32,
}

impl Output {
    pub fn new() -> Self {
        Self { slots: vec![Slot::block()], empty: vec![], blocks: vec![], current: 0, settled: 0 }
    }

    /// Where the next answers are written: the end of the current block.
    #[inline]
    pub fn block(&mut self) -> &mut Vec<u8> {
        &mut self.slots[self.current as usize].bytes
    }

    /// The block's end, with at least `ROOM` free bytes, and `MOVABLE` more.
    #[inline]
    pub fn end(&mut self) -> usize {
        if self.block().len() > ROOM {
            self.turn();
        }
        self.block().len()
    }

    /// The block's data from `at` on.
    #[inline]
    pub fn piece_from(&mut self, at: usize) -> Piece {
        Piece { slot: self.current, at: at as u32, len: (self.block().len() - at) as u32 }
    }

    /// Records that the submission entry `number` reads from `slot`.
    #[inline]
    pub fn lend(&mut self, slot: u32, number: u64) {
        let until = &mut self.slots[slot as usize].until;
        *until = (*until).max(number + 1);
    }

    /// Moves `piece` to the block's end, where it can be extended; returns its new start.
    pub fn move_to_end(&mut self, piece: Piece) -> usize {
        let end = self.end();
        let begins = piece.at as usize;
        if piece.slot == self.current && begins + piece.len as usize == end {
            return begins;
        }
        let copy = self.bytes(piece).to_vec();
        self.block().extend_from_slice(&copy);
        end
    }

    /// The part of `piece` after its first `taken` bytes, marked as in use: in place if its slot may be kept, otherwise
    /// copied.
    pub fn rest(&mut self, piece: Piece, taken: u32, in_place: bool) -> Piece {
        let rest = Piece { slot: piece.slot, at: piece.at + taken, len: piece.len - taken };
        if self.slots[piece.slot as usize].shared && !in_place {
            let copy = self.bytes(rest).to_vec();
            return self.adopt(copy);
        }
        self.hold(piece.slot);
        rest
    }

    pub fn hold(&mut self, slot: u32) {
        self.slots[slot as usize].users += 1;
    }

    /// Takes ownership of memory, marked as in use.
    pub fn adopt(&mut self, bytes: Vec<u8>) -> Piece {
        let len = bytes.len() as u32;
        Piece { slot: self.add(Slot { bytes, users: 1, ..Slot::default() }), at: 0, len }
    }

    fn add(&mut self, new: Slot) -> u32 {
        match self.empty.pop() {
            Some(at) => {
                self.slots[at as usize] = new;
                at
            }
            None => {
                self.slots.push(new);
                self.slots.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub fn bytes(&self, piece: Piece) -> &[u8] {
        &self.slots[piece.slot as usize].bytes[piece.at as usize..][..piece.len as usize]
    }

    /// Drops one use.
    pub fn release(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.users -= 1;
        if slot.users == 0 && !slot.shared {
            *slot = Slot::default();
            self.empty.push(number);
        }
    }

    /// Submission entries before this one no longer read.
    #[inline]
    pub fn settle(&mut self, settled: u64) {
        self.settled = settled;
        let slot = &mut self.slots[self.current as usize];
        if slot.is_free(settled) {
            slot.bytes.clear();
        }
    }

    /// Switches to another block.
    fn turn(&mut self) {
        self.blocks.push(self.current);
        let free = self.blocks.iter().position(|b| self.slots[*b as usize].is_free(self.settled));
        self.current = match free {
            Some(at) => self.blocks.swap_remove(at),
            None => self.add(Slot::block()),
        };
        self.block().clear();
        if self.blocks.len() > KEPT {
            let Self { slots, blocks, empty, settled, .. } = self;
            blocks.retain(|b| {
                let free = slots[*b as usize].is_free(*settled);
                if free {
                    slots[*b as usize] = Slot::default();
                    empty.push(*b);
                }
                !free
            });
        }
    }

    /// Leaks the memory of all sends that the kernel may still read.
    pub fn leak(self) {
        std::mem::forget(self);
    }
}
