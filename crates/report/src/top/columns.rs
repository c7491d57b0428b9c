//! Rows, the content of each column, and which columns fit.

use std::cmp::Ordering;

use crate::terminal::sanitise;
use iotrail_base::words::{UNKNOWN, bytes, count, known_span, percent};
use iotrail_schema::account::ThreadState;
use iotrail_schema::top_record::{ProcessRates, Rates, RingRates, ThreadTime};

/// A ring or a process.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub tgid: u32,
    pub comm: &'a str,
    /// `None` for a process.
    pub ring: Option<u32>,
    pub rings: usize,
    pub rates: &'a Rates,
    pub sqpoll_cpu: Option<f64>,
    /// Thread time by state; set for processes only.
    pub threads: Option<&'a ThreadTime>,
}

impl<'a> Row<'a> {
    pub fn of_ring(r: &'a RingRates) -> Self {
        let (tgid, comm, sqpoll_cpu) = (r.tgid, r.comm.as_str(), r.sqpoll_cpu);
        Row { tgid, comm, ring: Some(r.ring), rings: 1, rates: &r.rates, sqpoll_cpu, threads: None }
    }

    pub fn of_process(p: &'a ProcessRates) -> Self {
        let (tgid, comm, sqpoll_cpu) = (p.tgid, p.comm.as_str(), p.sqpoll_cpu);
        Row { tgid, comm, ring: None, rings: p.rings, rates: &p.rates, sqpoll_cpu, threads: p.threads.as_ref() }
    }

    /// Mean number of running and runnable threads.
    fn average(&self, column: Column) -> Option<f64> {
        let state = if column == Running { ThreadState::Running } else { ThreadState::Runnable };
        Some(self.threads?.average(state))
    }

    /// Whether the interval had neither requests nor completions.
    pub fn is_idle(&self) -> bool {
        self.rates.requests_per_s + self.rates.completions_per_s == 0.0
    }
}

iotrail_schema::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Column {
        Process = "PROCESS",
        Ring = "RING",
        Requests = "REQ/S",
        Completions = "DONE/S",
        Bytes = "BYTES/S",
        Errors = "ERR/S",
        P50 = "P50",
        P99 = "P99",
        Delay50 = "LATE50",
        Delay99 = "LATE99",
        Punts = "PUNT/S",
        Overflows = "OVERFL",
        Sqpoll = "SQPOLL",
        Running = "RUN",
        Runnable = "WAIT",
        DeliveryPaths = "DELIVERY",
    }
}

use Column::*;

impl Column {
    /// Columns for sorting: all except the delivery paths.
    pub const SORTABLE: &'static [Column] = Self::ALL.split_at(Self::ALL.len() - 1).0;

    /// By priority: the narrowest terminal shows only the first ones.
    const BY_WEIGHT: [Column; 16] = [
        Process,
        Completions,
        Ring,
        DeliveryPaths,
        Running,
        Runnable,
        P50,
        P99,
        Delay99,
        Bytes,
        Requests,
        Errors,
        Punts,
        Delay50,
        Sqpoll,
        Overflows,
    ];

    /// Minimum width.
    pub fn width(self) -> u16 {
        match self {
            Process => 16,
            Ring => 4,
            Requests | Completions | Errors | Punts | Overflows | Running | Runnable => 6,
            Bytes => 8,
            P50 | P99 | Delay50 | Delay99 | Sqpoll => 7,
            DeliveryPaths => 10,
        }
    }

    pub fn is_number(self) -> bool {
        !matches!(self, Process | DeliveryPaths)
    }

    /// The text of a cell; empty for delivery paths, which are drawn as a bar.
    pub fn text(self, row: &Row<'_>) -> String {
        let r = row.rates;
        match self {
            Process => process(row.comm, row.tgid, self.width().into()),
            Ring => row.ring.map_or(row.rings, |ring| ring as usize).to_string(),
            Requests => count(r.requests_per_s),
            Completions => count(r.completions_per_s),
            Bytes => bytes(r.bytes_per_s.round() as u64),
            Errors => count(r.errors_per_s),
            P50 => known_span(r.latency_ns.p50),
            P99 => known_span(r.latency_ns.p99),
            Delay50 => known_span(r.delivery_delay_ns.p50),
            Delay99 => known_span(r.delivery_delay_ns.p99),
            Punts => count(r.punts_per_s),
            Overflows => count(r.overflows as f64),
            Sqpoll => row.sqpoll_cpu.map_or(UNKNOWN.into(), percent),
            Running | Runnable => row.average(self).map_or(UNKNOWN.into(), percent),
            DeliveryPaths => String::new(),
        }
    }

