//! Tables of a run's cells: for each kind, the figures that its question is about; medians over the repeats.

use super::delivery::{carried_by, range};
use super::layout::{Cell, Column, Screen};
use iotrail_answer::compare::Metric;
use iotrail_answer::group::Group;
use iotrail_answer::per_io::{self, Sampled};
use iotrail_answer::spread::{Spread, over_repeats};
use iotrail_answer::timelines::{Timeline, way};
use iotrail_base::words::{UNKNOWN, count, per_io as times, percent, span, three_digits};
use iotrail_schema::measurement::{Latency, Measurement};
use iotrail_schema::place::Place;
use iotrail_schema::run_record::{CellRecord, Table};

/// One column: what stands above it, how wide it is, and what it says of a cell.
struct Figure {
    heading: &'static str,
    width: u16,
    text: Text,
}

enum Text {
    Number(fn(&CellRecord) -> String),
    Words(fn(&CellRecord) -> Cell),
}

impl Figure {
    fn column(&self) -> Column {
        match self.text {
            Text::Number(_) => Column::number(self.heading, self.width),
            Text::Words(_) => Column::words(self.heading, self.width),
        }
    }

    fn of(&self, cell: &CellRecord) -> Cell {
        match self.text {
            Text::Number(text) => text(cell).into(),
            Text::Words(text) => text(cell),
        }
    }
}

const fn number(heading: &'static str, width: u16, text: fn(&CellRecord) -> String) -> Figure {
    Figure { heading, width, text: Text::Number(text) }
}

const fn words(heading: &'static str, width: u16, text: fn(&CellRecord) -> Cell) -> Figure {
    Figure { heading, width, text: Text::Words(text) }
}

/// The columns of a kind of table after the row and the arm, how wide these two are, and what the headings mean.
struct Kind {
    row: u16,
    arm: u16,
    figures: &'static [Figure],
    legend: &'static str,
}

const IOPS: Figure = number("IOPS", 6, |c| over(c, |m| m.iops, |x| count(if x < 1000.0 { x.round() } else { x })));
const RANGE: Figure = number("range\n%", 5, |c| {
    let s = Spread::over(c, |m| m.iops);
    s.and_then(|s| s.relative_range()).map_or(UNKNOWN.into(), range)
});
const MEAN: Figure = number("mean\nµs", 6, |c| over(c, |m| m.latency_ns.mean, us));
const P99: Figure = number("p99\nµs", 6, |c| over(c, |m| m.latency_ns.p99.map(|n| n as f64), us));
const KICKS: Figure = number("kicks\n/IO", 5, |c| over(c, |m| m.per_io.kicks, times));
const RESCHED: Figure = number("resch\n/IO", 5, |c| over(c, |m| m.per_io.resched_ipis, times));
const DEVICE: Figure = number("dev\n/IO", 5, |c| over(c, |m| m.per_io.device_irqs, times));
const CPU: Figure = number("CPU\nµs/IO", 6, |c| over(c, |m| Metric::CpuPerIo.of(m), us));

const PLACEMENT: Kind = Kind {
    row: 5,
    arm: 13,
    figures: &[
        IOPS,
        RANGE,
        MEAN,
        P99,
        KICKS,
        DEVICE,
        RESCHED,
        number("irq\n%", 5, |c| over(c, per_io::interrupt_share, share)),
        number("ipi\n%", 4, |c| of_place(c, Place::Ipi)),
        number("idle\n%", 4, |c| of_place(c, Place::Idle)),
    ],
    legend: "Medians over the repeats; range: of IOPS, percent of the median. kicks, dev, resch: kicks, device interrupts (on any CPU) and \
             reschedule IPIs per I/O. irq: share of the job's CPU spent in devices' interrupt handlers and the softirqs they raised, \
             timed. ipi, idle: shares of the CPU's samples, all repeats together. –: not known, or too few samples.",
};

