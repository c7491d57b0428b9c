//! Does nothing: every I/O is complete when it is queued. It exists to measure the load itself.

use std::io;
use std::time::Instant;

use super::{Completion, Io, Job, Queued, Reaper, Submitter, Wait};

pub struct Null {
    block_bytes: i32,
}

pub fn open(job: &Job) -> (Null, Nothing) {
    (Null { block_bytes: job.memory.block_bytes as i32 }, Nothing)
}

impl Submitter for Null {
    #[inline]
    fn queue(&mut self, _: &Io) -> Queued {
        Queued::Completed(self.block_bytes)
    }

    fn syscalls(&self) -> Option<u64> {
        Some(0)
    }
}

/// The reaping half of an engine whose I/Os are complete when queued: there is never anything to reap.
pub struct Nothing;

impl Reaper for Nothing {
    fn poll(&mut self, _: u32, _: Wait, _: Option<Instant>, _: &mut Vec<Completion>) -> io::Result<()> {
        Ok(())
    }

    fn syscalls(&self) -> Option<u64> {
        Some(0)
    }
}
