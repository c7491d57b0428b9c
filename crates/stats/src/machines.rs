//! One effect measured on several machines: a random-effects model. Each machine has a true effect of its own. The
//! results are the mean and spread of these effects, the prediction interval for another machine, and the outliers.
//!
//! Each machine's error is estimated from a few pairs. Unmodified, these errors would make 200 equal machines look
//! different. They are shrunk towards each other as far as they agree (Smyth 2004), and their remaining uncertainty
//! widens the intervals.
//!
//! The spread is the Paule–Mandel estimate. The interval of the mean is Hartung–Knapp's, but never narrower than the
//! plain one. The interval of the spread is the Q-profile (Viechtbauer 2007), with Q widened by the uncertainty of the
//! errors. The prediction interval uses mean and spread with the uncertainty of the spread's interval (Nagashima, Noma
//! and Furukawa 2019). Outliers are determined by their studentised deleted residuals.

use crate::chi_square;
use crate::student;

/// Result of one machine: its effect and the squared standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    pub effect: f64,
    pub error2: f64,
    /// Degrees of freedom of the squared error.
    pub df: f64,
}

/// Minimum error: repeats that agree more closely agree by chance.
const LEAST_ERROR: f64 = 1e-4;

impl Machine {
    /// From a ratio, its 95 % interval and the number of pairs; `None` if unusable.
    pub fn of_ratio(ratio: f64, [lo, hi]: [f64; 2], pairs: usize) -> Option<Self> {
        let df = pairs.checked_sub(1).filter(|df| *df > 0)? as f64;
        let error = (hi.ln() - lo.ln()) / 2.0 / student::quantile(0.975, df);
        let machine = Machine { effect: ratio.ln(), error2: error.max(LEAST_ERROR).powi(2), df };
        is_told(&machine).then_some(machine)
    }
}

/// The joint result. Intervals have 95 % coverage.
#[derive(Debug, Clone, PartialEq)]
pub struct Across {
    pub mean: f64,
    pub interval: (f64, f64),
    /// Probability of a mean this far from 0 if the true mean is 0.
    pub p: f64,
    /// Standard deviation of the machines' true effects.
    pub spread: f64,
    pub spread_interval: (f64, f64),
    /// Prediction interval for the true effect on another machine; `None` for two machines, which are too few.
    pub another: Option<(f64, f64)>,
    /// Per machine: probability of a deviation this large if the machine is like the others.
    pub unlike: Vec<f64>,
}

/// Comparison of two groups of machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// Means of the first and second group.
    pub means: [f64; 2],
    pub intervals: [(f64, f64); 2],
    /// Probability of a difference this large if the groups' means are equal.
    pub p: f64,
}

/// `None` for fewer than two machines, or if one is unusable.
pub fn across(machines: &[Machine]) -> Option<Across> {
    if machines.len() < 2 || !machines.iter().all(is_told) {
        return None;
    }
    let machines = squeezed(machines);
    Some(Across { unlike: unlike(&machines), ..summary(&machines) })
}

/// `is_first`: whether each machine is in the first group. Both groups have the same spread. `None` for fewer than two
/// machines in a group, or if one is unusable.
pub fn groups(machines: &[Machine], is_first: &[bool]) -> Option<Groups> {
    let firsts = is_first.iter().filter(|f| **f).count();
    if firsts < 2 || machines.len() < firsts + 2 || !machines.iter().all(is_told) {
        return None;
    }
    let machines = squeezed(machines);
    let of = |first: bool| -> Vec<Machine> {
        machines.iter().zip(is_first).filter(|(_, is)| **is == first).map(|(m, _)| *m).collect()
    };
    let parts = [of(true), of(false)];
    let df = machines.len() as f64 - 2.0;
    let spread2 = spread2(&parts.each_ref().map(|p| &p[..]), df, 0.0);
    let more = (parts.iter().map(|p| squares(p, spread2)).sum::<f64>() / df).max(1.0);
    let [a, b] = parts.map(|p| mean(&p, spread2));
    let (error_a, error_b) = (a.1 * more, b.1 * more);
    let t = student::quantile(0.975, df);
    let interval = |mean: f64, error2: f64| (mean - t * error2.sqrt(), mean + t * error2.sqrt());
    Some(Groups {
        means: [a.0, b.0],
        intervals: [interval(a.0, error_a), interval(b.0, error_b)],
        p: student::beyond((b.0 - a.0) / (error_a + error_b).sqrt(), df),
    })
}

