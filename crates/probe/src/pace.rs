//! When programs that cost much are attached. Pure: times come from the caller.

use std::time::{Duration, Instant};

use iotrail_stats::random::Random;

/// Their runs a second, on all CPUs together, up to which they stay: a few thousandths of one CPU.
const MANY_PER_S: f64 = 20_000.0;

/// Completions of the watched programs that are looked at whole whatever else goes on: a short program is known in full.
const WHOLE: u64 = 5_000;

/// So long their runs are counted before it is decided whether they are many.
const LOOK: Duration = Duration::from_millis(100);

/// Where they are many: in each period they are there for so long, from a random moment on.
const OPEN: Duration = Duration::from_millis(20);
const PERIOD: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Open,
    Close,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// They stay; runs since then are counted.
    Always {
        since: Instant,
        runs: u64,
    },
    Open {
        since: Instant,
        runs: u64,
    },
    Closed {
        until: Instant,
    },
}

#[derive(Debug)]
pub struct Pace {
    random: Random,
    /// Of the next period.
    begin: Instant,
    state: State,
}

impl Pace {
    pub fn new(now: Instant, seed: u64) -> Self {
        Pace { random: Random::new(seed), begin: now, state: State::Always { since: now, runs: 0 } }
    }

    /// `runs`: of them, so far. `completions`: of the watched. `needed`: what else is told rests on them.
    pub fn step(&mut self, now: Instant, runs: u64, completions: u64, needed: bool) -> Option<Step> {
        let needed = needed || completions < WHOLE;
        let many = |since: Instant, before: u64| {
            runs.saturating_sub(before) as f64 > MANY_PER_S * now.duration_since(since).as_secs_f64()
        };
        match self.state {
            State::Always { since, .. } if needed || now < since + LOOK => None,
            State::Always { since, runs: before } if !many(since, before) => {
                self.state = State::Always { since: now, runs };
                None
            }
            State::Always { .. } => {
                self.begin = now;
                self.closed(now);
                Some(Step::Close)
            }
            State::Open { since, .. } if now < since + OPEN => None,
            State::Open { since, runs: before } if needed || !many(since, before) => {
                self.state = State::Always { since: now, runs };
                None
            }
            State::Open { .. } => {
                self.closed(now);
                Some(Step::Close)
            }
            State::Closed { until } if needed || now >= until => {
                self.state = State::Open { since: now, runs };
                Some(Step::Open)
            }
            State::Closed { .. } => None,
        }
    }

    /// Until a random moment of the next period.
    fn closed(&mut self, now: Instant) {
        let room = PERIOD - 2 * OPEN;
        while self.begin <= now {
            self.begin += PERIOD;
        }
        // The period that is under way has had its window.
        let offset = Duration::from_nanos(self.random.below(room.as_nanos() as u64));
        self.state = State::Closed { until: self.begin + offset };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Walks on in steps of 20 ms, with so many runs a second while they are attached; what was done when.
    fn walk(pace: &mut Pace, began: Instant, from: u64, to: u64, per_ms: u64) -> Vec<(u64, Step)> {
        let (mut runs, mut open, mut steps) = (0, true, vec![]);
        for ms in (from..to).step_by(20) {
            if open {
                runs += 20 * per_ms;
            }
            if let Some(step) = pace.step(began + MS * ms as u32, runs, 5_000, false) {
                open = step == Step::Open;
                steps.push((ms, step));
            }
        }
        steps
    }

    #[test]
    fn where_there_is_little_to_do_they_stay() {
        let began = Instant::now();
        assert_eq!(walk(&mut Pace::new(began, 1), began, 0, 10_000, 15), []);
    }

    #[test]
    fn they_stay_until_a_short_program_would_be_over() {
        let began = Instant::now();
        let mut pace = Pace::new(began, 1);
        for ms in (100..3000).step_by(20) {
            assert_eq!(pace.step(began + MS * ms, u64::from(ms) * 300, 4_999, false), None, "others are busy");
        }
        assert_eq!(pace.step(began + MS * 3000, 900_000, 5_000, false), Some(Step::Close));
    }

    #[test]
    fn where_there_is_much_they_are_there_a_part_of_the_time_once_in_each_period() {
        let began = Instant::now();
        let steps = walk(&mut Pace::new(began, 7), began, 0, 20_000, 300);
        assert_eq!(steps[0], (100, Step::Close));
        let opened: Vec<u64> = steps.iter().filter(|(_, s)| *s == Step::Open).map(|(ms, _)| *ms).collect();
        assert!((37..=39).contains(&opened.len()), "{}", opened.len());
        for (period, at) in opened.iter().enumerate() {
            let begin = 600 + 500 * period as u64;
            assert!((begin..begin + 480).contains(at), "window {period} at {at} ms");
        }
        let offsets = opened.iter().map(|at| (at - 100) % 500);
        assert!(offsets.clone().any(|ms| ms < 150) && offsets.clone().any(|ms| ms > 300), "at random moments");
        let open: u64 = steps.windows(2).filter(|w| w[0].1 == Step::Open).map(|w| w[1].0 - w[0].0).sum();
        assert!(open <= 39 * 20, "{open} ms");
    }

    #[test]
    fn they_come_back_for_good_when_it_is_quiet_or_they_are_needed() {
        let began = Instant::now();
        let mut pace = Pace::new(began, 3);
        let at = |ms: u32| began + MS * ms;
        assert_eq!(pace.step(at(100), 100_000, 5_000, false), Some(Step::Close));
        assert_eq!(pace.step(at(120), 100_000, 5_000, true), Some(Step::Open), "at once");
        for ms in (140..2000).step_by(20) {
            assert_eq!(pace.step(at(ms), 100_000 + u64::from(ms) * 1000, 5_000, true), None);
        }
        let mut pace = Pace::new(began, 3);
        assert_eq!(pace.step(at(100), 100_000, 5_000, false), Some(Step::Close));
        let opens = (120..1200).step_by(20).find(|ms| pace.step(at(*ms), 100_000, 5_000, false) == Some(Step::Open));
        let open = opens.expect("within the next period");
        for ms in (open + 20..open + 2000).step_by(20) {
            assert_eq!(pace.step(at(ms), 100_000 + u64::from(ms - open), 5_000, false), None, "one run a millisecond");
        }
    }
}
