//! Tables of a run's cells. `tables.toml` declares the columns, conclusions and compared metrics of each table; this
//! file declares each column once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::figure::Metric;
use crate::group::{row_axis, vehicle_shares};
use crate::spread::Spread;
use iotrail_base::words::{UNKNOWN, count, per_io, percent, span, three_digits};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::RunRecord;

/// Default tables for storage loads, network loads and programs.
pub const STORAGE: &str = "delivery";
pub const NET: &str = "net";
pub const PROGRAM: &str = "program";

/// Columns, metrics and conclusions for one kind of run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    /// Width of the row column; 0 if there is none.
    pub row: u16,
    /// Width of the arm column.
    pub arm: u16,
    /// Each line shows a single measurement.
    #[serde(default)]
    pub each_run: bool,
    /// Column names; a colon precedes a width that differs from the column's default.
    columns: Vec<String>,
    /// Explains the headings.
    pub legend: String,
    /// Metrics on which the arms are compared unless the experiment names some.
    #[serde(default)]
    metrics: Vec<String>,
    /// Metrics whose course over the rows is described for each arm.
    #[serde(default)]
    figures: Vec<String>,
    /// For loads over the network.
    #[serde(default)]
    pub net: bool,
}

static TABLES: LazyLock<BTreeMap<String, Table>> =
    LazyLock::new(|| toml::from_str(include_str!("tables.toml")).expect("a unit test reads it"));

impl Table {
    pub fn named(name: &str) -> Option<&'static Table> {
        TABLES.get(name)
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLES.keys().map(String::as_str)
    }

    /// The run's table; the default table if this version does not know its name.
    pub fn of(run: &RunRecord) -> &'static Table {
        Table::named(&run.table).unwrap_or_else(|| &TABLES[STORAGE])
    }

    /// The row parameter within a group; without one, each group is a single row.
    pub fn rows<'r>(&self, run: &'r RunRecord) -> Option<&'r str> {
        row_axis(run).filter(|_| self.row > 0)
    }

    pub fn metrics(&self) -> Vec<Metric> {
        self.metrics.iter().filter_map(|name| name.parse().ok()).collect()
    }

    pub fn figures(&self) -> Vec<Metric> {
        self.figures.iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// The experiment's columns, or the table's own.
    pub fn columns(&self, run: &RunRecord) -> Vec<Column> {
        let names = if run.columns.is_empty() { &self.columns } else { &run.columns };
        names.iter().filter_map(|name| Column::named(name)).collect()
    }
}

/// A column: name, heading, width, and the text for measurements.
#[derive(Clone, Copy)]
pub struct Column {
    id: &'static str,
    pub heading: &'static str,
    pub width: u16,
    text: Text,
}

#[derive(Clone, Copy)]
enum Text {
    /// The metric over all repeats.
    Of(Metric, fn(f64) -> String),
    /// Range from smallest to largest, in percent of the median.
    Range(Metric),
    /// The program's own metric with this index.
    Own(usize),
    /// Delivery paths.
    Paths,
}

