//! Totals from a sample: some items were taken with certainty, the others each with the same probability.
//!
//! **Error**: items taken with certainty have none. For the others, the interval is the 95 % interval of a Poisson count,
//! scaled, in Byar's approximation. It is accurate to 1 % for counts of at least 10; for smaller counts the lower end
//! is too low. Samples of 1 in few items, or with partly regular gaps, vary less, so the interval is wider than
//! necessary. Items of different value count as the number of equal items that would vary as much (Kish's effective
//! size).

use super::Z;

/// A total based only on sampled items needs at least this many. Its error is then at most 30 %.
pub(crate) const ENOUGH: f64 = 50.0;
/// For a total with an exact part: maximum width of its interval relative to the total.
const WIDTH: f64 = 0.5;

/// A total and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    pub total: f64,
    pub lo: f64,
    pub hi: f64,
}

impl Total {
    /// Adds an exactly known number.
    pub fn and(self, known: f64) -> Total {
        Total { total: self.total + known, lo: self.lo + known, hi: self.hi + known }
    }
}

/// Number and total value of items of similar value.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stratum {
    /// Items taken with certainty.
    pub whole: (u64, f64),
    /// Items of which 1 in `one_in` was taken.
    pub sampled: (u64, f64),
}

impl Stratum {
    /// Takes an item with this weight.
    pub fn take(&mut self, weight: u32, value: f64) {
        let part = if weight <= 1 { &mut self.whole } else { &mut self.sampled };
        *part = (part.0 + 1, part.1 + value);
    }

    pub fn add(&mut self, other: &Stratum) {
        let sum = |a: (u64, f64), b: (u64, f64)| (a.0 + b.0, a.1 + b.1);
        (self.whole, self.sampled) = (sum(self.whole, other.whole), sum(self.sampled, other.sampled));
    }

    /// Number of items taken.
    pub fn items(&self) -> u64 {
        self.whole.0 + self.sampled.0
    }

    /// Estimated number of items.
    pub fn stands_for(&self, one_in: u32) -> u64 {
        self.whole.0 + self.sampled.0 * u64::from(one_in)
    }

    /// Estimated sum over all items.
    pub fn total(&self, one_in: u32) -> f64 {
        self.whole.1 + self.sampled.1 * f64::from(one_in)
    }
}

/// Estimated total over all items if 1 in `one_in` of the sampled ones was taken; `None` if none was taken. With
/// `one_in` 1, the total is exact. Otherwise, the upper end allows for items of which none was taken.
pub fn interval(taken: &[Stratum], one_in: u32) -> Option<Total> {
    let items: u64 = taken.iter().map(Stratum::items).sum();
    if items == 0 {
        return None;
    }
    let whole: f64 = taken.iter().map(|t| t.whole.1).sum();
    let sampled: f64 = taken.iter().map(|t| t.sampled.1).sum();
    let total = whole + sampled * f64::from(one_in);
    if one_in <= 1 {
        return Some(Total { total, lo: total, hi: total });
    }
    let cube = |n: f64, z: f64| n * (1.0 - 1.0 / (9.0 * n) + z / (3.0 * n.sqrt())).powi(3);
    // If no sampled item was taken, the value of an item is only known from the ones taken with certainty.
    let n = effective(taken).unwrap_or(0.0);
    let each = if n > 0.0 { sampled / n } else { whole / items as f64 };
    let scale = each * f64::from(one_in);
    let lo = if n > 0.0 { scale * cube(n, -Z).max(0.0) } else { 0.0 };
    Some(Total { total, lo: whole + lo, hi: whole + scale * cube(n + 1.0, Z) })
}

/// The same, but `None` if it is based on too few items.
pub fn total(taken: &[Stratum], one_in: u32) -> Option<Total> {
    let t = interval(taken, one_in)?;
    let enough = effective(taken).is_some_and(|n| n >= ENOUGH);
    (one_in <= 1 || enough || t.hi - t.lo <= WIDTH * t.total).then_some(t)
}

