//! All metrics of a measurement, each declared once: name, wording, unit, better direction, divisor and reader.
//! Comparisons, tables, conclusions, pages and studies use these declarations.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::delivered::tick_rate;
use crate::per_io::{self, mode_switches, place, server_ns};
use crate::spread::Spread;
use crate::timelines::{Timeline, way};
use crate::unit;
use iotrail_base::words::{self, count, percent, span, three_digits};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{Latency, Measurement, Phases};
use iotrail_schema::place::Place;
use iotrail_schema::program_record::ProgramRecord;

#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Identifier on the command line, in experiment files, exports and JSON.
    pub id: &'static str,
    /// Wording at the start of a sentence. The load's unit replaces `I/O`.
    pub words: &'static str,
    pub unit: Unit,
    pub better: Better,
    pub per: Per,
    pub of: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of events or objects.
    Count,
    /// A count that may be as rare as one per thousand I/Os.
    Rare,
    /// A share of completions or I/Os, not a share of time.
    Share,
    ShareOfTime,
    /// Nanoseconds.
    Time,
    /// Per second.
    Rate,
}

impl Unit {
    /// Whether two values differ by more than the usual spread between cells.
    pub fn differ(self, a: f64, b: f64) -> bool {
        match self {
            Unit::Count | Unit::Share | Unit::ShareOfTime => (a - b).abs() >= 0.02,
            Unit::Rare | Unit::Time | Unit::Rate => (a - b).abs() >= 0.1 * a.max(b),
        }
    }

