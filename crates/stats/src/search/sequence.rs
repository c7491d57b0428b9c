//! Evidence that a mean is above 0, valid simultaneously at every number of values.
//!
//! **Formula.** For values with mean δσ and unknown σ, the likelihood of δ > 0 against δ = 0 is averaged over δ ~ half-normal with
//! variance g, and over σ with the right Haar measure dσ/σ. With t the mean divided by its standard error, n values and ν degrees
//! of freedom, this e-process is
//!
//! E = 2 (1 + ng)^-½ · ((ν + t²) / (ν + t² / (1 + ng)))^((ν+1)/2) · F(t √(ng/(1 + ng)) √((ν+1) / (ν + t²/(1 + ng))); ν+1),
//!
//! where F is Student's distribution function. By Ville's inequality, if the mean is at most 0, E ever reaches 1/α with
//! a probability of at most α. Inverted, mean ± [`reach`] standard errors is a confidence sequence.
//!
//! **Source.** Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
//! variance" (2023), for the Gaussian mixture over δ; Lindon, Ham, Tingley and Bojinov, "Anytime-valid linear models
//! and regression adjusted causal inference in randomized experiments" (2022), for σ from the residuals of a linear
//! model. Half of the mixture is dropped here, because the evidence is one-sided; this yields the factor 2 F.
//!
//! **Error.** Exact for Gaussian values. The values here are differences without outliers, with their own variance
//! (`table.rs`); the error is determined by simulation.

use crate::student;

/// Variance g of the mixture over standardised differences. A candidate that is ahead by 0.3 to 2 standard deviations
/// of a pair is found in nearly the minimum number of blocks.
const SPREAD: f64 = 0.5;

/// From this many standard errors below 0, the tail is replaced by its bound if the degrees of freedom exceed the limit
/// below; heavier tails do not need this.
const FAR: f64 = 5.0;
const LIGHT: f64 = 10.0;

/// Larger log evidence is truncated here, so that sums stay finite.
const MOST: f64 = 600.0;

/// Evidence E that a mean is above 0, if it is `t` standard errors above 0, from `n` values with `df` degrees of
/// freedom.
pub(super) fn evidence(t: f64, n: f64, df: f64) -> f64 {
    if t.is_nan() || n <= 0.0 || df <= 0.0 {
        return 1.0;
    }
    let grown = 1.0 + n * SPREAD;
    if t.is_infinite() {
        return if t > 0.0 { MOST.exp() } else { 0.0 };
    }
    let left = df + t * t / grown;
    let both = -0.5 * grown.ln() + (df + 1.0) / 2.0 * ((df + t * t) / left).ln();
    let place = t * (n * SPREAD / grown).sqrt() * ((df + 1.0) / left).sqrt();
    let tail = match place < -FAR && df > LIGHT {
        true => tail_at_most(-place, df + 1.0),
        false => student::beyond(place, df + 1.0) / 2.0,
    };
    let one_side = 2.0 * if place > 0.0 { 1.0 - tail } else { tail };
    both.min(MOST).exp() * one_side
}

/// Upper bound of Student's tail beyond `x` > 0. Far out, the distribution function's error of 1e-16 exceeds the tail,
/// and the other factor of the evidence is large.
fn tail_at_most(x: f64, df: f64) -> f64 {
    df / (df - 1.0) * (1.0 + x * x / df).powf((1.0 - df) / 2.0) / (x * std::f64::consts::TAU.sqrt())
}

/// Number of standard errors above 0 at which a mean has this evidence; `None` if so few values never reach it.
pub(super) fn reach(n: f64, df: f64, needed: f64) -> Option<f64> {
    let (mut low, mut high) = (0.0, 1e4);
    if evidence(high, n, df) < needed {
        return None;
    }
    while high - low > 1e-6 * high {
        let middle = (low + high) / 2.0;
        if evidence(middle, n, df) < needed { low = middle } else { high = middle }
    }
    Some(high)
}

