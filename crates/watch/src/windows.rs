//! Schedules the windows of a trace. Pure: the caller passes the time.

use std::str::FromStr;
use std::time::{Duration, Instant};

use iotrail_base::units::Span;
use iotrail_stats::random::Random;

/// `open` in each `period`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    pub open: Duration,
    pub period: Duration,
}

impl FromStr for Windows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (open, period) = text.split_once('/').ok_or("use OPEN/PERIOD, for example 10ms/1s")?;
        let (Span(open), Span(period)) = (open.parse::<Span>()?, period.parse::<Span>()?);
        if open < Duration::from_millis(1) {
            return Err("a window must be at least 1ms long".into());
        }
        // A window may stay open for as long again until its last request completes. Attaching also takes time.
        if period < open * 4 || period < Duration::from_millis(100) {
            return Err("a period must be at least four windows and 100ms long".into());
        }
        if period > Duration::from_secs(3600) {
            return Err("a period must be at most 1h long".into());
        }
        Ok(Windows { open, period })
    }
}

/// The step that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Open,
    /// Stop selecting requests; selected ones continue to their end.
    Finish,
    Close,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed {
        until: Instant,
    },
    Open {
        until: Instant,
    },
    Finishing {
        until: Instant,
    },
    /// Open until [`Schedule::close`].
    Whole,
}

/// Windows at random times within their periods: regular ones would alias with the program's periodic activity.
#[derive(Debug)]
pub(crate) struct Schedule {
    windows: Windows,
    random: Random,
    /// Start of the next period.
    begin: Instant,
    state: State,
}

impl Schedule {
    pub fn new(windows: Windows, now: Instant, seed: u64) -> Self {
        let mut schedule =
            Schedule { windows, random: Random::new(seed), begin: now, state: State::Closed { until: now } };
        schedule.next_period(now);
        schedule
    }

    /// The first window is open and stays open.
    pub fn whole(now: Instant, seed: u64) -> Self {
        let windows = Windows { open: Duration::ZERO, period: Duration::ZERO };
        Schedule { windows, random: Random::new(seed), begin: now, state: State::Whole }
    }

    /// The open window stays open.
    pub fn stay(&mut self) {
        self.state = State::Whole;
    }

    /// Closes the window that stayed open, and continues with regular windows.
    pub fn close(&mut self, windows: Windows, now: Instant) {
        (self.windows, self.begin) = (windows, now);
        self.state = State::Open { until: now };
    }

    pub fn is_whole(&self) -> bool {
        matches!(self.state, State::Whole)
    }

    /// The window is open; its time excludes attaching.
    pub fn opened(&mut self, now: Instant) {
        self.state = State::Open { until: now + self.windows.open };
    }

    /// `unfinished`: number of selected requests in flight.
    pub fn step(&mut self, now: Instant, unfinished: u32) -> Option<Step> {
        match self.state {
            State::Closed { until } if now >= until => {
                self.state = State::Open { until: now + self.windows.open };
                Some(Step::Open)
            }
            State::Open { until } if now >= until => {
                self.state = State::Finishing { until: now + self.windows.open };
                Some(Step::Finish)
            }
            State::Finishing { until } if unfinished == 0 || now >= until => {
                self.next_period(now);
                Some(Step::Close)
            }
            _ => None,
        }
    }

    pub(crate) fn is_finishing(&self) -> bool {
        matches!(self.state, State::Finishing { .. })
    }

    /// Time until the next step.
    pub fn rest(&self, now: Instant) -> Duration {
        match self.state {
            State::Closed { until } | State::Open { until } => until.saturating_duration_since(now),
            State::Finishing { until } => until.saturating_duration_since(now).min(Duration::from_millis(1)),
            State::Whole => Duration::MAX,
        }
    }

