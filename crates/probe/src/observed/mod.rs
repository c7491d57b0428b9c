//! Converts the probes' counts to the types of the measurement.

mod delivery_paths;
mod expanded;
mod interrupts;
mod losses;
mod open;
mod readout;
mod rings;
pub mod window_counts;

use std::collections::BTreeMap;

use super::carrier::handler;
use super::function::{same_as, sees_ipis_sent};
use super::rings::{ContextCounts, FollowLoss, OpenCounts, OtherCounts, Process, RingCounts};
use super::sampled_events::{Sampled, SampledEvents, Sums};
use super::skel::types;
use super::subject::{Interface, Subject};
use super::support::Plan;
use super::symbols::Symbols;
use interrupts::{Credits, interrupts, ipis, resched_ipis, returns};
use iotrail_host::irq::Interrupts;
use iotrail_path::entry;
use iotrail_path::loss::Full;
use iotrail_schema::measurement::{DeliveryPathCount, Interrupt, Ipi, Missed};
use iotrail_schema::waker::Line;
pub(super) use losses::lost;
use losses::{full, of_followed};
use open::open;
pub(super) use readout::Raw;
use rings::{by_context, by_ring, others};
use window_counts::CountIntervals;

/// Counts of one trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The counts add up to `seen`.
    pub vehicles: Vec<DeliveryPathCount>,
    pub seen: u64,
    /// Losses that affect completions.
    pub lost: u64,
    /// Events missed by each program, including the events in `lost`.
    pub missed: Vec<Missed>,
    /// `None` if the program is not attached or symbols are hidden.
    pub kicks: Option<u64>,
    pub resched_ipis: Option<u64>,
    /// Device interrupts in which I/O of a traced process ended (`credit.h`).
    pub device_irqs: Option<u64>,
    /// Device interrupts for all devices and processes.
    pub any_device_irqs: u64,
    /// Returns to user mode by cause, other than system-call exits.
    pub returns: Option<BTreeMap<&'static str, u64>>,
    pub context_switches: u64,
    /// `None` if the interface has no task work.
    pub task_work_runs: Option<u64>,
    /// Task work runs by number of items: (lower bound, runs).
    pub run_batches: Vec<(u64, u64)>,
    /// Counted only if the load cannot count its interface's system calls.
    pub syscalls: Option<u64>,
    pub interrupts: Vec<Interrupt>,
    pub ipis: Vec<Ipi>,
    pub programs: Vec<String>,
    /// Page faults from user mode; `None` if the program is not attached.
    pub page_faults: Option<u64>,
    /// System calls of submitting threads other than io_uring_enter; `None` if not counted.
    pub stray_calls: Option<u64>,
    /// pread64 and pwrite64 calls; `None` if not counted.
    pub pread_pwrite_calls: Option<u64>,
    /// Native aio requests whose submission began unobserved.
    pub aio_unseen: u64,
    /// By ring and opcode; empty unless requested.
    pub rings: Vec<RingCounts>,
    /// The same for native and POSIX AIO.
    pub contexts: Vec<ContextCounts>,
    pub follow_loss: FollowLoss,
    /// Distinct io-wq worker threads that ran.
    pub iowq_workers: u64,
    /// Maximum number of concurrent io-wq workers.
    pub iowq_most: u64,
    /// Traced processes.
    pub processes: Vec<Process>,
    /// Number of further traced processes, without names.
    pub more_processes: u64,
    /// Sums of the rings and contexts beyond those listed.
    pub others: Vec<OtherCounts>,
    /// Windows from which system calls and device interrupts are estimated; `None` if they were counted throughout.
    pub sampled_events: Option<SampledEvents>,
    /// 95 % intervals of estimated numbers, by [`Sampled::name`].
    pub intervals: BTreeMap<&'static str, (f64, f64)>,
    /// Intervals of the counts by ring, opcode and delivery path; empty if they were counted throughout.
    pub count_intervals: CountIntervals,
    /// Traced requests in flight at the end, oldest first.
    pub open: Vec<OpenCounts>,
    /// Events that did not fit, by kind.
    pub full: Vec<(Full, u64)>,
}

