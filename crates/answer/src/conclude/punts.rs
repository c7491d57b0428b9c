//! What goes to io-wq by itself, what when it is told to, and what that costs.

use super::against::ratio;
use super::find;
use crate::compare::Metric;
use crate::group::Group;
use crate::per_io;
use crate::spread::over_repeats;
use crate::verdicts::row_by_row;
use iotrail_base::words::{list, per_io as text, span, three_digits};
use iotrail_schema::run_record::{CellRecord, RunRecord};

pub fn conclude(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = Vec::new();
    let (mut by_itself, mut never) = (Vec::new(), Vec::new());
    for row in &group.rows {
        let unasked = row.cells.iter().copied().find(|c| c.measurements.first().is_some_and(|m| !m.load.force_async));
        let would_block = unasked.and_then(|c| over_repeats(c, |m| per_io::punts(m).map(|p| p.1)));
        match would_block {
            Some(n) if n >= 0.005 => by_itself.push(format!("{} {} per I/O", row.value, text(n))),
            Some(_) => never.push(row.value.clone()),
            None => {}
        }
    }
    if !by_itself.is_empty() {
        out.push(format!(
            "Handed to io-wq by the kernel itself, because it would have blocked: {}.",
            by_itself.join("; ")
        ));
    }
    if !never.is_empty() {
        out.push(format!("Not handed over, or less than one in 200: {}.", list(&never)));
    }
    out.extend(row_by_row(run, rows, group));
    let Some((base, others)) = run.arms.split_first() else { return out };
    for row in &group.rows {
        for other in others {
            let (Some(a), Some(b)) = (find(row, base), find(row, other)) else { continue };
            out.extend(cost(&row.value, a, b));
        }
    }
    out
}

/// `b` hands over more than `a`: latency, IOPS and CPU time of both.
fn cost(row: &str, a: &CellRecord, b: &CellRecord) -> Option<String> {
    let punts = |c| over_repeats(c, |m| per_io::punts(m).map(|(asked, blocks)| asked + blocks));
    let (few, many) = (punts(a)?, punts(b)?);
    let latency = (over_repeats(a, |m| m.latency_ns.mean)?, over_repeats(b, |m| m.latency_ns.mean)?);
    let cpu = (over_repeats(a, |m| Metric::CpuPerIo.of(m))?, over_repeats(b, |m| Metric::CpuPerIo.of(m))?);
    let workers = (over_repeats(a, per_io::helpers_ns)?, over_repeats(b, per_io::helpers_ns)?);
    let each = if many - few >= 0.5 {
        format!("; a punt costs {} of CPU", signed((cpu.1 - cpu.0) / (many - few)))
    } else {
        String::new()
    };
    Some(format!(
        "{row}: {} with {}, {} with {} (punts per I/O); mean latency {} → {}, IOPS ×{}, CPU per I/O {} → {}, of these in workers {} → \
         {}{each}.",
        text(few),
        a.arm(),
        text(many),
        b.arm(),
        span(latency.0),
        span(latency.1),
        ratio(Metric::Iops, a, b).map_or_else(|| "?".into(), three_digits),
        span(cpu.0),
        span(cpu.1),
        span(workers.0),
        span(workers.1),
    ))
}

fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("−{}", span(-ns)) } else { span(ns) }
}
