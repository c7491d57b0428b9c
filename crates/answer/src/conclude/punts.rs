//! The cost of punting a request to io-wq.

use super::part::{Part, find};
use crate::compare::Metric;
use crate::per_io;
use crate::spread::over_repeats;
use iotrail_base::words::span;
use iotrail_schema::run_record::CellRecord;

/// CPU time of the first arm compared with an arm that punts more.
pub fn cost(part: &Part<'_>) -> Option<String> {
    let punts = |c: &CellRecord| over_repeats(c, |m| per_io::punts(m).map(|(asked, blocks)| asked + blocks));
    let cpu = |c: &CellRecord| over_repeats(c, |m| Metric::CpuPerIo.of(m));
    let base = part.run.arms.first()?;
    part.by_arm(&format!("CPU time of a punt, against {base}"), |arm| {
        part.by_row(arm, |row, cell| {
            let of_base = find(row, base)?;
            let more = punts(cell)? - punts(of_base)?;
            let ns = (cpu(cell)? - cpu(of_base)?) / more;
            (more >= 0.5).then(|| format!("{}{}", if ns < 0.0 { "−" } else { "" }, span(ns.abs())))
        })
    })
}
