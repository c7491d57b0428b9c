//! How far the runs of one server are apart, and whether the order in which its completions were delivered goes with that.

use super::net;
use crate::group::Group;
use crate::per_io;
use crate::spread::Spread;
use crate::verdicts::row_by_row;
use iotrail_base::words::{UNKNOWN, count, list, percent, plural, span, three_digits};
use iotrail_schema::measurement::Delivery;
use iotrail_schema::run_record::{CellRecord, RunRecord};

pub fn conclude(run: &RunRecord, group: &Group<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for cell in group.rows.iter().flat_map(|r| &r.cells) {
        if !run.is_emulated() {
            out.extend(apart(cell));
        }
        out.extend(order(cell));
    }
    out.extend(row_by_row(run, None, group));
    out.extend(net::sender_bound(group));
    out
}

/// The runs' requests per second and idle time.
fn apart(cell: &CellRecord) -> Option<String> {
    let rate = Spread::of(cell.measurements.iter().map(|m| m.iops))?;
    let idle = Spread::of_known(cell.measurements.iter().map(per_io::server_idle));
    let idle = idle.map_or_else(
        || format!("idle {UNKNOWN}"),
        |s| format!("idle {} to {} of each second", span(s.min * 1e9), span(s.max * 1e9)),
    );
    Some(format!(
        "{}, {}: {} to {} requests per second, {} of the median apart; {idle}.",
        cell.arm(),
        plural(rate.repeats, "run"),
        count(rate.min),
        count(rate.max),
        rate.relative_range().map_or(UNKNOWN.into(), percent)
    ))
}

fn deliveries(cell: &CellRecord) -> Option<Vec<&Delivery>> {
    let of_run = |m| iotrail_schema::measurement::Measurement::delivery(m).filter(|d| d.completions > 0);
    cell.measurements.iter().map(of_run).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

/// Ready against posted; and, where the order was lost, the runs that lost it least and most.
fn order(cell: &CellRecord) -> Option<String> {
    let who = cell.arm();
    let Some(all) = deliveries(cell) else {
        return Some(format!("{who}: the order of its completions is not known in every run."));
    };
    let completions: u64 = all.iter().map(|d| d.completions).sum();
    let inversions: u64 = all.iter().map(|d| d.inversions).sum();
    if inversions == 0 {
        return Some(format!(
            "{who}: all {} completions that were seen to become ready were posted in that order, in every run: the order of delivery is \
             not what its runs differ in.",
            count(completions as f64)
        ));
    }
    let each: Vec<f64> = all.iter().map(|d| d.inversions as f64 / d.completions as f64).collect();
    let spread = Spread::of(each.iter().copied())?;
    let farthest = all.iter().map(|d| d.max_displacement).max()?;
    let mut lost_in = vec![];
    lost_in.extend(all.iter().any(|d| d.by.task_work > 0).then(|| "in task work".to_owned()));
    lost_in
        .extend(all.iter().any(|d| d.by.file_system.is_some_and(|n| n > 0)).then(|| "in the file system".to_owned()));
    let mut said = format!(
        "{who}: {} inversions per completion (posted before one that was ready earlier), by {} at most{}, over {} completions",
        range(spread.min, spread.max),
        plural(farthest as usize, "place"),
        if lost_in.is_empty() { String::new() } else { format!(", {}", list(&lost_in)) },
        count(completions as f64)
    );
    let by_inversions = |(a, _): &(&f64, f64), (b, _): &(&f64, f64)| a.total_cmp(b);
    let runs = || each.iter().zip(cell.measurements.iter().map(|m| m.iops));
    if let (Some((least, fast)), Some((most, slow))) = (runs().min_by(by_inversions), runs().max_by(by_inversions))
        && most > least
        && !cell.measurements.iter().any(|m| m.host.is_emulated())
    {
        said.push_str(&format!(
            "; the run with fewest ({}) had {} requests per second, the one with most ({}) {}",
            three_digits(*least),
            count(fast),
            three_digits(*most),
            count(slow)
        ));
    }
    Some(format!("{said}."))
}

fn range(least: f64, most: f64) -> String {
    let (least, most) = (three_digits(least), three_digits(most));
    if least == most { most } else { format!("{least} to {most}") }
}
