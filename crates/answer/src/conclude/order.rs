//! Whether the delivery order explains the spread between runs of one server.

use super::part::{Part, range};
use iotrail_base::words::{count, list, plural, three_digits};
use iotrail_schema::measurement::{Delivery, Measurement};
use iotrail_schema::run_record::CellRecord;

pub fn conclude(part: &Part<'_>) -> Vec<String> {
    part.group.rows.iter().flat_map(|r| &r.cells).filter_map(|c| order(c)).collect()
}

/// Ready order versus posted order; if the order was lost, the runs with the fewest and the most inversions.
fn order(cell: &CellRecord) -> Option<String> {
    let who = cell.arm();
    let measured = cell.measurements.all();
    if measured.is_empty() {
        return None;
    }
    let seen = |m| Measurement::delivery(m).filter(|d| d.completions > 0).and_then(|d| Some((d, m.iops?)));
    let Some(all) = measured.iter().map(seen).collect::<Option<Vec<(&Delivery, f64)>>>() else {
        return Some(format!("{who}: the order of its completions is not known for every run."));
    };
    let completions = count(all.iter().map(|(d, _)| d.completions).sum::<u64>() as f64);
    if all.iter().all(|(d, _)| d.inversions == 0) {
        return Some(format!(
            "{who}: all {completions} completions with a known ready time were posted in ready order, in every run. The order of \
             delivery does not explain the difference between its runs."
        ));
    }
    let mut runs: Vec<(f64, f64)> =
        all.iter().map(|(d, rate)| (d.inversions as f64 / d.completions as f64, *rate)).collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let lost = |place: &str, lost: fn(&Delivery) -> bool| all.iter().any(|(d, _)| lost(d)).then(|| place.to_owned());
    let task_work = lost("in task work", |d| d.by.task_work > 0);
    let file_system = lost("in the file system", |d| d.by.file_system.is_some_and(|n| n > 0));
    let lost_in: Vec<String> = task_work.into_iter().chain(file_system).collect();
    let mut said = format!(
        "{who}: {} inversions per completion (posted before one that was ready earlier), by at most {}{}, over {completions} completions",
        range(runs.iter().map(|r| r.0), three_digits),
        plural(all.iter().map(|(d, _)| d.max_displacement).max()? as usize, "place"),
        if lost_in.is_empty() { String::new() } else { format!(", {}", list(&lost_in)) },
    );
    let ((least, fast), (most, slow)) = (runs.first()?, runs.last()?);
    if most > least && !cell.measurements.set_up().any(|(host, _)| host.is_emulated()) {
        said.push_str(&format!(
            "; the run with the fewest ({}) had {} requests per second, the one with the most ({}) {}",
            three_digits(*least),
            count(*fast),
            three_digits(*most),
            count(*slow)
        ));
    }
    Some(said + ".")
}
