//! Does nothing: I/Os are complete when queued. Measures the load's own overhead.

use std::io;
use std::time::Instant;

use super::capabilities::{Completions, Engine, Nop, TargetKind, no_other_remedy};
use super::{Completion, Io, Opened, Opening, Queued, Reaper, Submitter, Wait};
use iotrail_base::error::Result;

pub static ENGINE: Engine = Engine {
    name: "null",
    help: None,
    fio: &["null"],
    target: TargetKind::Nothing,
    ring: None,
    nop: Nop::MovesBlock,
    completions: Completions::Unseen,
    completes_in_queue: true,
    one_in_flight: None,
    sleeps: true,
    synchronous_if_buffered: None,
    here: |_| Ok("does nothing: needs nothing".into()),
    remedy: no_other_remedy,
};

pub struct Null {
    block_bytes: i32,
}

pub fn open(at: &Opening) -> Result<Opened<Null, Nothing>> {
    Ok(Opened::ringless(Null { block_bytes: at.job.memory.block_bytes as i32 }, Nothing))
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

/// The reaping half of an engine whose I/Os are complete when queued.
pub struct Nothing;

impl Reaper for Nothing {
    fn poll(&mut self, _: u32, _: Wait, _: Option<Instant>, _: &mut Vec<Completion>) -> io::Result<()> {
        Ok(())
    }

    fn syscalls(&self) -> Option<u64> {
        Some(0)
    }
}
