//! Circumstances of the load itself.

use crate::unit::Unit;
use iotrail_base::words::{count, list, percent};
use iotrail_schema::measurement::{Circumstances, Measurement, Warning};
use iotrail_stats::steady;

/// A throughput change of this share between the halves is reported. A linear drift of 10 % over the span reaches it,
/// which is the maximum slope in steady state according to the SNIA test specification.
const CHANGES: f64 = 0.05;

/// Above this share, the mean describes no state of the storage; it is the same specification's limit on excursions.
const CHANGES_TOO_MUCH: f64 = 0.20;

pub(super) fn not_granted(m: &Measurement) -> Option<Warning> {
    let ring = &m.load.ring;
    let missing: Vec<String> = ring.requested.iter().filter(|f| !granted(f, &ring.granted)).cloned().collect();
    (!missing.is_empty()).then(|| {
        Warning::new(
            "not_granted",
            format!("the kernel did not grant {}", list(&missing)),
            "`iotrail check` lists the kernels that support the flag",
        )
    })
}

/// The kernel rounds the completion queue's size up and reports the result.
pub(super) fn granted(flag: &str, granted: &[String]) -> bool {
    match flag.split_once('=') {
        Some((name, _)) => granted.iter().any(|g| g.split_once('=').is_some_and(|(n, _)| n == name)),
        None => granted.iter().any(|g| g == flag),
    }
}

pub(super) fn not_steady(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let t = c.throughput.as_ref()?;
    let trend = steady::trend(&t.ios)?;
    if !trend.real || trend.change.abs() < CHANGES {
        return None;
    }
    let per_s = |n: f64| count(n / (t.interval_ns as f64 / 1e9));
    let unit = Unit::of(m).per_second();
    let course = if trend.change < 0.0 { "fell" } else { "rose" };
    let text = format!(
        "throughput {course} by {} from the first half of the measurement ({} {unit}) to the second ({} {unit})",
        percent(trend.change.abs()),
        per_s(trend.first),
        per_s(trend.second)
    );
    let remedy = "use a longer --warmup and a longer --runtime, until the throughput is stable";
    let code = if trend.change.abs() >= CHANGES_TOO_MUCH { "unsteady" } else { "not_steady" };
    Some(Warning::new(code, text, remedy))
}
