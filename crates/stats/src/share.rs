//! Shares of samples, with their sampling error.
//!
//! **Error**: Wilson's 95 % score interval: it contains the true share in 95 % of all possible samples of such a span.
//! It stays between 0 and 1, and is defined for a count of 0. Each share has its own interval: about one in twenty of
//! many shares is outside its interval. Samples are assumed to be independent, which does not hold for activity in step
//! with the sampling (for this reason, the default frequency is a prime).

use super::Z;

/// Minimum number of samples for a share: with fewer, the interval would be up to 20 percentage points wide.
pub(crate) const ENOUGH: u64 = 100;

/// A share and its 95 % interval; all from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    pub share: f64,
    pub lo: f64,
    pub hi: f64,
}

/// The share of `part` in `all`; `None` with fewer than [`ENOUGH`] samples.
pub fn share(part: u64, all: u64) -> Option<Share> {
    if all < ENOUGH || part > all {
        return None;
    }
    let (k, n) = (part as f64, all as f64);
    let p = k / n;
    let middle = (k + Z * Z / 2.0) / (n + Z * Z);
    let half = Z / (n + Z * Z) * (n * p * (1.0 - p) + Z * Z / 4.0).sqrt();
    // At the ends the two terms are equal except for rounding.
    let lo = if part == 0 { 0.0 } else { middle - half };
    let hi = if part == all { 1.0 } else { middle + half };
    Some(Share { share: p, lo, hi })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn near(got: f64, wanted: f64) {
        assert!((got - wanted).abs() < 5e-5, "{got} is not {wanted}");
    }

    #[test]
    fn intervals_match_published_wilson_intervals() {
        // R: binom::binom.confint(x, n, methods = "wilson").
        for (part, all, lo, hi) in [
            (10, 100, 0.0552, 0.1744),
            (50, 100, 0.4038, 0.5962),
            (0, 100, 0.0, 0.0370),
            (100, 100, 0.9630, 1.0),
            (15, 148, 0.0624, 0.1605),
            (700, 1000, 0.6709, 0.7276),
        ] {
            let got = share(part, all).unwrap();
            near(got.share, part as f64 / all as f64);
            near(got.lo, lo);
            near(got.hi, hi);
        }
    }

    #[test]
    fn too_few_samples_have_no_share() {
        assert_eq!(share(99, 99), None);
        assert_eq!(share(0, 0), None);
        assert!(share(1, 100).is_some());
    }

    /// In 20,000 draws the interval must contain the true share about 95 times in 100.
    #[test]
    fn the_interval_of_a_share_has_its_nominal_coverage() {
        let mut random = SplitMix64::new(0x2545_f491_4f6c_dd1d);
        for p in [0.02, 0.2, 0.7] {
            let holds = (0..20_000)
                .filter(|_| {
                    let part = (0..500).filter(|_| random.uniform() < p).count() as u64;
                    let s = share(part, 500).unwrap();
                    s.lo <= p && p <= s.hi
                })
                .count();
            let coverage = holds as f64 / 20_000.0;
            assert!((0.93..=0.97).contains(&coverage), "{coverage} at {p}");
        }
    }
}
