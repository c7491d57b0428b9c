//! A total of which a part is known exactly, and of the rest some windows: what there was in each, and how much of something that is
//! counted all the time.
//!
//! **Error**: the ratio estimator's, from how the windows differ around the common ratio, with Student's distribution for so many
//! windows. It holds where these lie at random moments; of fewer than [`ENOUGH`] no interval is told.

use super::student;

/// Windows below which they do not tell how much they differ.
pub const ENOUGH: usize = 5;

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
        ((total - reach).max(known + x), total + reach)
    });
    Some(Total { total, interval })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::pattern::Random;

    #[test]
    fn all_that_was_seen_is_exact() {
        assert_eq!(total(7.0, &[], 0.0), Some(Total { total: 7.0, interval: Some((7.0, 7.0)) }));
        assert_eq!(total(7.0, &[], 10.0), None);
        assert_eq!(total(7.0, &[(2.0, 4.0)], 10.0), Some(Total { total: 12.0, interval: None }));
    }

    /// Phases of different rates and ratios, of which one window in 25 is seen.
    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
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
        assert!((0.93..=0.975).contains(&share), "{share}");
    }
}
