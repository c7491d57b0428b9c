//! The interfaces through which requests are submitted.

pub mod aio;
pub mod null;
pub mod sync;
pub mod uring;

use std::io;

use crate::program::{Op, Wait};
use iotrail_base::error::Result;

/// A thread's ring or context. Slots number its requests in flight; each slot has a buffer.
pub(crate) trait Engine {
    /// Queues a request for the next [`Engine::submit`]; if the queue is full, submits it first.
    fn queue(&mut self, op: &Op, slot: u32) -> Result<()>;

    /// Submits all queued requests and, if the interface can, waits for `min` completions in the same call.
    fn submit(&mut self, min: u32, gets_events: bool) -> Result<()>;

    /// Number of completions that can be taken without a call.
    fn available(&mut self) -> u32;

    /// The slot of the next available completion.
    fn next(&mut self) -> Option<u32>;

    /// Takes a completion: its slot and its result.
    fn take(&mut self) -> Option<(u32, i32)>;

    /// Waits until `min` completions can be taken, or polls once. Returns early if interrupted. `max`: maximum number
    /// of completions wanted.
    fn wait(&mut self, wait: Wait, min: u32, max: u32) -> Result<()>;

    /// Number of system calls so far.
    fn calls(&self) -> u64;
}

/// A thread's I/O memory: one buffer per slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub base: *mut u8,
    /// Distance between buffers in bytes.
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
