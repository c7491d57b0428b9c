//! Student's t: deviations of a mean of few values whose spread is estimated from the same values.

use std::f64::consts::PI;

/// Quantile at `p` > 0.5 with `df` degrees of freedom (truncated to an integer, which widens intervals). Accurate to
/// nine digits.
pub(crate) fn quantile(p: f64, df: f64) -> f64 {
    let df = df.max(1.0) as u64;
    // With one degree of freedom, the quantile at 1 − 1e-6 is 318,310.
    let (mut low, mut high) = (0.0, 1e6);
    while high - low > 1e-9 * high {
        let middle = (low + high) / 2.0;
        if below(middle, df) < p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Probability of a deviation of at least `t` to either side, with `df` degrees of freedom.
pub(crate) fn beyond(t: f64, df: f64) -> f64 {
    match t.abs() {
        t if t.is_infinite() => 0.0,
        t if t.is_nan() => 1.0,
        t => (2.0 * (1.0 - below(t, df.max(1.0) as u64))).clamp(0.0, 1.0),
    }
}

/// Probability of a mean this far from 0 if the true mean is 0; `None` for a single value, which has no spread.
pub fn mean_is_0(values: &[f64]) -> Option<f64> {
    let (mean, error2) = mean_and_error2(values)?;
    Some(strays(mean, error2, values.len() as f64 - 1.0))
}

/// 95 % interval of the mean; `None` for a single value, which has no spread.
pub fn interval_of_mean(values: &[f64]) -> Option<[f64; 2]> {
    let (mean, error2) = mean_and_error2(values)?;
    let half = quantile(0.975, values.len() as f64 - 1.0) * error2.sqrt();
    Some([mean - half, mean + half])
}

/// Probability of a difference of means this large if the true means are equal (Welch).
pub fn means_are_the_same(a: &[f64], b: &[f64]) -> Option<f64> {
    let ((mean_a, a2), (mean_b, b2)) = mean_and_error2(a).zip(mean_and_error2(b))?;
    Some(strays(mean_b - mean_a, a2 + b2, welch(a2, a.len(), b2, b.len())))
}

/// Degrees of freedom (Welch and Satterthwaite) of the difference of two means, from the squares of their standard
/// errors. The formula takes both squares as known: it yields too many if the smaller group dominates and happens to
/// vary little. They are therefore limited to less than twice those of the smaller group, which always holds for groups
/// of equal size.
pub(crate) fn welch(a2: f64, n: usize, b2: f64, m: usize) -> f64 {
    let df = (a2 + b2).powi(2) / (a2.powi(2) / (n as f64 - 1.0) + b2.powi(2) / (m as f64 - 1.0));
    df.min((2 * n.min(m) - 3) as f64)
}

fn strays(off: f64, error2: f64, df: f64) -> f64 {
    if off == 0.0 { 1.0 } else { beyond(off / error2.sqrt(), df) }
}

/// Mean and its squared standard error.
fn mean_and_error2(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (values.len() > 1).then(|| (mean, squares / (n - 1.0) / n))
}

/// Factor by which a spread may exceed its estimate with `df` degrees of freedom: four of five true spreads are below
/// the estimate times this factor. Uses the chi-square quantile at 20 % by Wilson and Hilferty, accurate to 1 % for at
/// least 3 degrees and too wide below.
pub(crate) fn spread_at_most(df: f64) -> f64 {
    const Z20: f64 = -0.841_621_233_572_914;
    let df = df.max(1.0);
    let part = 2.0 / (9.0 * df);
    (1.0 - part + Z20 * part.sqrt()).powf(-1.5)
}

/// Distribution function at `t` ≥ 0 (Abramowitz and Stegun, 26.7.3 and 26.7.4): a sum of about `df` / 2 terms.
fn below(t: f64, df: u64) -> f64 {
    // Beyond that the normal quantiles are accurate to five digits.
    let df = df.min(100_000);
    let theta = (t / (df as f64).sqrt()).atan();
    let cos2 = theta.cos().powi(2);
    let (mut sum, mut term) = (0.0, if df % 2 == 1 { theta.cos() } else { 1.0 });
    let mut k = if df % 2 == 1 { 1 } else { 0 };
    while k + 2 <= df {
        sum += term;
        k += 2;
        term *= cos2 * (k as f64 - 1.0) / k as f64;
        if term == 0.0 {
            break;
        }
    }
    let within = if df % 2 == 1 { 2.0 / PI * (theta + theta.sin() * sum) } else { theta.sin() * sum };
    0.5 + within / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_t_quantiles_match_published_tables() {
        // R: qt(0.975, df), qt(0.95, df).
        for (df, t975, t95) in [
            (1.0, 12.706_205, 6.313_752),
            (2.0, 4.302_653, 2.919_986),
            (4.0, 2.776_445, 2.131_847),
            (7.0, 2.364_624, 1.894_579),
            (9.9, 2.262_157, 1.833_113),
            (30.0, 2.042_272, 1.697_261),
            (1e6, 1.959_988, 1.644_869),
        ] {
            let (a, b) = (quantile(0.975, df), quantile(0.95, df));
            assert!((a - t975).abs() < 2e-6 && (b - t95).abs() < 2e-6, "{df}: {a} {b}");
        }
    }

    #[test]
    fn two_sided_p_values_match_the_quantiles() {
        for (df, t, p) in [(1.0, 12.706_205, 0.05), (4.0, 2.131_847, 0.1), (7.0, -2.364_624, 0.05), (3.0, 0.0, 1.0)] {
            assert!((beyond(t, df) - p).abs() < 1e-6, "{df}: {}", beyond(t, df));
        }
        assert_eq!((beyond(f64::INFINITY, 3.0), beyond(f64::NAN, 3.0)), (0.0, 1.0));
    }

    #[test]
    fn t_tests_of_means_match_published_values() {
        // R: t.test(c(1, 2, 3, 6))$p.value; 2 * pt(-4 / sqrt(2.5), 3), with `welch`'s degrees of freedom for 3 and 4
        // values.
        let one = mean_is_0(&[1.0, 2.0, 3.0, 6.0]).unwrap();
        assert!((one - 0.069_14).abs() < 1e-4, "{one}");
        let two = means_are_the_same(&[1.0, 2.0, 3.0, 6.0], &[5.0, 7.0, 9.0]).unwrap();
        assert!((two - 0.085_44).abs() < 1e-4, "{two}");
        assert_eq!((mean_is_0(&[1.0]), mean_is_0(&[0.0; 3]), mean_is_0(&[1.0; 3])), (None, Some(1.0), Some(0.0)));
    }

    #[test]
    fn the_interval_of_a_mean_matches_published_values() {
        // R: t.test(c(1, 2, 3, 6))$conf.int.
        let [lo, hi] = interval_of_mean(&[1.0, 2.0, 3.0, 6.0]).unwrap();
        assert!((lo + 0.437_1).abs() < 1e-3 && (hi - 6.437_1).abs() < 1e-3, "{lo} {hi}");
        assert_eq!((interval_of_mean(&[1.0]), interval_of_mean(&[2.0; 3])), (None, Some([2.0; 2])));
    }

    #[test]
    fn the_upper_bound_of_the_spread_matches_chi_square_quantiles() {
        // R: sqrt(df / qchisq(0.2, df)).
        for (df, factor, error) in [(1.0, 3.947, 0.1), (4.0, 1.5576, 0.01), (9.0, 1.2934, 0.005), (19.0, 1.1770, 0.002)]
        {
            let got = spread_at_most(df);
            assert!((got / factor - 1.0).abs() < error, "{df}: {got}");
        }
    }
}
