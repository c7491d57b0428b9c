//! The evidence that a mean is above 0, valid at every count of values at once.
//!
//! **Formula.** Of values with mean δσ and unknown σ, the likelihood of δ > 0 against δ = 0 is averaged over δ ~ half-normal with
//! variance g, and over σ with the right Haar measure dσ/σ. With t the mean over its standard error, n values and ν degrees of
//! freedom, this e-process is
//!
//! E = 2 (1 + ng)^-½ · ((ν + t²) / (ν + t² / (1 + ng)))^((ν+1)/2) · F(t √(ng/(1 + ng)) √((ν+1) / (ν + t²/(1 + ng))); ν+1),
//!
//! F being Student's distribution function. By Ville's inequality, E reaches 1/α at any n with a chance of α at most where the mean is
//! 0 or below. Turned round, mean ± [`reach`] standard errors is a confidence sequence.
//!
//! **Source.** Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance" (2023), for
//! the Gaussian mixture over δ; Lindon, Ham, Tingley and Bojinov, "Anytime-valid linear models and regression adjusted causal inference
//! in randomized experiments" (2022), for a σ known from the residuals of a linear model. Half of the mixture is dropped here, since
//! only one side counts: that is the factor 2 F.
//!
//! **Error.** Exact for Gaussian values. What is fed here is robust and partly pooled (`table.rs`); simulations give its error.

use crate::student;

/// The variance g of the mixture over standardised differences: a candidate that lies 0.3 to 2 standard deviations of a pair ahead is
/// found in nearly the fewest blocks.
const SPREAD: f64 = 0.5;

/// Larger logarithms of evidence are cut here, so that sums stay finite.
const MOST: f64 = 600.0;

/// The evidence E that a mean is above 0, which lies `t` standard errors above it, of `n` values, with `df` degrees of freedom.
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
    let tail = student::beyond(place, df + 1.0) / 2.0;
    let one_side = 2.0 * if place > 0.0 { 1.0 - tail } else { tail };
    both.min(MOST).exp() * one_side
}

/// How many standard errors a mean has to lie above 0 for this much evidence. `None`: so few values never give it.
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