const MODE_SWITCHES: Kind = Kind {
    row: 12,
    arm: 9,
    figures: &[
        IOPS,
        number("p99.9\nµs", 6, |c| over(c, |m| m.latency_ns.p99_9.map(|n| n as f64), us)),
        number("p99.99\nµs", 6, |c| over(c, |m| m.latency_ns.p99_99.map(|n| n as f64), us)),
        number("to user\n/IO", 7, |c| over(c, |m| m.per_io.mode_switches, fine)),
        number("syscall\n/IO", 7, |c| switches(c, "syscall")),
        number("fault\n/IO", 6, |c| switches(c, "page_fault")),
        number("irq\n/IO", 6, |c| switches(c, "device_irq")),
        number("tick\n/IO", 6, |c| switches(c, "timer_tick")),
    ],
    legend: "Medians over the repeats. to user: returns from kernel to user mode of the load's threads per I/O; of these, out of system calls, page \
             faults, devices' interrupts, timer interrupts. –: not known, or too few samples (p99.99 needs 50,000 I/Os).",
};

const DELAYS: Kind = Kind {
    row: 10,
    arm: 12,
    figures: &[
        IOPS,
        MEAN,
        P99,
        number("delay\np50 µs", 5, |c| delay(c, |l| l.p50)),
        number("\np99 µs", 5, |c| delay(c, |l| l.p99)),
        number("over\n1ms %", 5, |c| per_io::late_share(&c.measurements.all()).map_or(UNKNOWN.into(), share)),
        words("delivered by", 17, carried_by),
    ],
    legend: "Medians over the repeats. delay: from ready to posted; over 1ms: share of the completions that were posted more than a \
             millisecond after they were ready. Delivered by: paths of 5 % of the completions or more, all repeats together. –: not \
             known, or too few samples.",
};

const TIMELINES: Kind = Kind {
    row: 5,
    arm: 12,
    figures: &[
        IOPS,
        MEAN,
        number("there\n%", 5, |c| timeline(c, Timeline::Before)),
        number("delay\nµs", 5, |c| timeline_delay(c, Timeline::Before)),
        number("ready\n%", 5, |c| timeline(c, Timeline::Ready)),
        number("delay\nµs", 5, |c| timeline_delay(c, Timeline::Ready)),
        number("slept\n%", 5, |c| timeline(c, Timeline::Slept)),
        number("delay\nµs", 5, |c| timeline_delay(c, Timeline::Slept)),
        KICKS,
        number("calls\n/IO", 5, |c| over(c, |m| m.per_io.syscalls, times)),
    ],
    legend: "Medians over the repeats; shares of all repeats together. there: posted before the job asked for completions; ready: the asking call \
             (io_uring_enter with GETEVENTS) ran task work and returned; slept: it slept for it. delay: from ready to posted, at the median of the \
             kind that delivered most. calls: system calls per I/O. –: not known, or too few samples.",
};

const SHARES: Kind = Kind {
    row: 5,
    arm: 14,
    figures: &[
        IOPS,
        CPU,
        number("user\nns/IO", 6, |c| at_place(c, |p| p == Place::User)),
        number("submit\nns/IO", 6, |c| at_place(c, |p| p == Place::Submit)),
        number("copy\nns/IO", 6, |c| at_place(c, |p| p == Place::Copy)),
        number("memory\nns/IO", 6, |c| at_place(c, |p| p == Place::Memory)),
        number("files\nns/IO", 6, |c| at_place(c, |p| p == Place::FileSystem)),
        number("calls\nns/IO", 6, |c| at_place(c, |p| p == Place::SyscallEntry)),
    ],
    legend: "Medians over the repeats; by place: samples of all repeats together. CPU: time of the load's threads and their helpers. user: in user mode; \
             submit: taking requests; copy: between user and kernel memory; memory: pinning pages, page faults; files: file system and page \
             cache; calls: into system calls and out of them. –: not known.",
};

const WAKEUPS: Kind = Kind {
    row: 6,
    arm: 14,
    figures: &[
        IOPS,
        MEAN,
        P99,
        number("woken\n/IO", 6, |c| over(c, per_io::wakeups, times)),
        number("thread\n% CPU", 6, |c| {
            over(c, |m| m.cpu.sqpoll_ns.map(|ns| ns as f64 / m.elapsed_ns.max(1) as f64), share)
        }),
        number("thread\nµs/IO", 6, |c| over(c, per_io::sqpoll_ns, us)),
        CPU,
        number("calls\n/IO", 5, |c| over(c, |m| m.per_io.syscalls, times)),
    ],
    legend: "Medians over the repeats. woken: times that the load had to wake the SQPOLL thread, per I/O; thread: its CPU time; CPU: that \
             and the load's own. calls: the load's system calls per I/O, its pauses between I/Os included. –: not known, or too few samples.",
};

