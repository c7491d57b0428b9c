//! The ratio of two sides, and its interval.

use super::side::Side;
use crate::figure::Metric;
use iotrail_base::words::plural;
use iotrail_schema::comparison::Comparison;
use iotrail_stats::bootstrap::{Counts, FEWEST, MergedQuantile, Ratio, apart, paired, paired_quantiles, unpaired};
use iotrail_stats::middle::median;
use iotrail_stats::student;

pub(super) fn too_few(pairs: usize, interleaved: bool) -> String {
    let (what, of_each) = if interleaved { ("pair", "") } else { ("repeat", " of each side") };
    format!("{}, and an interval needs at least {FEWEST}{of_each}: measure more", plural(pairs, what))
}

pub(super) enum Unknown {
    /// Reason why the ratio needs more measurements.
    Missing(String),
    /// Reason why no ratio can be computed.
    NotKnown(String),
    /// A value is 0, whose logarithm is undefined.
    HasZeros,
}

/// Sides measured separately get no verdict with fewer runs each.
pub const RUNS: usize = 3;

/// The ratio, with remarks on its computation. `by_run`: each run of a side counts as one number.
pub(super) fn ratio(
    metric: Metric,
    a: &Side<'_>,
    b: &Side<'_>,
    interleaved: bool,
    by_run: bool,
) -> Result<(Ratio, Option<String>), Unknown> {
    if a.repeats.is_empty() || b.repeats.is_empty() {
        return Err(Unknown::Missing(too_few(0, interleaved)));
    }
    let mut how = None;
    if let Some(q) = metric.quantile() {
        if let (Some(of_a), Some(of_b)) = (a.latencies(), b.latencies()) {
            let merged = |side: &Side<'_>, counts: &[&Counts]| {
                let of_runs: Vec<Counts> = match by_run {
                    true => side.runs().iter().map(|run| Counts::merged(&pick(counts, run))).collect(),
                    false => Vec::new(),
                };
                let of_runs: Vec<&Counts> = of_runs.iter().collect();
                let counts = if by_run { &of_runs } else { counts };
                let few = || format!("too few I/Os of {} for {metric}, even over all its repeats", side.name);
                MergedQuantile::new(counts, q).ok_or_else(|| Unknown::Missing(few()))
            };
            let (of_a, of_b) = (merged(a, &of_a)?, merged(b, &of_b)?);
            return Ok((if interleaved { paired_quantiles(&of_a, &of_b) } else { unpaired(&of_a, &of_b) }, None));
        }
        how = Some(format!(
            "{metric} is compared by the medians of the measurements' own quantiles, because some histograms are not stored"
        ));
    }
    let values = |side: &Side<'_>| {
        side.values(metric).ok_or_else(|| {
            let unknown = side.repeats.iter().filter(|r| metric.of(&r.measurement).is_none()).count();
            let of = plural(side.repeats.len(), "measurement");
            Unknown::NotKnown(format!("{metric} is not known in {unknown} of {of} of {}", side.name))
        })
    };
    let of_runs = |side: &Side<'_>| -> Result<Vec<f64>, Unknown> {
        let values = values(side)?;
        let of = |run: &Vec<usize>| median(run.iter().map(|i| values[*i])).unwrap_or(f64::NAN);
        Ok(if by_run { side.runs().iter().map(of).collect() } else { values })
    };
    let (of_a, of_b) = (of_runs(a)?, of_runs(b)?);
    if of_a.iter().chain(&of_b).any(|x| *x < 0.0) {
        return Err(Unknown::NotKnown(format!("{metric} is sometimes below 0, so it has no ratio")));
    }
    let ratio = match interleaved {
        true => paired(&of_a, &of_b),
        false => apart(&of_a, &of_b),
    };
    ratio.map(|r| (r, how)).ok_or(Unknown::HasZeros)
}

fn pick<'a>(of: &[&'a Counts], places: &[usize]) -> Vec<&'a Counts> {
    places.iter().map(|i| of[*i]).collect()
}

/// The point estimate without an interval, if both sides have a value.
pub(super) fn of_medians(metric: Metric, a: &Side<'_>, b: &Side<'_>) -> Option<f64> {
    let of = |side: &Side<'_>| median(side.values(metric)?);
    of_two(of(a)?, of(b)?)
}

fn of_two(a: f64, b: f64) -> Option<f64> {
    (a > 0.0 && b >= 0.0).then(|| b / a)
}

/// For counts that are sometimes 0. The ratio has no interval, but the differences have a mean and a standard error.
/// The ratio is the ratio of the means, so that its direction agrees with the mean difference: a median may be 0 on
/// both sides or have the opposite direction.
pub(super) fn of_zeros(
    metric: Metric,
    a: &Side<'_>,
    b: &Side<'_>,
    (interleaved, by_run): (bool, bool),
    c: &mut Comparison,
) {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let of = |side: &Side<'_>| {
        let values = side.values(metric)?;
        let of_run = |run: &Vec<usize>| mean(&run.iter().map(|i| values[*i]).collect::<Vec<f64>>());
        Some(if by_run { side.runs().iter().map(of_run).collect() } else { values })
    };
    let (Some(a), Some(b)): (Option<Vec<f64>>, Option<Vec<f64>>) = (of(a), of(b)) else { return };
    c.ratio = of_two(mean(&a), mean(&b));
    if a.iter().chain(&b).all(|x| *x == 0.0) {
        (c.ratio, c.ci95, c.p) = (Some(1.0), Some([1.0; 2]), Some(1.0));
        return;
    }
    let zeros = format!(
        "{metric} is sometimes 0: the ratio is that of the means, without an interval; the verdict uses the differences"
    );
    c.reasons.insert(0, zeros);
    if c.pairs < FEWEST {
        c.reasons.insert(0, too_few(c.pairs, interleaved));
    }
    c.p = match interleaved {
        true => student::mean_is_0(&a.iter().zip(&b).map(|(a, b)| b - a).collect::<Vec<_>>()),
        false => student::means_are_the_same(&a, &b),
    };
}
