//! Decides when an intermediate record is due, in case iotrail does not survive until the end of the trace.

use std::time::{Duration, Instant};

/// Time of the first checkpoint, and maximum interval between two.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// The interval between two checkpoints is at least this multiple of a checkpoint's duration.
const TIMES_ITS_COST: u32 = 100;

/// When the next checkpoint is due.
#[derive(Debug)]
pub(super) struct Checkpoints {
    began: Instant,
    next: Instant,
}

impl Checkpoints {
    pub fn new(began: Instant) -> Self {
        Self { began, next: began + FIRST }
    }

    pub fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Schedules the next checkpoint after one that started at `from`.
    pub fn done(&mut self, from: Instant) {
        let pause = (from - self.began).min(LONGEST).max(from.elapsed() * TIMES_ITS_COST);
        self.next = Instant::now() + pause;
    }
}