    pub fn text(self, x: f64) -> String {
        match self {
            Unit::Rare if x > 0.0 && x < 0.0005 => "<0.001".into(),
            Unit::Rare if x > 0.0 && x < 0.1 => three_digits(x),
            Unit::Count | Unit::Rare => words::per_io(x),
            Unit::Share | Unit::ShareOfTime => percent(x),
            Unit::Time => span(x),
            Unit::Rate => count(x),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Less,
    More,
}

/// The divisor of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// The measurement's `ios`.
    Io,
    /// `operations` if known, because an operation may have two completions; otherwise `ios`.
    Operation,
    Nothing,
}

#[derive(Debug, Clone, Copy)]
pub enum Reading {
    /// One value per repeat.
    Each(fn(&Measurement) -> Option<f64>),
    /// One value for all repeats together.
    All(fn(&[Measurement]) -> Option<f64>),
}

macro_rules! figures {
    ($($name:ident $id:literal $words:literal $unit:ident $better:ident $per:ident $of:ident $read:expr;)+) => {
        /// A metric for comparisons, tables and conclusions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $($name,)+
            /// A metric that the measured program prints.
            Own(&'static OwnMetric),
            /// A program's CPU time per unit of its own metric: per unit of work, or per unit of work per second.
            CpuPerUnit(&'static OwnMetric),
        }

        impl Metric {
            /// All metrics except those that programs print.
            pub const ALL: &[Metric] = &[$(Metric::$name,)+];

            /// `None` for a metric that the program prints.
            pub fn figure(self) -> Option<Figure> {
                use {Better::*, Reading::*, Per::*, Unit::*};
                match self {
                    $(Metric::$name => Some(Figure { id: $id, words: $words, unit: $unit, better: $better, per: $per, of: $of($read) }),)+
                    Metric::Own(_) | Metric::CpuPerUnit(_) => None,
                }
            }
        }
    };
}

figures! {
    Iops "iops" "IOPS" Rate More Nothing Each |m| m.iops;
    Elapsed "elapsed" "Wall time" Time Less Nothing Each |m| Some(m.elapsed_ns as f64);
    LatencyMean "latency_mean" "Mean latency" Time Less Nothing Each |m| m.latency_ns.mean;
    LatencyP50 "latency_p50" "Median latency" Time Less Nothing Each |m| ns(m.latency_ns.p50);
    LatencyP99 "latency_p99" "p99 latency" Time Less Nothing Each |m| ns(m.latency_ns.p99);
    LatencyP99_9 "latency_p99_9" "p99.9 latency" Time Less Nothing Each |m| ns(m.latency_ns.p99_9);
    LatencyP99_99 "latency_p99_99" "p99.99 latency" Time Less Nothing Each |m| ns(m.latency_ns.p99_99);
    CpuPerIo "cpu_per_io" "CPU time per I/O" Time Less Operation Each per_io::cpu_ns;
    KicksPerIo "kicks_per_io" "Kicks per I/O" Count Less Io Each |m| m.per_io.kicks;
    ModeSwitchesPerIo "mode_switches_per_io" "Mode switches per I/O" Rare Less Io Each |m| m.per_io.mode_switches;
    SyscallsPerIo "syscalls_per_io" "System calls per I/O" Count Less Io Each |m| m.per_io.syscalls;
    CpuTime "cpu_time" "CPU time" Time Less Nothing Each cpu_time;
    Cpus "cpus" "CPUs in use" ShareOfTime Less Nothing Each cpus;
    ReschedIpisPerIo "resched_ipis_per_io" "Reschedule IPIs per I/O" Count Less Io Each |m| m.per_io.resched_ipis;
    DeviceIrqsPerIo "device_irqs_per_io" "Device interrupts per I/O" Count Less Io Each |m| m.per_io.device_irqs;
    ContextSwitchesPerIo "context_switches_per_io" "Context switches per I/O" Count Less Io Each |m| m.per_io.context_switches;
    TaskWorkRunsPerIo "task_work_runs_per_io" "Task-work runs per I/O" Count Less Io Each |m| m.per_io.task_work_runs;
    SyscallReturns "syscall_returns_per_io" "Returns from system calls" Rare Less Io Each |m| mode_switches(m, "syscall");
    PageFaults "page_faults_per_io" "Returns from page faults" Rare Less Io Each |m| mode_switches(m, "page_fault");
    DeviceIrqReturns "device_irq_returns_per_io" "Returns from device interrupts" Rare Less Io Each |m| mode_switches(m, "device_irq");
    TimerTickReturns "timer_tick_returns_per_io" "Returns from timer ticks" Rare Less Io Each |m| mode_switches(m, "timer_tick");
    ReschedIpiReturns "resched_ipi_returns_per_io" "Returns from reschedule IPIs" Rare Less Io Each |m| mode_switches(m, "resched_ipi");
    TimerTickShare "timer_tick_share" "Delivered by the timer tick" Share Less Nothing Each timer_tick_share;
    TimerTickDelay "timer_tick_delay" "Median delay of these, in ticks" Count Less Nothing Each timer_tick_delay;
    DeliveryDelayP50 "delivery_delay_p50" "Delivery delay, p50" Time Less Nothing Each |m| delay(m, |l| l.p50);
    DeliveryDelayP90 "delivery_delay_p90" "Delivery delay, p90" Time Less Nothing Each |m| delay(m, |l| l.p90);
    DeliveryDelayP99 "delivery_delay_p99" "Delivery delay, p99" Time Less Nothing Each |m| delay(m, |l| l.p99);
    LateShare "late_share" "Delivered more than 1 ms after ready" ShareOfTime Less Nothing All per_io::late_share;
    FoundPosted "found_posted_share" "Posted before the job asked" Share Less Nothing All |all| timeline(all, Timeline::Before);
    FoundPostedDelay "found_posted_delay" "Their delivery delay" Time Less Nothing All |all| timeline_delay(all, Timeline::Before);
    FoundReady "found_ready_share" "Delivered by the asking call" Share Less Nothing All |all| timeline(all, Timeline::Ready);
    FoundReadyDelay "found_ready_delay" "Their delivery delay" Time Less Nothing All |all| timeline_delay(all, Timeline::Ready);
    SleptFor "slept_for_share" "Slept for" Share Less Nothing All |all| timeline(all, Timeline::Slept);
    SleptForDelay "slept_for_delay" "Their delivery delay" Time Less Nothing All |all| timeline_delay(all, Timeline::Slept);
    SqpollWakeupsPerIo "sqpoll_wakeups_per_io" "Wake-ups of the SQPOLL thread per I/O" Count Less Io Each per_io::wakeups;
    SqpollWakeupShare "sqpoll_wakeup_share" "I/Os that had to wake the SQPOLL thread" Share Less Io Each |m| Some(per_io::wakeups(m)?.min(1.0));
    SqpollCpuShare "sqpoll_cpu_share" "CPU share of the SQPOLL thread" ShareOfTime Less Nothing Each sqpoll_cpu_share;
    SqpollPerIo "sqpoll_per_io" "CPU time of the SQPOLL thread per I/O" Time Less Io Each per_io::sqpoll_ns;
    PuntsBlocked "punts_would_block_per_io" "Punted to io-wq per I/O, because it would have blocked" Count Less Io Each |m| Some(per_io::punts(m)?.1);
    PuntsAsked "punts_asked_per_io" "Punted to io-wq per I/O, because the load requested it" Count Less Io Each |m| Some(per_io::punts(m)?.0);
    PuntsPerIo "punts_per_io" "Requests punted to io-wq per I/O" Count Less Io Each |m| per_io::punts(m).map(|(asked, blocked)| asked + blocked);
    HelpersPerIo "helpers_per_io" "CPU time per I/O in workers" Time Less Io Each per_io::helpers_ns;
    UserPerIo "user_per_io" "In user mode, per I/O" Time Less Io All |all| Some(place(all, |p| p == Place::User)?.ns);
    SubmitPerIo "submit_per_io" "Taking requests, per I/O" Time Less Io All |all| Some(place(all, |p| p == Place::Submit)?.ns);
    CopyPerIo "copy_per_io" "Copying, per I/O" Time Less Io All |all| Some(place(all, |p| p == Place::Copy)?.ns);
    MemoryPerIo "memory_per_io" "Pinning pages and page faults, per I/O" Time Less Io All |all| Some(place(all, |p| p == Place::Memory)?.ns);
    FilesPerIo "files_per_io" "File system and page cache, per I/O" Time Less Io All |all| Some(place(all, |p| p == Place::FileSystem)?.ns);
    CallsPerIo "calls_per_io" "System call entry and exit, per I/O" Time Less Io All |all| Some(place(all, |p| p == Place::SyscallEntry)?.ns);
    CallsSampled "calls_sampled_per_io" "System call entry and exit, per I/O" Time Less Io All calls;
    CallOfABatch "call_of_a_batch" "Entry and exit of a system call for several I/Os" Time Less Nothing All call_of_a_batch;
    IpiShare "ipi_share" "CPU time in IPIs" ShareOfTime Less Nothing All |all| per_io::share_of_place(all, Place::Ipi);
    IdleShare "idle_share" "Idle CPU time" ShareOfTime More Nothing All |all| per_io::share_of_place(all, Place::Idle);
    InterruptShare "interrupt_share" "CPU time in device interrupts" ShareOfTime Less Nothing Each per_io::interrupt_share;
    SubmitPhase "submit_share" "Time in submission" ShareOfTime Less Nothing Each |m| phase(m, |p| p.submit);
    PollPhase "poll_share" "Time in polling" ShareOfTime Less Nothing Each |m| phase(m, |p| p.poll);
    ClearPhase "clear_share" "Time in clearing" ShareOfTime Less Nothing Each |m| phase(m, |p| p.clear);
    OtherPhase "other_share" "Other time" ShareOfTime Less Nothing Each |m| phase(m, |p| p.other);
    UserTime "user_time" "CPU time in user mode" Time Less Nothing Each |m| ns(m.cpu.user_ns);
    SystemTime "system_time" "CPU time in kernel mode" Time Less Nothing Each |m| ns(m.cpu.system_ns);
    BytesPerSecond "bytes_per_second" "Bytes per second" Rate More Nothing Each bytes_per_second;
    ServerIdle "server_idle" "Idle time per second" Time More Nothing Each |m| server_ns(m, |s| s.idle_ns);
    ServerUser "server_user" "User time per second" Time Less Nothing Each |m| server_ns(m, |s| s.user_ns);
    ServerSystem "server_system" "Kernel time per second" Time Less Nothing Each |m| server_ns(m, |s| s.system_ns);
    Inversions "inversions_per_completion" "Inversions per completion" Rare Less Nothing Each inversions;
    DeviceWritesPerIo "device_writes_per_io" "Device writes per I/O" Count Less Io Each |m| m.per_io(per_io::device(m)?.writes?);
    DeviceFlushesPerIo "device_flushes_per_io" "Device flushes per I/O" Count Less Io Each |m| m.per_io(per_io::device(m)?.flushes?);
    DeviceWriteTime "device_write_time_per_io" "In device writes, per I/O" Time Less Io Each |m| m.per_io(per_io::device(m)?.write_ns?);
    DeviceFlushTime "device_flush_time_per_io" "In device flushes, per I/O" Time Less Io Each |m| m.per_io(per_io::device(m)?.flush_ns?);
    Displacement "max_displacement" "Farthest displacement" Count Less Nothing Each |m| Some(m.delivery().filter(|d| d.completions > 0)?.max_displacement as f64);
}

fn ns(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64)
}

pub fn cpu_time(m: &Measurement) -> Option<f64> {
    Some((m.cpu.user_ns? + m.cpu.system_ns?) as f64)
}

/// For a program, CPU time includes all its child processes; for iotrail's own load, it excludes SQPOLL threads and
/// other helpers.
fn cpus(m: &Measurement) -> Option<f64> {
    let cpu = if m.program.is_some() { cpu_time(m)? } else { per_io::cpu_ns(m)? * m.ios? as f64 };
    (m.elapsed_ns > 0).then(|| cpu / m.elapsed_ns as f64)
}

fn delay(m: &Measurement, of: fn(&Latency) -> Option<u64>) -> Option<f64> {
    ns(of(&m.stages.as_ref()?.delivery_delay_ns))
}

fn phase(m: &Measurement, of: fn(&Phases) -> f64) -> Option<f64> {
    m.phases.as_ref().map(of)
}

fn timeline(all: &[Measurement], timeline: Timeline) -> Option<f64> {
    Some(way(all, timeline)?.share)
}

fn timeline_delay(all: &[Measurement], timeline: Timeline) -> Option<f64> {
    ns(way(all, timeline)?.delay_p50_ns)
}

fn timer_tick_share(m: &Measurement) -> Option<f64> {
    let all: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    let ticked = m.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::TimerTick).map(|v| v.completions);
    (all > 0).then(|| ticked.sum::<u64>() as f64 / all as f64)
}

