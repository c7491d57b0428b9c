//! A cell's repeats in tables: their median and range. `compare` decides whether two cells differ.

use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::CellRecord;
use iotrail_stats::middle::median;

/// Median of a metric over a cell's repeats; `None` if a repeat's value is unknown.
pub fn over_repeats(cell: &CellRecord, of: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
    Spread::over(cell, of).map(|s| s.median)
}

/// Spread of one number over the repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// For an even number of repeats, the mean of the middle two.
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub repeats: usize,
}

impl Spread {
    /// `None` without values, or if one is NaN.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        if sorted.is_empty() || sorted.iter().any(|x| !x.is_finite()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let median = median(sorted.iter().copied())?;
        Some(Self { median, min: sorted[0], max: sorted[sorted.len() - 1], repeats: sorted.len() })
    }

    /// `None` if one value is unknown, because a median of the remaining values would describe a different quantity.
    pub fn of_known(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        values.into_iter().collect::<Option<Vec<f64>>>().and_then(Self::of)
    }

    /// A metric of a cell's repeats.
    pub fn over(cell: &CellRecord, of: impl Fn(&Measurement) -> Option<f64>) -> Option<Self> {
        Self::of_known(cell.measurements.all().iter().map(of))
    }

    /// Range as a share of the median; `None` for a single repeat or a median of 0.
    pub fn relative_range(&self) -> Option<f64> {
        (self.repeats > 1 && self.median > 0.0).then(|| (self.max - self.min) / self.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_has_a_median_and_a_range() {
        let s = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((s.median, s.min, s.max, s.repeats), (2.0, 1.0, 3.0, 3));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(s.relative_range(), Some(1.0));
        assert_eq!(Spread::of([5.0]).unwrap().relative_range(), None);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([1.0, f64::NAN]), None);
        assert_eq!(Spread::of_known([Some(1.0), None]), None);
    }
}
