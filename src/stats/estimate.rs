//! Totals of which a sample is known, each item of it taken with the same chance.
//!
//! **Error**: the interval is that of a Poisson count at 95 %, by Byar's approximation of the exact one (right within 1 % from a
//! count of 10 on; of fewer, the lower end is too low), scaled. A sample of one in few varies less than that: then it is wider than it had to be. Items of different
//! weight count for as many as would vary as much (Kish's effective size).

use super::Z;

/// Items below which no total is given: of so many, it is right within 30 %.
pub const ENOUGH: f64 = 50.0;

/// A total and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Total {
    pub total: f64,
    pub lo: f64,
    pub hi: f64,
}

/// The sum over all of which one item in `one_in` was taken. `taken`: how many items of about one weight, and the sum of their
/// weights. `None`: there are none. With `one_in` 1 all were taken, and there is nothing to err in.
pub fn interval(taken: &[(u64, f64)], one_in: u32) -> Option<Total> {
    let n = effective(taken)?;
    let total = taken.iter().map(|(_, weight)| weight).sum::<f64>() * f64::from(one_in);
    if one_in <= 1 {
        return Some(Total { total, lo: total, hi: total });
    }
    let cube = |n: f64, z: f64| n * (1.0 - 1.0 / (9.0 * n) + z / (3.0 * n.sqrt())).powi(3);
    let scale = total / n;
    Some(Total { total, lo: scale * cube(n, -Z).max(0.0), hi: scale * cube(n + 1.0, Z) })
}

/// The same, or `None` where fewer than [`ENOUGH`] would carry it.
pub fn total(taken: &[(u64, f64)], one_in: u32) -> Option<Total> {
    if one_in > 1 && effective(taken)? < ENOUGH {
        return None;
    }
    interval(taken, one_in)
}

/// How many items of one weight would vary as much.
fn effective(taken: &[(u64, f64)]) -> Option<f64> {
    let some = || taken.iter().filter(|(items, weight)| *items > 0 && *weight > 0.0);
    let sum: f64 = some().map(|(_, weight)| weight).sum();
    let squares: f64 = some().map(|(items, weight)| weight * weight / *items as f64).sum();
    (squares > 0.0).then(|| sum * sum / squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::SplitMix64;

    #[test]
    fn intervals_of_known_counts() {
        // R: poisson.test(n)$conf.int.
        for (n, lo, hi) in [(1, 0.0253, 5.572), (10, 4.795, 18.39), (50, 37.11, 65.92), (400, 361.8, 441.2)] {
            let got = interval(&[(n, n as f64 / 4.0)], 64).unwrap();
            assert_eq!(got.total, n as f64 * 16.0);
            let within = |got: f64, wanted: f64, error: f64| (got / 16.0 / wanted - 1.0).abs() < error;
            assert!(within(got.lo, lo, if n == 1 { 0.6 } else { 0.01 }) && within(got.hi, hi, 0.01), "{n}: {got:?}");
        }
    }

    #[test]
    fn few_items_are_no_total_and_all_of_them_are_exact() {
        assert_eq!(total(&[(1, 1.0)], 64), None);
        assert_eq!(total(&[(49, 49.0)], 64), None);
        assert_eq!(total(&[(50, 50.0)], 64).map(|t| t.total), Some(3200.0));
        assert_eq!(total(&[(1, 1.0)], 1), Some(Total { total: 1.0, lo: 1.0, hi: 1.0 }));
        assert_eq!(total(&[], 1), None);
        // A thousand in large batches, and the few single ones that make the sum.
        assert_eq!(total(&[(1000, 1.0), (9, 9.0)], 64), None);
    }

    /// Drawn 5,000 times, the interval must hold the truth at least 95 times in 100.
    #[test]
    fn the_interval_holds_what_it_says() {
        let mut random = SplitMix64::new(0x2545_f491_4f6c_dd1d);
        // 400 requests that came alone, and 800 in calls of 8: 500 calls.
        let holds = (0..5_000)
            .filter(|_| {
                let mut taken = |n: u32| (0..n).filter(|_| random.uniform() < 0.125).count() as u64;
                let (alone, batched) = (taken(400), taken(800));
                let t = interval(&[(alone, alone as f64), (batched, batched as f64 / 8.0)], 8).unwrap();
                t.lo <= 500.0 && 500.0 <= t.hi
            })
            .count();
        let coverage = holds as f64 / 5_000.0;
        assert!((0.94..=0.985).contains(&coverage), "{coverage}");
    }
}
