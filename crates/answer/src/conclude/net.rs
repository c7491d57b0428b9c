//! Servers against each other: requests a second, their CPU time, what delivered their completions; and whether it was the sender that
//! set the pace.

use super::carried;
use crate::group::Group;
use crate::verdicts::row_by_row;
use iotrail_base::words::plural;
use iotrail_schema::run_record::RunRecord;

/// A sender's thread that is on its CPU, or waits for one, for so much of its time can do hardly more.
const BOUND: f64 = 0.9;

pub fn conclude(run: &RunRecord, rows: Option<&str>, group: &Group<'_>) -> Vec<String> {
    let mut out = row_by_row(run, rows, group);
    for arm in &run.arms {
        out.extend(carried(run, arm, rows, group));
    }
    out.extend(sender_bound(group));
    out
}

/// Where the sender could do no more, its pace is what was measured.
pub fn sender_bound(group: &Group<'_>) -> Option<String> {
    let cells = || group.rows.iter().flat_map(|r| &r.cells);
    let all: usize = cells().map(|c| c.measurements.len()).sum();
    let busiest = |c: &&iotrail_schema::run_record::CellRecord| {
        let at_its_limit = |m: &&iotrail_schema::measurement::Measurement| {
            m.net.as_ref().and_then(|net| net.sender.busiest_thread).is_some_and(|share| share >= BOUND)
        };
        c.measurements.iter().filter(at_its_limit).count()
    };
    let (bound, arms): (usize, Vec<String>) = cells().fold((0, Vec::new()), |(n, mut arms), c| {
        let here = busiest(c);
        if here > 0 && !arms.iter().any(|a| a == c.arm()) {
            arms.push(c.arm().to_owned());
        }
        (n + here, arms)
    });
    (bound > 0).then(|| {
        format!(
            "In {bound} of {} the sender was at its limit ({}): their requests per second are what it could send, and at most a lower \
             bound of what the server could answer; the server's CPU time for each holds.",
            plural(all, "measurement"),
            iotrail_base::words::list(&arms)
        )
    })
}
