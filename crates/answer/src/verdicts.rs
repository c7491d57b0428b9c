//! Comparisons in words: the rows in which an arm is higher or lower than the base, equivalent, or inconclusive.

use super::compare::{Metric, compared_on, metrics, place, why_open};
use super::group::{Group, Row};
use super::unit::Unit;
use iotrail_base::grouped::grouped;
use iotrail_base::words::{list, percent, plural, span, three_digits};
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::run_record::{RunRecord, VARIANT, value_text};

/// One sentence per metric and arm: its rows by their result against the first arm. If a row has several arms, one
/// sentence per metric that lists the arms.
pub fn row_by_row(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let others = run.arms.get(1..).unwrap_or_default();
    let by_arm = rows.is_none() && others.len() > 1;
    let sentence = |metric: Metric, arms: &[String]| {
        let of_arm = |arm: &String, row: &Row<'_>| {
            let name = if by_arm { arm } else { &row.value };
            Some((name.clone(), compared(run, metric, arm, row)?))
        };
        let found = arms.iter().flat_map(|arm| group.rows.iter().filter_map(move |row| of_arm(arm, row)));
        let found: Vec<(String, &Comparison)> = found.collect();
        let parts = parts(metric, &found, if by_arm { Some("") } else { rows });
        let with = if by_arm { String::new() } else { format!(" with {}", arms[0]) };
        let (_, first) = found.first()?;
        (!parts.is_empty())
            .then(|| format!("{}{with} against {}: {}.", metric.words(Unit::of_run(run)), first.a, parts.join("; ")))
    };
    let together: Vec<&[String]> = if by_arm { vec![others] } else { others.chunks(1).collect() };
    metrics(run).into_iter().flat_map(|m| together.iter().filter_map(move |arms| sentence(m, arms))).collect()
}

/// For named sides: one sentence per metric, with its comparisons by result.
pub fn side_by_side(all: &[Comparison], unit: Unit) -> Vec<String> {
    let of_metric = |metric: Metric| {
        let found = all.iter().filter(|c| c.metric == metric.name());
        let found: Vec<(String, &Comparison)> = found.map(|c| (at_text(c), c)).collect();
        let (_, first) = found.first()?;
        let rows = if found.len() == 1 { None } else { Some(VARIANT) };
        let parts = parts(metric, &found, rows);
        (!parts.is_empty())
            .then(|| format!("{} of {} against {}: {}.", metric.words(unit), first.b, first.a, parts.join("; ")))
    };
    compared_on(all).into_iter().filter_map(of_metric).collect()
}

/// `depth 16 · arm coop`: parameters common to both sides of a comparison.
pub fn at_text(c: &Comparison) -> String {
    c.at.iter().map(|(name, value)| format!("{name} {}", value_text(value))).collect::<Vec<_>>().join(" · ")
}

/// The run's comparison of an arm with the first arm, in this row.
pub fn compared<'a>(run: &'a RunRecord, metric: Metric, arm: &str, row: &Row<'_>) -> Option<&'a Comparison> {
    let at = place(row.cells.first()?);
    run.comparisons.iter().find(|c| c.metric == metric.name() && c.b == arm && c.at == at)
}

/// Differences, equivalences and inconclusive comparisons. `rows`: the parameter whose values name the comparisons,
/// empty if arms do; `None` for a single comparison.
fn parts(metric: Metric, found: &[(String, &Comparison)], rows: Option<&str>) -> Vec<String> {
    let (mut higher, mut lower, mut same) = (Vec::new(), Vec::new(), Vec::new());
    let (mut unsure, mut open) = (Vec::new(), Vec::new());
    for (name, c) in found {
        match c.verdict {
            Verdict::Equivalent => same.push((name, *c)),
            Verdict::Inconclusive => unsure.push((name, *c)),
            Verdict::NotComparable => open.push((name, *c)),
            verdict if (verdict == Verdict::Faster) == metric.higher_is_better() => higher.push((name, *c)),
            _ => lower.push((name, *c)),
        }
    }
    let called = |names: &[String]| match rows {
        None => names.iter().map(|n| n.trim_start().to_owned()).collect::<Vec<_>>().join(", "),
        Some("") => format!("with {}", list(names)),
        Some(VARIANT) => format!("for {}", list(names)),
        Some(axis) => format!("at {axis} {}", list(names)),
    };
    let differing = |word: &str, of: &[(&String, &Comparison)]| {
        let with = |(name, c): &(&String, &Comparison)| {
            let figures = figures(c);
            if rows.is_some() { format!("{name} ({figures})") } else { format!("({figures})") }
        };
        (!of.is_empty()).then(|| format!("{word} {}", called(&of.iter().map(with).collect::<Vec<_>>())))
    };
    let mut parts = vec![differing("higher", &higher), differing("lower", &lower)];
    let place = |of: &[(&String, &Comparison)]| {
        let names: Vec<String> = of.iter().map(|(n, _)| (*n).clone()).collect();
        if rows.is_some() { format!(" {}", called(&names)) } else { String::new() }
    };
    if let Some((_, first)) = same.first() {
        parts.push(Some(format!("equivalent within {}{}", factor(first.equivalent_within), place(&same))));
    }
    let (explained, unsure): (Vec<_>, Vec<_>) = unsure.into_iter().partition(|(_, c)| why_open(c).is_some());
    for (name, c) in explained {
        let why = why_open(c).unwrap_or_default();
        parts.push(Some(format!("inconclusive{} ({}; {why})", place(&[(name, c)]), figures(c))));
    }
    let (some, none): (Vec<_>, Vec<_>) = unsure.into_iter().partition(|(_, c)| c.smallest_visible.is_some());
    if !some.is_empty() {
        let visible = visible(&some.iter().filter_map(|(_, c)| c.smallest_visible).collect::<Vec<_>>());
        parts.push(Some(format!("inconclusive{}{visible}", place(&some))));
    }
    for (word, of) in [("inconclusive", none), ("not comparable", open)] {
        for (why, all) in grouped(of.into_iter().map(|(name, c)| (c.reasons.join("; "), (name, c)))) {
            parts.push(Some(format!("{word}{} ({why})", place(&all))));
        }
    }
    parts.into_iter().flatten().collect()
}