    fn next_period(&mut self, now: Instant) {
        let room = self.windows.period - self.windows.open * 2;
        // Skips full periods after a long delay such as a suspend. Their windows are not made up for.
        while self.begin + room <= now {
            self.begin += self.windows.period;
        }
        let offset = Duration::from_nanos(self.random.below(room.as_nanos() as u64));
        self.state = State::Closed { until: (self.begin + offset).max(now) };
        self.begin += self.windows.period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_period_has_one_complete_window_without_overlap() {
        let windows: Windows = "10ms/1s".parse().unwrap();
        assert_eq!(windows, Windows { open: 10 * MS, period: 1000 * MS });
        let began = Instant::now();
        let mut schedule = Schedule::new(windows, began, 7);
        let (mut now, mut opened) = (began, vec![]);
        while opened.len() < 50 {
            now += schedule.rest(now);
            match schedule.step(now, 0) {
                Some(Step::Open) => opened.push(now - began),
                Some(Step::Finish) => assert_eq!(now - began, opened[opened.len() - 1] + 10 * MS),
                Some(Step::Close) | None => {}
            }
        }
        for (period, at) in opened.iter().enumerate() {
            let begin = 1000 * MS * period as u32;
            assert!((begin..begin + 980 * MS).contains(at), "window {period} opens at {at:?}");
        }
        let offsets: Vec<u128> = opened.iter().map(|at| at.as_millis() % 1000).collect();
        assert!(offsets.iter().any(|ms| *ms < 300) && offsets.iter().any(|ms| *ms > 700), "{offsets:?}");
    }

    #[test]
    fn a_window_kept_open_closes_on_request_and_others_follow() {
        let began = Instant::now();
        let mut schedule = Schedule::whole(began, 1);
        let late = began + 60_000 * MS;
        assert_eq!((schedule.is_whole(), schedule.step(late, 0)), (true, None));
        schedule.close("10ms/1s".parse().unwrap(), late);
        assert_eq!(schedule.step(late, 2), Some(Step::Finish));
        assert_eq!(schedule.step(late + 10 * MS, 2), Some(Step::Close));
        let next = late + 10 * MS + schedule.rest(late + 10 * MS);
        assert!((1..1000).contains(&(next - late).as_millis()), "{:?}", next - late);
        assert_eq!(schedule.step(next, 0), Some(Step::Open));
        schedule.stay();
        assert_eq!(schedule.step(next + 60_000 * MS, 0), None);
    }

    #[test]
    fn unfinished_requests_extend_a_window_by_at_most_its_length() {
        let began = Instant::now();
        let mut schedule = Schedule::new("10ms/100ms".parse().unwrap(), began, 1);
        let mut now = began + schedule.rest(began);
        assert_eq!(schedule.step(now, 0), Some(Step::Open));
        now += 10 * MS;
        assert_eq!(schedule.step(now, 3), Some(Step::Finish));
        assert_eq!(schedule.step(now + 9 * MS, 3), None);
        assert_eq!(schedule.step(now + 10 * MS, 3), Some(Step::Close));
        // After a minute of sleep the machine opens one window, not 600.
        now += Duration::from_secs(60);
        assert_eq!(schedule.step(now, 0), Some(Step::Open));
        now += 10 * MS;
        assert_eq!(schedule.step(now, 0), Some(Step::Finish));
        assert_eq!(schedule.step(now, 0), Some(Step::Close));
        assert!(schedule.rest(now) > Duration::ZERO);
    }

    #[test]
    fn an_invalid_window_is_rejected_with_a_valid_example() {
        let refused = |text: &str| text.parse::<Windows>().unwrap_err();
        assert_eq!(refused("10ms"), "use OPEN/PERIOD, for example 10ms/1s");
        assert_eq!(refused("10us/1s"), "a window must be at least 1ms long");
        assert_eq!(refused("300ms/1s"), "a period must be at least four windows and 100ms long");
        assert_eq!(refused("1ms/50ms"), "a period must be at least four windows and 100ms long");
        assert_eq!(refused("1ms/2h"), "a period must be at most 1h long");
        assert!(refused("10ms/1").contains("has no unit of time"));
    }
}