/// A path may have several entries that differ in detail: uses the entry with most completions.
fn timer_tick_delay(m: &Measurement) -> Option<f64> {
    let ticked = m.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::TimerTick).max_by_key(|v| v.completions)?;
    Some(ticked.delay_ns.as_ref()?.p50? as f64 / 1e9 * tick_rate(m)?)
}

fn sqpoll_cpu_share(m: &Measurement) -> Option<f64> {
    m.cpu.sqpoll_ns.filter(|_| m.elapsed_ns > 0).map(|ns| ns as f64 / m.elapsed_ns as f64)
}

/// `None` if this place has too few samples.
fn calls(all: &[Measurement]) -> Option<f64> {
    const FEWEST: u64 = 5;
    place(all, |p| p == Place::SyscallEntry).filter(|s| s.samples >= FEWEST).map(|s| s.ns.round())
}

fn call_of_a_batch(all: &[Measurement]) -> Option<f64> {
    let batch = Some(all.first()?.load.batch).filter(|n| *n > 1)?;
    Some(calls(all)? * f64::from(batch))
}

fn bytes_per_second(m: &Measurement) -> Option<f64> {
    m.bytes.filter(|_| m.elapsed_ns > 0).map(|n| n as f64 / (m.elapsed_ns as f64 / 1e9))
}

