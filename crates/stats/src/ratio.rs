//! A total of which a part is known exactly, and of the rest some windows: what there was in each, and how much of something that is
//! counted all the time.
//!
//! **Error**: the ratio estimator's, from how the windows differ around the common ratio, with Student's distribution for so many
//! windows. And what no window met: of a phase that takes up so much that one of the windows had met it in 19 of 20 cases, nothing is
//! ruled out but more than one of what is looked for to one of what is counted (or than the most that any window had), and less than none.
//! It holds where the windows lie at random moments; of fewer than [`ENOUGH`] there is no interval.

use super::student;

/// Windows below which they do not tell how much they differ.
pub(crate) const ENOUGH: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    pub total: f64,
    /// 95 %.
    pub interval: Option<(f64, f64)>,
}

/// `known`, and what belongs to `rest` by the ratio of the windows' sums: each is (what is looked for, what is counted). `None`: nothing
/// was counted in any window, and there is a rest.
pub fn total(known: f64, windows: &[(f64, f64)], rest: f64) -> Option<Total> {
    let (x, y) = windows.iter().fold((0.0, 0.0), |sum, w| (sum.0 + w.0, sum.1 + w.1));
    if rest <= 0.0 {
        return Some(Total { total: known, interval: Some((known, known)) });
    }
    if y <= 0.0 {
        return None;
    }
    let ratio = x / y;
    let total = known + ratio * rest;
    let n = windows.len() as f64;
    let interval = (windows.len() >= ENOUGH).then(|| {
        let spread: f64 = windows.iter().map(|w| (w.0 - ratio * w.1).powi(2)).sum::<f64>() / (n - 1.0);
        // A part of the rest was seen: that much of it does not vary.
        let unseen = (1.0 - y / rest).max(0.0);
        let of_ratio = (spread * unseen / n).sqrt() / (y / n);
        let reach = student::quantile(0.975, n - 1.0) * of_ratio * rest;
        let passed_over = (1.0 - 0.05f64.powf(1.0 / n)) * (rest - y).max(0.0);
        let most = windows.iter().filter(|w| w.1 > 0.0).map(|w| w.0 / w.1).fold(1.0, f64::max);
        let lo = total - reach.max(passed_over * ratio);
        (lo.max(known + x), total + reach.max(passed_over * (most - ratio)))
    });
    Some(Total { total, interval })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn all_that_was_seen_is_exact() {
        assert_eq!(total(7.0, &[], 0.0), Some(Total { total: 7.0, interval: Some((7.0, 7.0)) }));
        assert_eq!(total(7.0, &[], 10.0), None);
        assert_eq!(total(7.0, &[(2.0, 4.0)], 10.0), Some(Total { total: 12.0, interval: None }));
    }

    /// For 2 to 22 % of the time everything takes a call of its own; ten windows see a fiftieth of it.
    #[test]
    fn a_phase_that_no_window_met_is_within_the_interval() {
        let mut random = Random::new(12);
        let (mut missed, mut unmet, rounds) = (0, 0, 2000);
        for _ in 0..rounds {
            let share = 0.02 + random.below(100) as f64 / 500.0;
            let phase: Vec<bool> = (0..10).map(|_| random.below(1000) as f64 / 1000.0 < share).collect();
            unmet += u32::from(!phase.contains(&true));
            let seen: Vec<(f64, f64)> = phase.iter().map(|apart| (if *apart { 20.0 } else { 0.625 }, 20.0)).collect();
            let t = total(0.0, &seen, 10_000.0).unwrap();
            let truth = 10_000.0 * (share + (1.0 - share) / 32.0);
            let (lo, hi) = t.interval.unwrap();
            missed += u32::from(!(lo..=hi).contains(&truth));
        }
        assert!(unmet > rounds / 5, "{unmet}");
        assert!(f64::from(missed) <= 0.06 * f64::from(rounds), "{missed} of {rounds}");
    }

    /// Phases of different rates and ratios, of which one window in 25 is seen.
    #[test]
    fn the_interval_covers_the_truth_at_least_as_often_as_it_says() {
        let mut random = Random::new(11);
        let (mut covered, rounds) = (0, 2000);
        for _ in 0..rounds {
            let all: Vec<(f64, f64)> = (0..500)
                .map(|_| {
                    let y = 500.0 + random.below(1000) as f64;
                    let share = 0.2 + random.below(100) as f64 / 200.0;
                    ((y * share).round(), y)
                })
                .collect();
            // One at random in each 25.
            let seen: Vec<(f64, f64)> = all.chunks(25).map(|c| c[random.below(25) as usize]).collect();
            let sum = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>();
            let t = total(100.0, &seen, sum(|w| w.1)).unwrap();
            let (lo, hi) = t.interval.unwrap();
            covered += u32::from((lo..=hi).contains(&(100.0 + sum(|w| w.0))));
        }
        let share = f64::from(covered) / f64::from(rounds);
        assert!(share >= 0.93, "{share}");
    }
}
