//! Comparisons, one per line, in one table per metric and pair of sides.

use std::collections::BTreeSet;

use super::layout::{Cell, Column, Screen};
use super::style::Hue;
use iotrail_base::words::UNKNOWN;
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::run_record::value_text;

/// The legend of the headings.
pub const LEGEND: &str = "ratio: the metric of the second side over the first, with its 95 % interval; noise: noise floor from the control arm; \
     visible: minimum detectable effect of this many repeats (power 95 %); both in percent; verdict: corrected for all comparisons of the metric. –: \
     unknown. docs/method.md describes the columns.";

/// Up to this number of comparisons, the answer is followed by a table.
pub const SHORT: usize = 8;

/// All comparisons in their given order, grouped by metric and sides.
pub fn tables(out: &mut Screen, list: &[Comparison]) {
    for (i, group) in list.chunk_by(|x, y| (&x.metric, &x.a, &x.b) == (&y.metric, &y.a, &y.b)).enumerate() {
        if i > 0 {
            out.blank();
        }
        out.heading(&format!("{}: {} against {}", group[0].metric, group[0].b, group[0].a));
        lines(out, group);
    }
    reasons(out, list);
}

fn lines(out: &mut Screen, group: &[Comparison]) {
    let number = Column::number;
    // Sides measured separately have no pairs.
    let apart = group.iter().all(|c| !c.paired);
    let columns = [
        Column::words("at", 22),
        if apart { number("a side", 6) } else { number("pairs", 5) },
        number("ratio", 6),
        Column::words("95 % interval", 13),
        number("noise", 6),
        number("visible", 7),
        Column::words("verdict", 14),
    ];
    let row = |c: &Comparison| -> Vec<Cell> {
        vec![
            at(c).into(),
            c.pairs.to_string().into(),
            c.ratio.map_or(UNKNOWN.into(), ratio).into(),
            c.ci95.map_or(UNKNOWN.into(), |[lo, hi]| format!("{}–{}", ratio(lo), ratio(hi))).into(),
            c.noise_floor.map_or(UNKNOWN.into(), percent).into(),
            c.smallest_visible.map_or(UNKNOWN.into(), percent).into(),
            Cell::from(c.verdict.words()).in_hue(hue(c.verdict)),
        ]
    };
    out.table(&columns, group.iter().map(row).collect());
}

pub(super) fn hue(verdict: Verdict) -> Option<Hue> {
    match verdict {
        Verdict::Faster => Some(Hue::Good),
        Verdict::Slower => Some(Hue::Bad),
        Verdict::NotComparable => Some(Hue::Doubt),
        Verdict::Equivalent | Verdict::Inconclusive => None,
    }
}

fn at(c: &Comparison) -> String {
    let all: Vec<String> = c.at.iter().map(|(name, value)| format!("{name} {}", value_text(value))).collect();
    if all.is_empty() { UNKNOWN.into() } else { all.join(" · ") }
}

/// Three decimals near 1.
pub(super) fn ratio(x: f64) -> String {
    match x {
        x if x >= 99.95 => format!("{x:.0}"),
        x if x >= 9.995 => format!("{x:.1}"),
        x if x >= 2.0 => format!("{x:.2}"),
        x if x >= 0.001 || x == 0.0 => format!("{x:.3}"),
        _ => "<0.001".into(),
    }
}

/// A factor less 1, as a percentage.
fn percent(x: f64) -> String {
    match x * 100.0 {
        p if p >= 9_999.5 => ">9999".into(),
        p if p >= 9.95 => format!("{p:.0}"),
        p if p > 0.0 && p < 0.05 => "<0.1".into(),
        p => format!("{p:.1}"),
    }
}

/// Each reason once, with its comparisons. For reasons that differ only in numbers, the first one and the number of
/// others.
fn reasons(out: &mut Screen, list: &[Comparison]) {
    let mut all: Vec<(&str, Vec<&Comparison>, BTreeSet<&str>)> = Vec::new();
    for c in list {
        for reason in &c.reasons {
            let alike = |(r, ..): &&mut (&str, _, _)| without_numbers(r).eq(without_numbers(reason));
            match all.iter_mut().find(alike) {
                Some((first, of, others)) => {
                    if of.last().is_none_or(|last| !std::ptr::eq(*last, c)) {
                        of.push(c);
                    }
                    if first != reason {
                        others.insert(reason);
                    }
                }
                None => all.push((reason, vec![c], BTreeSet::new())),
            }
        }
    }
    for (reason, of, others) in all {
        // The reason for a verdict comes first; what follows it are facts needed to read it.
        let decides = |c: &&Comparison| {
            let first = c.reasons.first().is_some_and(|first| without_numbers(first).eq(without_numbers(reason)));
            first && c.verdict == Verdict::NotComparable
        };
        let first = if of.iter().all(decides) { "not comparable: " } else { "note: " };
        let reason = match others.len() {
            0 => reason.to_owned(),
            n => format!("{reason}; {n} more with other numbers"),
        };
        let place = match of.len() {
            n if n == list.len() => String::new(),
            1 => format!(" ({}, {})", of[0].metric, at(of[0])),
            n => format!(" ({n} of {} comparisons)", list.len()),
        };
        out.paragraph(first, &format!("{reason}{place}"));
    }
}

fn without_numbers(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_ascii_digit() && *c != '.')
}
