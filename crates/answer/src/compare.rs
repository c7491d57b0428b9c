//! Whether B differs from A, by how much and with which confidence. `stats::bootstrap` computes the interval. The
//! difference between the control arm and its twin, which have the same load, is the noise floor; smaller differences
//! do not count. See `docs/method.md`.

mod asked;
mod differ;
mod failed;
mod level;
mod noise;
mod planned;
mod ratio;
mod side;
mod undisturbed;
mod verdict;

use serde_json::Map;

pub use self::asked::{compared_on, metrics, of_program, place};
pub use self::differ::{changed, command};
pub use self::failed::failed;
pub use self::level::{Level, level};
pub use self::noise::{interval_width, noise_floor};
pub use self::ratio::RUNS;
use self::ratio::{Unknown, of_medians, of_zeros, ratio, too_few};
pub use self::side::{Histograms, Repeat, Side};
use self::undisturbed::undisturbed;
pub use self::verdict::{together, why_open};
use super::comparable;
pub use crate::figure::Metric;
use iotrail_base::distinct::distinct;
use iotrail_base::grouped::grouped;
use iotrail_base::words::plural;
use iotrail_schema::comparison::{Comparison, EQUIVALENT_WITHIN, Needed, SCHEMA, Verdict};
use iotrail_schema::run_record::{CONTROL, RunRecord};

/// Compares every arm with the first, at each combination of the other parameters, on the run's metrics. Ordered by
/// metric, then by arm.
pub fn of_run(record: &RunRecord, histograms: Histograms<'_>) -> Vec<Comparison> {
    let metrics = metrics(record);
    let Some((base, others)) = record.arms.split_first() else { return Vec::new() };
    let places = distinct(record.cells.iter().map(place));
    let block_s = planned::block_ns(record) / 1e9;
    let mut found = Vec::new();
    for at in &places {
        let cell = |arm: &str| record.cells.iter().find(|c| c.arm() == arm && place(c) == *at);
        let side = |arm: &str| {
            let cell = cell(arm).filter(|c| !c.measurements.is_empty())?;
            Some(Side::of_cell(arm, cell, histograms, &metrics))
        };
        let Some(a) = side(base) else { continue };
        let control = side(CONTROL);
        let noise: Vec<Option<f64>> =
            metrics.iter().map(|m| control.as_ref().and_then(|c| noise_floor(*m, &a, c))).collect();
        for (j, other) in others.iter().enumerate() {
            let Some(b) = side(other) else { continue };
            let failures: Vec<String> = [base, other].into_iter().filter_map(|arm| failed(cell(arm)?)).collect();
            for (i, metric) in metrics.iter().enumerate() {
                let mut c = undecided(*metric, &a, &b, true, noise[i]);
                // A run repeats all of its cells.
                c.to_show_10_percent.iter_mut().for_each(|n| n.seconds = Some(n.repeats as f64 * block_s));
                forbid(&mut c, failures.clone());
                found.push(((i, j), Comparison { at: at.clone(), ..c }));
            }
        }
    }
    found.sort_by_key(|(order, _)| *order);
    let mut found: Vec<Comparison> = found.into_iter().map(|(_, c)| c).collect();
    together(&mut found, record.equivalent_within.unwrap_or(EQUIVALENT_WITHIN));
    found
}

/// Compares `b` with `a` alone. `interleaved`: repeat i of both sides was in the same block. `noise_floor`: from a
/// control arm.
pub fn compare(metric: Metric, a: &Side<'_>, b: &Side<'_>, interleaved: bool, noise_floor: Option<f64>) -> Comparison {
    let mut c = undecided(metric, a, b, interleaved, noise_floor);
    together(std::slice::from_mut(&mut c), EQUIVALENT_WITHIN);
    c
}

