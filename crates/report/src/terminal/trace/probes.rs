//! The cost of the probes.

use crate::terminal::layout::{Column, Screen};
use iotrail_base::words::{UNKNOWN, count, three_digits};
use iotrail_schema::trace_record::{ProbeCost, Total};

/// The cost of the probes, per BPF program.
pub fn costs(o: &mut Screen, total: &Total) {
    let Some(costs) = &total.probe_costs else { return };
    let number = Column::number;
    let columns = [
        Column::words("probe", 24),
        Column::words("on", 22),
        number("runs", 8),
        number("per I/O", 8),
        number("ns/run", 9),
        number("ns per I/O", 10),
    ];
    let per_io = |n: u64| if total.ios > 0 { three_digits(n as f64 / total.ios as f64) } else { UNKNOWN.into() };
    let row = |program: &str, event: &str, runs: u64, spent_ns: u64| {
        let of_run = if runs > 0 { three_digits(spent_ns as f64 / runs as f64) } else { UNKNOWN.into() };
        vec![program.into(), event.into(), count(runs as f64), per_io(runs), of_run, per_io(spent_ns)]
    };
    let ran: Vec<&ProbeCost> = costs.iter().filter(|c| c.runs > 0).collect();
    let mut rows: Vec<Vec<String>> = ran.iter().map(|c| row(&c.program, &c.event, c.runs, c.spent_ns)).collect();
    rows.push(row("all", "", ran.iter().map(|c| c.runs).sum(), ran.iter().map(|c| c.spent_ns).sum()));
    o.blank();
    o.table(&columns, rows);
    o.blank();
}
