//! Compares submission and completion modes, which are rows instead of arms, with the first mode.

use super::part::{Part, find, ratio};
use crate::compare::Metric;
use crate::group::Row;
use iotrail_base::words::{list, three_digits};

pub fn between_rows(part: &Part<'_>) -> Option<String> {
    let (arm, (first, rest)) = (part.run.arms.first()?, part.group.rows.split_first()?);
    let base = find(first, arm).filter(|c| !c.measurements.is_empty())?;
    let metrics = [
        (Metric::Iops, "IOPS"),
        (Metric::ModeSwitchesPerIo, "returns to user mode per I/O"),
        (Metric::LatencyP99_99, "p99.99"),
        (Metric::CpuPerIo, "CPU time per I/O"),
    ];
    let of_row = |row: &Row<'_>| {
        let cell = find(row, arm).filter(|c| !c.measurements.is_empty())?;
        let meant = metrics.iter().filter(|(metric, _)| !(metric.is_of_time() && part.run.is_emulated()));
        let ratios = meant.filter_map(|(m, words)| Some(format!("{words} ×{}", three_digits(ratio(*m, base, cell)?))));
        let ratios: Vec<String> = ratios.collect();
        (!ratios.is_empty()).then(|| format!("{} {}", row.value, list(&ratios)))
    };
    let said: Vec<String> = rest.iter().filter_map(of_row).collect();
    (!said.is_empty()).then(|| format!("Against {} ({arm}), by medians: {}.", first.value, said.join("; ")))
}