/// For arms that differ: `×2.00, 1.94–2.06; noise ±0.5 %`.
pub(super) fn figures(c: &Comparison) -> String {
    let mut said = c.ratio.map_or_else(|| "from 0".into(), |r| format!("×{}", near_1(r)));
    match c.ci95 {
        Some([lo, hi]) => said.push_str(&format!(", {}–{}", near_1(lo), near_1(hi))),
        None => said.push_str(", no interval"),
    }
    if let Some(noise) = c.noise_floor {
        said.push_str(&format!("; noise {}", factor(noise)));
    }
    said
}

/// Near 1, three digits would hide the second decimal of the percentage.
pub(super) fn near_1(x: f64) -> String {
    if (0.9..1.1).contains(&x) { format!("{x:.3}") } else { three_digits(x) }
}

/// Minimum detectable effect of an inconclusive comparison, and the repeats needed for a smaller effect.
pub fn what_would_show(c: &Comparison) -> String {
    let visible = c.smallest_visible.map(|d| format!("minimum detectable effect {}", factor(d)));
    let needed = c.to_show_10_percent.map(|n| {
        format!("{}{} would detect ±10 %", plural(n.repeats, "repeat"), n.seconds.map_or_else(String::new, taking))
    });
    let said: Vec<String> = visible.into_iter().chain(needed).collect();
    if said.is_empty() { "measure more repeats".into() } else { said.join("; ") }
}

fn taking(seconds: f64) -> String {
    format!(" ({})", span(seconds * 1e9))
}

fn visible(of: &[f64]) -> String {
    let least = of.iter().copied().fold(f64::INFINITY, f64::min);
    let most = of.iter().copied().fold(0.0, f64::max);
    match (factor(least), factor(most)) {
        _ if of.is_empty() => String::new(),
        (least, most) if least == most => format!(" (minimum detectable effect {most})"),
        (least, most) => format!(" (minimum detectable effect {least} to {most})"),
    }
}

/// Minimum detectable effects of at least this are printed as `more than ×10`.
pub const LARGEST: f64 = 9.0;

/// Formats a factor less 1: percent if small, otherwise a factor; beyond 10, the value itself is meaningless.
pub fn factor(difference: f64) -> String {
    match difference {
        d if d < 1.0 => format!("±{}", percent(d)),
        d if d < LARGEST => format!("×{}", three_digits(1.0 + d)),
        _ => "more than ×10".into(),
    }
}

/// The basis of the verdicts; `None` if nothing was compared.
pub fn caveat(run: &RunRecord) -> Option<String> {
    let told = run.comparisons.iter().filter(|c| c.p.is_some());
    let fewest = told.clone().map(|c| c.pairs).min()?;
    let most = told.map(|c| c.together).max().unwrap_or(1);
    let together = match most {
        0 | 1 => String::new(),
        n => format!(", over all {n} comparisons of a metric"),
    };
    let noise = match run.comparisons.iter().any(|c| c.noise_floor.is_some()) {
        true => ", and the difference exceeds that of the load from itself",
        false => "",
    };
    Some(format!(
        "Ratios have their 95 % interval, of at least {}. An arm is called higher or lower if chance alone causes such a difference in less \
         than 5 % of runs{together}{noise}; equivalent if the interval is within the band. docs/method.md explains it.",
        plural(fewest, "pair")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::of_run;
    use crate::group::groups;
    use iotrail_schema::run_record::{ARM, CellRecord};
    use iotrail_testing::sample;

    #[test]
    fn a_verdict_by_differences_has_no_interval() {
        let cell = |n: u32, arm: &str, kicks: f64| {
            let mut m = sample::measurement();
            m.warnings.clear();
            m.per_io.kicks = Some(kicks);
            let params = [("depth".to_owned(), 1.into()), (ARM.to_owned(), arm.into())].into_iter().collect();
            CellRecord { cell: n, params, untestable: None, measurements: vec![m; 4].into() }
        };
        let mut run = RunRecord {
            cells: vec![cell(1, "default", 1.0), cell(2, "coop", 0.0)],
            axes: vec!["depth".into(), ARM.into()],
            arms: vec!["default".into(), "coop".into()],
            metrics: vec!["kicks_per_io".into()],
            ..sample::run()
        };
        run.comparisons = of_run(&run, &|_, _| None);
        let group = &groups(&run, Some("depth"))[0];
        assert_eq!(
            row_by_row(&run, Some("depth"), group),
            ["Kicks per I/O with coop against default: lower at depth 1 (×0.00, no interval)."]
        );
    }
}
