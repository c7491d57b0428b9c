//! Repeats of one cell: the middle, and how far they reach. No interval is computed from them here; with a handful of
//! repeats the range is all that can be seen without assuming a distribution.

/// Of one number over the repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Of an even number of repeats, the mean of the two in the middle.
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub repeats: usize,
}

impl Spread {
    /// `None` without values, or with one that is no number.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        if sorted.is_empty() || sorted.iter().any(|x| !x.is_finite()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let median = if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 };
        Some(Self { median, min: sorted[0], max: sorted[n - 1], repeats: n })
    }

    /// Of values that may be unknown: `None` if one is, since a median of the others would be of another thing.
    pub fn of_known(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        values.into_iter().collect::<Option<Vec<f64>>>().and_then(Self::of)
    }

    /// Width of the range as a share of the median; `None` where one repeat or a median of 0 has none.
    pub fn relative_range(&self) -> Option<f64> {
        (self.repeats > 1 && self.median > 0.0).then(|| (self.max - self.min) / self.median)
    }
}

/// What two spreads say of each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// All repeats above all of the base's.
    Higher(Ratio),
    /// All repeats below all of the base's.
    Lower(Ratio),
    /// The ranges overlap.
    NoDifference { repeats: usize },
    /// One repeat has no range.
    CannotTell,
}

/// To the base: of the medians, and the smallest and the largest that any two repeats give.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub of_medians: f64,
    pub min: f64,
    pub max: f64,
}

/// Compares `other` with `base`; both are of positive numbers.
pub fn compare(base: &Spread, other: &Spread) -> Verdict {
    let repeats = base.repeats.min(other.repeats);
    if repeats < 2 || base.min <= 0.0 {
        return Verdict::CannotTell;
    }
    let ratio = Ratio { of_medians: other.median / base.median, min: other.min / base.max, max: other.max / base.min };
    if other.min > base.max {
        Verdict::Higher(ratio)
    } else if other.max < base.min {
        Verdict::Lower(ratio)
    } else {
        Verdict::NoDifference { repeats }
    }
}

/// How often the ranges of two arms that are the same lie apart by chance, with `n` repeats each: of the (2n choose n) equally
/// likely orders of all repeats, two have one arm wholly before the other.
pub fn chance_of_ranges_apart(n: usize) -> f64 {
    (1..=n).fold(2.0, |p, i| p * i as f64 / (n + i) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_range() {
        let s = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((s.median, s.min, s.max, s.repeats), (2.0, 1.0, 3.0, 3));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(s.relative_range(), Some(1.0));
        assert_eq!(Spread::of([5.0]).unwrap().relative_range(), None);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([1.0, f64::NAN]), None);
        assert_eq!(Spread::of_known([Some(1.0), None]), None);
    }

    #[test]
    fn ranges_that_overlap_are_no_difference() {
        let s = |v: [f64; 3]| Spread::of(v).unwrap();
        let base = s([100.0, 110.0, 120.0]);
        assert_eq!(
            compare(&base, &s([240.0, 220.0, 200.0])),
            Verdict::Higher(Ratio { of_medians: 2.0, min: 200.0 / 120.0, max: 2.4 })
        );
        assert_eq!(
            compare(&s([240.0, 220.0, 200.0]), &base),
            Verdict::Lower(Ratio { of_medians: 0.5, min: 100.0 / 240.0, max: 0.6 })
        );
        assert_eq!(compare(&base, &s([120.0, 130.0, 140.0])), Verdict::NoDifference { repeats: 3 });
        assert_eq!(compare(&base, &Spread::of([500.0]).unwrap()), Verdict::CannotTell);
    }

    #[test]
    fn chance_is_the_textbooks() {
        assert!((chance_of_ranges_apart(2) - 1.0 / 3.0).abs() < 1e-12);
        assert!((chance_of_ranges_apart(3) - 0.1).abs() < 1e-12);
        assert!((chance_of_ranges_apart(5) - 2.0 / 252.0).abs() < 1e-12);
    }
}
