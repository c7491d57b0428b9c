//! Change points in a series of values in chronological order, one per run.
//!
//! Change points are found with E-divisive (Matteson and James 2014): a segment is split where the distances between
//! its two parts exceed those within them by most. The decision follows Hunter (Fleming and others 2023): Student's t
//! for the levels on both sides, in a first pass with ten times the error probability. Then the weakest change is
//! removed and its neighbours are tested again, until all remaining changes are significant. No single point splits a
//! series with a temporary change. So if no split is found, the stretch that differs most from its surroundings is
//! searched for, and both its ends are change points. Nothing is random: the same series has the same changes.

use crate::student::{beyond, quantile};

/// False-positive rate per change point. The best of many points is tested: of 100 series of equal values, up to two
/// have a false change (see the tests).
const P: f64 = 0.001;

/// Factor by which the first pass is less strict: changes that turn out to be insignificant may hide others.
const WEAKER: f64 = 10.0;

/// Minimum number of values per level.
const LEAST: usize = 3;

/// Minimum number of values for a change.
pub const FEWEST: usize = 2 * LEAST;

/// A step from one level to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first value at the new level.
    pub at: usize,
    /// The new level minus the old one, each averaged up to the adjacent change; and the 95 % interval, taking the
    /// position as known.
    pub by: f64,
    pub interval: (f64, f64),
    /// Probability of a difference this large if the levels are equal.
    pub p: f64,
}

/// Changes in order. For metrics compared by ratio, pass logarithms. `series`: number of series tested together, which
/// share the false-positive rate of one.
pub fn changes(values: &[f64], series: usize) -> Vec<Change> {
    let most = P / series.max(1) as f64;
    let mut places = vec![0, values.len()];
    let mut from = 0;
    // After a split, the segment is searched again from its start.
    while from + 1 < places.len() {
        let (start, end) = (places[from], places[from + 1]);
        match best(&values[start..end]).map(|at| start + at) {
            Some(at) if change(values, start, at, end).p <= WEAKER * most => places.insert(from + 1, at),
            _ => match stretch(&values[start..end]) {
                Some((first, last, p)) if p <= most => {
                    places.splice(from + 1..from + 1, [start + first, start + last]);
                }
                _ => from += 1,
            },
        }
    }
    loop {
        let found: Vec<Change> = places.windows(3).map(|w| change(values, w[0], w[1], w[2])).collect();
        let weakest = found.iter().enumerate().max_by(|a, b| a.1.p.total_cmp(&b.1.p));
        let Some(weakest) = weakest.filter(|(_, change)| change.p > most).map(|(i, _)| i) else { return found };
        places.remove(weakest + 1);
    }
}