const PUNTS: Kind = Kind {
    row: 15,
    arm: 9,
    figures: &[
        IOPS,
        RANGE,
        MEAN,
        P99,
        number("asked\n/IO", 5, |c| over(c, |m| per_io::punts(m).map(|p| p.0), times)),
        number("itself\n/IO", 6, |c| over(c, |m| per_io::punts(m).map(|p| p.1), times)),
        CPU,
        number("worker\nµs/IO", 6, |c| over(c, per_io::helpers_ns, us)),
    ],
    legend: "Medians over the repeats; range: of IOPS, percent of the median. Requests handed to io-wq per I/O: asked: because the load asked for it; \
             itself: because they would have blocked. CPU: time of the load's thread and the workers; worker: of these alone. –: not known.",
};

const KICKS_BY_DEPTH: Kind = Kind {
    row: 5,
    arm: 12,
    figures: &[
        IOPS,
        MEAN,
        P99,
        KICKS,
        number("sleeps\n/IO", 6, |c| over(c, |m| m.per_io.context_switches, times)),
        DEVICE,
        RESCHED,
        number("calls\n/IO", 5, |c| over(c, |m| m.per_io.syscalls, times)),
        number("runs\n/IO", 5, |c| over(c, |m| m.per_io.task_work_runs, times)),
    ],
    legend: "Medians over the repeats. Per I/O: kicks, sleeps (context switches of the job), device interrupts, reschedule IPIs, system calls, and \
             runs of task work. –: not known, or too few samples.",
};

const NET: Kind = Kind {
    row: 11,
    arm: 14,
    figures: &[
        number("req/s", 6, |c| over(c, |m| m.iops, count)),
        RANGE,
        number("p99\nµs", 5, |c| over(c, |m| m.latency_ns.p99.map(|n| n as f64), us)),
        number("CPU\nµs/req", 6, |c| over(c, |m| Metric::CpuPerIo.of(m), us)),
        number("calls\n/req", 5, |c| over(c, |m| m.per_io.syscalls, times)),
        number("delay\nµs", 5, |c| delay(c, |l| l.p50)),
        words("delivered by", 15, carried_by),
    ],
    legend: "Medians over the repeats; range: of requests per second, percent of the median. p99: of the latency, as the sender has it. CPU, calls: \
             time and system calls of the server alone, per request. delay: from ready to posted, at the median, where requests were \
             followed. Delivered by: paths of 5 % of the server's completions or more, all repeats together; an epoll server has none. –: \
             not known, or too few samples.",
};

const PROGRAM: Kind = Kind {
    row: 10,
    arm: 22,
    figures: &[
        number("wall\ntime", 9, |c| over(c, |m| Metric::Elapsed.of(m), span)),
        number("range\n%", 5, |c| {
            let s = Spread::of(c.measurements.all().iter().map(|m| m.elapsed_ns as f64));
            s.and_then(|s| s.relative_range()).map_or(UNKNOWN.into(), range)
        }),
        number("CPU\ntime", 9, |c| over(c, |m| Metric::CpuTime.of(m), span)),
        number("own\nfigure", 9, |c| own(c, 0)),
        number("\nnext", 9, |c| own(c, 1)),
    ],
    legend: "Medians over the repeats; range: of the wall time, percent of the median. CPU: of the command and all that it started and waited \
             for. own figure, next: the first two of --metric. –: not known.",
};

