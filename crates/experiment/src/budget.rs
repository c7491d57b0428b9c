//! Splits a search's time into the preceding trials, its blocks, and the confirmation.

use std::time::{Duration, Instant};

use iotrail_base::error::{Error, Result};
use iotrail_base::words::{plural, span};

/// Additional time for probes: load, verify, attach and drain. This is their CPU time, so it holds on an idle machine
/// (virtual machine with 2 CPUs, November 2026); with other work on all CPUs it was 0.7 s.
pub const PROBES: Duration = Duration::from_millis(200);

/// Minimum number of blocks of a search, because a single block has no spread.
const BLOCKS: u32 = 2;

/// Blocks of a confirmation: minimum, and target if the budget suffices.
const FRESH: (u32, u32) = (6, 12);

/// Minimum number of blocks for an interval.
const FEWEST: u32 = 3;

/// Maximum share for the confirmation, unless its minimum number of blocks needs more.
const CONFIRMATION: f64 = 0.4;

/// The time budget of one `iotrail advise`, from its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    pub began: Instant,
    pub whole: Duration,
    /// Measurements per confirmation block, and how many of them use probes.
    pub fresh: (u32, u32),
    /// The search's time, known once it starts.
    pub search: Option<Duration>,
}

impl Budget {
    pub fn left(&self) -> Duration {
        self.whole.saturating_sub(self.began.elapsed())
    }

    /// Whether the remaining time suffices for the trials and the minimum number of blocks with this many candidates;
    /// `each`: time per measurement.
    pub fn holds(&self, each: Duration, candidates: usize, trials: Duration) -> bool {
        self.needs(each, candidates) + trials <= self.left()
    }

    /// Returns a usage error if it does not. `exact`: the time of a measurement is configured, not estimated from the
    /// first run.
    pub fn check(&self, each: Duration, candidates: usize, trials: Duration, exact: bool) -> Result<()> {
        if self.holds(each, candidates, trials) {
            return Ok(());
        }
        let margin = if exact { 1.0 } else { 1.2 };
        let least = (self.began.elapsed() + trials + self.needs(each, candidates)).mul_f64(margin);
        Err(Error::input(
            format!(
                "--budget {} is too short for {} of {} per measurement",
                span(self.whole.as_nanos() as f64),
                plural(candidates, "candidate"),
                span(each.as_nanos() as f64)
            ),
            format!("use --budget {}s or longer", (least + Duration::from_millis(500)).as_secs() + 1),
        ))
    }

    /// The same before anything has run: however short the program is, each candidate's trial loads the probes.
    pub fn holds_trials(&self, candidates: usize) -> Result<()> {
        let trials = PROBES.saturating_mul(u32::try_from(candidates).unwrap_or(u32::MAX));
        if trials <= self.left() {
            return Ok(());
        }
        let (whole, all) = (span(self.whole.as_nanos() as f64), plural(candidates, "candidate"));
        let least = (trials * 2).as_secs() + 1;
        let remedy = format!("use a --budget above {least}s; the first run shows how much more it needs");
        Err(Error::input(format!("--budget {whole} is too short for the trials of {all}"), remedy))
    }

    fn needs(&self, each: Duration, candidates: usize) -> Duration {
        let measurements = BLOCKS.saturating_mul(u32::try_from(candidates).unwrap_or(u32::MAX));
        each.saturating_mul(measurements).saturating_add(self.block(each).saturating_mul(FRESH.0))
    }

    /// Time of one confirmation block.
    fn block(&self, each: Duration) -> Duration {
        each.saturating_mul(self.fresh.0) + PROBES * self.fresh.1
    }

    /// Time for the search that leaves enough for the confirmation.
    pub fn for_search(&self, each: Duration) -> Duration {
        let fresh = |blocks: u32| self.block(each).saturating_mul(blocks);
        let left = self.left();
        left.saturating_sub(fresh(FRESH.1).min(left.mul_f64(CONFIRMATION)).max(fresh(FRESH.0)))
    }

    /// Number of confirmation blocks; fewer than planned if the search took longer. Twice as many as are expected to
    /// fit, because the budget's end stops the confirmation. `None` if too few fit for an interval.
    pub fn fresh_blocks(&self, each: Duration) -> Option<u32> {
        let block = self.block(each).as_secs_f64();
        let blocks = if block > 0.0 { (self.left().as_secs_f64() / block) as u32 } else { FRESH.1 };
        (blocks >= FEWEST).then_some((2 * blocks).min(FRESH.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn of(seconds: u64) -> Budget {
        Budget { began: Instant::now(), whole: Duration::from_secs(seconds), fresh: (2, 0), search: None }
    }

    #[test]
    fn a_budget_too_short_for_the_trials_is_rejected_before_they_run() {
        let e = of(3).holds_trials(18).unwrap_err();
        assert_eq!(
            (e.exit_status(), e.to_string().as_str()),
            (
                2,
                "--budget 3.00 s is too short for the trials of 18 candidates; use a --budget above 8s; the first run shows how much more it needs"
            )
        );
        assert!(of(10).holds_trials(18).is_ok());
    }

    #[test]
    fn a_budget_too_short_for_the_minimum_blocks_reports_a_sufficient_one() {
        // 17 trials, 2 blocks of 18 measurements, 6 confirmation blocks of 2.
        let trials = SECOND * 17;
        assert!(of(66).check(SECOND, 18, trials, true).is_ok());
        let e = of(50).check(SECOND, 18, trials, true).unwrap_err();
        assert_eq!(e.exit_status(), 2);
        let said =
            "--budget 50.0 s is too short for 18 candidates of 1.00 s per measurement; use --budget 66s or longer";
        assert_eq!(e.to_string(), said);
        assert!(
            of(60).check(SECOND, 18, trials, false).unwrap_err().to_string().ends_with("use --budget 79s or longer")
        );
        assert!(of(0).check(SECOND, 1, Duration::ZERO, true).is_err());
    }

    #[test]
    fn half_a_minute_suffices_for_a_program_of_20_ms() {
        let (each, trial) = (Duration::from_millis(20 + 150), Duration::from_millis(700));
        assert!(of(30).check(each, 18, trial * 17, false).is_ok());
    }

    #[test]
    fn search_and_confirmation_share_the_remaining_time() {
        let is_about = |is: Duration, seconds: u64| is.abs_diff(Duration::from_secs(seconds)) < SECOND;
        assert!(is_about(of(180).for_search(SECOND), 156), "12 fresh blocks of 2");
        assert!(is_about(of(50).for_search(SECOND), 30), "40 % for the confirmation");
        assert!(is_about(of(20).for_search(SECOND), 8), "its fewest blocks");
        assert_eq!(of(180).fresh_blocks(SECOND), Some(12));
        assert_eq!(of(21).fresh_blocks(SECOND), Some(12));
        assert_eq!(of(11).fresh_blocks(SECOND), Some(10), "5 fit");
        assert_eq!(of(7).fresh_blocks(SECOND), Some(6), "3 fit");
        assert_eq!(of(5).fresh_blocks(SECOND), None);
    }
}