/// The same without a verdict, which [`together`] decides.
pub fn undecided(
    metric: Metric,
    a: &Side<'_>,
    b: &Side<'_>,
    interleaved: bool,
    noise_floor: Option<f64>,
) -> Comparison {
    let (kept_a, kept_b, disturbed, mut said) = undisturbed(a, b, interleaved);
    let (a, b) = (&kept_a, &kept_b);
    let pairs = a.repeats.len().min(b.repeats.len());
    let mut c = Comparison {
        schema: SCHEMA.into(),
        metric: metric.to_string(),
        at: Map::new(),
        a: a.name.clone(),
        b: b.name.clone(),
        pairs,
        paired: interleaved,
        disturbed,
        ratio: None,
        ci95: None,
        noise_floor,
        smallest_visible: None,
        p: None,
        p_adjusted: None,
        together: 0,
        equivalent_within: EQUIVALENT_WITHIN,
        to_show_10_percent: None,
        verdict: Verdict::Inconclusive,
        reasons: Vec::new(),
    };
    c.reasons.append(&mut said);
    // The spread between runs of the same load does not appear between the repeats of one run.
    let runs = a.runs().len().min(b.runs().len());
    let by_run = !interleaved && runs >= RUNS;
    let mut against: Vec<String> = [a, b].into_iter().flat_map(against).collect();
    let (of_a, of_b): (Vec<_>, Vec<_>) = (a.measurements().collect(), b.measurements().collect());
    against.extend(comparable::failed_apart((&a.name, &of_a), (&b.name, &of_b)));
    if metric.is_of_time() && a.measurements().chain(b.measurements()).any(|m| m.host.is_emulated()) {
        against.push("times are meaningless on an emulated machine".into());
    }
    match ratio(metric, a, b, interleaved, by_run) {
        // The reason for a missing interval comes before remarks.
        Err(Unknown::Missing(why)) => {
            c.reasons.insert(0, why);
            c.ratio = of_medians(metric, a, b);
        }
        Err(Unknown::NotKnown(why)) => {
            against.push(why);
            c.ratio = of_medians(metric, a, b);
        }
        Err(Unknown::HasZeros) => of_zeros(metric, a, b, (interleaved, by_run), &mut c),
        Ok((r, how)) => {
            c.reasons.extend(how);
            c.ratio = Some(r.ratio);
            match r.interval {
                _ if !against.is_empty() => {}
                None => c.reasons.insert(0, too_few(pairs, interleaved)),
                Some(i) => {
                    c.ci95 = Some([i.lo, i.hi]);
                    c.p = Some(i.p);
                    c.smallest_visible = Some(i.smallest_visible(r.ratio, noise_floor.unwrap_or(0.0)));
                    let each = seconds_each(a, b);
                    let (n, each) = if by_run { (runs, each * pairs as f64 / runs as f64) } else { (pairs, each) };
                    c.to_show_10_percent = i
                        .repeats_to_show(n, 0.1)
                        .map(|repeats| Needed { repeats, seconds: (each > 0.0).then_some(repeats as f64 * each) });
                }
            }
        }
    }
    if !interleaved && !by_run && pairs > 0 {
        (c.p, c.smallest_visible, c.to_show_10_percent) = (None, None, None);
        let runs = plural(runs, "run");
        let why = format!(
            "measured in separate runs, {runs} per side: the interval does not include the variation between runs, and a verdict needs {RUNS} runs \
             per side, or both as arms of one run"
        );
        // If there is an interval, the reason why it is not decisive comes first.
        let at = if c.ci95.is_some() { 0 } else { c.reasons.len() };
        c.reasons.insert(at, why);
    }
    forbid(&mut c, against);
    c
}

/// Keeps the measured ratio but makes it inconclusive, for these reasons.
pub fn forbid(c: &mut Comparison, against: Vec<String>) {
    if against.is_empty() {
        return;
    }
    c.verdict = Verdict::NotComparable;
    (c.p, c.ci95, c.smallest_visible, c.to_show_10_percent) = (None, None, None, None);
    c.reasons.splice(0..0, against);
}

/// Duration of one repeat, both sides together.
fn seconds_each(a: &Side<'_>, b: &Side<'_>) -> f64 {
    let of = |side: &Side<'_>| {
        let all: u64 = side.measurements().map(|m| m.load.warmup_ns + m.elapsed_ns).sum();
        all as f64 / 1e9 / side.repeats.len().max(1) as f64
    };
    of(a) + of(b)
}

/// Other differences between two sides measured separately: one sentence each for hosts, targets and loads.
pub fn differences(a: &Side<'_>, b: &Side<'_>) -> Vec<String> {
    let (a, b): (Vec<_>, Vec<_>) = (a.measurements().collect(), b.measurements().collect());
    differ::said(&a, &b)
}

/// Reasons why this side cannot be compared at all: its load differs from the requested one.
fn against(side: &Side<'_>) -> Vec<String> {
    let (name, all) = (&side.name, side.repeats.len());
    let reasons = grouped(side.measurements().flat_map(comparable::another_load).map(|reason| (reason, ())));
    let said = |(reason, of): (String, Vec<()>)| match of.len() {
        n if n == all => format!("{name}: {reason}"),
        n => format!("{name}, {n} of {}: {reason}", plural(all, "measurement")),
    };
    reasons.into_iter().map(said).collect()
}

#[cfg(test)]
#[path = "compare/tests.rs"]
mod tests;