/// `None`: it has a printer of its own.
fn kind(table: Table) -> Option<&'static Kind> {
    match table {
        Table::Delivery | Table::Cost | Table::Order => None,
        Table::Placement => Some(&PLACEMENT),
        Table::ModeSwitches => Some(&MODE_SWITCHES),
        Table::Delays => Some(&DELAYS),
        Table::Timelines => Some(&TIMELINES),
        Table::Shares => Some(&SHARES),
        Table::Wakeups => Some(&WAKEUPS),
        Table::Punts => Some(&PUNTS),
        Table::Kicks => Some(&KICKS_BY_DEPTH),
        Table::Net => Some(&NET),
        Table::Program => Some(&PROGRAM),
    }
}

/// What the headings mean.
pub fn legend(table: Table) -> Option<&'static str> {
    kind(table).map(|k| k.legend)
}

/// Of the kinds that have a table here; of the others, nothing, and false.
pub fn of_group(out: &mut Screen, shown: Table, group: &Group<'_>, rows: Option<&str>) -> bool {
    let Some(kind) = kind(shown) else { return false };
    let mut columns = vec![Column::named(rows.unwrap_or(""), kind.row, kind.row < 10), Column::words("arm", kind.arm)];
    columns.extend(kind.figures.iter().map(Figure::column));
    let mut lines = Vec::new();
    for row in &group.rows {
        for (i, cell) in row.cells.iter().enumerate() {
            let value = Cell::from(if i == 0 { row.value.as_str() } else { "" });
            if cell.untestable.is_some() && cell.measurements.is_empty() {
                lines.push(vec![value, Cell::lines([cell.arm(), "untested"])]);
                continue;
            }
            let figures = kind.figures.iter().map(|f| f.of(cell));
            lines.push([value, cell.arm().into()].into_iter().chain(figures).collect());
        }
    }
    out.table(&columns, lines);
    true
}

/// The median over the repeats, as text.
fn over(cell: &CellRecord, of: impl Fn(&Measurement) -> Option<f64>, text: impl Fn(f64) -> String) -> String {
    over_repeats(cell, of).map_or(UNKNOWN.into(), text)
}

/// The program's own figure at this place.
fn own(cell: &CellRecord, at: usize) -> String {
    over(cell, |m| m.program.as_ref()?.figures.get(at).map(|f| f.value), count)
}

fn us(ns: f64) -> String {
    three_digits(ns / 1e3)
}

/// Per I/O, where it may be one in thousands.
fn fine(x: f64) -> String {
    if x > 0.0 && x < 0.1 { format!("{x:.4}") } else { times(x) }
}

/// Percent without its sign.
fn share(x: f64) -> String {
    percent(x).trim_end_matches(" %").to_owned()
}

fn switches(cell: &CellRecord, cause: &str) -> String {
    over(cell, |m| per_io::mode_switches(m, cause), fine)
}

fn delay(cell: &CellRecord, of: fn(&Latency) -> Option<u64>) -> String {
    over(cell, |m| of(&m.stages.as_ref()?.delivery_delay_ns).map(|n| n as f64), us)
}

fn timeline(cell: &CellRecord, timeline: Timeline) -> String {
    way(&cell.measurements.all(), timeline).map_or(UNKNOWN.into(), |w| share(w.share))
}

fn timeline_delay(cell: &CellRecord, timeline: Timeline) -> String {
    let delay = way(&cell.measurements.all(), timeline).and_then(|w| w.delay_p50_ns);
    delay.map_or(UNKNOWN.into(), |ns| us(ns as f64))
}

fn of_place(cell: &CellRecord, place: Place) -> String {
    per_io::share_of_place(&cell.measurements.all(), place).map_or(UNKNOWN.into(), share)
}

fn at_place(cell: &CellRecord, is: fn(Place) -> bool) -> String {
    per_io::place(&cell.measurements.all(), is).map_or(UNKNOWN.into(), |Sampled { ns, .. }| format!("{ns:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::WIDTH;

    #[test]
    fn each_table_fits_with_its_columns_full() {
        for kind in [PLACEMENT, MODE_SWITCHES, DELAYS, TIMELINES, SHARES, WAKEUPS, PUNTS, KICKS_BY_DEPTH, NET, PROGRAM]
        {
            let figures: u16 = kind.figures.iter().map(|f| f.width + 1).sum();
            assert!(usize::from(kind.row + 1 + kind.arm + figures) <= WIDTH, "{}", kind.legend);
        }
    }
}
