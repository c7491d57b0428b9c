//! Probes around a load, whosever: attached if they are wanted and can be, and what they saw in the measurement's words.

use super::follow;
use crate::error::{Error, Result};
use crate::load::options::Trace;
use crate::measurement::{
    Interrupt, Ipi, Measurement, ModeSwitch, PerIo, Probe, Punts, TaskWorkBatch, VehicleCount, Warning,
};
use crate::probe::observed::Observed;
use crate::probe::watch::{Room, Subject, Watch};

/// Attaches the probes as `trace` asks. Where it asks for what is possible, a warning says why they could not be attached.
pub(super) fn open<'room>(
    room: &'room mut Room,
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
            let remedy = "`iotrail check` says what is missing and what restores it";
            warnings.push(Warning::new("not_watched", e.to_string(), remedy));
            Ok(None)
        }
    }
}

/// A load needs no probes.
fn or_unwatched(e: Error) -> Error {
    Error { remedy: format!("{}, or run with --trace off", e.remedy), ..e }
}

/// What the watched load says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    /// What the ratios are to.
    pub ios: u64,
    /// Completions that it had from the kernel; `None`: its interface has none, only readiness.
    pub completions: Option<u64>,
    /// System calls; what the load counts itself is exact. `None`: the probes counted, or nobody.
    pub syscalls: Option<u64>,
}

/// The part of a measurement that the probes give.
#[derive(Debug, Default)]
pub(super) struct Seen {
    vehicles: Vec<VehicleCount>,
    per_io: PerIo,
    mode_switches: Vec<ModeSwitch>,
    batches: Vec<TaskWorkBatch>,
    interrupts: Vec<Interrupt>,
    ipis: Vec<Ipi>,
    punts: Option<Punts>,
    probe: Probe,
}

impl Seen {
    /// `observed`: `None` where nothing was watched.
    pub fn of(observed: Option<Observed>, counted: Counted) -> Self {
        let syscalls = counted.syscalls.or(observed.as_ref().and_then(|o| o.syscalls));
        let ratio = |n: Option<u64>| n.filter(|_| counted.ios > 0).map(|n| n as f64 / counted.ios as f64);
        let mut seen = Seen {
            per_io: PerIo { syscalls: ratio(syscalls), ..PerIo::default() },
            probe: Probe { mode: "off".into(), ..Probe::default() },
            ..Seen::default()
        };
        let Some(o) = observed else { return seen };
        if let (Some(syscalls), Some(returns)) = (syscalls, &o.returns) {
            seen.mode_switches.push(ModeSwitch { cause: "syscall".into(), count: syscalls });
            seen.mode_switches
                .extend(returns.iter().map(|(cause, n)| ModeSwitch { cause: (*cause).into(), count: *n }));
        }
        seen.punts = follow::punts(&o);
        seen.per_io.kicks = ratio(o.kicks);
        seen.per_io.resched_ipis = ratio(o.resched_ipis);
        seen.per_io.device_irqs = ratio(o.device_irqs);
        seen.per_io.context_switches = ratio(Some(o.context_switches));
        seen.per_io.task_work_runs = ratio(o.task_work_runs);
        if !seen.mode_switches.is_empty() {
            seen.per_io.mode_switches = ratio(Some(seen.mode_switches.iter().map(|m| m.count).sum()));
        }
        seen.probe = Probe {
            mode: "aggregate".into(),
            completions_seen: counted.completions.map(|_| o.seen),
            untracked: counted.completions.map(|had| had.saturating_sub(o.seen)),
            lost: Some(o.lost),
            missed: o.missed,
            programs: o.programs,
        };
        seen.batches = o.run_batches.iter().map(|&(at_least, runs)| TaskWorkBatch { at_least, runs }).collect();
        (seen.vehicles, seen.interrupts, seen.ipis) = (o.vehicles, o.interrupts, o.ipis);
        seen
    }

    /// Puts it into the measurement.
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
