//! One effect, measured on several machines: a random-effects summary. Each machine has its own true effect; what is looked for is
//! their mean, how far they spread, where another machine's would lie, and which machine is unlike the others.
//!
//! A machine's error is known from a few pairs only. Taken as it is, 200 machines of one kind would look different by their errors
//! alone; so errors are drawn together as far as they are alike (Smyth 2004), and what stays unknown of them makes them wider.
//!
//! The spread is Paule and Mandel's estimate, the interval of the mean Hartung and Knapp's (never narrower than the plain one), that of
//! the spread the Q-profile (Viechtbauer 2007), that of another machine Higgins, Thompson and Spiegelhalter's (2009). A machine is apart
//! if the others say so: its studentised deleted residual, by Holm over all machines.

use crate::holm;
use crate::student;

/// What one machine says: its effect, and the square of that one's standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    pub effect: f64,
    pub error2: f64,
    /// Degrees of freedom of the latter.
    pub df: f64,
}

/// What all of them say together. Intervals hold in 95 of 100.
#[derive(Debug, Clone, PartialEq)]
pub struct Across {
    pub mean: f64,
    pub interval: (f64, f64),
    /// Standard deviation of the machines' true effects.
    pub spread: f64,
    pub spread_interval: (f64, f64),
    /// Where the true effect of another such machine lies. `None`: two machines do not tell.
    pub another: Option<(f64, f64)>,
    /// Machines that are unlike the others.
    pub apart: Vec<usize>,
}

/// False calls of a machine as apart, of 100 fleets alike.
const LEVEL: f64 = 0.05;

/// `None`: fewer than two machines, or one that says nothing.
pub fn across(machines: &[Machine]) -> Option<Across> {
    let is_told = |m: &Machine| m.effect.is_finite() && m.error2.is_finite() && m.error2 > 0.0 && m.df >= 1.0;
    if machines.len() < 2 || !machines.iter().all(is_told) {
        return None;
    }
    let machines = squeezed(machines);
    Some(Across { apart: apart(&machines), ..summary(&machines) })
}

fn summary(machines: &[Machine]) -> Across {
    let df = machines.len() as f64 - 1.0;
    let spread2 = spread2(machines, df);
    let (mean, error2) = mean(machines, spread2);
    let t = |df| student::quantile(0.975, df);
    let reach = t(df) * error2.sqrt();
    let another = (machines.len() > 2).then(|| {
        let reach = t(df - 1.0) * (spread2 + error2).sqrt();
        (mean - reach, mean + reach)
    });
    Across {
        mean,
        interval: (mean - reach, mean + reach),
        spread: spread2.sqrt(),
        spread_interval: (
            self::spread2(machines, chi_square(0.975, df)).sqrt(),
            self::spread2(machines, chi_square(0.025, df)).sqrt(),
        ),
        another,
        apart: vec![],
    }
}

/// Their errors, drawn together as far as these are alike, and as wide as what is unknown of them makes an effect stray.
fn squeezed(machines: &[Machine]) -> Vec<Machine> {
    let n = machines.len() as f64;
    let logs: Vec<f64> = machines.iter().map(|m| m.error2.ln() - digamma(m.df / 2.0) + (m.df / 2.0).ln()).collect();
    let mean = logs.iter().sum::<f64>() / n;
    let expected = machines.iter().map(|m| trigamma(m.df / 2.0)).sum::<f64>() / n;
    let more = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) - expected;
    // What all together add to each one's degrees of freedom.
    let (df, error2) = match half_df(more) {
        None => (MANY, mean.exp()),
        Some(half) => (2.0 * half, (mean + digamma(half) - half.ln()).exp()),
    };
    let squeezed = |m: &Machine| {
        let all = df + m.df;
        let together = (df * error2 + m.df * m.error2) / all;
        Machine { error2: together * all / (all - 2.0).max(1.0), df: all, ..*m }
    };
    machines.iter().map(squeezed).collect()
}

/// Degrees of freedom that leave nothing unknown.
const MANY: f64 = 1e6;

