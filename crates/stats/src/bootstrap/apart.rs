//! The ratio of two sides that were measured apart, of one number of each run.
//!
//! Few runs cannot show whether both sides vary alike: a rule that pools the variances if they look alike misses the truth in up to
//! 7.8 % of cases. So the variances are never pooled (Welch, [`student::welch`]). Simulated with 2 to 20 runs on either side, of which
//! one varies up to ten times as much, the interval misses the truth in at most 5.2 % of cases.

use super::pairs::PairRatios;
use super::{FEWEST, Interval, Ratio, unpaired};
use crate::student;

/// Runs of a side up to which the mean of the logarithms is taken. Of so few, drawing them again says badly how far their middle
/// strays: of three, the median's error comes out a third too large, which costs half of the differences that are there.
const FEW: usize = 5;

/// Of numbers of sides that were measured apart: what drifted between them is in their difference, and in the interval as far as
/// it also drifts from run to run. `None` where one is not above 0, or there are none.
pub fn apart(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let (of_a, of_b) = (alone(a)?, alone(b)?);
    let (n, m) = (a.len(), b.len());
    if n.min(m) < FEWEST || n.max(m) > FEW {
        return Some(unpaired(&of_a, &of_b));
    }
    let ((mean_a, in_a), (mean_b, in_b)) = (mean_and_error2(a), mean_and_error2(b));
    let log = mean_b - mean_a;
    let df = student::welch(in_a, n, in_b, m);
    let standard_error = (in_a + in_b).sqrt();
    let reach = student::quantile(0.975, df) * standard_error;
    let p = if log == 0.0 { 1.0 } else { student::beyond(log / standard_error, df) };
    let interval = Interval { lo: (log - reach).exp(), hi: (log + reach).exp(), p, standard_error, df };
    Some(Ratio { ratio: log.exp(), interval: Some(interval) })
}

/// The middle of one side's numbers: that of their ratios to 1.
fn alone(values: &[f64]) -> Option<PairRatios> {
    PairRatios::new(&vec![1.0; values.len()], values)
}

/// Of the logarithms.
fn mean_and_error2(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|x| x.ln()).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x.ln() - mean).powi(2)).sum();
    (mean, squares / (n - 1.0) / n)
}
