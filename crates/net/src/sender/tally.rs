//! Totals over one thread's connections in one stage. Memory: one histogram and a few numbers, for any duration.

use hdrhistogram::Histogram;

use iotrail_load::clock::Clock;
use iotrail_stats::histogram;

#[derive(Debug, Clone)]
pub struct Tally {
    /// Latency of every response, in ns.
    pub histogram: Histogram<u64>,
    pub sums: Sums,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Requests that are at least partly sent.
    pub requests: u64,
    pub responses: u64,
    /// Requests whose connection broke.
    pub unanswered: u64,
    /// In both directions.
    pub bytes: u64,
    pub opened: u64,
    pub broken: u64,
    /// Open loop: largest delay of a send after its intended time, in ticks.
    pub worst_lag: u64,
    /// Timestamp of the last response.
    pub last: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { histogram: histogram::new(), sums: Sums::default() }
    }
}

impl Tally {
    /// Resets everything. The previous stage touched the histogram's memory, so no page is faulted in while measuring.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.sums = Sums::default();
    }

    #[inline]
    pub fn record(&mut self, clock: &Clock, since: u64, now: u64, count: u64) {
        if count > 0 {
            // A counter read on another CPU may be a few ticks behind.
            let ns = clock.ns(now.saturating_sub(since));
            self.histogram.saturating_record_n(ns.max(1), count);
        }
    }

    /// Adds another thread's totals.
    pub fn add(&mut self, other: &Tally) -> Result<(), hdrhistogram::errors::AdditionError> {
        self.histogram.add(&other.histogram)?;
        let (sums, other) = (&mut self.sums, &other.sums);
        sums.requests += other.requests;
        sums.responses += other.responses;
        sums.unanswered += other.unanswered;
        sums.bytes += other.bytes;
        sums.opened += other.opened;
        sums.broken += other.broken;
        sums.worst_lag = sums.worst_lag.max(other.worst_lag);
        sums.last = sums.last.max(other.last);
        Ok(())
    }
}