/// Where trigamma is `value`; `None`: it is nowhere so small.
fn half_df(value: f64) -> Option<f64> {
    if value <= trigamma(MANY / 2.0) {
        return None;
    }
    let (mut low, mut high) = (1e-3, MANY / 2.0);
    while high - low > 1e-6 * high {
        let middle = (low + high) / 2.0;
        if trigamma(middle) > value { low = middle } else { high = middle }
    }
    Some(high)
}

/// By its series from 6 on, and by what it differs from there.
fn digamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 6.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + x.ln() - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y / 252.0))
}

/// Its derivative.
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 6.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y / 42.0))
}

/// The weighted mean, and the square of its standard error.
fn mean(machines: &[Machine], spread2: f64) -> (f64, f64) {
    let weights = || machines.iter().map(|m| 1.0 / (m.error2 + spread2));
    let sum: f64 = weights().sum();
    let mean = machines.iter().zip(weights()).map(|(m, w)| m.effect * w).sum::<f64>() / sum;
    // Where the machines are more alike than their own errors let expect, that is chance, and no knowledge.
    let q = squares(machines, spread2) / (machines.len() as f64 - 1.0);
    (mean, q.max(1.0) / sum)
}

/// Squared distances from the mean, in their errors: falls as the spread grows.
fn squares(machines: &[Machine], spread2: f64) -> f64 {
    let weight = |m: &Machine| 1.0 / (m.error2 + spread2);
    let sum: f64 = machines.iter().map(weight).sum();
    let mean = machines.iter().map(|m| m.effect * weight(m)).sum::<f64>() / sum;
    machines.iter().map(|m| (m.effect - mean).powi(2) * weight(m)).sum()
}

/// The spread at which the squares are so many; none where they are fewer already.
fn spread2(machines: &[Machine], wanted: f64) -> f64 {
    if squares(machines, 0.0) <= wanted {
        return 0.0;
    }
    let mut high = machines.iter().map(|m| m.error2).fold(0.0, f64::max);
    while squares(machines, high) > wanted {
        high *= 2.0;
    }
    let mut low = 0.0;
    while high - low > 1e-9 * high {
        let middle = (low + high) / 2.0;
        if squares(machines, middle) > wanted { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

fn apart(machines: &[Machine]) -> Vec<usize> {
    // Of three, two that agree by chance would make the third one unlike them.
    if machines.len() < 4 {
        return vec![];
    }
    let strays = |i: usize| {
        let others: Vec<Machine> =
            machines.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, other)| *other).collect();
        let df = others.len() as f64 - 1.0;
        let spread2 = spread2(&others, df);
        let (mean, error2) = mean(&others, spread2);
        let off = machines[i].effect - mean;
        student::beyond(off / (machines[i].error2 + spread2 + error2).sqrt(), df)
    };
    let p: Vec<f64> = (0..machines.len()).map(strays).collect();
    let adjusted = holm::adjusted(&p);
    (0..machines.len()).filter(|i| adjusted[*i] < LEVEL).collect()
}

/// The chi-square quantile at `p`.
fn chi_square(p: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, df + 20.0 * (2.0 * df).sqrt() + 40.0);
    while high - low > 1e-9 * high {
        let middle = (low + high) / 2.0;
        if lower_gamma(df / 2.0, middle / 2.0) < p { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The regularised lower incomplete gamma function, by its series: x stays within some widths of a here.
fn lower_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
    while term > sum * 1e-15 {
        n += 1.0;
        term *= x / n;
        sum += term;
    }
    (sum.ln() + a * x.ln() - x - ln_gamma(a)).exp().min(1.0)
}

/// Of halves: by Γ(a + 1) = a Γ(a) from Γ(1) and Γ(1/2).
fn ln_gamma(a: f64) -> f64 {
    let half = (a.fract() - 0.5).abs() < 0.25;
    let (mut at, mut sum) = if half { (0.5, std::f64::consts::PI.sqrt().ln()) } else { (1.0, 0.0) };
    while at + 0.5 < a {
        sum += f64::ln(at);
        at += 1.0;
    }
    sum
}

#[cfg(test)]
#[path = "machines_tests.rs"]
mod tests;
