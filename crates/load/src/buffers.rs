//! A job's I/O buffers: page-aligned, one per slot, faulted in before measurement.

use std::io;
use std::ptr::NonNull;

use rustix::mm::MapFlags;

use crate::engine::Memory;
use iotrail_base::error::{Error, Result};
use iotrail_base::mapping::Mapping;
use iotrail_stats::random::SplitMix64;

/// Buffer alignment; a multiple of every logical block size in use.
pub(crate) const PAGE: usize = 4096;

/// Rejects buffers that exceed the available memory, because they are faulted in immediately, and the OOM killer might
/// choose any process. Accepts all sizes if the available memory is unknown.
pub fn check_room(jobs: u32, slots: u32, block_bytes: u32) -> Result<()> {
    let bytes = u128::from(jobs) * u128::from(slots) * (block_bytes as usize).next_multiple_of(PAGE) as u128;
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|m| available_kib(&m));
    match available {
        Some(kib) if bytes > u128::from(kib) << 10 => Err(Error::machine(
            format!("the I/O buffers need {} MiB of memory, but only {} MiB is available", bytes >> 20, kib >> 10),
            "use a smaller --depth, --bs or --jobs",
        )),
        _ => Ok(()),
    }
}

/// MemAvailable of proc_meminfo(5).
fn available_kib(meminfo: &str) -> Option<u64> {
    meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// Anonymous memory, owned by the job's thread.
pub struct Buffers {
    memory: Memory,
    /// Unmapped on drop. By the engines' contract no I/O is in flight then, unless [`leak`](Self::leak) was called.
    _mapping: Mapping,
}

impl Buffers {
    /// Allocates `slots` blocks. Fails if memory is insufficient.
    pub fn new(slots: u32, block_bytes: u32) -> io::Result<Self> {
        Self::after(0, slots, block_bytes)
    }

    /// The same after up to 15 unused pages, so that the seed, not the order of the process's mappings, determines
    /// which blocks share a cache set or a huge page.
    pub(crate) fn placed(slots: u32, block_bytes: u32, seed: u64) -> io::Result<Self> {
        Self::after(SplitMix64::new(seed ^ 0x6275_6666).below(16) as usize, slots, block_bytes)
    }

    fn after(lead: usize, slots: u32, block_bytes: u32) -> io::Result<Self> {
        let stride = (block_bytes as usize).next_multiple_of(PAGE);
        let bytes = stride.checked_mul(slots as usize).and_then(|b| b.checked_add(lead * PAGE));
        let bytes = bytes.ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping::anonymous(bytes, MapFlags::PRIVATE | MapFlags::POPULATE)?;
        let base = mapping.base().as_ptr().wrapping_add(lead * PAGE);
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory: Memory { base, stride, block_bytes, slots }, _mapping: mapping })
    }

    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Leaks the memory permanently, because an unreaped I/O may still write to it.
    pub fn leak(self) {
        std::mem::forget(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_determines_the_buffer_offset_within_their_mapping() {
        let lead = |seed| {
            let placed = Buffers::placed(3, 512, seed).unwrap();
            (placed.memory().address(0) as usize - placed._mapping.base().as_ptr() as usize) / PAGE
        };
        let leads: Vec<usize> = (0..64).map(lead).collect();
        let again: Vec<usize> = (0..64).map(lead).collect();
        assert_eq!(leads, again);
        assert!((0..16).all(|lead| leads.contains(&lead)), "{leads:?}");
        let placed = Buffers::placed(3, 512, 5).unwrap();
        assert_eq!(placed.memory().address(0) as usize % PAGE, 0);
        // SAFETY: the last byte of the last block, within the mapping.
        unsafe { placed.memory().address(2).add(511).write(1) };
    }

    #[test]
    fn buffers_larger_than_the_available_memory_are_rejected() {
        assert_eq!(available_kib("MemTotal: 9 kB\nMemAvailable:   1234 kB\n"), Some(1234));
        assert_eq!(available_kib("MemTotal: 9 kB\n"), None);
        check_room(1, 16, 4096).unwrap();
        let e = check_room(4096, 32768, 1 << 30).unwrap_err();
        assert!(e.to_string().starts_with("the I/O buffers need 137438953472 MiB of memory, but only "), "{e}");
    }
}
