//! When a record of the span up to now is due, for a trace whose end iotrail may not reach.

use std::time::{Duration, Instant};

/// The first checkpoint, and the longest time between two.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// The time between two checkpoints is this many times what one takes, or longer.
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

    /// Sets the next one, after one that began at `from`.
    pub fn done(&mut self, from: Instant) {
        let pause = (from - self.began).min(LONGEST).max(from.elapsed() * TIMES_ITS_COST);
        self.next = Instant::now() + pause;
    }
}
