//! The interfaces that requests are submitted through.

pub mod aio;
pub mod null;
pub mod sync;
pub mod uring;

use std::io;

use crate::program::{Op, Wait};
use iotrail_base::error::Result;

/// One ring or context of one thread. Slots number the requests in flight; each has its own buffer.
pub(crate) trait Engine {
    /// Queues a request for the next call of [`Engine::submit`], or submits what is queued first.
    fn queue(&mut self, op: &Op, slot: u32) -> Result<()>;

    /// Submits all that is queued and waits for `min` completions in the same call if the interface can.
    fn submit(&mut self, min: u32, gets_events: bool) -> Result<()>;

    /// Completions that can be taken without a call.
    fn available(&mut self) -> u32;

    /// Takes one of them: its slot and its result.
    fn take(&mut self) -> Option<(u32, i32)>;

    /// Waits until `min` completions can be taken, or asks once. Returns early if interrupted. `max`: more are not wanted.
    fn wait(&mut self, wait: Wait, min: u32, max: u32) -> Result<()>;

    /// System calls so far.
    fn calls(&self) -> u64;
}

/// I/O memory of one thread: one buffer per slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub base: *mut u8,
    /// From one buffer to the next, in bytes.
    pub stride: usize,
    pub slots: u32,
}

impl Memory {
    #[inline]
    pub fn address(&self, slot: u32) -> *mut u8 {
        debug_assert!(slot < self.slots);
        self.base.wrapping_add(self.stride * slot as usize)
    }
}

pub(crate) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
