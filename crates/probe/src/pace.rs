//! Decides when programs with frequent events are attached. Pure: the caller passes the time.

use std::time::{Duration, Instant};

use iotrail_stats::random::Random;

/// Rate over all CPUs, in runs per second, up to which the programs cost at most a few thousandths of one CPU.
const MANY_PER_S: f64 = 20_000.0;

/// Everything is traced until the traced programs have this many completions, so that short programs are traced
/// completely.
const WHOLE: u64 = 5_000;

/// Minimum time over which the rate of runs is measured.
const LOOK: Duration = Duration::from_millis(100);

/// Length of a window; one per period, at a random time. Short, frequent windows sample a program's bursts in
/// proportion.
const OPEN: Duration = Duration::from_millis(5);
const PERIOD: Duration = Duration::from_millis(125);

/// After this many consecutive windows with few runs, everything is traced again.
const QUIET_WINDOWS: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Open,
    Close,
    /// The open window stays open.
    Stay,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Attached throughout; runs since `since` are counted.
    Whole {
        since: Instant,
        runs: u64,
        busy: bool,
    },
    Open {
        since: Instant,
        runs: u64,
    },
    Closed {
        until: Instant,
    },
}

#[derive(Debug, Clone)]
pub struct Pace {
    random: Random,
    /// Start of the next period.
    begin: Instant,
    state: State,
    quiet: u32,
}

fn many(runs: u64, time: Duration) -> bool {
    runs as f64 > MANY_PER_S * time.as_secs_f64()
}

impl Pace {
    pub fn new(now: Instant, seed: u64) -> Self {
        let state = State::Whole { since: now, runs: 0, busy: false };
        Pace { random: Random::new(seed), begin: now, state, quiet: 0 }
    }

    /// Whether the programs run often enough for their cost to be worth measuring.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Whole { busy: true, .. })
    }

    /// Switches to windows; `None` if windows are already in use.
    pub fn close(&mut self, now: Instant) -> Option<Step> {
        let State::Whole { .. } = self.state else { return None };
        self.begin = now;
        self.quiet = 0;
        self.closed(now);
        Some(Step::Close)
    }

    /// `runs`: total runs of the programs. `completions`: those of the traced programs. `needed`: other counts depend
    /// on these programs.
    pub fn step(&mut self, now: Instant, runs: u64, completions: u64, needed: bool) -> Option<Step> {
        match self.state {
            State::Whole { since, .. } if now < since + LOOK => None,
            State::Whole { since, runs: before, .. } => {
                let busy = !needed && completions >= WHOLE && many(runs.saturating_sub(before), now - since);
                self.state = State::Whole { since: now, runs, busy };
                None
            }
            State::Open { since, .. } if now < since + OPEN => None,
            State::Open { since, runs: before } => {
                let quiet = !many(runs.saturating_sub(before), now - since);
                self.quiet = if quiet { self.quiet + 1 } else { 0 };
                if needed || self.quiet == QUIET_WINDOWS {
                    self.state = State::Whole { since: now, runs, busy: false };
                    return Some(Step::Stay);
                }
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

    /// Restarts the window, so that it excludes the time needed for attaching.
    pub fn opened(&mut self, now: Instant, runs: u64) {
        if let State::Open { .. } = self.state {
            self.state = State::Open { since: now, runs };
        }
    }

    /// Time until the next step.
    pub fn rest(&self, now: Instant) -> Duration {
        match self.state {
            State::Whole { since, .. } => (since + LOOK).saturating_duration_since(now),
            State::Open { since, .. } => (since + OPEN).saturating_duration_since(now),
            State::Closed { until } => until.saturating_duration_since(now),
        }
    }

    /// Closes the window until a random time in the next period.
    fn closed(&mut self, now: Instant) {
        // A window that closed late may extend into the next period.
        while self.begin + PERIOD <= now {
            self.begin += PERIOD;
        }
        let until = self.begin + Duration::from_nanos(self.random.below((PERIOD - OPEN).as_nanos() as u64));
        self.state = State::Closed { until: until.max(now) };
        self.begin += PERIOD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Steps through `ms` milliseconds, with `runs` program runs per ms while the programs are attached.
    fn walk(
        pace: &mut Pace,
        began: Instant,
        ms: std::ops::Range<u64>,
        per_ms: impl Fn(u64) -> u64,
    ) -> Vec<(u64, Step)> {
        let (mut runs, mut attached, mut steps) = (0, true, vec![]);
        for ms in ms {
            runs += if attached { per_ms(ms) } else { 0 };
            if let Some(step) = pace.step(began + MS * ms as u32, runs, 5_000, false) {
                attached = step != Step::Close;
                steps.push((ms, step));
            }
        }
        steps
    }

    #[test]
    fn a_program_is_busy_only_after_5_000_completions_with_many_runs() {
        let began = Instant::now();
        for (per_ms, completions, busy) in [(15, 5_000, false), (300, 5_000, true), (300, 4_999, false)] {
            let mut pace = Pace::new(began, 1);
            for ms in 1..1000 {
                assert_eq!(pace.step(began + MS * ms, u64::from(ms) * per_ms, completions, false), None);
            }
            assert_eq!(pace.is_busy(), busy, "{per_ms} {completions}");
        }
    }

    #[test]
    fn each_period_has_one_window() {
        let began = Instant::now();
        let mut pace = Pace::new(began, 7);
        assert_eq!(pace.close(began), Some(Step::Close));
        assert_eq!(pace.close(began), None);
        let steps = walk(&mut pace, began, 0..10_000, |_| 300);
        let opened: Vec<u64> = steps.iter().filter(|(_, s)| *s == Step::Open).map(|(ms, _)| *ms).collect();
        assert_eq!(opened.len(), 80);
        for (period, at) in opened.iter().enumerate() {
            let begin = 125 * period as u64;
            assert!((begin..=begin + 125).contains(at), "window {period} at {at} ms");
        }
        let offsets = || opened.iter().map(|at| at % 125);
        assert!(offsets().any(|ms| ms < 30) && offsets().any(|ms| ms > 90), "at random moments");
        let open: u64 = steps.windows(2).filter(|w| w[0].1 == Step::Open).map(|w| w[1].0 - w[0].0).sum();
        assert!((390..=400).contains(&open), "{open} ms");
    }

    #[test]
    fn the_probes_stay_attached_after_eight_quiet_windows_in_a_row() {
        let began = Instant::now();
        let mut pace = Pace::new(began, 3);
        pace.close(began);
        // Two of three periods are quiet.
        let steps = walk(&mut pace, began, 0..3_000, |ms| if (ms / 125) % 3 == 0 { 300 } else { 0 });
        assert!(steps.iter().all(|(_, step)| *step != Step::Stay), "{steps:?}");
        let steps = walk(&mut pace, began, 3_000..6_000, |_| 1);
        let stay = steps.iter().position(|(_, step)| *step == Step::Stay).expect("it is quiet");
        assert_eq!(stay, steps.len() - 1);
        assert!((3_500..4_300).contains(&steps[stay].0), "{steps:?}");
    }

    #[test]
    fn required_probes_stay_attached() {
        let began = Instant::now();
        let mut pace = Pace::new(began, 3);
        pace.close(began);
        assert_eq!(pace.step(began + MS, 0, 5_000, true), Some(Step::Open), "at once");
        assert_eq!(pace.step(began + 6 * MS, 9_000, 5_000, true), Some(Step::Stay));
        for ms in 7..2000 {
            assert_eq!(pace.step(began + MS * ms, u64::from(ms) * 1000, 5_000, true), None);
        }
        assert!(!pace.is_busy());
    }
}
