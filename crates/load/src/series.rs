//! Completions over the measured stage. The calling thread samples the jobs' counters, which costs the jobs nothing.
//!
//! Memory: [`MOST`] numbers for any duration. When they are full, adjacent numbers are merged and the interval doubles.

use std::time::Duration;

use iotrail_schema::measurement::Throughput;

/// 20 samples per second: each wakes the calling thread for a few microseconds.
const SHORTEST: Duration = Duration::from_millis(50);
/// Even, so that they merge in pairs.
const MOST: usize = 100;

/// Cumulative counts at the ends of equal intervals.
#[derive(Debug)]
pub struct Series {
    interval: Duration,
    /// Completions until the end of each complete interval.
    counts: Vec<u64>,
    /// The last sample.
    last: (Duration, u64),
}

impl Default for Series {
    fn default() -> Self {
        Self { interval: SHORTEST, counts: Vec::with_capacity(MOST), last: (Duration::ZERO, 0) }
    }
}

impl Series {
    /// Time of the next sample, relative to the stage's start.
    pub fn next(&self) -> Duration {
        self.interval * (self.counts.len() as u32 + 1)
    }

    /// Adds a sample: `done` I/Os after `elapsed`. A late sample is distributed evenly over the time since the last
    /// one.
    pub fn look(&mut self, elapsed: Duration, done: u64) {
        while self.next() <= elapsed {
            if self.counts.len() == MOST {
                self.counts = self.counts.iter().skip(1).step_by(2).copied().collect();
                self.interval *= 2;
                continue;
            }
            let (then, before) = self.last;
            let share = (self.next() - then).as_secs_f64() / (elapsed - then).as_secs_f64();
            let at_end = before + (done.saturating_sub(before) as f64 * share).round() as u64;
            self.last = (self.next(), at_end);
            self.counts.push(at_end);
        }
        if elapsed > self.last.0 {
            self.last = (elapsed, done);
        }
    }

    /// Completions per interval, up to `limit`, after which a load only waits for I/Os in flight. `None` with fewer
    /// than two complete intervals.
    pub fn throughput(&self, limit: Option<Duration>) -> Option<Throughput> {
        let most = limit.map_or(usize::MAX, |limit| (limit.as_nanos() / self.interval.as_nanos()) as usize);
        let counts = &self.counts[..self.counts.len().min(most)];
        if counts.len() < 2 {
            return None;
        }
        let before = std::iter::once(0).chain(counts.iter().copied());
        let ios = counts.iter().zip(before).map(|(end, begin)| end.saturating_sub(begin)).collect();
        Some(Throughput { interval_ns: self.interval.as_nanos() as u64, ios })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn timely_samples_are_counted_unmodified() {
        let mut s = Series::default();
        assert_eq!(s.next(), ms(50));
        s.look(ms(50), 10);
        assert_eq!((s.next(), s.throughput(None)), (ms(100), None));
        s.look(ms(100), 25);
        s.look(ms(149), 30);
        assert_eq!(s.throughput(None), Some(Throughput { interval_ns: 50_000_000, ios: vec![10, 15] }));
        s.look(ms(150), 31);
        assert_eq!(s.throughput(Some(ms(149))).unwrap().ios, [10, 15]);
        assert_eq!(s.throughput(Some(ms(150))).unwrap().ios, [10, 15, 6]);
    }

    #[test]
    fn late_samples_are_distributed_over_the_intervals() {
        let mut s = Series::default();
        s.look(ms(200), 400);
        assert_eq!(s.throughput(None).unwrap().ios, [100, 100, 100, 100]);
        // 30 in the 25 ms before the interval's end, and 30 in the 25 ms after it.
        s.look(ms(225), 450);
        s.look(ms(275), 510);
        assert_eq!(s.throughput(None).unwrap().ios, [100, 100, 100, 100, 80]);
    }

    #[test]
    fn intervals_of_a_long_load_are_merged_without_losing_ios() {
        let mut s = Series::default();
        for n in 1..=1230 {
            s.look(ms(50 * n), 7 * n);
        }
        let t = s.throughput(None).unwrap();
        assert_eq!((t.interval_ns, t.ios.len()), (800_000_000, 76));
        assert!(t.ios.iter().all(|n| *n == 16 * 7), "{:?}", t.ios);
    }
}
