//! `iotrail monitor`: traces permanently, within a CPU budget.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;

use crate::cli::{duration, seconds};
use iotrail_base::error::{Error, Result};
use iotrail_base::interrupt;
use iotrail_base::units::Bytes;
use iotrail_base::words::{bytes, percent, span};
use iotrail_host::cpu;
use iotrail_report::terminal;
use iotrail_schema::stall::Stall;
use iotrail_scrape::{self as scrape, Server};
use iotrail_store::default_path;
use iotrail_watch::monitor::budget::{Budget, Step};
use iotrail_watch::monitor::triggers::{Threshold, Thresholds};
use iotrail_watch::monitor::when::When;
use iotrail_watch::monitor::{self, Asked, News, Options, Subject};
use iotrail_watch::namespace::Numbers;
use iotrail_watch::subject::{self, Target};
use iotrail_watch::windows::Windows;

#[derive(Debug, Args)]
pub struct MonitorArgs {
    /// Monitor this process and its descendants; may be repeated
    #[arg(short, long = "pid", value_name = "TGID", allow_negative_numbers = true, value_parser = crate::cli::process,
          conflicts_with_all = ["all", "cgroup", "unit"])]
    processes: Vec<u32>,

    /// Monitor every process that uses io_uring or native aio [default]
    #[arg(short, long)]
    all: bool,

    /// Monitor the processes in this cgroup and its descendants; PATH is as in /proc/PID/cgroup
    #[arg(long, value_name = "PATH", conflicts_with_all = ["all", "unit"])]
    cgroup: Option<String>,

    /// Monitor the processes of this systemd unit
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    unit: Option<String>,

    /// Serve OpenMetrics or Prometheus text at http://ADDR/metrics: an address and port, or only a port (on the loopback address); port 0
    /// selects a free port and prints it
    #[arg(long, value_name = "ADDR", value_parser = scrape::address)]
    metrics: Option<scrape::Address>,

    /// Limit the CPU time of the monitor and its probes to this share of all CPUs' time
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = share)]
    cpu_budget: f64,

    /// Limit the memory of the monitor
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = memory)]
    memory_budget: u64,

    /// Set how long a condition must last, per trigger (slow_sync=2s), or as a multiple of the ring's latency in windows
    /// (slow_request=20xp99.9); may be repeated. Defaults: docs/monitoring.md
    #[arg(long, value_name = "TRIGGER=TIME")]
    threshold: Vec<Threshold>,

    /// Capture when a metric crosses a threshold ('unreaped > 100', 'rate(stalls) >= 0.5'); checked every second; may be repeated
    #[arg(long, value_name = "EXPR")]
    when: Vec<When>,

    /// Attach the counting probes for OPEN in every PERIOD, if requests are completing and the budget allows it; 0: never
    #[arg(long, value_name = "OPEN/PERIOD", default_value = "1s/5m", value_parser = windows)]
    windows: SomeWindows,

    /// Trace a stalled process for this time, if the budget allows it; 0: never
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = seconds)]
    trace: Duration,

    /// Report a stall when more than this many requests per second are punted to io-wq in a window
    #[arg(long, value_name = "RATE", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    punts: u32,

    /// Stop after this time (seconds, or 500ms, 2m; default: until the specified processes exit, or SIGTERM)
    #[arg(long = "for", value_name = "SECONDS", allow_negative_numbers = true, value_parser = duration)]
    duration: Option<Duration>,

    #[command(flatten)]
    place: CaptureDir,
}

/// Where captures of stalls are.
#[derive(Debug, Args)]
pub struct CaptureDir {
    /// Keep the captures in this directory (default: the store's path with .stalls appended)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Keep the captures next to this store (default: $XDG_STATE_HOME/iotrail/iotrail.db, otherwise ~/.local/state/iotrail/iotrail.db)
    #[arg(long, value_name = "PATH", conflicts_with = "dir")]
    store: Option<PathBuf>,
}

impl CaptureDir {
    pub fn is_named(&self) -> bool {
        self.dir.is_some()
    }

    pub fn path(&self) -> Result<PathBuf> {
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        let store = self.store.clone().map_or_else(default_path, Ok)?;
        let mut name = store.into_os_string();
        name.push(".stalls");
        Ok(name.into())
    }
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse::<f64>().ok().filter(|p| *p >= 0.1 && *p <= 50.0);
    percent.map(|p| p / 100.0).ok_or_else(|| format!("'{text}' is not a share: write 0.1% to 50%"))
}

fn memory(text: &str) -> std::result::Result<u64, String> {
    let Bytes(n) = text.parse()?;
    if n < 8 << 20 { Err("the monitor needs at least 8MiB".into()) } else { Ok(n) }
}

/// `None`: the probes are never attached.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SomeWindows(Option<Windows>);

fn windows(text: &str) -> std::result::Result<SomeWindows, String> {
    if text == "0" { Ok(SomeWindows(None)) } else { text.parse().map(|windows| SomeWindows(Some(windows))) }
}