    /// Sorts by descending number or ascending name, with unknown values last.
    pub fn order(self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        let number = |row: &Row<'_>| -> Option<f64> {
            let r = row.rates;
            let ns = |n: Option<u64>| n.map(|n| n as f64);
            match self {
                Process | DeliveryPaths => None,
                Ring => Some(row.ring.map_or(row.rings as f64, |ring| -f64::from(ring))),
                Requests => Some(r.requests_per_s),
                Completions => Some(r.completions_per_s),
                Bytes => Some(r.bytes_per_s),
                Errors => Some(r.errors_per_s),
                P50 => ns(r.latency_ns.p50),
                P99 => ns(r.latency_ns.p99),
                Delay50 => ns(r.delivery_delay_ns.p50),
                Delay99 => ns(r.delivery_delay_ns.p99),
                Punts => Some(r.punts_per_s),
                Overflows => Some(r.overflows as f64),
                Sqpoll => row.sqpoll_cpu,
                Running | Runnable => row.average(self),
            }
        };
        let first = match self {
            Process => a.comm.cmp(b.comm),
            _ => number(b).partial_cmp(&number(a)).unwrap_or(Ordering::Equal),
        };
        first.then((a.tgid, a.ring).cmp(&(b.tgid, b.ring)))
    }
}

/// `fio (4711)`; cuts a long name but not the PID.
fn process(comm: &str, tgid: u32, width: usize) -> String {
    let number = format!(" ({tgid})");
    let comm = sanitise(comm);
    let room = width.saturating_sub(number.len());
    let mut name = String::new();
    for c in comm.chars() {
        let longer = format!("{name}{c}");
        if textwrap::core::display_width(&longer) > room {
            break;
        }
        name = longer;
    }
    name + &number
}

/// Columns that apply to processes, not to rings.
pub const OF_PROCESSES: &[Column] = &[Running, Runnable];

/// The columns that fit into `width`, from left to right, with their widths; `sort` has priority.
pub fn fit(width: u16, sort: Column, without: &[Column]) -> Vec<(Column, u16)> {
    let mut left = i32::from(width);
    let mut chosen = vec![];
    let by_weight = Column::BY_WEIGHT.into_iter().filter(|c| *c != sort && !without.contains(c));
    let mut wanted: Vec<Column> = by_weight.collect();
    wanted.insert(1, sort);
    for column in wanted {
        let space = i32::from(!chosen.is_empty());
        let needs = i32::from(column.width()) + space;
        if needs <= left && !chosen.contains(&column) {
            chosen.push(column);
            left -= needs;
        }
    }
    let fitting = Column::ALL.into_iter().filter(|c| chosen.contains(c));
    let grows = if chosen.contains(&DeliveryPaths) { DeliveryPaths } else { Process };
    fitting.map(|c| (c, c.width() + if c == grows { left.max(0) as u16 } else { 0 })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_and_include_the_sort_column() {
        let names = |width, sort| fit(width, sort, OF_PROCESSES).into_iter().map(|(c, _)| c).collect::<Vec<_>>();
        assert_eq!(
            names(80, Completions),
            [Process, Ring, Requests, Completions, Bytes, P50, P99, Delay99, DeliveryPaths]
        );
        assert_eq!(names(40, Completions), [Process, Ring, Completions, DeliveryPaths]);
        assert_eq!(names(40, Sqpoll), [Process, Ring, Completions, Sqpoll]);
        let all = |c: &Column| !OF_PROCESSES.contains(c);
        assert_eq!(names(200, Sqpoll), Column::ALL.into_iter().filter(all).collect::<Vec<_>>());
        assert!(!Column::SORTABLE.contains(&DeliveryPaths));
        for width in 0..200 {
            for &sort in Column::SORTABLE {
                let columns = fit(width, sort, &[]);
                let sum: usize = columns.iter().map(|(_, w)| usize::from(*w)).sum();
                assert!(sum + columns.len().saturating_sub(1) <= usize::from(width), "{width} {sort:?}");
                assert!(width < 34 || columns.iter().any(|(c, _)| *c == sort), "{width} {sort:?}");
            }
        }
    }

    #[test]
    fn untrusted_process_names_are_sanitised_and_truncated() {
        assert_eq!(process("db", 7, 16), "db (7)");
        assert_eq!(process("a-long-program-n", 4711, 16), "a-long-pr (4711)");
        assert_eq!(process("\x1b[2J", 7, 16), "\\u{1b}[2J (7)");
    }
}