fn inversions(m: &Measurement) -> Option<f64> {
    m.delivery().filter(|d| d.completions > 0).map(|d| d.inversions as f64 / d.completions as f64)
}

/// A metric that a program prints.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnMetric {
    pub name: String,
    pub less_is_better: bool,
    /// Name of its CPU time per unit.
    cpu_name: String,
    /// The metric counts something per second.
    is_rate: bool,
}

/// In the middle of a sentence: `mean latency`, but `CPUs in use`.
pub(crate) fn mid_sentence(words: &str) -> String {
    let is_name = words.chars().nth(1).is_some_and(char::is_uppercase);
    let first = words.chars().take(1);
    if is_name { words.into() } else { first.flat_map(char::to_lowercase).chain(words.chars().skip(1)).collect() }
}

fn is_rate(name: &str) -> bool {
    let name = name.to_lowercase();
    let last = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    last.ends_with("ps") || ["s", "sec", "second", "throughput", "bandwidth", "bw", "rate", "speed"].contains(&last)
}

/// Metrics registered by this process: a few, never freed.
static OWN: Mutex<Vec<&'static OwnMetric>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<&'static OwnMetric>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metric {
    /// Aliases.
    const SHORT: [(&str, Metric); 7] = [
        ("p50", Metric::LatencyP50),
        ("p99", Metric::LatencyP99),
        ("p99.9", Metric::LatencyP99_9),
        ("p99.99", Metric::LatencyP99_99),
        ("mean", Metric::LatencyMean),
        ("latency", Metric::LatencyMean),
        ("cpu", Metric::CpuPerIo),
    ];

    /// Looks up a metric by name or alias. For a program, `cpu` is its CPU time.
    pub fn named(text: &str, is_of_program: bool) -> Result<Metric, String> {
        match text.parse() {
            Ok(Metric::CpuPerIo) if text == "cpu" && is_of_program => Ok(Metric::CpuTime),
            found => found,
        }
    }

    /// The program's own metric with this name.
    pub fn own(name: &str, less_is_better: bool) -> Metric {
        let mut known = known();
        if let Some(found) = known.iter().find(|m| m.name == name && m.less_is_better == less_is_better) {
            return Metric::Own(found);
        }
        let (cpu_name, is_rate) = (format!("cpu_per_unit:{name}"), is_rate(name));
        let new = OwnMetric { name: name.into(), less_is_better, cpu_name, is_rate };
        let new: &'static OwnMetric = Box::leak(Box::new(new));
        known.push(new);
        Metric::Own(new)
    }

    /// Metrics that do not depend on time.
    pub const COUNTS: [Metric; 3] = [Metric::KicksPerIo, Metric::ModeSwitchesPerIo, Metric::SyscallsPerIo];

    /// The counts in a measurement's `per_io`.
    pub const PER_IO: [Metric; 7] = [
        Metric::SyscallsPerIo,
        Metric::KicksPerIo,
        Metric::ReschedIpisPerIo,
        Metric::DeviceIrqsPerIo,
        Metric::ModeSwitchesPerIo,
        Metric::ContextSwitchesPerIo,
        Metric::TaskWorkRunsPerIo,
    ];

    /// Name on the command line, in experiment files and in JSON.
    pub fn name(self) -> &'static str {
        match (self, self.figure()) {
            (_, Some(figure)) => figure.id,
            (Metric::CpuPerUnit(own), _) => &own.cpu_name,
            (Metric::Own(own), _) => &own.name,
            _ => unreachable!("all others are figures"),
        }
    }

    /// Wording at the start of a sentence, for a load that counts in `unit`.
    pub fn words(self, unit: unit::Unit) -> String {
        match (self, unit, self.figure()) {
            (Metric::Iops, unit::Unit::Request, _) => "Requests per second".into(),
            (Metric::CpuPerIo, unit::Unit::Request, _) => "The server's CPU time per request".into(),
            (_, _, Some(figure)) => figure.words.replace("I/O", unit.one()),
            (Metric::CpuPerUnit(own), ..) => format!("CPU time per unit of {}", own.name),
            _ => self.name().into(),
        }
    }

    /// Its field in a measurement's `per_io`, if any.
    pub fn field(self) -> &'static str {
        self.name().trim_end_matches("_per_io")
    }

    /// The counted events, such as `reschedule IPIs`, for a list of counts with a common unit.
    pub fn counted(self) -> String {
        mid_sentence(self.figure().map_or("", |f| f.words).trim_end_matches(" per I/O"))
    }

    /// More of it is better.
    pub fn higher_is_better(self) -> bool {
        match self {
            Metric::Own(own) => !own.less_is_better,
            metric => metric.figure().is_some_and(|f| f.better == Better::More),
        }
    }

    pub fn is_of_cpu(self) -> bool {
        matches!(self, Metric::CpuPerIo | Metric::CpuTime | Metric::CpuPerUnit(_))
    }

    /// Meaningless on an emulated machine.
    pub fn is_of_time(self) -> bool {
        !self.figure().is_some_and(|f| matches!(f.unit, Unit::Count | Unit::Rare | Unit::Share))
    }

    /// The latency quantile of this metric; `None` if each measurement has a value.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Metric::LatencyP50 => Some(0.5),
            Metric::LatencyP99 => Some(0.99),
            Metric::LatencyP99_9 => Some(0.999),
            Metric::LatencyP99_99 => Some(0.9999),
            _ => None,
        }
    }

    /// The value in one measurement; times are in nanoseconds. `None` if unknown.
    pub fn of(self, m: &Measurement) -> Option<f64> {
        let of_time_alone =
            matches!(self, Metric::Elapsed | Metric::CpuTime | Metric::Cpus | Metric::Own(_) | Metric::CpuPerUnit(_));
        // Replays have metrics of their own.
        let is_unknown = |p: &ProgramRecord| !p.watched && m.ios.unwrap_or(0) == 0;
        if m.program.as_deref().is_some_and(is_unknown) && !of_time_alone {
            return None;
        }
        match self {
            Metric::Own(own) => m.program.as_ref()?.figures.iter().find(|f| f.name == own.name).map(|f| f.value),
            Metric::CpuPerUnit(own) => {
                let seconds = if own.is_rate { m.elapsed_ns as f64 / 1e9 } else { 1.0 };
                let units = Metric::Own(own).of(m)? * seconds;
                Metric::CpuTime.of(m).filter(|_| units > 0.0).map(|ns| ns / units)
            }
            metric => match metric.figure()?.of {
                Reading::Each(of) => of(m),
                Reading::All(of) => of(std::slice::from_ref(m)),
            },
        }
    }

    /// Whether each repeat has a value.
    pub fn is_of_each(self) -> bool {
        !self.figure().is_some_and(|f| matches!(f.of, Reading::All(_)))
    }

    /// The value over a cell's repeats: their median, or a pooled value.
    pub fn over(self, all: &[Measurement]) -> Option<f64> {
        match self.figure().map(|f| f.of) {
            Some(Reading::All(of)) => of(all),
            _ => Spread::of_known(all.iter().map(|m| self.of(m))).map(|s| s.median),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let own = || {
            let of = |m: &&'static OwnMetric| match text {
                _ if m.name == text => Some(Metric::Own(m)),
                _ if m.cpu_name == text => Some(Metric::CpuPerUnit(m)),
                _ => None,
            };
            known().iter().find_map(of)
        };
        let short = || Metric::SHORT.into_iter().find(|(short, _)| *short == text).map(|(_, metric)| metric);
        let found = Metric::ALL.iter().copied().find(|m| m.name() == text).or_else(own).or_else(short);
        found.ok_or_else(|| {
            let own: Vec<&str> = known().iter().map(|m| m.name.as_str()).collect();
            let names: Vec<&str> = Metric::ALL.iter().map(|m| m.name()).chain(own).collect();
            let short: Vec<&str> = Metric::SHORT.iter().map(|(short, _)| *short).collect();
            format!("unknown metric '{text}': the metrics are {}; in short {}", names.join(", "), short.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use iotrail_schema::measurement::PerIo;
    use iotrail_testing::sample;

    #[test]
    fn metric_ids_are_unique_and_each_per_io_count_has_a_metric() {
        let ids: HashSet<&str> = Metric::ALL.iter().map(|m| m.name()).collect();
        assert_eq!(ids.len(), Metric::ALL.len());
        let fields = serde_json::to_value(PerIo::default()).unwrap();
        let fields: HashSet<&str> = fields.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, Metric::PER_IO.iter().map(|m| m.field()).collect());
    }

    #[test]
    fn per_io_metrics_are_labelled_and_cpu_time_is_per_operation() {
        let of = |metric: Metric| metric.figure().unwrap().per;
        assert!(
            Metric::PER_IO.iter().all(|m| of(*m) == Per::Io && m.words(crate::unit::Unit::Io).ends_with(" per I/O"))
        );
        assert_eq!((of(Metric::CpuPerIo), of(Metric::Iops)), (Per::Operation, Per::Nothing));
        assert_eq!(Metric::PER_IO.map(Metric::counted)[..3], ["system calls", "kicks", "reschedule IPIs"]);
    }

    #[test]
    fn short_metric_names_are_accepted_and_cpu_depends_on_the_subject() {
        assert_eq!("p99".parse(), Ok(Metric::LatencyP99));
        assert_eq!(
            (Metric::named("cpu", true), Metric::named("cpu", false)),
            (Ok(Metric::CpuTime), Ok(Metric::CpuPerIo))
        );
        let e = "latency_p98".parse::<Metric>().unwrap_err();
        assert!(e.contains("cpus") && e.contains("; in short p50, p99, "), "{e}");
    }

    #[test]
    fn metric_names_parse_back_to_their_metrics() {
        for m in Metric::ALL.iter().copied() {
            assert_eq!(m.to_string().parse(), Ok(m));
        }
        let e = "latency_p98".parse::<Metric>().unwrap_err();
        assert!(e.starts_with("unknown metric 'latency_p98': the metrics are iops, elapsed, latency_mean, "), "{e}");
    }

    #[test]
    fn each_metric_is_read_from_its_field() {
        let mut m = sample::measurement();
        assert_eq!(Metric::Iops.of(&m), Some(250.0));
        assert_eq!(Metric::Elapsed.of(&m), Some(2e9));
        assert_eq!((Metric::LatencyP50.of(&m), Metric::LatencyP99.of(&m)), (Some(3_999_743.0), None));
        assert_eq!((Metric::ModeSwitchesPerIo.of(&m), Metric::SyscallsPerIo.of(&m)), (Some(2.1), Some(1.0)));
        // 1,990 ms of user and 10 ms of system time; 500 I/Os.
        assert_eq!(Metric::CpuPerIo.of(&m), Some(4e6));
        m.load.ring.granted.push("sqpoll".into());
        assert_eq!(Metric::CpuPerIo.of(&m), None);
        m.cpu.sqpoll_ns = Some(500_000_000);
        assert_eq!(Metric::CpuPerIo.of(&m), Some(5e6));
    }
}
