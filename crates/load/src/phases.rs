//! Splits a job's own time into `submit`, `poll`, `clear` and other.
//!
//! The boundaries are immediately around the engine's calls, and are also USDT probes (provider `iotrail`:
//! `submit_begin`, `submit_end`, `poll_begin`, `poll_end`, `clear_begin`, `clear_end`; arguments: the job, and a number
//! of I/Os). `submit` covers `queue` and `submit` of a batch; `poll` covers one call of `poll`, including its wait.

use iotrail_schema::measurement::Phases;

use super::clock::Clock;

/// A job's ticks by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticks {
    pub submit: u64,
    pub poll: u64,
    pub clear: u64,
    /// From the job's start to its end.
    pub total: u64,
}

impl Ticks {
    pub fn add(&mut self, other: Ticks) {
        self.submit += other.submit;
        self.poll += other.poll;
        self.clear += other.clear;
        self.total += other.total;
    }

    /// Fractions of the total, which add up to 1; all 0 if nothing ran.
    pub fn fractions(&self, clock: &Clock) -> Phases {
        if self.total == 0 {
            return Phases::default();
        }
        // With a reaper thread, submission and polling overlap in time; the total covers both threads.
        let of = |ticks: u64| ticks as f64 / self.total as f64;
        let (submit, poll, clear) = (of(self.submit), of(self.poll), of(self.clear));
        let other = (1.0 - submit - poll - clear).max(0.0);
        Phases { submit, poll, clear, other, total_ns: clock.ns(self.total) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_fractions_sum_to_one() {
        let mut t = Ticks { submit: 10, poll: 20, clear: 5, total: 50 };
        t.add(Ticks { submit: 10, poll: 20, clear: 5, total: 50 });
        let p = t.fractions(&Clock::get());
        assert_eq!((p.submit, p.poll, p.clear), (0.2, 0.4, 0.1));
        assert!((p.submit + p.poll + p.clear + p.other - 1.0).abs() < 1e-12);
    }
}
