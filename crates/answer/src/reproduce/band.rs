//! The band of agreement with a published figure if its file specifies none. Each kind has a single rule, so that no
//! band is fitted to the result.

use iotrail_schema::reproduction::Band;

/// A smaller change counts as no change.
const NONE: f64 = 1.05;
/// Above this factor (or below its reciprocal), any larger effect agrees too.
const LARGE: f64 = 10.0;
/// A count agrees within 20 %,
const SHARE: f64 = 0.2;
/// or within this absolute difference per I/O.
const FEW: f64 = 0.05;
/// The knee of a curve is where it reaches this share of its best value.
pub const OF_BEST: f64 = 0.9;
/// Number of steps by which knees may differ.
pub const STEPS: usize = 1;

/// Same direction, and half to twice the size in logarithm: ×4 agrees with ×2 to ×16.
pub fn of_ratio(published: f64) -> Band {
    let (half, twice) = (published.sqrt(), published * published);
    let lo = half.min(twice).min(published / NONE);
    let hi = half.max(twice).max(published * NONE);
    Band { at_least: (published > 1.0 / LARGE).then_some(lo), at_most: (published < LARGE).then_some(hi) }
}

pub fn of_count(published: f64) -> Band {
    let within = (published * SHARE).max(FEW);
    let least = published - within;
    Band { at_least: (least > 0.0).then_some(least), at_most: Some(published + within) }
}

/// Index of the first value at which a curve reaches 90 % of its best. `best` returns the better of two values.
pub fn knee(values: &[f64], best: impl Fn(f64, f64) -> f64) -> Option<usize> {
    let top = values.iter().copied().reduce(&best)?;
    values.iter().position(|x| (x / top).min(top / x) >= OF_BEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(at_least: impl Into<Option<f64>>, at_most: impl Into<Option<f64>>) -> Band {
        Band { at_least: at_least.into(), at_most: at_most.into() }
    }

    #[test]
    fn an_effect_agrees_between_half_and_twice_the_published_effect() {
        assert_eq!(of_ratio(4.0), band(2.0, 16.0));
        assert_eq!(of_ratio(0.25), band(0.0625, 0.5));
        // No effect agrees with no effect.
        let none = of_ratio(1.0);
        assert!(none.holds(0.96) && none.holds(1.04) && !none.holds(0.94) && !none.holds(1.06));
        // A large effect has no upper bound.
        assert_eq!((of_ratio(16.0), of_ratio(0.0625)), (band(4.0, None), band(None, 0.25)));
    }

    #[test]
    fn a_count_agrees_within_a_fifth_or_a_twentieth() {
        assert_eq!(of_count(0.0), band(None, 0.05));
        assert_eq!(of_count(1.0), band(0.8, 1.2));
    }

    #[test]
    fn the_knee_is_the_first_value_within_nine_tenths_of_the_best() {
        assert_eq!(knee(&[1.0, 5.0, 8.9, 9.0, 10.0, 8.0], f64::max), Some(3));
        assert_eq!(knee(&[100.0, 20.0, 11.0, 10.0], f64::min), Some(2));
        assert_eq!(knee(&[], f64::max), None);
    }
}
