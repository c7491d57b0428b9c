//! Blocks that contain their position and a checksum.
//!
//! Each unit of 512 bytes is independent, so that blocks of any multiple can be checked, and a file laid out with one
//! block size can be read with another:
//! ```text
//! bytes 0..8    MAGIC
//! bytes 8..16   offset of the unit in the target
//! bytes 16..24  generation: the seed of the payload; 0 for a file's first layout
//! bytes 24..32  checksum over the three words above and the payload
//! bytes 32..512 payload: SplitMix64 from the offset and the generation
//! ```
//! Words are little-endian. This detects misplaced, torn, corrupt and never-written data, but not an earlier complete
//! write to the same position.

use iotrail_stats::random::SplitMix64;

/// Bytes per checked unit.
pub const UNIT: usize = 512;
const WORDS: usize = UNIT / 8;
const HEADER: usize = 4;
const MAGIC: u64 = u64::from_le_bytes(*b"iotrail\x01");

/// A corrupt unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// The target offset from which the unit was read.
    pub offset: u64,
    pub reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No magic number: never written by a verified load or a layout. Contains the first word.
    Unmarked(u64),
    /// The unit belongs to this offset instead.
    Misplaced(u64),
    /// The first wrong word, `byte` bytes into the unit.
    Corrupt { byte: u16, expected: u64, found: u64 },
}

impl Mismatch {
    /// The expected content as text.
    pub fn expected(&self) -> String {
        match self.reason {
            Reason::Unmarked(_) => format!("the mark of a verified write ({})", bytes(MAGIC)),
            Reason::Misplaced(_) => format!("the data of offset {}", self.offset),
            Reason::Corrupt { byte, expected, .. } => format!("{} at byte {byte} of the unit", bytes(expected)),
        }
    }

    /// The actual content as text.
    pub fn found(&self) -> String {
        match self.reason {
            Reason::Unmarked(word) => bytes(word),
            Reason::Misplaced(other) => format!("the data of offset {other}"),
            Reason::Corrupt { found, .. } => bytes(found),
        }
    }
}

/// In file order.
fn bytes(word: u64) -> String {
    word.to_le_bytes().iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

fn payload(offset: u64, generation: u64) -> impl Iterator<Item = u64> {
    let mut random = SplitMix64::new(offset ^ generation.rotate_left(32) ^ MAGIC);
    (HEADER..WORDS).map(move |_| random.draw())
}

fn fold(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// Writes units to `block`, for `offset` in the target. A remainder shorter than a unit is not modified.
pub fn fill(block: &mut [u8], offset: u64, generation: u64) {
    for (i, unit) in block.chunks_exact_mut(UNIT).enumerate() {
        let at = offset + (i * UNIT) as u64;
        let mut sum = fold(fold(fold(0, MAGIC), at), generation);
        let (header, rest) = unit.split_at_mut(HEADER * 8);
        for (bytes, word) in rest.chunks_exact_mut(8).zip(payload(at, generation)) {
            bytes.copy_from_slice(&word.to_le_bytes());
            sum = fold(sum, word);
        }
        for (bytes, word) in header.chunks_exact_mut(8).zip([MAGIC, at, generation, sum]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Checks data read from `offset` in the target.
pub fn check(block: &[u8], offset: u64) -> Result<(), Mismatch> {
    for (i, unit) in block.chunks_exact(UNIT).enumerate() {
        let at = offset + (i * UNIT) as u64;
        let bad = |reason| Err(Mismatch { offset: at, reason });
        let mut words = unit.chunks_exact(8).map(|b| b.iter().rev().fold(0, |w, b| (w << 8) | u64::from(*b)));
        // A unit has 64 words.
        let header: [u64; HEADER] = std::array::from_fn(|_| words.next().unwrap_or_default());
        let [magic, place, generation, checksum] = header;
        if magic != MAGIC {
            return bad(Reason::Unmarked(magic));
        }
        if place != at {
            return bad(Reason::Misplaced(place));
        }
        let mut sum = fold(fold(fold(0, MAGIC), at), generation);
        for (n, (word, expected)) in (HEADER..).zip(words.zip(payload(at, generation))) {
            if word != expected {
                return bad(Reason::Corrupt { byte: (n * 8) as u16, expected, found: word });
            }
            sum = fold(sum, word);
        }
        if sum != checksum {
            return bad(Reason::Corrupt { byte: 24, expected: sum, found: checksum });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_correctly_written_blocks_pass_verification() {
        let mut block = vec![0; 4096];
        assert_eq!(check(&block, 8192), Err(Mismatch { offset: 8192, reason: Reason::Unmarked(0) }));
        fill(&mut block, 8192, 77);
        assert_eq!(check(&block, 8192), Ok(()));
        assert_eq!(check(&block[1024..], 8192 + 1024), Ok(()), "each unit stands for itself");
        assert_eq!(check(&block, 0), Err(Mismatch { offset: 0, reason: Reason::Misplaced(8192) }));
        // A wrong generation shows in the first word of the payload.
        for (byte, word) in [(512 + 16, 32), (512 + 24, 24), (512 + 100, 96), (1023, 504)] {
            let mut torn = block.clone();
            torn[byte] ^= 1;
            let e = check(&torn, 8192).unwrap_err();
            let Reason::Corrupt { byte: at, expected, found } = e.reason else { panic!("{e:?}") };
            assert_eq!((e.offset, at), (8704, word), "byte {byte}");
            assert_ne!(expected, found);
            assert_eq!(e.found().len(), 23, "eight bytes: {}", e.found());
        }
    }
}