const COLUMNS: &[Column] = {
    use Text::{Of, Own, Paths, Range};
    const fn column(id: &'static str, heading: &'static str, width: u16, text: Text) -> Column {
        Column { id, heading, width, text }
    }
    &[
        column("iops", "IOPS", 6, Of(Metric::Iops, rate)),
        column("requests", "req/s", 6, Of(Metric::Iops, count)),
        column("bytes", "B/s", 9, Of(Metric::BytesPerSecond, count)),
        column("range", "range\n%", 5, Range(Metric::Iops)),
        column("mean", "mean\nµs", 6, Of(Metric::LatencyMean, us)),
        column("p99", "p99\nµs", 6, Of(Metric::LatencyP99, us)),
        column("p99.9", "p99.9\nµs", 6, Of(Metric::LatencyP99_9, us)),
        column("p99.99", "p99.99\nµs", 6, Of(Metric::LatencyP99_99, us)),
        column("cpu", "CPU\nµs/IO", 6, Of(Metric::CpuPerIo, us)),
        column("cpu-of-request", "CPU\nµs/req", 6, Of(Metric::CpuPerIo, us)),
        column("kicks", "kicks\n/IO", 5, Of(Metric::KicksPerIo, per_io)),
        column("kicks-short", "kicks\n/IO", 5, Of(Metric::KicksPerIo, short)),
        column("resched", "resch\n/IO", 5, Of(Metric::ReschedIpisPerIo, per_io)),
        column("resched-short", "resch\n/IO", 5, Of(Metric::ReschedIpisPerIo, short)),
        column("device", "dev\n/IO", 5, Of(Metric::DeviceIrqsPerIo, per_io)),
        column("device-short", "dev\n/IO", 4, Of(Metric::DeviceIrqsPerIo, short)),
        column("sleeps", "sleeps\n/IO", 6, Of(Metric::ContextSwitchesPerIo, per_io)),
        column("calls", "calls\n/IO", 5, Of(Metric::SyscallsPerIo, per_io)),
        column("calls-of-request", "calls\n/req", 5, Of(Metric::SyscallsPerIo, per_io)),
        column("runs", "runs\n/IO", 5, Of(Metric::TaskWorkRunsPerIo, per_io)),
        column("to-user", "to user\n/IO", 7, Of(Metric::ModeSwitchesPerIo, fine)),
        column("syscall", "syscall\n/IO", 7, Of(Metric::SyscallReturns, fine)),
        column("fault", "fault\n/IO", 6, Of(Metric::PageFaults, fine)),
        column("irq", "irq\n/IO", 6, Of(Metric::DeviceIrqReturns, fine)),
        column("tick", "tick\n/IO", 6, Of(Metric::TimerTickReturns, fine)),
        column("irq-share", "irq\n%", 5, Of(Metric::InterruptShare, share)),
        column("ipi-share", "ipi\n%", 4, Of(Metric::IpiShare, share)),
        column("idle-share", "idle\n%", 4, Of(Metric::IdleShare, share)),
        column("delay", "delay\nµs", 5, Of(Metric::DeliveryDelayP50, us)),
        column("delay-p50", "delay\np50 µs", 5, Of(Metric::DeliveryDelayP50, us)),
        column("delay-p99", "\np99 µs", 5, Of(Metric::DeliveryDelayP99, us)),
        column("late", "over\n1ms %", 5, Of(Metric::LateShare, share)),
        column("there", "there\n%", 5, Of(Metric::FoundPosted, share)),
        column("there-delay", "delay\nµs", 5, Of(Metric::FoundPostedDelay, us)),
        column("ready", "ready\n%", 5, Of(Metric::FoundReady, share)),
        column("ready-delay", "delay\nµs", 5, Of(Metric::FoundReadyDelay, us)),
        column("slept", "slept\n%", 5, Of(Metric::SleptFor, share)),
        column("slept-delay", "delay\nµs", 5, Of(Metric::SleptForDelay, us)),
        column("user-ns", "user\nns/IO", 6, Of(Metric::UserPerIo, whole)),
        column("submit-ns", "submit\nns/IO", 6, Of(Metric::SubmitPerIo, whole)),
        column("copy-ns", "copy\nns/IO", 6, Of(Metric::CopyPerIo, whole)),
        column("memory-ns", "memory\nns/IO", 6, Of(Metric::MemoryPerIo, whole)),
        column("files-ns", "files\nns/IO", 6, Of(Metric::FilesPerIo, whole)),
        column("calls-ns", "calls\nns/IO", 6, Of(Metric::CallsPerIo, whole)),
        column("woken", "woken\n/IO", 6, Of(Metric::SqpollWakeupsPerIo, per_io)),
        column("thread-share", "thread\n% CPU", 6, Of(Metric::SqpollCpuShare, share)),
        column("thread-time", "thread\nµs/IO", 6, Of(Metric::SqpollPerIo, us)),
        column("asked", "asked\n/IO", 5, Of(Metric::PuntsAsked, per_io)),
        column("itself", "itself\n/IO", 6, Of(Metric::PuntsBlocked, per_io)),
        column("worker", "worker\nµs/IO", 6, Of(Metric::HelpersPerIo, us)),
        column("device-writes", "writes\n/IO", 6, Of(Metric::DeviceWritesPerIo, per_io)),
        column("device-write-time", "write\nµs/IO", 6, Of(Metric::DeviceWriteTime, us)),
        column("device-flushes", "flushes\n/IO", 7, Of(Metric::DeviceFlushesPerIo, per_io)),
        column("device-flush-time", "flush\nµs/IO", 6, Of(Metric::DeviceFlushTime, us)),
        column("total", "total\nµs", 7, Of(Metric::Elapsed, whole_us)),
        column("total-range", "range\n%", 5, Range(Metric::Elapsed)),
        column("submit-share", "submit\n%", 6, Of(Metric::SubmitPhase, tenths)),
        column("poll-share", "poll\n%", 5, Of(Metric::PollPhase, tenths)),
        column("clear-share", "clear\n%", 5, Of(Metric::ClearPhase, tenths)),
        column("other-share", "other\n%", 5, Of(Metric::OtherPhase, tenths)),
        column("user", "user\nµs", 7, Of(Metric::UserTime, whole_us)),
        column("system", "system\nµs", 7, Of(Metric::SystemTime, whole_us)),
        column("idle-of-second", "idle\nms", 5, Of(Metric::ServerIdle, whole_ms)),
        column("user-of-second", "user\nms", 5, Of(Metric::ServerUser, whole_ms)),
        column("system-of-second", "system\nms", 6, Of(Metric::ServerSystem, whole_ms)),
        column("inversions", "inversions", 10, Of(Metric::Inversions, three_digits)),
        column("farthest", "farthest", 8, Of(Metric::Displacement, whole)),
        column("wall", "wall\ntime", 9, Of(Metric::Elapsed, span)),
        column("cpu-time", "CPU\ntime", 9, Of(Metric::CpuTime, span)),
        column("own", "own\nfigure", 9, Own(0)),
        column("next", "\nnext", 9, Own(1)),
        column("paths", "delivered by", 17, Paths),
    ]
};