pub(super) fn observe(
    raw: &Raw,
    subject: &Subject,
    plan: &Plan,
    symbols: Option<&Symbols>,
    proc_interrupts: Option<&Interrupts>,
) -> Observed {
    let has = |program: &str| plan.attach.contains(&program);
    let sum = |f: fn(&types::cpu_slot) -> u64| raw.slots.iter().map(f).sum::<u64>();
    let line = |irq: u32| Line { irq, name: proc_interrupts.and_then(|p| handler(p, irq)) };

    let page_faults = plan.attach.iter().any(|name| same_as(name) == "mode_page_fault").then(|| sum(|s| s.page_faults));
    let vehicles = delivery_paths::of_all(raw, subject, symbols, &line);
    let missed = raw.misses.iter().filter(|(_, events)| **events > 0);
    let ipis = ipis(raw, symbols);
    let sent = plan.attach.iter().any(|name| sees_ipis_sent(name));
    let kicks = (sent && symbols.is_some())
        .then(|| ipis.iter().filter(|i| entry::is_kick_site(&i.site)).map(|i| i.count).sum());
    let credited = interrupts::credited(raw);
    let tells_whose = interrupts::tells_whose(plan) && symbols.is_some();
    let estimates = estimates(raw);
    // The count, or its estimate if it was not counted throughout.
    let number = |sampled: Sampled, counted: Option<u64>| match raw.events(sampled) {
        None => counted,
        Some(_) => counted.and(estimates.get(sampled.name())).map(|(total, _)| total.round() as u64),
    };
    let device_irqs = number(Sampled::DeviceIrqs, tells_whose.then_some(credited));
    let credits =
        device_irqs.map(|_| Credits { seen: credited, estimate: estimates.get(Sampled::DeviceIrqs.name()).copied() });
    let calls = |of: fn(&types::cpu_slot) -> u64| has("mode_sys_exit").then(|| sum(of));
    let switches = sum(|s| s.switches);
    let is_ring = matches!(subject.interface, Interface::IoUring { .. } | Interface::Any);
    let observed = Observed {
        count_intervals: CountIntervals::new(),
        seen: vehicles.iter().map(|v| v.completions).sum(),
        vehicles,
        lost: lost(raw, subject),
        missed: missed.map(|(program, events)| Missed { program: (*program).into(), events: *events }).collect(),
        kicks: number(Sampled::Kicks, kicks),
        resched_ipis: number(Sampled::ReschedIpis, sent.then(|| resched_ipis(raw))),
        device_irqs,
        any_device_irqs: any_device_irqs(raw),
        returns: returns(raw, symbols, page_faults, &line),
        context_switches: number(Sampled::ContextSwitches, Some(switches)).unwrap_or(switches),
        task_work_runs: number(Sampled::TaskWorkRuns, is_ring.then(|| sum(|s| s.runs))),
        run_batches: (0..16)
            .map(|i| (1 << i, raw.slots.iter().map(|s| s.run_batch[i]).sum::<u64>()))
            .filter(|(_, runs)| *runs > 0)
            .collect(),
        syscalls: number(Sampled::Syscalls, calls(|s| s.syscalls)),
        interrupts: interrupts(raw, subject, credits, proc_interrupts),
        ipis,
        programs: plan.attach.iter().map(|s| s.to_string()).collect(),
        stray_calls: number(Sampled::StrayCalls, calls(|s| s.stray_calls).filter(|_| subject.follow.is_some())),
        page_faults,
        pread_pwrite_calls: number(Sampled::PreadPwriteCalls, calls(|s| s.rw_calls)),
        aio_unseen: sum(|s| s.aio_unseen),
        rings: by_ring(raw, symbols, &line),
        contexts: by_context(raw, symbols, &line),
        follow_loss: of_followed(raw),
        iowq_workers: raw.workers.0,
        iowq_most: raw.workers.1,
        processes: raw.processes.clone(),
        more_processes: raw.more_processes,
        others: others(raw, symbols, &line),
        intervals: estimates.iter().map(|(name, (_, interval))| (*name, *interval)).collect(),
        sampled_events: raw.sampled_events.clone(),
        open: open(&raw.open),
        full: full(raw),
    };
    let rest = raw.light.as_ref().map(SampledEvents::rest);
    let count_intervals = raw.window_counts.as_ref().zip(rest);
    let count_intervals = count_intervals.map(|((of, known), rest)| of.intervals(&observed, rest, *known));
    Observed { count_intervals: count_intervals.unwrap_or_default(), ..observed }
}

impl Observed {
    /// Counts up to time `ns` that windows of all programs estimate.
    pub(super) fn sums(&self, ns: u64, completions: u64) -> Sums {
        let of = |sampled| match sampled {
            Sampled::Syscalls => self.syscalls,
            Sampled::StrayCalls => self.stray_calls,
            Sampled::PreadPwriteCalls => self.pread_pwrite_calls,
            Sampled::DeviceIrqs => self.device_irqs,
            Sampled::Kicks => self.kicks,
            Sampled::ReschedIpis => self.resched_ipis,
            Sampled::Returns => self.returns.as_ref().map(|r| r.values().sum()),
            Sampled::ContextSwitches => Some(self.context_switches),
            Sampled::TaskWorkRuns => self.task_work_runs,
        };
        Sums { ns, completions, events: Sampled::ALL.map(|sampled| of(sampled).unwrap_or(0)) }
    }
}

/// Estimates and intervals, at most the interrupts of all devices. Without an interval, the number is unknown.
fn estimates(raw: &Raw) -> BTreeMap<&'static str, (f64, (f64, f64))> {
    let any_irqs = any_device_irqs(raw) as f64;
    let estimate = |sampled: Sampled| {
        let t = raw.events(sampled)?.total(sampled)?;
        let (lo, hi) = t.interval?;
        let most = if sampled == Sampled::DeviceIrqs { any_irqs } else { f64::INFINITY };
        Some((sampled.name(), (t.total.min(most), (lo.min(most), hi.min(most)))))
    };
    Sampled::ALL.into_iter().filter_map(estimate).collect()
}

/// Interrupts of all devices and processes, counted throughout.
fn any_device_irqs(raw: &Raw) -> u64 {
    raw.irqs.iter().map(|(.., n)| n.count).sum()
}
