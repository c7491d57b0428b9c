//! What a table's question counts, times and shares out, arm by arm over the rows: its figures, of every table alike.

use super::part::{Part, range};
use crate::compare::Metric;
use crate::per_io;
use crate::spread::{Spread, over_repeats};
use crate::unit::Unit;
use iotrail_base::words::{count, list, per_io as per_io_text, percent, span, three_digits};
use iotrail_schema::measurement::{Latency, Measurement};
use iotrail_schema::place::Place;
use iotrail_schema::run_record::{CellRecord, Table, VARIANT};

struct Figure {
    what: &'static str,
    kind: Kind,
    of: Of,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Per I/O.
    Count,
    /// The same of what may be one in thousands.
    Rare,
    /// Of what need not take time: of completions, of I/Os.
    Share,
    ShareOfTime,
    Time,
    Rate,
}

enum Of {
    /// The median over the repeats.
    Each(fn(&Measurement) -> Option<f64>),
    /// All repeats together.
    All(fn(&[Measurement]) -> Option<f64>),
}

const fn each(what: &'static str, kind: Kind, of: fn(&Measurement) -> Option<f64>) -> Figure {
    Figure { what, kind, of: Of::Each(of) }
}

const fn all(what: &'static str, kind: Kind, of: fn(&[Measurement]) -> Option<f64>) -> Figure {
    Figure { what, kind, of: Of::All(of) }
}

const KICKS: Figure = each("Kicks per I/O", Kind::Count, |m| m.per_io.kicks);
const SLEEPS: Figure = each("Sleeps per I/O", Kind::Count, |m| m.per_io.context_switches);
const CALLS: Figure = each("System calls per I/O", Kind::Count, |m| m.per_io.syscalls);
const IOPS: Figure = each("IOPS", Kind::Rate, |m| m.iops);
const MEAN: Figure = each("Mean latency", Kind::Time, |m| m.latency_ns.mean);
const CPU: Figure = each("CPU time per I/O", Kind::Time, |m| Metric::CpuPerIo.of(m));

/// In the order in which they are said.
fn of_table(table: Table) -> Vec<Figure> {
    use Kind::{Count, Rare, Rate, Share, ShareOfTime, Time};
    match table {
        Table::Cost | Table::Program => Vec::new(),
        Table::Kicks => vec![
            KICKS,
            SLEEPS,
            each("Device interrupts per I/O", Count, |m| m.per_io.device_irqs),
            each("Reschedule IPIs per I/O", Count, |m| m.per_io.resched_ipis),
            CALLS,
        ],
        Table::ModeSwitches => vec![
            each("Returns to user mode per I/O", Rare, |m| m.per_io.mode_switches),
            each("Out of system calls", Rare, |m| per_io::mode_switches(m, "syscall")),
            each("Out of page faults", Rare, |m| per_io::mode_switches(m, "page_fault")),
            each("Out of device interrupts", Rare, |m| per_io::mode_switches(m, "device_irq")),
            each("Out of timer ticks", Rare, |m| per_io::mode_switches(m, "timer_tick")),
            each("Out of reschedule IPIs", Rare, |m| per_io::mode_switches(m, "resched_ipi")),
        ],
        Table::Delays => vec![
            KICKS,
            each("Delivery delay, p50", Time, |m| delay(m, |l| l.p50)),
            each("Delivery delay, p90", Time, |m| delay(m, |l| l.p90)),
            each("Delivery delay, p99", Time, |m| delay(m, |l| l.p99)),
            all("Delivered more than 1 ms after they were ready", ShareOfTime, per_io::late_share),
        ],
        Table::Timelines => vec![KICKS, SLEEPS, CALLS],
        Table::Wakeups => vec![
            MEAN,
            each("I/Os for which the thread had to be woken", Share, |m| per_io::wakeups(m).map(|n| n.min(1.0))),
            each("Share of a CPU that the thread took", ShareOfTime, of_a_cpu),
            CPU,
        ],
        Table::Punts => vec![
            each("Handed to io-wq per I/O, because it would have blocked", Count, |m| per_io::punts(m).map(|p| p.1)),
            each("Handed to io-wq per I/O, because the load asked for it", Count, |m| per_io::punts(m).map(|p| p.0)),
            MEAN,
            IOPS,
            CPU,
            each("CPU time per I/O in workers", Time, per_io::helpers_ns),
        ],
        Table::Shares => vec![
            all("In and out of system calls, per I/O", Time, of_calls),
            all("In and out of a system call of several I/Os", Time, |all| {
                let batch = Some(all.first()?.load.batch).filter(|n| *n > 1)?;
                Some(of_calls(all)? * f64::from(batch))
            }),
        ],
        Table::Order => vec![
            each("Requests per second", Rate, |m| m.iops),
            each("Idle time of each second", Time, |m| per_io::server_idle(m).map(|s| s * 1e9)),
        ],
        _ => vec![KICKS],
    }
}