pub fn run(args: &MonitorArgs) -> Result<u8> {
    let known = monitor::metrics();
    if let Some(when) = args.when.iter().find(|when| !known.contains(&when.metric())) {
        return Err(Error::input(
            format!("unknown metric {}", when.metric()),
            format!("--when accepts {}", known.join(", ")),
        ));
    }
    let numbers = Rc::new(Numbers::of_this_process()?);
    let subject = subject_of(args, &numbers)?;
    let mut thresholds = Thresholds::default();
    args.threshold.iter().for_each(|threshold| thresholds.set(*threshold));
    let stop = interrupt::raise_flag()?;
    interrupt::reload_by_sighup()?;
    let server = args.metrics.clone().map(Server::start).transpose()?;
    if let Some(server) = &server {
        say(Priority::Info, &format!("metrics: http://{}/metrics", server.at()));
    }
    let options = Options {
        subject,
        budget: Budget { cpu: args.cpu_budget, cpus: cpu::online()?.len(), memory: args.memory_budget },
        thresholds,
        when: args.when.clone(),
        dir: args.place.path()?,
        duration: args.duration,
        windows: args.windows.0,
        trace: Some(args.trace).filter(|span| !span.is_zero()),
        punts_per_s: args.punts.into(),
        metrics: server.as_ref().map(|server| Arc::clone(server.desk())),
        numbers,
    };
    let asked = Asked { stop: &|| stop.load(Ordering::Relaxed), reload: &interrupt::reload };
    let manager = ServiceManager::of_environment();
    let dir = options.dir.clone();
    let ended = monitor::monitor(options, &asked, &mut |news| {
        told(&news, &manager, &dir);
        // A unit may be started later, or its name may be wrong.
        if let (News::Ready { processes: 0 }, Some(unit)) = (&news, &args.unit) {
            say(Priority::Warning, &format!("unit {unit} has no process; waiting for one"));
        }
    });
    manager.notify("STOPPING=1");
    ended.map(|()| 0)
}

fn subject_of(args: &MonitorArgs, numbers: &Numbers) -> Result<Subject> {
    if let Some(group) = &args.cgroup {
        let absent = || {
            Error::input(
                format!("cgroup {group} does not exist"),
                "use its path as in /proc/PID/cgroup: /system.slice/x.service",
            )
        };
        return if monitor::exists(group) { Ok(Subject::Cgroup(group.clone())) } else { Err(absent()) };
    }
    if let Some(unit) = &args.unit {
        return Ok(Subject::Unit(unit.clone()));
    }
    if args.processes.is_empty() {
        return Ok(Subject::All);
    }
    let found = subject::resolve(&[], &args.processes, false, numbers)?;
    let Target::Processes(processes) = found else { return Err(Error::internal("processes were named")) };
    Ok(Subject::Processes(processes.iter().map(|process| process.tgid).collect()))
}

fn told(news: &News<'_>, manager: &ServiceManager, dir: &Path) {
    match news {
        News::Ready { processes } => {
            manager.notify("READY=1");
            say(Priority::Info, &format!("monitoring; processes: {processes}; captures go to {}", dir.display()));
        }
        News::Alive => manager.notify("WATCHDOG=1"),
        News::Reloaded { processes } => say(Priority::Info, &format!("reloaded; processes: {processes}")),
        News::Step(step) => say(Priority::Warning, &step_line(step)),
        News::Stall(stall) => say(Priority::Warning, &line(stall)),
        News::Limited { trigger, process } => {
            say(
                Priority::Warning,
                &format!("stall {} of {} is counted, not captured: too many", trigger.name(), process.comm),
            );
        }
        News::Failed(e) => say(Priority::Warning, &e.to_string()),
    }
}

fn step_line(step: &Step) -> String {
    let cost = format!("{} of all CPU time, {}", percent(step.cpu), bytes(step.memory));
    let name = step.layer.name();
    match step.is_shed {
        true => format!("shed {name} (cost {cost}): {}", step.layer.lost()),
        false => format!("restored {name} (cost {cost})"),
    }
}

/// `stall unreaped pid=7 comm=db ring=3 lasted=250 ms: …`.
fn line(stall: &Stall) -> String {
    let state = if stall.is_over { "stall ended" } else { "stall" };
    let ring = stall.ring.map(|fd| format!(" ring={fd}")).unwrap_or_default();
    let lasted = span(stall.lasted_ns as f64);
    let process = &stall.process;
    format!(
        "{state} {} pid={} comm={}{ring} lasted={lasted}: {}",
        stall.trigger.name(),
        process.tgid,
        process.comm,
        stall.text
    )
}

/// Numbered as in syslog(3).
#[derive(Clone, Copy)]
enum Priority {
    Warning = 4,
    Info = 6,
}

/// Adds the prefix that journald evaluates, if standard error is connected to journald.
fn say(priority: Priority, text: &str) {
    let journal = std::env::var("JOURNAL_STREAM").ok();
    let is_journal = journal.is_some_and(|journal| {
        std::fs::metadata("/proc/self/fd/2").is_ok_and(|m| format!("{}:{}", m.dev(), m.ino()) == journal)
    });
    let prefix = if is_journal { format!("<{}>", priority as u8) } else { String::new() };
    terminal::say(&format!("{prefix}{text}"));
}

/// sd_notify(3).
struct ServiceManager(Option<(UnixDatagram, SocketAddr)>);

impl ServiceManager {
    fn of_environment() -> Self {
        let connect = || {
            let name = std::env::var_os("NOTIFY_SOCKET")?;
            let address = match name.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(&name),
            };
            Some((UnixDatagram::unbound().ok()?, address.ok()?))
        };
        ServiceManager(connect())
    }

    /// Without a service manager, the monitor continues.
    fn notify(&self, state: &str) {
        if let Some((socket, to)) = &self.0 {
            socket.send_to_addr(state.as_bytes(), to).map(drop).unwrap_or(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_budget_is_parsed_as_a_share_of_all_cpus() {
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("2.5"), Ok(0.025));
        for wrong in ["0", "0.01%", "51%", "-1%", "much", "nan"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert_eq!(memory("64MiB"), Ok(64 << 20));
        assert!(memory("1M").is_err());
    }

    #[test]
    fn a_window_option_of_0_disables_windows() {
        assert_eq!(windows("0"), Ok(SomeWindows(None)));
        assert!(windows("1s/5m").is_ok_and(|w| w.0.is_some()) && windows("5m/1s").is_err());
    }
}