fn is_told(m: &Machine) -> bool {
    m.effect.is_finite() && m.error2.is_finite() && m.error2 > 0.0 && m.df >= 1.0
}

fn summary(machines: &[Machine]) -> Across {
    let df = machines.len() as f64 - 1.0;
    let spread2 = spread2(&[machines], df, 0.0);
    let (mean, error2) = mean_and_error2(machines, spread2);
    let reach = student::quantile(0.975, df) * error2.sqrt();
    let known = Known::new(machines, spread2);
    Across {
        mean,
        interval: (mean - reach, mean + reach),
        p: student::beyond(mean / error2.sqrt(), df),
        spread: spread2.sqrt(),
        spread_interval: (known.spread2(0.025, 0.0).sqrt(), known.spread2(0.975, 0.0).sqrt()),
        another: (machines.len() > 2).then(|| another(machines, &known)),
        unlike: vec![],
    }
}

/// Uncertainty of the spread.
struct Known<'a> {
    machines: &'a [Machine],
    /// Factor by which Q is wider than with known errors.
    wider: f64,
    /// Degrees of freedom of Q.
    df: f64,
}

impl<'a> Known<'a> {
    fn new(machines: &'a [Machine], spread2: f64) -> Self {
        // From the first two moments: the square of an error with relative variance c has the variance 2 + 3c.
        let of = |m: &Machine| 2.0 / (m.df - 4.0).max(1.0) * (m.error2 / (m.error2 + spread2)).powi(2);
        let wider = 1.0 + 1.5 * machines.iter().map(of).sum::<f64>() / machines.len() as f64;
        Known { machines, wider, df: (machines.len() as f64 - 1.0) / wider }
    }

    /// Upper bound of the squared spread with probability `p`; `from` is its lower bound.
    fn spread2(&self, p: f64, from: f64) -> f64 {
        spread2(&[self.machines], self.wider * chi_square::quantile(1.0 - p, self.df), from)
    }
}

/// Number of points of the spread's distribution.
const POINTS: usize = 24;

/// Prediction interval: the central 95 % of the effects, over the distribution of the spread.
fn another(machines: &[Machine], known: &Known<'_>) -> (f64, f64) {
    let df = machines.len() as f64 - 1.0;
    let mut spread2 = 0.0;
    let points: Vec<(f64, f64, f64)> = (0..POINTS)
        .map(|i| {
            spread2 = known.spread2((i as f64 + 0.5) / POINTS as f64, spread2);
            let (mean, error2) = mean_and_error2(machines, spread2);
            let all2 = spread2 + error2;
            // Welch and Satterthwaite, taking the spread of this point as known.
            (mean, all2.sqrt(), (df * (all2 / error2).powi(2)).min(MANY_DF))
        })
        .collect();
    let below = |x: f64| {
        let of = |(mean, width, df): &(f64, f64, f64)| {
            let beyond = student::beyond((x - mean) / width, *df) / 2.0;
            if x < *mean { beyond } else { 1.0 - beyond }
        };
        points.iter().map(of).sum::<f64>() / POINTS as f64
    };
    let widest = points.iter().map(|p| p.1).fold(0.0, f64::max) * student::quantile(0.975, df);
    let ends = points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), p| (p.0.min(lo), p.0.max(hi)));
    let find = |p: f64| {
        let (mut low, mut high) = (ends.0 - widest, ends.1 + widest);
        for _ in 0..HALVES {
            let middle = (low + high) / 2.0;
            if below(middle) < p { low = middle } else { high = middle }
        }
        (low + high) / 2.0
    };
    (find(0.025), find(0.975))
}

/// With more degrees of freedom, Student's distribution counts as normal.
const MANY_DF: f64 = 100.0;