fn delay(m: &Measurement, of: fn(&Latency) -> Option<u64>) -> Option<f64> {
    of(&m.stages.as_ref()?.delivery_delay_ns).map(|ns| ns as f64)
}

fn of_a_cpu(m: &Measurement) -> Option<f64> {
    m.cpu.sqpoll_ns.filter(|_| m.elapsed_ns > 0).map(|ns| ns as f64 / m.elapsed_ns as f64)
}

/// `None`: too few samples fell there to say.
fn of_calls(all: &[Measurement]) -> Option<f64> {
    const FEWEST: u64 = 5;
    per_io::place(all, |p| p == Place::SyscallEntry).filter(|s| s.samples >= FEWEST).map(|s| s.ns.round())
}

/// Where times mean nothing, counts and shares alone.
pub fn of(part: &Part<'_>) -> Vec<String> {
    let unit = Unit::of_run(part.run).one();
    let means_something =
        |f: &Figure| !part.run.is_emulated() || matches!(f.kind, Kind::Count | Kind::Rare | Kind::Share);
    let figures = of_table(part.run.table).into_iter().filter(means_something);
    figures.filter_map(|f| part.by_arm(&f.what.replace("I/O", unit), |arm| course(part, arm, &f))).collect()
}

/// So many steps are said one by one; of more, the first, the last, the highest and the lowest.
const STEPS: usize = 4;

/// A figure from the first row to the last.
fn course(part: &Part<'_>, arm: &str, figure: &Figure) -> Option<String> {
    let kind = figure.kind;
    let of = |cell: &CellRecord| match figure.of {
        Of::Each(of) => over_repeats(cell, of),
        Of::All(of) => of(&cell.measurements.all()),
    };
    let Some(_) = part.rows else { return of_one_row(part, arm, figure, of) };
    let in_order = part.rows != Some(VARIANT);
    let same = |a: &f64, b: &f64| if in_order { !kind.differ(*a, *b) } else { kind.text(*a) == kind.text(*b) };
    let mut steps = part.in_groups(arm, |_, cell| of(cell), same, in_order);
    if let [(values, names)] = &steps[..]
        && names.len() > 1
    {
        return Some(format!("{} throughout", range(values.iter().copied(), |x| kind.text(x))));
    }
    if in_order && steps.len() > STEPS {
        let value = |i: &usize| steps[*i].0[0];
        let (last, by) = (steps.len() - 1, |a: &usize, b: &usize| value(a).total_cmp(&value(b)));
        let kept = [Some(0), (0..=last).max_by(by), (0..=last).min_by(by), Some(last)];
        let mut i = 0..;
        steps.retain(|_| kept.contains(&i.next()));
    }
    let said = steps
        .iter()
        .map(|(values, names)| format!("{}{}", range(values.iter().copied(), |x| kind.text(x)), part.at(names)));
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| list(&said))
}

/// Where there is one row, what the repeats differ in has a place.
fn of_one_row(part: &Part<'_>, arm: &str, figure: &Figure, of: impl Fn(&CellRecord) -> Option<f64>) -> Option<String> {
    let cell = super::part::find(part.group.rows.first()?, arm)?;
    let middle = figure.kind.text(of(cell)?);
    let spread = match figure.of {
        Of::Each(of) if matches!(figure.kind, Kind::Time | Kind::Rate) => Spread::over(cell, of),
        _ => None,
    };
    let reach = spread.and_then(|s| Some((s, s.relative_range()?))).map(|(s, share)| {
        let (low, high) = (figure.kind.text(s.min), figure.kind.text(s.max));
        format!(" ({low} to {high} in {} runs, {} of the median apart)", s.repeats, percent(share))
    });
    Some(middle + &reach.unwrap_or_default())
}

impl Kind {
    /// Less of a difference is the ordinary spread from cell to cell.
    fn differ(self, a: f64, b: f64) -> bool {
        match self {
            Kind::Count | Kind::Share | Kind::ShareOfTime => (a - b).abs() >= 0.02,
            Kind::Rare | Kind::Time | Kind::Rate => (a - b).abs() >= 0.1 * a.max(b),
        }
    }

    fn text(self, x: f64) -> String {
        match self {
            Kind::Rare if x > 0.0 && x < 0.0005 => "<0.001".into(),
            Kind::Rare if x > 0.0 && x < 0.1 => three_digits(x),
            Kind::Count | Kind::Rare => per_io_text(x),
            Kind::Share | Kind::ShareOfTime => percent(x),
            Kind::Time => span(x),
            Kind::Rate => count(x),
        }
    }
}
