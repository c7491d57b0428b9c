//! What sides are compared on: a number of each measurement, or a quantile of all their latencies.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::per_io;
use crate::unit::Unit;
use iotrail_schema::measurement::Measurement;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    Iops,
    Elapsed,
    LatencyMean,
    LatencyP50,
    LatencyP99,
    LatencyP99_9,
    LatencyP99_99,
    CpuPerIo,
    KicksPerIo,
    ModeSwitchesPerIo,
    SyscallsPerIo,
    /// Of a program, with all that it started.
    CpuTime,
    /// CPUs in use: CPU time by wall time.
    Cpus,
    /// A program's own.
    Own(&'static OwnMetric),
    /// CPU time of a program per unit of its own metric: what it did, or did per second.
    CpuPerUnit(&'static OwnMetric),
}

/// A figure that a program prints.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnMetric {
    pub name: String,
    pub less_is_better: bool,
    /// Name of the CPU time per unit of it.
    cpu_name: String,
    /// It counts something per second.
    is_rate: bool,
}

fn is_rate(name: &str) -> bool {
    let name = name.to_lowercase();
    let last = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    last.ends_with("ps") || ["s", "sec", "second", "throughput", "bandwidth", "bw", "rate", "speed"].contains(&last)
}

/// Those that this process has met: few, and kept to its end.
static OWN: Mutex<Vec<&'static OwnMetric>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<&'static OwnMetric>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metric {
    /// All but programs' own.
    pub const ALL: [Metric; 13] = [
        Metric::Iops,
        Metric::Elapsed,
        Metric::LatencyMean,
        Metric::LatencyP50,
        Metric::LatencyP99,
        Metric::LatencyP99_9,
        Metric::LatencyP99_99,
        Metric::CpuPerIo,
        Metric::KicksPerIo,
        Metric::ModeSwitchesPerIo,
        Metric::SyscallsPerIo,
        Metric::CpuTime,
        Metric::Cpus,
    ];

    /// Short names.
    const SHORT: [(&str, Metric); 7] = [
        ("p50", Metric::LatencyP50),
        ("p99", Metric::LatencyP99),
        ("p99.9", Metric::LatencyP99_9),
        ("p99.99", Metric::LatencyP99_99),
        ("mean", Metric::LatencyMean),
        ("latency", Metric::LatencyMean),
        ("cpu", Metric::CpuPerIo),
    ];

    /// By its name or its short one. `cpu` of a program is its CPU time.
    pub fn named(text: &str, is_of_program: bool) -> Result<Metric, String> {
        match text.parse() {
            Ok(Metric::CpuPerIo) if text == "cpu" && is_of_program => Ok(Metric::CpuTime),
            found => found,
        }
    }

    /// The program's own figure of this name.
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

    /// Those that are not made of times.
    pub const COUNTS: [Metric; 3] = [Metric::KicksPerIo, Metric::ModeSwitchesPerIo, Metric::SyscallsPerIo];

    /// As on the command line, in experiment files and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Iops => "iops",
            Metric::Elapsed => "elapsed",
            Metric::LatencyMean => "latency_mean",
            Metric::LatencyP50 => "latency_p50",
            Metric::LatencyP99 => "latency_p99",
            Metric::LatencyP99_9 => "latency_p99_9",
            Metric::LatencyP99_99 => "latency_p99_99",
            Metric::CpuPerIo => "cpu_per_io",
            Metric::KicksPerIo => "kicks_per_io",
            Metric::ModeSwitchesPerIo => "mode_switches_per_io",
            Metric::SyscallsPerIo => "syscalls_per_io",
            Metric::CpuTime => "cpu_time",
            Metric::Cpus => "cpus",
            Metric::Own(own) => &own.name,
            Metric::CpuPerUnit(own) => &own.cpu_name,
        }
    }

    /// At the head of a sentence about a load that counts in `unit`.
    pub fn words(self, unit: Unit) -> String {
        match (self, unit) {
            (Metric::Iops, Unit::Io) => "IOPS".into(),
            (Metric::Iops, Unit::Request) => "Requests per second".into(),
            (Metric::Elapsed, _) => "Wall time".into(),
            (Metric::LatencyMean, _) => "Mean latency".into(),
            (Metric::LatencyP50, _) => "Median latency".into(),
            (Metric::LatencyP99, _) => "p99 latency".into(),
            (Metric::LatencyP99_9, _) => "p99.9 latency".into(),
            (Metric::LatencyP99_99, _) => "p99.99 latency".into(),
            (Metric::CpuPerIo, Unit::Io) => "CPU time per I/O".into(),
            (Metric::CpuPerIo, Unit::Request) => "The server's CPU time per request".into(),
            (Metric::KicksPerIo, _) => format!("Kicks per {}", unit.one()),
            (Metric::ModeSwitchesPerIo, _) => format!("Mode switches per {}", unit.one()),
            (Metric::SyscallsPerIo, _) => format!("System calls per {}", unit.one()),
            (Metric::CpuTime, _) => "CPU time".into(),
            (Metric::Cpus, _) => "CPUs in use".into(),
            (Metric::Own(own), _) => own.name.clone(),
            (Metric::CpuPerUnit(own), _) => format!("CPU time per unit of {}", own.name),
        }
    }

    /// More of it is better.
    pub fn higher_is_better(self) -> bool {
        match self {
            Metric::Own(own) => !own.less_is_better,
            metric => metric == Metric::Iops,
        }
    }

    pub fn is_of_cpu(self) -> bool {
        matches!(self, Metric::CpuPerIo | Metric::CpuTime | Metric::CpuPerUnit(_))
    }

    pub fn is_of_time(self) -> bool {
        !Metric::COUNTS.contains(&self)
    }

    /// The quantile of all latencies that it is; `None`: it is a number of each measurement.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Metric::LatencyP50 => Some(0.5),
            Metric::LatencyP99 => Some(0.99),
            Metric::LatencyP99_9 => Some(0.999),
            Metric::LatencyP99_99 => Some(0.9999),
            _ => None,
        }
    }

    /// Of one measurement; times in nanoseconds. `None`: not known.
    pub fn of(self, m: &Measurement) -> Option<f64> {
        let ns = |ns: Option<u64>| ns.map(|ns| ns as f64);
        let of_time_alone =
            matches!(self, Metric::Elapsed | Metric::CpuTime | Metric::Cpus | Metric::Own(_) | Metric::CpuPerUnit(_));
        if m.program.as_ref().is_some_and(|p| !p.watched) && !of_time_alone {
            return None;
        }
        match self {
            Metric::Iops => m.iops,
            Metric::Elapsed => Some(m.elapsed_ns as f64),
            Metric::LatencyMean => m.latency_ns.mean,
            Metric::LatencyP50 => ns(m.latency_ns.p50),
            Metric::LatencyP99 => ns(m.latency_ns.p99),
            Metric::LatencyP99_9 => ns(m.latency_ns.p99_9),
            Metric::LatencyP99_99 => ns(m.latency_ns.p99_99),
            Metric::CpuPerIo => per_io::cpu_ns(m),
            Metric::KicksPerIo => m.per_io.kicks,
            Metric::ModeSwitchesPerIo => m.per_io.mode_switches,
            Metric::SyscallsPerIo => m.per_io.syscalls,
            Metric::CpuTime => ns(m.cpu.user_ns.zip(m.cpu.system_ns).map(|(user, system)| user + system)),
            Metric::Cpus => {
                // The count of a program includes all that it started; that of iotrail's own load leaves out SQPOLL threads and other helpers.
                let cpu = match m.program {
                    Some(_) => Metric::CpuTime.of(m)?,
                    None => per_io::cpu_ns(m)? * m.ios? as f64,
                };
                (m.elapsed_ns > 0).then(|| cpu / m.elapsed_ns as f64)
            }
            Metric::Own(own) => m.program.as_ref()?.figures.iter().find(|f| f.name == own.name).map(|f| f.value),
            Metric::CpuPerUnit(own) => {
                let seconds = if own.is_rate { m.elapsed_ns as f64 / 1e9 } else { 1.0 };
                let units = Metric::Own(own).of(m)? * seconds;
                Metric::CpuTime.of(m).filter(|_| units > 0.0).map(|ns| ns / units)
            }
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
        let found = Metric::ALL.into_iter().find(|m| m.name() == text).or_else(own).or_else(short);
        found.ok_or_else(|| {
            let own: Vec<&str> = known().iter().map(|m| m.name.as_str()).collect();
            let names: Vec<&str> = Metric::ALL.iter().map(|m| m.name()).chain(own).collect();
            let short: Vec<&str> = Metric::SHORT.iter().map(|(short, _)| *short).collect();
            format!("no metric is called '{text}': there are {}; in short {}", names.join(", "), short.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::sample;

    #[test]
    fn short_names_are_those_of_one_list_and_cpu_is_by_the_subject() {
        assert_eq!("p99".parse(), Ok(Metric::LatencyP99));
        assert_eq!(
            (Metric::named("cpu", true), Metric::named("cpu", false)),
            (Ok(Metric::CpuTime), Ok(Metric::CpuPerIo))
        );
        let e = "latency_p98".parse::<Metric>().unwrap_err();
        assert!(e.contains("cpus") && e.contains("; in short p50, p99, "), "{e}");
    }

    #[test]
    fn names_lead_back_to_their_metrics() {
        for m in Metric::ALL {
            assert_eq!(m.to_string().parse(), Ok(m));
        }
        let e = "latency_p98".parse::<Metric>().unwrap_err();
        assert!(e.starts_with("no metric is called 'latency_p98': there are iops, elapsed, latency_mean, "), "{e}");
    }

    #[test]
    fn each_is_read_from_its_field() {
        let mut m = sample::measurement();
        assert_eq!(Metric::Iops.of(&m), Some(250.0));
        assert_eq!(Metric::Elapsed.of(&m), Some(2e9));
        assert_eq!((Metric::LatencyP50.of(&m), Metric::LatencyP99.of(&m)), (Some(3_999_743.0), None));
        assert_eq!((Metric::ModeSwitchesPerIo.of(&m), Metric::SyscallsPerIo.of(&m)), (Some(2.1), Some(1.0)));
        // 1990 ms of user and 10 ms of system time, 500 I/Os.
        assert_eq!(Metric::CpuPerIo.of(&m), Some(4e6));
        m.load.ring.granted.push("sqpoll".into());
        assert_eq!(Metric::CpuPerIo.of(&m), None);
        m.cpu.sqpoll_ns = Some(500_000_000);
        assert_eq!(Metric::CpuPerIo.of(&m), Some(5e6));
    }
}
