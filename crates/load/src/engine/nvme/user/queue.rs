//! A queue pair's two rings, in memory shared with the drive.
//!
//! Neither can overflow: each has one entry more than there are I/Os in flight, and an entry is reused only after its
//! previous command's completion was consumed.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::nvme::command::{Command, Completed};

/// Commands for the drive, which reads them once the tail doorbell has passed them.
pub struct Submissions {
    entries: NonNull<Command>,
    count: u32,
    tail: u32,
}

// SAFETY: a single owner writes the entries, on whichever thread it runs.
unsafe impl Send for Submissions {}

impl Submissions {
    /// # Safety
    /// `entries` has memory for `count` commands (at least 2) as long as this value exists, without other writers.
    pub unsafe fn new(entries: NonNull<Command>, count: u32) -> Self {
        Self { entries, count, tail: 0 }
    }

    #[inline]
    pub fn push(&mut self, command: Command) {
        // SAFETY: the tail stays below `count`; volatile because the drive reads it.
        unsafe { self.entries.add(self.tail as usize).write_volatile(command) };
        self.tail = if self.tail + 1 == self.count { 0 } else { self.tail + 1 };
    }

    /// The value to write to the tail doorbell.
    #[inline]
    pub fn tail(&self) -> u32 {
        self.tail
    }
}

/// The ring to which the drive writes completions. The phase tag, which alternates with each pass, identifies new ones.
pub struct Completions {
    entries: NonNull<Completed>,
    count: u32,
    head: u32,
    phase: bool,
}

// SAFETY: a single owner reads the entries, on whichever thread it runs.
unsafe impl Send for Completions {}

impl Completions {
    /// # Safety
    /// `entries` has `count` zeroed entries (at least 2), which exist as long as this value and are written only by the
    /// drive.
    pub unsafe fn new(entries: NonNull<Completed>, count: u32) -> Self {
        Self { entries, count, head: 0, phase: true }
    }

    /// The next completion, if any.
    #[inline]
    pub fn take(&mut self) -> Option<Completed> {
        // SAFETY: the head stays below `count`.
        let entry = unsafe { self.entries.add(self.head as usize) };
        // SAFETY: the last word of an entry, 4-byte aligned; the drive writes it atomically and last. Acquire: the
        // preceding words are read after it.
        let last = unsafe { AtomicU32::from_ptr(entry.as_ptr().cast::<u32>().add(3)) }.load(Ordering::Acquire);
        if (last >> 16 & 1 != 0) != self.phase {
            return None;
        }
        after_phase();
        // SAFETY: the entry is written, because its phase is the current one, and not overwritten before the head
        // doorbell has passed it.
        let found = unsafe { entry.read_volatile() };
        self.head += 1;
        if self.head == self.count {
            (self.head, self.phase) = (0, !self.phase);
        }
        Some(found)
    }

    /// The value to write to the head doorbell.
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }
}

/// Prevents later reads from being reordered before the read of the phase; x86 does not reorder loads.
#[inline]
fn after_phase() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: only a barrier.
    unsafe {
        std::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "aarch64"))]
    std::sync::atomic::fence(Ordering::Acquire);
}

/// Makes earlier writes to memory visible before a later doorbell write; x86 does not reorder stores.
#[inline]
pub fn before_doorbell() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: only a barrier.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "aarch64"))]
    std::sync::atomic::fence(Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_bit_flips_at_each_wrap_of_the_completion_queue() {
        let mut memory = [Completed::default(); 3];
        let entries = NonNull::new(memory.as_mut_ptr()).unwrap();
        // SAFETY: three zeroed entries that outlive the ring.
        let mut ring = unsafe { Completions::new(entries, 3) };
        // Simulates a drive that writes one entry ahead, over several passes.
        for n in 0..10u16 {
            assert_eq!(ring.take(), None, "{n}");
            let phase = u16::from((n / 3) % 2 == 0);
            let done = Completed { id: n, status: phase, ..Completed::default() };
            // SAFETY: as above.
            unsafe { entries.add(usize::from(n % 3)).write_volatile(done) };
            assert_eq!(ring.take(), Some(done));
            assert_eq!(ring.head(), u32::from((n + 1) % 3));
        }
    }

    #[test]
    fn the_submission_queue_wraps_around() {
        let mut memory = [Command::default(); 2];
        let entries = NonNull::new(memory.as_mut_ptr()).unwrap();
        // SAFETY: two entries that outlive the ring.
        let mut ring = unsafe { Submissions::new(entries, 2) };
        for id in 0..3 {
            ring.push(Command { id, ..Command::default() });
        }
        assert_eq!(ring.tail(), 1);
        // SAFETY: as above.
        let ids = [0, 1].map(|i| unsafe { entries.add(i).read_volatile() }.id);
        assert_eq!(ids, [2, 1]);
    }
}
