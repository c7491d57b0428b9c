//! The apparent difference between two arms with the same load.

use super::ratio::ratio;
use super::side::Side;
use crate::figure::Metric;
use iotrail_schema::measurement::Measurement;
use iotrail_stats::bootstrap::paired;

/// The apparent difference between two arms with the same load: the half-width of their ratio's interval, or the ratio
/// itself if it is farther from 1. `None` without an interval.
pub fn noise_floor(metric: Metric, twin: &Side<'_>, control: &Side<'_>) -> Option<f64> {
    let n = twin.repeats.len().min(control.repeats.len());
    let r = ratio(metric, &twin.first(n), &control.first(n), true, false).ok()?.0;
    let half = r.interval?.relative_half_width(r.ratio);
    Some(half.max(r.ratio.max(1.0 / r.ratio) - 1.0))
}

/// Relative half-width of the current interval between two arms, by one number per measurement; decides whether to
/// continue measuring. `None` without an interval so far.
pub fn interval_width(metric: Metric, a: &[Measurement], b: &[Measurement]) -> Option<f64> {
    let n = a.len().min(b.len());
    let of = |side: &[Measurement]| side[..n].iter().map(|m| metric.of(m)).collect::<Option<Vec<f64>>>();
    let r = paired(&of(a)?, &of(b)?)?;
    r.interval.map(|i| i.relative_half_width(r.ratio))
}