/// Bisection steps: the result is precise to a millionth of the interval.
const HALVES: usize = 20;

/// The errors shrunk towards each other, and widened by their remaining uncertainty.
fn squeezed(machines: &[Machine]) -> Vec<Machine> {
    let n = machines.len() as f64;
    let logs: Vec<f64> = machines.iter().map(|m| m.error2.ln() - digamma(m.df / 2.0) + (m.df / 2.0).ln()).collect();
    let mean = logs.iter().sum::<f64>() / n;
    let expected = machines.iter().map(|m| trigamma(m.df / 2.0)).sum::<f64>() / n;
    let more = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) - expected;
    // Degrees of freedom that all machines together add to each machine.
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

/// Degrees of freedom for a fully known error.
const MANY: f64 = 1e6;

/// The argument at which trigamma equals `value`; `None` if trigamma is larger everywhere.
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

/// By its series from 6 upwards, by recurrence below 6.
fn digamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 6.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + x.ln() - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y / 252.0))
}

/// Derivative of digamma.
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 6.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y / 42.0))
}

/// Weighted mean and its squared standard error, from the errors and the spread.
fn mean(machines: &[Machine], spread2: f64) -> (f64, f64) {
    let weight = |m: &Machine| 1.0 / (m.error2 + spread2);
    let sum: f64 = machines.iter().map(weight).sum();
    (machines.iter().map(|m| m.effect * weight(m)).sum::<f64>() / sum, 1.0 / sum)
}

/// The same, with the observed spread: machines that agree more closely than their errors predict do so by chance.
fn mean_and_error2(machines: &[Machine], spread2: f64) -> (f64, f64) {
    let (mean, error2) = mean(machines, spread2);
    (mean, error2 * (squares(machines, spread2) / (machines.len() as f64 - 1.0)).max(1.0))
}

/// Sum of squared distances from the mean in units of the errors. Decreases as the spread grows.
fn squares(machines: &[Machine], spread2: f64) -> f64 {
    let (mean, _) = mean(machines, spread2);
    machines.iter().map(|m| (m.effect - mean).powi(2) / (m.error2 + spread2)).sum()
}

/// Squared spread within groups at which the sum of squares equals `wanted`; `from` if the sum is already smaller
/// there.
fn spread2(groups: &[&[Machine]], wanted: f64, from: f64) -> f64 {
    let all = |spread2| groups.iter().map(|g| squares(g, spread2)).sum::<f64>();
    let mut spread2 = from;
    // Newton's method: the sum of squares is convex, so no step overshoots.
    for _ in 0..STEPS {
        let off = all(spread2) - wanted;
        if off <= 1e-9 * wanted {
            break;
        }
        let slope = |g: &&[Machine]| {
            let (mean, _) = mean(g, spread2);
            g.iter().map(|m| ((m.effect - mean) / (m.error2 + spread2)).powi(2)).sum::<f64>()
        };
        spread2 += off / groups.iter().map(slope).sum::<f64>();
    }
    spread2
}

/// Ten steps suffice unless errors are many orders of magnitude below the spread.
const STEPS: usize = 200;

/// Per machine: probability of a deviation this large if the machine is like the others.
fn unlike(machines: &[Machine]) -> Vec<f64> {
    // With three machines, two that agree by chance would make the third an outlier.
    if machines.len() < FEWEST_UNLIKE {
        return vec![1.0; machines.len()];
    }
    let strays = |i: usize| {
        let others: Vec<Machine> =
            machines.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, other)| *other).collect();
        let df = others.len() as f64 - 1.0;
        let spread2 = spread2(&[&others], df, 0.0);
        let (mean, error2) = mean_and_error2(&others, spread2);
        let off = machines[i].effect - mean;
        student::beyond(off / (machines[i].error2 + spread2 + error2).sqrt(), df)
    };
    (0..machines.len()).map(strays).collect()
}

/// Minimum number of machines for detecting outliers.
pub const FEWEST_UNLIKE: usize = 4;

#[cfg(test)]
#[path = "machines_tests.rs"]
mod tests;