/// Number of equal sampled items that would vary as much.
fn effective(taken: &[Stratum]) -> Option<f64> {
    let some = || taken.iter().map(|t| t.sampled).filter(|(items, value)| *items > 0 && *value > 0.0);
    let sum: f64 = some().map(|(_, value)| value).sum();
    let squares: f64 = some().map(|(items, value)| value * value / items as f64).sum();
    (squares > 0.0).then(|| sum * sum / squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn sampled(items: u64, value: f64) -> Stratum {
        Stratum { sampled: (items, value), ..Stratum::default() }
    }

    #[test]
    fn intervals_match_published_poisson_intervals() {
        // R: poisson.test(n)$conf.int.
        for (n, lo, hi) in [(1, 0.0253, 5.572), (10, 4.795, 18.39), (50, 37.11, 65.92), (400, 361.8, 441.2)] {
            let got = interval(&[sampled(n, n as f64 / 4.0)], 64).unwrap();
            assert_eq!(got.total, n as f64 * 16.0);
            let within = |got: f64, wanted: f64, error: f64| (got / 16.0 / wanted - 1.0).abs() < error;
            assert!(within(got.lo, lo, if n == 1 { 0.6 } else { 0.01 }) && within(got.hi, hi, 0.01), "{n}: {got:?}");
        }
    }

    #[test]
    fn few_sampled_items_have_no_total_and_complete_strata_are_exact() {
        assert_eq!(total(&[sampled(1, 1.0)], 64), None);
        assert_eq!(total(&[sampled(49, 49.0)], 64), None);
        assert_eq!(total(&[sampled(50, 50.0)], 64).map(|t| t.total), Some(3200.0));
        assert_eq!(total(&[sampled(1, 1.0)], 1), Some(Total { total: 1.0, lo: 1.0, hi: 1.0 }));
        assert_eq!(total(&[], 1), None);
        // 1,000 in large batches, and a few single ones that dominate the total.
        assert_eq!(total(&[sampled(1000, 1.0), sampled(9, 9.0)], 64), None);
    }

    #[test]
    fn complete_strata_do_not_contribute_to_the_error() {
        let mut t = Stratum::default();
        (0..48).for_each(|_| t.take(1, 0.5));
        assert_eq!(total(&[t], 1), Some(Total { total: 24.0, lo: 24.0, hi: 24.0 }));
        // There may be items of which none was taken: up to 3.69 × 100, at half a call each.
        let open = interval(&[t], 100).unwrap();
        assert_eq!((open.total, open.lo), (24.0, 24.0));
        assert!((open.hi - 24.0 - 0.5 * 369.0).abs() < 3.0, "{open:?}");
        assert_eq!(total(&[t], 100), None, "that is more than was seen");
        // A few sampled items besides many exact ones.
        let mut most = Stratum { whole: (100_000, 100_000.0), sampled: (0, 0.0) };
        (0..4).for_each(|_| most.take(100, 1.0));
        let t = total(&[most], 100).unwrap();
        assert_eq!((t.total, most.items(), most.total(100)), (100_400.0, 100_004, 100_400.0));
        assert!(t.lo > 100_000.0 && t.hi < 101_100.0, "{t:?}");
    }

    /// In 5,000 draws the interval must contain the true value in at least 95 %.
    #[test]
    fn the_interval_has_its_nominal_coverage() {
        let mut random = SplitMix64::new(0x2545_f491_4f6c_dd1d);
        // 400 single requests, and 800 requests in calls of 8: 500 calls.
        let holds = (0..5_000)
            .filter(|_| {
                let mut taken = |n: u32| (0..n).filter(|_| random.uniform() < 0.125).count() as u64;
                let (alone, batched) = (taken(400), taken(800));
                let t = interval(&[sampled(alone, alone as f64), sampled(batched, batched as f64 / 8.0)], 8).unwrap();
                t.lo <= 500.0 && 500.0 <= t.hi
            })
            .count();
        let coverage = holds as f64 / 5_000.0;
        assert!((0.94..=0.985).contains(&coverage), "{coverage}");
    }
}
