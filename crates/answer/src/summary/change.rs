//! Formats ratios as changes: `14–59× fewer IOPS`, `12 % longer mean latency`.

use super::effect::Effect;
use crate::compare::{Metric, why_open};
use crate::figure;
use crate::spread::over_repeats;
use crate::unit::Unit;
use crate::verdicts::{factor, near_1};
use iotrail_base::words::count;
use iotrail_schema::run_record::CellRecord;

/// Larger ratios are printed as factors, smaller ones in percent.
const FACTOR: f64 = 2.0;

/// The metric's name in the middle of a sentence.
pub fn called(metric: Metric, unit: Unit) -> String {
    let words = metric.words(unit);
    match metric {
        Metric::Own(_) => words,
        _ => figure::mid_sentence(&words),
    }
}

/// `fewer` or `longer`, depending on the metric and the direction.
fn direction(metric: Metric, more: bool) -> &'static str {
    use figure::Unit::{Count, Rare, Rate, Time};
    match (metric.figure().map(|f| f.unit), more) {
        (_, true) if metric.is_of_cpu() => "more",
        (_, false) if metric.is_of_cpu() => "less",
        (Some(Rate | Count | Rare), true) => "more",
        (Some(Rate | Count | Rare), false) => "fewer",
        (Some(Time), true) => "longer",
        (Some(Time), false) => "shorter",
        (_, true) => "higher",
        (_, false) => "lower",
    }
}

