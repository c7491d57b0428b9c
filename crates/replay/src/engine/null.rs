//! An engine that completes everything immediately, to measure the replay's own overhead.

use std::collections::VecDeque;

use super::Engine;
use crate::program::{Op, Wait};
use iotrail_base::error::Result;

#[derive(Default)]
pub(crate) struct Null {
    done: VecDeque<(u32, i32)>,
    calls: u64,
}

impl Engine for Null {
    #[inline]
    fn queue(&mut self, op: &Op, slot: u32) -> Result<()> {
        self.done.push_back((slot, op.len as i32));
        Ok(())
    }

    #[inline]
    fn submit(&mut self, _min: u32, _gets_events: bool) -> Result<()> {
        self.calls += 1;
        Ok(())
    }

    #[inline]
    fn available(&mut self) -> u32 {
        self.done.len() as u32
    }

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.done.front().map(|(slot, _)| *slot)
    }

    #[inline]
    fn take(&mut self) -> Option<(u32, i32)> {
        self.done.pop_front()
    }

    fn wait(&mut self, _wait: Wait, _min: u32, _max: u32) -> Result<()> {
        self.calls += 1;
        Ok(())
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
