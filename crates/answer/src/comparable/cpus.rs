//! What the CPUs did, and the interrupts on them.

use super::threshold::MATTERS;
use iotrail_base::words::{numbers, percent, plural, span};
use iotrail_schema::measurement::{Circumstances, Measurement, TargetInterrupt, Warning};
use iotrail_schema::measurement::{Engine, Reaper};
use iotrail_schema::setup_flag;

/// Steal is counted in ticks of 10 ms: one or two are what any virtual machine has now and then.
const STEAL_TICKS_NS: u64 = 30_000_000;

/// Kept off by the quota for more than one part in a hundred: the quota, and not the load, set the pace at times.
const THROTTLED: f64 = 0.01;

/// A load of its own CPUs waits for them where interrupts, the kernel's workers and daemons run: that is a few per cent.
/// From a tenth on, the others' work shows in the throughput.
const CONTENDED: f64 = 0.10;

/// Less is a few turns of the scheduler.
const CONTENDED_NS: u64 = 20_000_000;

pub(super) fn steal(c: &Circumstances) -> Option<Warning> {
    let stolen = c.steal_ns?;
    let of = c.span_ns as f64 * c.cpus.len() as f64;
    (stolen >= STEAL_TICKS_NS && stolen as f64 > MATTERS * of).then(|| {
        Warning::new(
            "steal",
            format!("the hypervisor took {} of the time of CPU {}", percent(stolen as f64 / of), numbers(&c.cpus)),
            "repeat when the host is less busy, or on a machine with CPUs of its own",
        )
    })
}

pub(super) fn throttled(c: &Circumstances) -> Option<Warning> {
    let ns = c.throttled_ns?;
    (ns as f64 > THROTTLED * c.span_ns as f64).then(|| {
        let quota = c.cpu_quota.map_or_else(String::new, |q| format!(" of {q:.2} CPUs"));
        Warning::new(
            "throttled",
            format!(
                "the control group's quota{quota} kept its threads off the CPU for {} in {}",
                span(ns as f64),
                span(c.span_ns as f64)
            ),
            "raise the quota (cpu.max, cpu.cfs_quota_us), or run it outside the group",
        )
    })
}

pub(super) fn thermal(c: &Circumstances) -> Option<Warning> {
    let times = c.thermal_throttles.filter(|n| *n > 0)?;
    Some(Warning::new(
        "thermal",
        format!("the CPUs slowed down {} to stay cool", plural(times as usize, "time")),
        "let the machine cool down, and pause between loads",
    ))
}

pub(super) fn mhz(khz: f64) -> String {
    format!("{:.0} MHz", khz / 1000.0)
}

pub(super) fn frequency_changed(c: &Circumstances) -> Option<Warning> {
    let f = c.frequency_khz.filter(|f| f.before > 0)?;
    let (before, after) = (f.before as f64, f.after as f64);
    ((after / before - 1.0).abs() > MATTERS).then(|| {
        Warning::new(
            "frequency_changed",
            format!("CPU {} ran at {} before and at {} after", numbers(&c.cpus), mhz(before), mhz(after)),
            "choose the governor 'performance', use a longer --warmup",
        )
    })
}

/// The first interrupt that is in both lists, with other CPUs.
pub(super) fn moved<'a>(
    before: &'a [TargetInterrupt],
    after: &'a [TargetInterrupt],
) -> Option<(u32, &'a [u32], &'a [u32])> {
    let pair = |b: &'a TargetInterrupt| after.iter().find(|a| a.irq == b.irq && a.cpus != b.cpus).map(|a| (b, a));
    before.iter().find_map(pair).map(|(b, a)| (b.irq, b.cpus.as_slice(), a.cpus.as_slice()))
}

pub(super) fn interrupt_moved(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let (irq, before, after) = moved(&m.host.target.as_ref()?.interrupts, &c.interrupts_after)?;
    Some(Warning::new(
        "interrupt_moved",
        format!(
            "interrupt {irq} of the target went to CPU {} and goes to CPU {} since",
            numbers(before),
            numbers(after)
        ),
        "stop what moves interrupts (irqbalance) while it is measured",
    ))
}

/// Something else than the load had its CPUs. Only said where the load itself leaves them to its threads: with neighbours,
/// helper threads that share the CPU, and kernel workers that finish writes, waiting is what was asked for.
pub(super) fn cpu_contended(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let l = &m.load;
    let threads = l.jobs as usize
        * (1 + usize::from(l.reaper != Reaper::Same) + usize::from(setup_flag::is_set(&l.ring.granted, "sqpoll")));
    // Unbound, threads that wake up meet on one CPU now and then, though others are free.
    let room = if l.cpus.is_empty() { m.host.cpus as usize / 2 } else { distinct(&l.cpus) };
    let from_memory = c.page_cache.as_ref().is_some_and(|p| p.resident.before >= 1.0 - MATTERS);
    // A sender on the same machine is a part of the load.
    let alone = m.net.as_ref().is_none_or(|net| net.between == "hosts")
        && l.neighbour == "none"
        && threads <= room
        && !l.force_async
        && l.engine != Engine::PosixAio
        && !l.rw.writes()
        && (l.direct || from_memory || m.net.is_some());
    // The control group's quota keeps threads that could run waiting too: nobody else has their CPU then.
    let throttled_ns = c.throttled_ns.unwrap_or(0).saturating_mul(threads as u64);
    let waited = c.run_queue_wait_ns.filter(|_| alone)?.saturating_sub(throttled_ns);
    let wall_ns = if m.net.is_some() { m.elapsed_ns * u64::from(l.jobs) } else { m.phases.as_ref()?.total_ns };
    let share = waited as f64 / wall_ns as f64;
    (waited >= CONTENDED_NS && share > CONTENDED).then(|| {
        Warning::new(
            "cpu_contended",
            format!(
                "the load's threads could have run for {} of the time in which something else had their CPU",
                // The wait is of a little more than the measured time.
                percent(share.min(1.0))
            ),
            "stop what else computes, or give the load CPUs of its own (--cpus)",
        )
    })
}

fn distinct(cpus: &[u32]) -> usize {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len()
}
