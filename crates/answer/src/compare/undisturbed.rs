//! Excludes disturbed measurements.

use super::side::{Repeat, Side};
use crate::comparable;
use iotrail_base::words::plural;
use iotrail_schema::comparison::Disturbed;
use iotrail_stats::bootstrap::FEWEST;

/// Minimum share of measurements that must remain after exclusion; otherwise all of them count.
const LEFT: f64 = 0.5;

/// Both sides without the disturbed pairs (or without the disturbed measurements, if the sides were measured
/// separately), with remarks. Only observations of the machine identify a disturbance, never the result, so the
/// exclusion favours neither side.
pub(super) fn undisturbed<'a>(
    a: &Side<'a>,
    b: &Side<'a>,
    interleaved: bool,
) -> (Side<'a>, Side<'a>, Disturbed, Vec<String>) {
    let pairs = a.repeats.len().min(b.repeats.len());
    let (a, b) = if interleaved { (a.first(pairs), b.first(pairs)) } else { (a.clone(), b.clone()) };
    let all = a.repeats.len() + b.repeats.len();
    let thrown = a.measurements().chain(b.measurements()).filter(|m| m.thrown_away > 0).count();
    let mut disturbed = Disturbed { measurements: all, repeated: thrown, left_out: 0, counted: 0 };
    let mut said = Vec::new();
    let is = |r: &Repeat<'_>| !comparable::disturbances(&r.measurement).is_empty();
    let of = |side: &Side<'_>| side.repeats.iter().map(is).collect::<Vec<bool>>();
    let (mut of_a, mut of_b) = (of(&a), of(&b));
    let mut apart: Vec<(usize, Vec<String>)> = Vec::new();
    if interleaved {
        let each = a.measurements().zip(b.measurements()).map(|(a, b)| comparable::reasons_between(a, b));
        apart = each.enumerate().filter(|(_, reasons)| !reasons.is_empty()).collect();
        // A disturbance of every pair is a difference between the arms; a disturbance of some pairs is an event.
        if let (Some((_, first)), true) = (apart.first(), apart.len() == pairs) {
            said.push(format!("in every pair, {}", first.join(", and ")));
            apart.clear();
        }
        for i in 0..pairs {
            let pair = of_a[i] || of_b[i] || apart.iter().any(|(at, _)| *at == i);
            (of_a[i], of_b[i]) = (pair, pair);
        }
    }
    let (bad_a, bad_b) = (of_a.iter().filter(|d| **d).count(), of_b.iter().filter(|d| **d).count());
    if bad_a + bad_b == 0 {
        if thrown > 0 {
            let was = was(thrown);
            said.push(format!("{thrown} of {} {was} disturbed and measured again", plural(all, "measurement")));
        }
        return (a, b, disturbed, said);
    }
    let enough = |bad: usize, all: usize| {
        let left = all - bad;
        let fewest = if all > FEW { FEW } else { FEWEST.max(all.min(FEW - 1)) };
        left >= fewest && left as f64 >= LEFT * all as f64
    };
    let leave_out = enough(bad_a, of_a.len()) && enough(bad_b, of_b.len());
    let why = why_disturbed(&a, &b, &apart);
    let unit = if interleaved { "pair" } else { "measurement" };
    let n = if interleaved { bad_a } else { bad_a + bad_b };
    let of_all = plural(if interleaved { pairs } else { all }, unit);
    let again = if thrown > 0 { format!("; {thrown} {} measured again", was(thrown)) } else { String::new() };
    if !leave_out {
        disturbed.counted = n;
        said.push(format!(
            "{n} of {of_all} {} disturbed and {} nevertheless, since too few others remain{again}: {why}",
            was(n),
            if n == 1 { "counts" } else { "count" }
        ));
        return (a, b, disturbed, said);
    }
    disturbed.left_out = n;
    let is = if n == 1 { "is" } else { "are" };
    said.push(format!("{n} of {of_all} {} disturbed and {is} left out{again}: {why}", was(n)));
    let keep = |side: Side<'a>, bad: &[bool]| {
        let kept = side.repeats.iter().zip(bad).filter(|(_, bad)| !**bad).map(|(r, _)| r.clone()).collect();
        Side { repeats: kept, ..side }
    };
    let (kept_a, kept_b) = (keep(a, &of_a), keep(b, &of_b));
    (kept_a, kept_b, disturbed, said)
}

/// Few pairs give a poor estimate of their own spread, so at this number only one pair may be excluded. With three
/// pairs instead of six, the interval of sixteen joint comparisons is four times as wide before any gain.
const FEW: usize = 4;

fn was(n: usize) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

/// The first disturbance, and the number of other disturbances.
fn why_disturbed(a: &Side<'_>, b: &Side<'_>, apart: &[(usize, Vec<String>)]) -> String {
    let each = a.measurements().chain(b.measurements()).flat_map(comparable::disturbances);
    let mut all = each.chain(apart.iter().flat_map(|(_, r)| r.clone()));
    let first = all.next().unwrap_or_default();
    match all.count() {
        0 => first,
        more => format!("{first}, and {more} more"),
    }
}