/// Effects in one direction, from the smallest change to the largest. A single effect includes its interval.
pub fn range(metric: Metric, unit: Unit, effects: &[&Effect<'_>], named: bool) -> String {
    let ratios: Vec<f64> = effects.iter().filter_map(|e| e.c.ratio).collect();
    let name = match called(metric, unit) {
        _ if !named => String::new(),
        // `21 % less of the server's CPU time` needs the `of`.
        name if metric == Metric::CpuPerIo && unit == Unit::Request => format!(" of {name}"),
        name => format!(" {name}"),
    };
    let more = ratios.iter().any(|r| *r > 1.0);
    let word = direction(metric, more);
    let size = |r: f64| if r > 1.0 { r } else { 1.0 / r };
    let sizes: Vec<f64> = ratios.iter().map(|r| size(*r)).collect();
    let low = sizes.iter().copied().fold(f64::INFINITY, f64::min);
    let high = sizes.iter().copied().fold(1.0, f64::max);
    if !low.is_finite() || sizes.is_empty() {
        let name = called(metric, unit);
        return if ratios.contains(&0.0) { format!("no {name}") } else { format!("{name} instead of none") };
    }
    let amount = if high.is_infinite() {
        format!("{} or more", one(low, more))
    } else {
        match (one(low, more), one(high, more)) {
            (a, b) if a == b => a,
            (_, _) if high >= FACTOR => format!("{}–{}×", digits(low), digits(high)),
            (a, b) => format!("{}–{b}", a.trim_end_matches(" %")),
        }
    };
    let interval = match effects {
        [only] => {
            let ci = only.c.ratio.zip(only.c.ci95);
            ci.map(|(ratio, [lo, hi])| interval(ratio, lo, hi, more)).unwrap_or_default()
        }
        _ => String::new(),
    };
    format!("{amount} {word}{name}{interval}")
}

/// The change of a single metric: `8.9× fewer IOPS (95 % CI 6.3–12×)`.
pub fn of_figure(metric: Metric, unit: Unit, ratio: f64, [lo, hi]: [f64; 2]) -> String {
    let more = ratio > 1.0;
    let amount = one(if more { ratio } else { 1.0 / ratio }, more);
    format!("{amount} {} {}{}", direction(metric, more), called(metric, unit), interval(ratio, lo, hi, more))
}

/// A change by this factor (above 1), in either direction.
fn one(size: f64, more: bool) -> String {
    match (size >= FACTOR, more) {
        (true, _) => format!("{}×", digits(size)),
        (false, true) => format!("{} %", whole((size - 1.0) * 100.0)),
        (false, false) => format!("{} %", whole((1.0 - 1.0 / size) * 100.0)),
    }
}

fn whole(percent: f64) -> String {
    if percent < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

fn digits(factor: f64) -> String {
    if factor < 9.95 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

/// ` (95 % CI 5–9 %)`, in the same form as the change.
fn interval(ratio: f64, lo: f64, hi: f64, more: bool) -> String {
    let (size, from, to) = if more { (ratio, lo, hi) } else { (1.0 / ratio, 1.0 / hi, 1.0 / lo) };
    if from < 1.0 || !to.is_finite() {
        return format!(" (ratio's 95 % CI {lo:.3}–{hi:.3})");
    }
    match size >= FACTOR {
        true => format!(" (95 % CI {}–{}×)", digits(from), digits(to)),
        false => {
            let share = |size: f64| if more { (size - 1.0) * 100.0 } else { (1.0 - 1.0 / size) * 100.0 };
            format!(" (95 % CI {}–{} %)", whole(share(from)), whole(share(to)))
        }
    }
}

/// ` (largest: 13.1 k → 253)`: medians of the strongest effect; `largest` only if several effects are listed.
pub fn levels(metric: Metric, worst: &Effect<'_>, of_several: bool) -> String {
    let of = |cell: &CellRecord| over_repeats(cell, |m| metric.of(m));
    let Some((a, b)) = of(worst.a).zip(of(worst.b)) else { return String::new() };
    let most = match (agree(a, b, worst.c.ratio), metric) {
        (true, _) if of_several => "largest: ",
        (true, _) => "",
        // The user specified the metric and expects it by name.
        (false, Metric::Own(_)) => "medians ",
        (false, _) => return String::new(),
    };
    format!(" ({most}{} → {})", value(metric, a), value(metric, b))
}

/// A ratio is printed with medians of all repeats only if both are consistent: the ratio may exclude disturbed pairs.
pub fn agree(a: f64, b: f64, ratio: Option<f64>) -> bool {
    const WITHIN: f64 = 0.05;
    match ratio {
        Some(ratio) if ratio > 0.0 && a > 0.0 => (b / a / ratio - 1.0).abs() <= WITHIN,
        // Zero on one side, or throughout on both sides.
        Some(ratio) => b == 0.0 && ratio == if a > 0.0 { 0.0 } else { 1.0 },
        None => false,
    }
}

/// The compared metric's values on both sides.
fn values<'e>(e: &'e Effect<'_>) -> impl Iterator<Item = f64> + 'e {
    let metric = e.c.metric.parse::<Metric>().ok();
    let all = [e.a, e.b].into_iter().flat_map(|cell| cell.measurements.each());
    all.filter_map(move |m| metric?.of(&m))
}

/// Whether both sides are 0 throughout.
pub fn is_0(e: &Effect<'_>) -> bool {
    values(e).all(|x| x == 0.0)
}

pub fn is_below_0(e: &Effect<'_>) -> bool {
    values(e).any(|x| x < 0.0)
}

/// Formats a value of the metric.
pub fn value(metric: Metric, x: f64) -> String {
    match metric {
        Metric::Iops => count(if x >= 10.0 { x.round() } else { x }),
        Metric::Own(_) => count(x),
        metric => metric.figure().map_or(figure::Unit::Time, |f| f.unit).text(x),
    }
}

/// `: ×1.37 (95 % CI 0.970–1.93) (1.01 k → 1.39 k)` for a program's own metric without a difference; empty for other
/// metrics.
pub fn seen(metric: Metric, e: &Effect<'_>) -> String {
    match (metric, e.c.ratio) {
        (Metric::Own(_), Some(ratio)) => {
            let ci95 = e.c.ci95.map(|[lo, hi]| format!(" (95 % CI {}–{})", near_1(lo), near_1(hi)));
            let why = why_open(e.c).map(|why| format!(" ({why})")).unwrap_or_default();
            format!(": ×{}{}{}{why}", near_1(ratio), ci95.unwrap_or_default(), levels(metric, e, false))
        }
        _ => String::new(),
    }
}

/// `: the minimum detectable effect is ×1.8`.
pub fn visible(of: &[&Effect<'_>]) -> String {
    let all: Vec<f64> = of.iter().filter_map(|e| e.c.smallest_visible).collect();
    let most = all.iter().copied().fold(0.0, f64::max);
    if all.is_empty() { String::new() } else { format!(": the minimum detectable effect is {}", factor(most)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_printed_only_if_they_agree_with_the_ratio() {
        assert!(agree(100.0, 151.0, Some(1.5)) && !agree(100.0, 170.0, Some(1.5)));
        assert!(agree(3.0, 0.0, Some(0.0)) && agree(0.0, 0.0, Some(1.0)));
        // At least half of the repeats are 0, but the means are not.
        assert!(!agree(0.0, 0.0, Some(0.0)) && !agree(0.0, 0.0, Some(3.0)) && !agree(0.0, 0.0, None));
    }
}
