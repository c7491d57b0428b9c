//! The I/O buffers of one job: page-aligned, one per slot, faulted in before anything is measured.

use std::io;
use std::ptr::NonNull;

use crate::engine::Memory;

/// The page size that buffers are aligned to; a multiple of every logical block size in use.
pub const PAGE: usize = 4096;

/// Anonymous memory, owned by the worker that made it.
pub struct Buffers {
    memory: Memory,
}

impl Buffers {
    /// Room for `slots` blocks. Errors: not enough memory.
    pub fn new(slots: u32, block_bytes: u32) -> io::Result<Self> {
        let stride = (block_bytes as usize).next_multiple_of(PAGE);
        let bytes = stride.checked_mul(slots as usize).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory: Memory { base, stride, block_bytes, slots } })
    }

    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Gives the memory up for good: an I/O that could not be reaped may still write to it.
    pub fn leak(self) {
        std::mem::forget(self);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let bytes = self.memory.stride * self.memory.slots as usize;
        // SAFETY: our own mapping; by the engines' contract no I/O is in flight (else `leak` was called).
        let done = unsafe { libc::munmap(self.memory.base.as_ptr().cast(), bytes) };
        debug_assert_eq!(done, 0);
    }
}
