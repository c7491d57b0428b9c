//! Time breakdown of a commit.

use super::part::{Part, cells};
use crate::compare::Metric;
use crate::spread::over_repeats;
use iotrail_base::words::{per_io, span};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CellRecord, RunRecord};

/// Number of writes per commit if commits do not overlap: a batch of writes with one sync, or one write at a time.
/// `None` if several are in flight, because their times overlap.
fn writes_of_commit(m: &Measurement) -> Option<f64> {
    let l = &m.load;
    (l.commit.is_durable() && l.jobs == 1 && (l.commit.is_of_batch() || l.depth == 1)).then_some(f64::from(l.batch))
}

pub fn parts(part: &Part<'_>) -> Option<String> {
    part.by_arm("A commit takes", |arm| part.by_row(arm, |_, cell| of_cell(cell)))
}

/// The first cell of the first arm.
pub fn first(run: &RunRecord) -> Option<String> {
    let cell = cells(run).find(|c| !c.measurements.is_empty() && run.arms.first().is_some_and(|arm| c.arm() == arm))?;
    Some(format!("a commit with {} takes {}", cell.arm(), of_cell(cell)?))
}

fn of_cell(cell: &CellRecord) -> Option<String> {
    let whole = over_repeats(cell, |m| writes_of_commit(m).and(m.latency_ns.mean))?;
    let of = |metric: Metric| over_repeats(cell, |m| Some(metric.of(m)? * writes_of_commit(m)?));
    let device = |n: Metric, ns: Metric, what| {
        let (n, ns) = of(n).zip(of(ns))?;
        Some((ns, format!("{} in {} {what}", span(ns), per_io(n))))
    };
    let parts = [
        device(Metric::DeviceWritesPerIo, Metric::DeviceWriteTime, "device writes"),
        device(Metric::DeviceFlushesPerIo, Metric::DeviceFlushTime, "flushes"),
    ];
    let parts: Vec<(f64, String)> = parts.into_iter().flatten().collect();
    let rest = whole - parts.iter().map(|(ns, _)| ns).sum::<f64>();
    let mut text: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    // Device requests may overlap.
    text.extend((rest > 0.0 && !text.is_empty()).then(|| format!("{} elsewhere", span(rest))));
    text.extend(
        of(Metric::PuntsPerIo).filter(|n| *n >= 0.05).map(|n| format!("io-wq executes {} requests", per_io(n))),
    );
    Some(if text.is_empty() { span(whole) } else { format!("{} ({})", span(whole), text.join(", ")) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::made_runs;
    use super::*;
    use iotrail_schema::measurement::{Commit, DeviceBytes, Punts};

    #[test]
    fn commit_time_is_broken_down_by_the_disks_counters() {
        let cell = |arm: &str, commit: Commit, batch: u32, depth: u32| {
            made_runs::cell(json!({"variant": "append", "arm": arm}), |m, _| {
                let load = &mut *m.load;
                (load.commit, load.batch, load.depth, load.jobs) = (commit.clone(), batch, depth, 1);
                m.latency_ns.mean = Some(1_000_000.0);
                m.punts = (arm == "ring").then_some(Punts { asked: 0, would_block: 2000 });
                let commits = 1000 / u64::from(batch);
                m.circumstances.as_mut().unwrap().device = Some(DeviceBytes {
                    writes: Some(3 * commits),
                    write_ns: Some(300_000 * commits),
                    flushes: Some(commits),
                    flush_ns: Some(100_000 * commits),
                    ..DeviceBytes::default()
                });
            })
        };
        let cells = vec![
            cell("fsync", Commit::Fsync, 1, 1),
            cell("ring", Commit::Fdatasync, 1, 1),
            cell("group", Commit::Fsync, 10, 10),
            cell("linked", Commit::Linked, 1, 8),
        ];
        let run = made_runs::run("commits", &["variant", "arm"], &["fsync", "ring", "group", "linked"], cells);
        let parts = "1.00 ms (300 µs in 3.00 device writes, 100 µs in 1.00 flushes, 600 µs elsewhere";
        assert_eq!(first(&run), Some(format!("a commit with fsync takes {parts})")));
        let said = made_runs::said(&run);
        let text = said.iter().find(|s| s.starts_with("A commit takes")).unwrap();
        assert!(text.contains(&format!("fsync and group {parts})")), "{text}");
        assert!(text.contains(&format!("ring {parts}, io-wq executes 2.00 requests)")), "{text}");
        assert!(!text.contains("linked"), "eight are in flight: {text}");
    }
}