/// Interval from one candidate's own values. Each end misses their geometric mean, at any number of values, with a
/// probability of at most `alpha`. Includes drift between blocks. `None` with too few values.
pub fn interval(values: &[f64], alpha: f64) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().map(|x| x.ln()).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x.ln() - mean).powi(2)).sum();
    if n < 2.0 || !mean.is_finite() {
        return None;
    }
    let reach = reach(n, n - 1.0, 1.0 / alpha)? * (squares / (n - 1.0) / n).sqrt();
    Some(((mean - reach).exp(), (mean + reach).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// By quadrature over δ and σ, for the values 1, 2, 4 (t = √7 = 2.6458).
    #[test]
    fn the_evidence_formula_matches_numerical_integration() {
        let x = [1.0, 2.0, 4.0];
        let integral = |deltas: &dyn Fn(usize) -> f64, n: usize| {
            let mut sum = 0.0;
            for i in 0..n {
                let delta = deltas(i);
                // σ on a logarithmic grid, on which dσ/σ is uniform.
                for j in 0..600 {
                    let sigma = (-3.0 + 0.015 * f64::from(j)).exp();
                    let squares: f64 = x.iter().map(|x| (x / sigma - delta).powi(2)).sum();
                    sum += (-squares / 2.0).exp() / sigma.powi(3);
                }
            }
            sum / n as f64
        };
        // Quantiles of the half-normal distribution, from its density.
        let step = 0.01;
        let weight = |d: f64| 2.0 * step * (-d * d / (2.0 * SPREAD)).exp() / (std::f64::consts::TAU * SPREAD).sqrt();
        let over: f64 = (0..800).map(|i| (f64::from(i) + 0.5) * step).map(|d| weight(d) * integral(&|_| d, 1)).sum();
        let under = integral(&|_| 0.0, 1);
        let t = 7f64.sqrt();
        let got = evidence(t, 3.0, 2.0);
        assert!((got / (over / under) - 1.0).abs() < 1e-3, "{got} {}", over / under);
    }

    #[test]
    fn evidence_reaches_the_threshold_at_the_returned_t() {
        for (n, df) in [(5.0, 4.0), (12.0, 27.5), (40.0, 600.0)] {
            let t = reach(n, df, 20.0).unwrap();
            let whole = evidence(t, n, df.floor());
            assert!((evidence(t, n, df) / 20.0 - 1.0).abs() < 1e-2 && whole > 15.0, "{n}: {t} {whole}");
        }
        // Two values that are as far off as possible: no evidence above √n.
        assert_eq!(reach(2.0, 1.0, 300.0), None);
        assert!(evidence(-3.0, 10.0, 9.0) < 0.15 && evidence(f64::NAN, 10.0, 9.0) == 1.0);
        assert!(evidence(f64::INFINITY, 10.0, 9.0) > 1e100 && evidence(f64::NEG_INFINITY, 10.0, 9.0) == 0.0);
    }

    #[test]
    fn a_negative_mean_has_no_evidence() {
        for n in [2.0, 5.0, 40.0, 400.0] {
            for df in [1.0, 4.5, 40.0, 900.0] {
                let at: Vec<f64> = (0..400).map(|i| evidence(-0.5 * f64::from(i), n, df)).collect();
                assert!(at.is_sorted_by(|a, b| *a >= *b * 0.8), "{n} {df}: {at:?}");
                assert!(at[20] < 0.5 && at[399] < 0.42, "{n} {df}: {} {}", at[20], at[399]);
            }
        }
        // R: pt(-2, 5), pt(-6, 30).
        for (x, df, tail) in [(2.0, 5.0, 0.050_970), (6.0, 30.0, 7.06e-7)] {
            let bound = tail_at_most(x, df);
            assert!(bound > tail && bound < 2.0 * tail, "{bound}");
        }
    }

    /// If checked after each of 2 to 60 normal values, one end misses the mean in at most 5 % of sequences.
    #[test]
    fn sequential_intervals_miss_the_mean_in_at_most_5_percent() {
        let mut random = SplitMix64::new(8);
        let sequences = 600;
        let ever = (0..sequences).filter(|_| {
            let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
            (0..60).any(|_| {
                let x = random.normal();
                (n, sum, squares) = (n + 1.0, sum + x, squares + x * x);
                let error = ((squares - sum * sum / n) / (n - 1.0) / n).sqrt();
                n > 1.0 && evidence(sum / n / error, n, n - 1.0) >= 20.0
            })
        });
        let share = ever.count() as f64 / f64::from(sequences);
        assert!(share <= 0.05, "{share}");
    }

    #[test]
    fn the_interval_of_a_candidates_own_values_is_plausible() {
        let (lo, hi) = interval(&[100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, 100.5], 0.025).unwrap();
        assert!(lo > 97.5 && lo < 99.0 && hi > 101.0 && hi < 102.5, "{lo} {hi}");
        assert_eq!(
            (interval(&[5.0], 0.025), interval(&[5.0, -1.0], 0.025), interval(&[5.0, 6.0], 1e-6)),
            (None, None, None)
        );
    }
}
