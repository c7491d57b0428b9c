//! Two measurements that are each valid but not comparable with each other.

use super::cpus::{mhz, moved};
use super::threshold::MATTERS;
use iotrail_base::words::{numbers, percent};
use iotrail_schema::measurement::{Circumstances, Measurement};

/// Why these two measurements must not be compared, although each is valid; empty if they may be.
pub fn reasons_between(a: &Measurement, b: &Measurement) -> Vec<String> {
    let Some((ca, cb)) = a.circumstances.as_ref().zip(b.circumstances.as_ref()) else { return Vec::new() };
    let mut reasons = Vec::new();
    let cached = |m: &Measurement, c: &Circumstances| {
        (!m.load.direct && m.load.file.is_some()).then_some(c.page_cache.as_ref()).flatten().map(|p| p.resident.before)
    };
    if let Some((x, y)) = cached(a, ca).zip(cached(b, cb))
        && (x - y).abs() > MATTERS
    {
        reasons.push(format!(
            "the page cache held {} of the target before one measurement and {} before the other",
            percent(x),
            percent(y)
        ));
    }
    let khz = |c: &Circumstances| c.frequency_khz.map(|f| (f.before + f.after) as f64 / 2.0);
    if let Some((x, y)) = khz(ca).zip(khz(cb))
        && x > 0.0
        && (y / x - 1.0).abs() > MATTERS
    {
        reasons.push(format!("the CPUs ran at {} in one measurement and at {} in the other", mhz(x), mhz(y)));
    }
    if let Some((irq, before, after)) = moved(&ca.interrupts_after, &cb.interrupts_after) {
        reasons.push(format!(
            "the target's interrupt {irq} arrived on CPU {} in one measurement and on CPU {} in the other",
            numbers(before),
            numbers(after)
        ));
    }
    reasons
}

/// Maximum difference between the sides' shares of failed I/Os: less is within the noise of any comparison.
const FAILED: f64 = 0.01;

/// Why two sides differ in load although they requested the same: one had more failed I/Os, and a failed I/O is
/// different work.
pub fn failed_apart(a: (&str, &[&Measurement]), b: (&str, &[&Measurement])) -> Option<String> {
    let share = |of: &[&Measurement]| {
        let sum = |f: fn(&Measurement) -> Option<u64>| of.iter().filter_map(|m| f(m)).sum::<u64>() as f64;
        sum(|m| m.errors) / sum(|m| m.ios).max(1.0)
    };
    let (x, y) = (share(a.1), share(b.1));
    ((x - y).abs() > FAILED).then(|| {
        format!(
            "{} of the I/Os of {} failed, compared with {} of the I/Os of {}: a failed I/O is different work",
            percent(x),
            a.0,
            percent(y),
            b.0
        )
    })
}
