//! Open loop: I/Os at their intended times, however slow the device is.

use super::clock::Clock;

/// Intended times of a job's I/Os: the `k`-th is due at `start + k × interval`.
#[derive(Debug, Clone)]
pub struct Pace {
    start: u64,
    /// Ticks between two I/Os; fractional, so that errors do not accumulate.
    interval: f64,
    issued: u64,
    /// Largest delay of a submission after its intended time, in ticks.
    pub worst_lag: u64,
}

impl Pace {
    /// `per_second`: this job's share of the rate. `offset` (0 to 1) staggers the jobs.
    pub fn new(clock: &Clock, start: u64, per_second: f64, offset: f64) -> Self {
        let second = clock.ticks(std::time::Duration::from_secs(1)) as f64;
        let interval = second / per_second;
        Self { start: start + (interval * offset) as u64, interval, issued: 0, worst_lag: 0 }
    }

    /// The intended time of the next I/O.
    pub fn next(&self) -> u64 {
        self.start + (self.issued as f64 * self.interval) as u64
    }

    /// Takes the next I/O if it is due, and returns its intended time.
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let next = self.next();
        if next > now {
            return None;
        }
        self.worst_lag = self.worst_lag.max(now - next);
        self.issued += 1;
        Some(next)
    }

    /// Number of I/Os due before `end` that were not taken.
    pub fn missed(&self, end: u64) -> u64 {
        let due = if end < self.start { 0 } else { ((end - self.start) as f64 / self.interval) as u64 };
        due.saturating_sub(self.issued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions_keep_their_intended_times_and_lag_is_recorded() {
        let mut p = Pace { start: 1000, interval: 2.5, issued: 0, worst_lag: 0 };
        assert_eq!(p.take(999), None);
        let times: Vec<u64> = std::iter::from_fn(|| p.take(1010)).collect();
        assert_eq!(times, [1000, 1002, 1005, 1007, 1010]);
        assert_eq!((p.next(), p.worst_lag, p.missed(1020)), (1012, 10, 3));
    }
}
