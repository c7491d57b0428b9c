//! What still enters the kernel on a polling job's CPU, and what prefaulting its memory changes.

use super::against::ratio;
use super::find;
use crate::compare::Metric;
use crate::group::{Group, Row};
use crate::per_io;
use crate::spread::over_repeats;
use crate::verdicts::row_by_row;
use iotrail_base::words::{list, per_io as text, percent, three_digits};
use iotrail_schema::run_record::{CellRecord, RunRecord};

const CAUSES: [&str; 6] = ["syscall", "page_fault", "device_irq", "timer_tick", "resched_ipi", "other"];

/// A cause of less than a twentieth of them is left out.
const WORTH_NAMING: f64 = 0.05;

pub fn conclude(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for row in &group.rows {
        let each = run.arms.iter().filter_map(|arm| {
            let cell = find(row, arm)?;
            Some(format!("{arm} {}", by_cause(cell)?))
        });
        let each: Vec<String> = each.collect();
        if !each.is_empty() {
            out.push(format!("{}Returns to user mode per I/O: {}.", title(&row.value), each.join("; ")));
        }
    }
    let Some((base, others)) = run.arms.split_first() else { return out };
    out.extend(between_rows(run, base, group));
    for other in others {
        for row in &group.rows {
            let (Some(a), Some(b)) = (find(row, base), find(row, other)) else { continue };
            out.extend(changed(&row.value, a, b));
        }
    }
    out.extend(row_by_row(run, rows, group));
    out
}

/// The first row's way against the others', with the same arm.
fn between_rows(run: &RunRecord, arm: &str, group: &Group<'_>) -> Option<String> {
    fn measured<'a>(row: &Row<'a>, arm: &str) -> Option<&'a CellRecord> {
        find(row, arm).filter(|c| !c.measurements.is_empty())
    }
    let (first, rest) = group.rows.split_first()?;
    let base = measured(first, arm)?;
    let part = |row: &Row<'_>| {
        let cell = measured(row, arm)?;
        let switches = |c: &CellRecord| over_repeats(c, |m| m.per_io.mode_switches);
        let of_time = |metric: Metric, words: &str| {
            let known = ratio(metric, base, cell).filter(|_| !run.is_emulated());
            known.map(|r| format!("{words} ×{}", three_digits(r)))
        };
        let mut parts = Vec::from_iter(of_time(Metric::Iops, "IOPS"));
        parts.extend(
            switches(base)
                .zip(switches(cell))
                .filter(|(a, _)| *a > 0.0)
                .map(|(a, b)| format!("returns to user mode per I/O ×{}", three_digits(b / a))),
        );
        parts.extend(of_time(Metric::LatencyP99_99, "p99.99"));
        parts.extend(of_time(Metric::CpuPerIo, "CPU time per I/O"));
        (!parts.is_empty()).then(|| format!("{} {}", row.value, list(&parts)))
    };
    let parts: Vec<String> = rest.iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| format!("Against {} ({arm}), by medians: {}.", first.value, parts.join("; ")))
}

fn title(row: &str) -> String {
    if row.is_empty() { String::new() } else { format!("{row}: ") }
}

/// `1.02 (syscall 98 %)`.
fn by_cause(cell: &CellRecord) -> Option<String> {
    let all = over_repeats(cell, |m| m.per_io.mode_switches)?;
    let mut causes: Vec<(f64, &str)> =
        CAUSES.iter().filter_map(|c| Some((over_repeats(cell, |m| per_io::mode_switches(m, c))?, *c))).collect();
    causes.retain(|(n, _)| *n >= WORTH_NAMING * all && *n > 0.0);
    causes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let parts: Vec<String> = causes.iter().map(|(n, c)| format!("{c} {}", percent((n / all).min(1.0)))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", list(&parts)) };
    Some(format!("{}{parts}", fine(all)))
}

/// Per I/O, where it may be one in thousands.
fn fine(x: f64) -> String {
    if x > 0.0 && x < 0.1 { three_digits(x) } else { text(x) }
}

/// Page faults and all switches of one arm against another's.
fn changed(row: &str, a: &CellRecord, b: &CellRecord) -> Option<String> {
    let faults = |c| over_repeats(c, |m| per_io::mode_switches(m, "page_fault"));
    let all = |c| over_repeats(c, |m| m.per_io.mode_switches);
    let (fa, fb, sa, sb) = (faults(a)?, faults(b)?, all(a)?, all(b)?);
    // A page for every few hundred I/Os is what such a load touches.
    if fa < 2.0 * fb || fa == 0.0 {
        return None;
    }
    Some(format!(
        "{}page faults go from {} per I/O with {} to {} with {}, all returns to user mode from {} to {} (×{}).",
        title(row),
        fine(fa),
        a.arm(),
        fine(fb),
        b.arm(),
        fine(sa),
        fine(sb),
        three_digits(sb / sa)
    ))
}