impl Column {
    /// Parses `kicks`, or `kicks:7` with a different width.
    pub fn named(text: &str) -> Option<Column> {
        let (id, width) = text.split_once(':').map_or((text, None), |(id, width)| (id, Some(width)));
        let column = *COLUMNS.iter().find(|c| c.id == id)?;
        let width = width.map_or(Some(column.width), |width| width.parse().ok())?;
        Some(Column { width, ..column })
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        COLUMNS.iter().map(|c| c.id)
    }

    pub fn is_number(&self) -> bool {
        !matches!(self.text, Text::Paths)
    }

    /// The text for these repeats, one element per line.
    pub fn lines(&self, all: &[Measurement]) -> Vec<String> {
        let known = |x: Option<f64>, text: &dyn Fn(f64) -> String| vec![x.map_or(UNKNOWN.into(), text)];
        match self.text {
            Text::Of(metric, text) => known(metric.over(all), &text),
            Text::Range(metric) => {
                let spread = Spread::of_known(all.iter().map(|m| metric.of(m)));
                known(spread.and_then(|s| s.relative_range()), &range)
            }
            Text::Own(at) => {
                let own = all.iter().map(|m| Some(m.program.as_ref()?.figures.get(at)?.value));
                known(Spread::of_known(own).map(|s| s.median), &count)
            }
            Text::Paths => paths(all),
        }
    }
}

/// Delivery paths with a smaller share are omitted.
const SHOWN: f64 = 0.05;

fn paths(all: &[Measurement]) -> Vec<String> {
    let shares = vehicle_shares(all);
    if shares.is_empty() {
        return vec![UNKNOWN.into()];
    }
    // Unknown paths are always shown.
    let shown = shares.iter().filter(|(v, share)| *share >= SHOWN || *v == DeliveryPath::Unknown);
    // Rounded down, so that only a full share is shown as 100 %.
    shown.map(|(v, share)| format!("{v} {:.0}%", (share * 100.0).floor())).collect()
}

/// Percentage without the sign, with one decimal below 10.
fn range(share: f64) -> String {
    let p = share * 100.0;
    if p < 9.95 { format!("{p:.1}") } else { format!("{p:.0}") }
}

fn rate(x: f64) -> String {
    count(if x < 1000.0 { x.round() } else { x })
}

fn us(ns: f64) -> String {
    three_digits(ns / 1e3)
}

fn whole(x: f64) -> String {
    format!("{x:.0}")
}

fn whole_us(ns: f64) -> String {
    whole(ns / 1e3)
}

fn whole_ms(ns: f64) -> String {
    whole(ns / 1e6)
}

fn tenths(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Percentage without the sign.
fn share(x: f64) -> String {
    percent(x).trim_end_matches(" %").to_owned()
}

/// Per I/O, for values as small as 0.001.
fn fine(x: f64) -> String {
    if x > 0.0 && x < 0.1 { format!("{x:.4}") } else { per_io(x) }
}

/// Per I/O, in four characters; truncated below 0.1.
fn short(x: f64) -> String {
    if x > 0.0 && x < 0.1 { format!("{:.2}", ((x * 1e3).round() / 10.0).floor() / 100.0) } else { format!("{x:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_known_columns_and_fits_in_80_columns() {
        for (name, table) in &*TABLES {
            let columns: Vec<Column> = table.columns.iter().filter_map(|c| Column::named(c)).collect();
            assert_eq!(columns.len(), table.columns.len(), "{name}");
            assert_eq!(table.metrics().len(), table.metrics.len(), "{name}");
            assert_eq!(table.figures().len(), table.figures.len(), "{name}");
            let width: u16 = columns.iter().map(|c| c.width + 1).sum();
            assert!(table.row + 1 + table.arm + width <= 80, "{name}");
        }
    }
}
