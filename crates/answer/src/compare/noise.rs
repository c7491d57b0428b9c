//! The difference of a load from itself.

use super::ratio::ratio;
use super::side::Side;
use crate::figure::Metric;
use iotrail_schema::measurement::Measurement;
use iotrail_stats::bootstrap::paired;

/// The apparent difference of a load from itself: the half-width of the interval between the two, or their ratio if that is farther
/// from 1. `None`: they have no interval.
pub fn noise_floor(metric: Metric, twin: &Side<'_>, control: &Side<'_>) -> Option<f64> {
    let n = twin.repeats.len().min(control.repeats.len());
    let r = ratio(metric, &twin.first(n), &control.first(n), true, false).ok()?.0;
    let half = r.interval?.relative_half_width(r.ratio);
    Some(half.max(r.ratio.max(1.0 / r.ratio) - 1.0))
}

/// Relative half-width of the current interval between two arms, of the measurements' own numbers; to decide whether to
/// continue measuring. `None`: no interval yet.
pub fn interval_width(metric: Metric, a: &[Measurement], b: &[Measurement]) -> Option<f64> {
    let n = a.len().min(b.len());
    let of = |side: &[Measurement]| side[..n].iter().map(|m| metric.of(m)).collect::<Option<Vec<f64>>>();
    let r = paired(&of(a)?, &of(b)?)?;
    r.interval.map(|i| i.relative_half_width(r.ratio))
}
