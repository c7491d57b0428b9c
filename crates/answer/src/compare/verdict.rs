//! The joint verdicts of several comparisons.

use crate::figure::Metric;
use iotrail_base::words::percent;
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_stats::holm;

/// Decides jointly: the comparisons of one metric share their false-positive rate (Holm).
pub fn together(all: &mut [Comparison], within: f64) {
    let mut metrics: Vec<Metric> = all.iter().filter_map(|c| c.metric.parse().ok()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    for metric in metrics {
        let mut of_metric: Vec<&mut Comparison> = all.iter_mut().filter(|c| c.metric == metric.name()).collect();
        let told: Vec<f64> = of_metric.iter().filter_map(|c| c.p).collect();
        let mut adjusted = holm::adjusted(&told).into_iter();
        for c in &mut of_metric {
            c.equivalent_within = within;
            c.together = told.len();
            c.p_adjusted = c.p.and_then(|_| adjusted.next());
            decide(metric, c);
        }
    }
}

/// Significance level.
const CHANCE: f64 = 0.05;

pub(super) fn decide(metric: Metric, c: &mut Comparison) {
    if c.verdict == Verdict::NotComparable {
        return;
    }
    let floor = c.noise_floor.unwrap_or(0.0);
    let above_floor = c.ratio.is_none_or(|r| r.max(1.0 / r) > 1.0 + floor);
    let differs = c.p_adjusted.is_some_and(|p| p < CHANCE);
    // If no difference was detectable, equivalence cannot be shown either.
    let within = c.p.is_some()
        && c.ci95.is_some_and(|[lo, hi]| lo >= 1.0 / (1.0 + c.equivalent_within) && hi <= 1.0 + c.equivalent_within);
    c.verdict = match () {
        () if within => Verdict::Equivalent,
        // A metric without a ratio was 0 on the first side.
        () if differs && above_floor => direction(metric, c.ratio.is_none_or(|r| r > 1.0)),
        () => Verdict::Inconclusive,
    };
    let why = match c.p_adjusted {
        _ if c.verdict != Verdict::Inconclusive => None,
        Some(_) if differs => {
            Some("the difference is within the noise floor: the load differs as much from itself".into())
        }
        Some(p) if excludes_1(c) => Some(format!(
            "the interval covers only this comparison: in {} of runs, at least one of {} comparisons of equal arms differs this much",
            percent(p),
            c.together
        )),
        _ => None,
    };
    let is_new = |why: &String| !c.reasons.contains(why);
    if let Some(why) = why.filter(is_new) {
        c.reasons.insert(0, why);
    }
}

fn excludes_1(c: &Comparison) -> bool {
    c.ci95.is_some_and(|[lo, hi]| lo > 1.0 || hi < 1.0)
}

/// Why a comparison is inconclusive although its interval excludes 1, or although it has no interval.
pub fn why_open(c: &Comparison) -> Option<&str> {
    let is_open = c.verdict == Verdict::Inconclusive && (excludes_1(c) || c.ci95.is_none());
    c.reasons.first().filter(|_| is_open).map(String::as_str)
}

fn direction(metric: Metric, higher: bool) -> Verdict {
    if higher == metric.higher_is_better() { Verdict::Faster } else { Verdict::Slower }
}
