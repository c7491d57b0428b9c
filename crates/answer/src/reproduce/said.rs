//! A study's figures in words.

use super::band;
use super::judge::{short, times};
use super::study::{Knee, Order, Shape};
use crate::compare::Metric;
use iotrail_base::words::{plural, three_digits};
use iotrail_schema::reproduction::{Band, LineOutcome, Reproduction, StudyLine};
use iotrail_schema::run_record::value_text;

/// A published figure.
pub struct Published {
    pub shape: &'static str,
    pub words: String,
    pub value: Option<f64>,
    pub band: Option<Band>,
}

pub fn published(shape: &Shape) -> Published {
    match shape {
        Shape::Ratio(r) => {
            let words = r.value().map(times).unwrap_or_default();
            Published { shape: "ratio", words, value: r.value(), band: Some(r.band()) }
        }
        Shape::Count(c) => {
            let words = c.published.map(three_digits).unwrap_or_default();
            Published { shape: "count", words, value: c.published, band: Some(c.band()) }
        }
        Shape::Knee(k) => of_knee(k),
        Shape::Order(o) => Published { shape: "order", words: of_order(o), value: None, band: None },
    }
}

fn of_knee(k: &Knee) -> Published {
    let higher = k.metric.parse().is_ok_and(Metric::higher_is_better);
    let best = |a: f64, b: f64| if higher { a.max(b) } else { a.min(b) };
    let at = band::knee(&k.published, best);
    let text = |i: usize| k.values.get(i).map(value_text).unwrap_or_default();
    let value = |i: usize| text(i).parse::<f64>().ok();
    let (words, band) = match at {
        None => (String::new(), None),
        Some(i) => {
            let last = k.values.len().saturating_sub(1);
            let band =
                Band { at_least: value(i.saturating_sub(band::STEPS)), at_most: value((i + band::STEPS).min(last)) };
            (format!("at {}", text(i)), Some(band))
        }
    };
    Published { shape: "knee", words, value: at.and_then(value), band }
}

fn of_order(o: &Order) -> String {
    o.cells.iter().map(short).collect::<Vec<_>>().join(" > ")
}

/// The number of figures whose shape was reproduced here.
pub fn answer(r: &Reproduction) -> String {
    let t = r.tally;
    let tested = t.tested();
    let mut parts = vec![match tested {
        0 => format!("{}: none of {} can be tested here", r.study, plural(r.lines.len(), "published figure")),
        1 if t.agree == 1 => format!("{}: the one published figure that can be tested here agrees", r.study),
        n if n == t.agree => format!("{}: all {n} published figures that can be tested here agree", r.study),
        n => format!("{}: {} of {} that can be tested here agree", r.study, t.agree, plural(n, "published figure")),
    }];
    let also = [(t.disagree, "disagree", "disagrees"), (t.inconclusive, "are inconclusive", "is inconclusive")];
    parts.extend(
        also.into_iter()
            .filter(|(n, _, _)| *n > 0)
            .map(|(n, many, one)| format!("{n} {}", if n == 1 { one } else { many })),
    );
    let mut said = parts.join(", ");
    if tested > 0 && t.cannot_be_tested > 0 {
        said.push_str(&format!("; {} cannot be tested here", t.cannot_be_tested));
    }
    said
}

/// The measured value with its interval: `×0.57 (0.52–0.61)`.
pub fn shown(line: &StudyLine) -> Option<String> {
    let words = line.measured.clone()?;
    let is_knee = line.shape.as_deref() == Some("knee");
    Some(match line.ci95.filter(|_| !is_knee) {
        Some([lo, hi]) if line.outcome != LineOutcome::CannotBeTested => {
            format!("{words} ({}–{})", three_digits(lo), three_digits(hi))
        }
        _ => words,
    })
}
