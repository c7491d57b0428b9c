//! One arm against another in one figure, row by row, in a sentence.

use super::{at, find};
use crate::answer::group::Group;
use crate::answer::per_io;
use crate::answer::spread::{Ratio, Spread, Verdict, chance_of_ranges_apart, compare};
use crate::answer::words::three_digits;
use crate::measurement::Measurement;
use crate::run_record::CellRecord;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Iops,
    LatencyMean,
    LatencyP99,
    LatencyP99_99,
    CpuPerIo,
}

impl Figure {
    pub fn words(self) -> &'static str {
        match self {
            Figure::Iops => "IOPS",
            Figure::LatencyMean => "Mean latency",
            Figure::LatencyP99 => "p99 of the latency",
            Figure::LatencyP99_99 => "p99.99 of the latency",
            Figure::CpuPerIo => "CPU time per I/O",
        }
    }

    fn of(self, m: &Measurement) -> Option<f64> {
        match self {
            Figure::Iops => Some(m.iops),
            Figure::LatencyMean => m.latency_ns.mean,
            Figure::LatencyP99 => m.latency_ns.p99.map(|ns| ns as f64),
            Figure::LatencyP99_99 => m.latency_ns.p99_99.map(|ns| ns as f64),
            Figure::CpuPerIo => per_io::cpu_ns(m),
        }
    }

    pub fn spread(self, cell: &CellRecord) -> Option<Spread> {
        Spread::of_known(cell.measurements.iter().map(|m| self.of(m)))
    }
}

/// `b` against `a`; `None` where one of them is not known.
pub fn against(figure: Figure, a: &CellRecord, b: &CellRecord) -> Option<Verdict> {
    Some(compare(&figure.spread(a)?, &figure.spread(b)?))
}

/// The ratio of the medians, whatever the ranges say.
pub fn ratio(figure: Figure, a: &CellRecord, b: &CellRecord) -> Option<f64> {
    let (a, b) = (figure.spread(a)?, figure.spread(b)?);
    (a.median > 0.0).then(|| b.median / a.median)
}

/// In which rows `other` is higher or lower than `base`, by how much, and in which no difference shows.
pub fn sentence(figure: Figure, base: &str, other: &str, rows: Option<&str>, group: &Group<'_>) -> Option<String> {
    let (mut higher, mut lower, mut same, mut open) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut fewest = usize::MAX;
    for row in &group.rows {
        let (Some(a), Some(b)) = (find(row, base), find(row, other)) else { continue };
        let Some(verdict) = against(figure, a, b) else { continue };
        fewest = fewest.min(a.measurements.len()).min(b.measurements.len());
        let with = |r: Ratio| {
            let range = format!("(×{}, {}–{})", three_digits(r.of_medians), three_digits(r.min), three_digits(r.max));
            if rows.is_some() { format!("{} {range}", row.value) } else { range }
        };
        match verdict {
            Verdict::Higher(r) => higher.push(with(r)),
            Verdict::Lower(r) => lower.push(with(r)),
            Verdict::NoDifference { .. } => same.push(row.value.clone()),
            Verdict::CannotTell => open.push(row.value.clone()),
        }
    }
    // Where chance alone parts the ranges more often than a reader of "lower" expects, only what was seen is said.
    let often =
        if chance_of_ranges_apart(fewest.min(64)) > 0.05 { format!(" in all {fewest} repeats") } else { String::new() };
    let place = |v: &[String]| if rows.is_some() { at(rows, v) } else { format!(" {}", v.join("")) };
    let part = |word: &str, v: &[String]| (!v.is_empty()).then(|| format!("{word}{}", place(v)));
    let parts: Vec<String> = [
        part(&format!("higher{often}"), &higher),
        part(&format!("lower{often}"), &lower),
        part("no measurable difference", &same),
        part("not told by one repeat", &open),
    ]
    .into_iter()
    .flatten()
    .collect();
    let parts = parts.join("; ");
    (!parts.is_empty()).then(|| format!("{} with {other} against {base}: {}.", figure.words(), parts.trim_end()))
}
