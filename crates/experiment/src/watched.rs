//! Probes around any kind of load: attaches them if requested and possible, and converts their results.

use super::follow;
use iotrail_answer::warnings::doubt;
use iotrail_base::error::{Error, Result};
use iotrail_load::options::Trace;
use iotrail_probe::observed::Observed;
use iotrail_probe::subject::Subject;
use iotrail_probe::watch::{ObjectSlot, Watch};
use iotrail_schema::measurement::{
    DeliveryPathCount, Interrupt, Ipi, Measurement, ModeSwitch, PerIo, Probe, Punts, TaskWorkBatch, Warning,
};

/// Attaches the probes according to `trace`. With `auto`, a failure becomes a warning with the reason.
pub(super) fn open<'room>(
    room: &'room mut ObjectSlot,
    subject: Subject,
    trace: Trace,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Watch<'room>>> {
    if trace == Trace::Off {
        return Ok(None);
    }
    match Watch::open(room, subject).map_err(or_unwatched) {
        Ok(watch) => Ok(Some(watch)),
        Err(e) if trace == Trace::On => Err(e),
        Err(e) => {
            let remedy = "`iotrail check` lists missing features and how to enable them";
            warnings.push(Warning::new("not_watched", e.to_string(), remedy));
            Ok(None)
        }
    }
}

/// A load does not depend on the probes.
fn or_unwatched(e: Error) -> Error {
    Error { remedy: format!("{}, or run with --trace off", e.remedy), ..e }
}

/// Values counted by the load itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    /// Divisor of the ratios.
    pub ios: u64,
    /// Completions from the kernel; `None` if its interface reports only readiness.
    pub completions: Option<u64>,
    /// Whether each completion has an event. Buffered native AIO is synchronous and has none.
    pub leave_events: bool,
    /// Exact system call count if the load counts them itself; `None` if only the probes do, or nothing does.
    pub syscalls: Option<u64>,
}

/// The probes' part of a measurement.
#[derive(Debug, Default)]
pub(super) struct ProbeFigures {
    vehicles: Vec<DeliveryPathCount>,
    per_io: PerIo,
    mode_switches: Vec<ModeSwitch>,
    batches: Vec<TaskWorkBatch>,
    interrupts: Vec<Interrupt>,
    ipis: Vec<Ipi>,
    punts: Option<Punts>,
    probe: Probe,
}

/// The BPF programs that observe completions, including native AIO on a file system.
const SEE_COMPLETIONS: [&str; 7] = [
    "ring_complete",
    "follow_complete",
    "follow_complete_members",
    "aio_iomap_complete",
    "aio_called_back",
    "aio_called_back_kprobe",
    "mode_sys_exit",
];