/// The smallest change that is detected in 95 % of cases in the middle of the series, for values that vary like these
/// around one level; `None` if there are fewer values than a change needs.
pub fn smallest(values: &[f64], series: usize) -> Option<f64> {
    if values.len() < FEWEST {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let spread = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let (half, df) = ((n / 2.0).floor(), n - 2.0);
    let error = spread * (1.0 / half + 1.0 / (n - half)).sqrt();
    let limit = quantile(1.0 - P / series.max(1) as f64 / 2.0, df);
    // 95 % of a normal distribution, with the error of the spread in t's denominator.
    Some((limit + 1.645 * (1.0 + limit * limit / (2.0 * df)).sqrt()) * error)
}

fn change(values: &[f64], start: usize, at: usize, end: usize) -> Change {
    let (before, after) = (&values[start..at], &values[at..end]);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let squares = |v: &[f64]| v.iter().map(|x| (x - mean(v)).powi(2)).sum::<f64>();
    let (n, m) = (before.len() as f64, after.len() as f64);
    let by = mean(after) - mean(before);
    let df = n + m - 2.0;
    let error = ((squares(before) + squares(after)) / df * (1.0 / n + 1.0 / m)).sqrt();
    let p = if by == 0.0 { 1.0 } else { beyond(by / error, df) };
    let reach = quantile(0.975, df) * error;
    Change { at, by, interval: (by - reach, by + reach), p }
}

/// The split with the largest distance between its parts; `None` if there are too few values.
fn best(values: &[f64]) -> Option<usize> {
    let total = values.len();
    if total < FEWEST {
        return None;
    }
    let distances = |of: f64, from: &[f64]| from.iter().map(|x| (of - x).abs()).sum::<f64>();
    // Sums of distances between the parts and within each part. At first all values are in the later part.
    let (mut between, mut earlier, mut later) = (0.0, 0.0, 0.0);
    for (i, x) in values.iter().enumerate() {
        later += distances(*x, &values[..i]);
    }
    let mut most: Option<(f64, usize)> = None;
    for (i, x) in values.iter().enumerate() {
        let (to_earlier, to_later) = (distances(*x, &values[..i]), distances(*x, &values[i + 1..]));
        between += to_later - to_earlier;
        earlier += to_earlier;
        later -= to_later;
        let at = i + 1;
        if at < LEAST || total - at < LEAST {
            continue;
        }
        let (n, m) = (at as f64, (total - at) as f64);
        let within = |sum: f64, n: f64| 2.0 * sum / (n * (n - 1.0));
        let apart = (2.0 * between / (n * m) - within(earlier, n) - within(later, m)) * n * m / (n + m);
        if most.is_none_or(|(best, _)| apart > best) {
            most = Some((apart, at));
        }
    }
    most.map(|(_, at)| at)
}

/// The stretch that differs most from its surroundings on both sides, and the probability of this difference by chance;
/// `None` if there are too few values.
fn stretch(values: &[f64]) -> Option<(usize, usize, f64)> {
    let total = values.len();
    let n = total as f64;
    // Differences from the mean, whose squares lose less precision.
    let mean = values.iter().sum::<f64>() / n;
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(values.iter().scan(0.0, |sum, x| {
            *sum += x - mean;
            Some(*sum)
        }))
        .collect();
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    let mut most: Option<(f64, usize, usize)> = None;
    for first in LEAST..total.saturating_sub(2 * LEAST - 1) {
        for last in first + LEAST..=total - LEAST {
            let (inner, m) = (sums[last] - sums[first], (last - first) as f64);
            // Share of the squares that two levels explain.
            let explained = inner * inner * n / (m * (n - m));
            if most.is_none_or(|(best, ..)| explained > best) {
                most = Some((explained, first, last));
            }
        }
    }
    let (explained, first, last) = most.filter(|(explained, ..)| *explained > 0.0)?;
    let df = n - 2.0;
    let left = (squares - explained).max(0.0);
    // It is the best of many stretches. Their number grows with the square of the number of values.
    let places = (n / FEWEST as f64).powi(2);
    Some((first, last, beyond((explained / left * df).sqrt(), df) * places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// Values at several levels, with the number of values per level, and noise with this standard deviation.
    fn series(levels: &[(f64, usize)], noise: f64, seed: u64) -> Vec<f64> {
        let mut random = SplitMix64::new(seed);
        levels
            .iter()
            .flat_map(|(level, n)| std::iter::repeat_n(*level, *n))
            .map(|x| x + noise * random.normal())
            .collect()
    }

    #[test]
    fn the_change_point_maximizes_the_published_statistic() {
        // By hand: for 1 1 1 | 5 5 5 all nonzero distances are between the parts, and (2·36/9)·9/6 is the statistic.
        assert_eq!(best(&[1.0, 1.0, 1.0, 5.0, 5.0, 5.0]), Some(3));
        assert_eq!(best(&[1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0]), Some(4));
        assert_eq!(best(&[1.0; 5]), None);
    }

    #[test]
    fn changes_are_found_at_the_borders_of_levels() {
        let values = series(&[(0.0, 12), (0.1, 20), (0.04, 10)], 0.01, 1);
        let found = changes(&values, 1);
        assert_eq!(found.iter().map(|c| c.at).collect::<Vec<_>>(), [12, 32]);
        for (change, by) in found.iter().zip([0.1, -0.06]) {
            assert!(change.interval.0 < by && by < change.interval.1 && change.p < P, "{change:?}");
        }
    }

    #[test]
    fn a_temporary_change_is_detected() {
        // The first split of the full series alone would not be significant.
        let values = series(&[(0.0, 15), (0.08, 8), (0.0, 15)], 0.01, 2);
        assert_eq!(changes(&values, 1).iter().map(|c| c.at).collect::<Vec<_>>(), [15, 23]);
    }

    #[test]
    fn a_temporary_change_is_detected_in_few_values() {
        for (levels, places) in [
            ([(9.9, 8), (8.5, 8), (9.9, 8)], [8, 16]),
            ([(9.9, 4), (8.5, 4), (9.9, 8)], [4, 8]),
            ([(9.9, 6), (8.5, 4), (9.8, 6)], [6, 10]),
        ] {
            let found = changes(&series(&levels, 0.03, 4), 1);
            assert_eq!(found.iter().map(|c| c.at).collect::<Vec<_>>(), places, "{found:?}");
            let by = levels[1].0 - levels[0].0;
            assert!((found[0].by - by).abs() < 0.1, "{found:?}");
        }
    }

    #[test]
    fn few_or_equal_values_have_no_change() {
        assert_eq!(changes(&[], 1), []);
        assert_eq!(changes(&[1.0, 2.0, 3.0, 9.0, 9.0], 1), []);
        assert_eq!(changes(&[2.0; 40], 1), []);
    }

    /// Share of 1,000 seeds.
    fn share(of: impl Fn(u64) -> bool) -> f64 {
        (1..=1000).filter(|seed| of(*seed)).count() as f64 / 1000.0
    }

    #[test]
    fn a_constant_series_rarely_shows_a_change() {
        for n in [8, 20, 60] {
            let false_ones = share(|seed| !changes(&series(&[(0.0, n)], 0.03, seed), 1).is_empty());
            assert!(false_ones <= 0.02, "{n} values: {false_ones}");
        }
    }

    #[test]
    fn many_constant_series_together_rarely_show_a_change() {
        let of_40 = |seed: u64| (0..40).any(|i| !changes(&series(&[(0.0, 20)], 0.03, 40 * seed + i), 40).is_empty());
        let false_ones = (1..=200).filter(|seed| of_40(*seed)).count();
        assert!(false_ones <= 6, "of 200: {false_ones}");
    }

    #[test]
    fn a_change_of_three_times_the_noise_is_detected() {
        let found = share(|seed| {
            let found = changes(&series(&[(0.0, 10), (0.09, 10)], 0.03, seed), 1);
            matches!(&found[..], [one] if one.at.abs_diff(10) <= 2)
        });
        assert!(found >= 0.95, "{found}");
    }

    #[test]
    fn the_smallest_detectable_change_is_detected_in_95_percent_of_trials() {
        for n in [10, 20, 60] {
            let by = (1..=100).map(|seed| smallest(&series(&[(0.0, n)], 0.03, seed), 1).unwrap()).sum::<f64>() / 100.0;
            let found = share(|seed| !changes(&series(&[(0.0, n / 2), (by, n / 2)], 0.03, seed), 1).is_empty());
            assert!((0.90..=0.98).contains(&found), "{n} values: {found}");
        }
        assert_eq!(smallest(&[0.0; FEWEST - 1], 1), None);
    }

    #[test]
    fn intervals_of_detected_changes_have_their_nominal_coverage() {
        let (mut held, mut all) = (0, 0);
        for seed in 1..=1000 {
            let found = changes(&series(&[(0.0, 12), (0.12, 12)], 0.03, seed), 1);
            if let [one] = &found[..] {
                all += 1;
                held += u32::from(one.interval.0 <= 0.12 && 0.12 <= one.interval.1);
            }
        }
        let share = f64::from(held) / f64::from(all);
        assert!(all > 900 && (0.92..=0.97).contains(&share), "{share} of {all}");
    }
}
