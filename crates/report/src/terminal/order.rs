//! A network load run by run: what the server did in each second, and in which order its completions were delivered.

use super::layout::{Cell, Column, Screen};
use iotrail_answer::group::Group;
use iotrail_answer::per_io;
use iotrail_base::words::{UNKNOWN, count, three_digits};
use iotrail_schema::measurement::Measurement;
use iotrail_schema::net_record::ServerCounts;

/// What the headings mean.
pub const LEGEND: &str = "Each line is one run. B/s: in requests and responses. idle, user, system: of the server's threads, milliseconds of each \
     second (user and system split as the kernel accounts it). Of the completions that were seen to become ready: inversions: posted \
     before one that was ready earlier, per completion; farthest: by so many places at most. –: not known.";

pub fn of_group(out: &mut Screen, group: &Group<'_>) {
    let number = Column::number;
    let columns = [
        Column::words("arm", 14),
        number("run", 3),
        number("req/s", 6),
        number("B/s", 9),
        number("idle\nms", 5),
        number("user\nms", 5),
        number("system\nms", 6),
        number("inversions", 10),
        number("farthest", 8),
    ];
    let mut lines = Vec::new();
    for cell in group.rows.iter().flat_map(|r| &r.cells) {
        if cell.measurements.is_empty() {
            let why = cell.untestable.as_ref().map(|_| "untested");
            lines.push(vec![Cell::lines(std::iter::once(cell.arm()).chain(why))]);
        }
        for (repeat, m) in cell.measurements.all().iter().enumerate() {
            let arm = if repeat == 0 { cell.arm() } else { "" };
            let mut line = vec![Cell::from(arm), (repeat + 1).to_string().into()];
            line.extend(figures(m).map(Cell::from));
            lines.push(line);
        }
    }
    out.table(&columns, lines);
}

fn figures(m: &Measurement) -> [String; 7] {
    let known = |x: Option<f64>, text: fn(f64) -> String| x.map_or(UNKNOWN.into(), text);
    let ms = |ns: fn(&ServerCounts) -> Option<u64>| known(per_io::of_each_second(m, ns), |s| format!("{:.0}", s * 1e3));
    let order = m.delivery().filter(|d| d.completions > 0);
    [
        known(m.iops, count),
        known(m.bytes.filter(|_| m.elapsed_ns > 0).map(|n| n as f64 / (m.elapsed_ns as f64 / 1e9)), count),
        ms(|s| s.idle_ns),
        ms(|s| s.user_ns),
        ms(|s| s.system_ns),
        known(order.map(|d| d.inversions as f64 / d.completions as f64), three_digits),
        order.map_or(UNKNOWN.into(), |d| d.max_displacement.to_string()),
    ]
}
