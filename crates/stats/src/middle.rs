//! Robust median and deviation of a few values: single outliers affect neither.

/// For an even number of values, the mean of the middle two; `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

/// Median absolute deviation from `middle`, scaled to the standard deviation of a normal distribution; `None` without
/// values.
pub fn deviation(values: impl IntoIterator<Item = f64>, middle: f64) -> Option<f64> {
    const OF_NORMAL: f64 = 1.4826;
    median(values.into_iter().map(|x| (x - middle).abs())).map(|mad| OF_NORMAL * mad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_deviation_are_robust_to_an_outlier() {
        assert_eq!((median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0]), median([])), (Some(2.0), Some(2.5), None));
        assert_eq!(median([3.0, 1.0, 1e9]), Some(3.0));
        assert_eq!(deviation([1.0, 2.0, 3.0, 4.0, 1e9], 3.0), Some(1.4826));
        assert_eq!(deviation([], 3.0), None);
    }
}