impl ProbeFigures {
    /// `observed`: `None` without probes. If the probes observed fewer than half of the completions, they traced
    /// something other than this load. All counts are then invalid; with `Trace::On` that is an error.
    pub fn of(observed: Option<Observed>, counted: Counted, trace: Trace) -> Result<Self> {
        let syscalls = counted.syscalls.or(observed.as_ref().and_then(|o| o.syscalls));
        let ratio = |n: Option<u64>| n.filter(|_| counted.ios > 0).map(|n| n as f64 / counted.ios as f64);
        let mut seen = ProbeFigures {
            per_io: PerIo { syscalls: ratio(syscalls), ..PerIo::default() },
            probe: Probe { mode: "off".into(), ..Probe::default() },
            ..ProbeFigures::default()
        };
        let Some(o) = observed else { return Ok(seen) };
        let punts = follow::punts(&o);
        let events = counted.leave_events && o.programs.iter().any(|name| SEE_COMPLETIONS.contains(&name.as_str()));
        seen.probe = Probe {
            mode: "aggregate".into(),
            completions_seen: counted.completions.filter(|_| events).map(|_| o.seen),
            untracked: counted.completions.map(|had| had.saturating_sub(o.seen)),
            lost: Some(o.lost),
            missed: o.missed,
            programs: o.programs,
        };
        if doubt::is_another_load(&seen.probe, counted.completions.unwrap_or(0)) {
            let had = counted.completions.unwrap_or(0);
            let what = format!("the probes saw {} of the load's {had} completions", o.seen);
            return match trace {
                Trace::On => Err(Error::machine(what, "run it with --trace off, and report this as a bug")),
                // The load's own system call count remains valid.
                _ => {
                    Ok(ProbeFigures { per_io: PerIo { syscalls: ratio(counted.syscalls), ..PerIo::default() }, ..seen })
                }
            };
        }
        if let (Some(syscalls), Some(returns)) = (syscalls, &o.returns) {
            seen.mode_switches.push(ModeSwitch { cause: "syscall".into(), count: syscalls });
            seen.mode_switches
                .extend(returns.iter().map(|(cause, n)| ModeSwitch { cause: (*cause).into(), count: *n }));
        }
        seen.punts = punts;
        seen.per_io.kicks = ratio(o.kicks);
        seen.per_io.resched_ipis = ratio(o.resched_ipis);
        seen.per_io.device_irqs = ratio(o.device_irqs);
        seen.per_io.context_switches = ratio(Some(o.context_switches));
        seen.per_io.task_work_runs = ratio(o.task_work_runs);
        if !seen.mode_switches.is_empty() {
            seen.per_io.mode_switches = ratio(Some(seen.mode_switches.iter().map(|m| m.count).sum()));
        }
        seen.batches = o.run_batches.iter().map(|&(at_least, runs)| TaskWorkBatch { at_least, runs }).collect();
        (seen.vehicles, seen.interrupts, seen.ipis) = (o.vehicles, o.interrupts, o.ipis);
        Ok(seen)
    }

    /// Adds the results to the measurement.
    pub fn tell(self, m: &mut Measurement) {
        m.vehicles = self.vehicles;
        m.per_io = self.per_io;
        m.mode_switches = self.mode_switches;
        m.task_work_batches = self.batches;
        m.interrupts = self.interrupts;
        m.ipis = self.ipis;
        m.punts = self.punts;
        m.probe = self.probe;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(seen: u64, programs: &[&str]) -> Observed {
        Observed {
            seen,
            kicks: Some(0),
            context_switches: 0,
            task_work_runs: Some(0),
            programs: programs.iter().map(|name| (*name).to_owned()).collect(),
            ..Observed::default()
        }
    }

    fn counted(completions: Option<u64>) -> Counted {
        Counted { ios: 5000, completions, leave_events: true, syscalls: Some(10_000) }
    }

    #[test]
    fn zero_counts_of_an_unobserved_load_are_not_reported() {
        let seen = |n, trace| ProbeFigures::of(Some(observed(n, &["ring_complete"])), counted(Some(5000)), trace);
        let none = seen(0, Trace::Auto).unwrap();
        assert_eq!((none.probe.completions_seen, none.probe.untracked), (Some(0), Some(5000)));
        assert_eq!(none.per_io, PerIo { syscalls: Some(2.0), ..PerIo::default() });
        assert!(none.vehicles.is_empty() && none.mode_switches.is_empty() && none.ipis.is_empty());
        assert_eq!(seen(2499, Trace::Auto).unwrap().per_io.kicks, None);
        assert_eq!(seen(5000, Trace::Auto).unwrap().per_io.kicks, Some(0.0));
        let e = seen(0, Trace::On).err().unwrap();
        assert_eq!(
            (e.exit_status(), e.to_string().as_str()),
            (3, "the probes saw 0 of the load's 5000 completions; run it with --trace off, and report this as a bug",)
        );
    }

    #[test]
    fn completions_without_events_are_unknown_but_other_counts_are_kept() {
        let buffered = Counted { leave_events: false, ..counted(Some(5000)) };
        let seen = ProbeFigures::of(Some(observed(0, &["aio_iomap_complete"])), buffered, Trace::On).unwrap();
        assert_eq!((seen.probe.completions_seen, seen.probe.untracked), (None, Some(5000)));
        assert_eq!(seen.per_io.kicks, Some(0.0));
        let epoll = ProbeFigures::of(Some(observed(0, &["sched_switched"])), counted(None), Trace::On).unwrap();
        assert_eq!((epoll.probe.completions_seen, epoll.probe.untracked), (None, None));
        assert_eq!(epoll.per_io.kicks, Some(0.0));
    }
}
