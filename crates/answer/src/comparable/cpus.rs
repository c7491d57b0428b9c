//! Other activity on the CPUs, and their interrupts.

use super::threshold::MATTERS;
use iotrail_base::words::{numbers, percent, plural, span};
use iotrail_schema::measurement::{Circumstances, Measurement, TargetInterrupt, Warning};
use iotrail_schema::measurement::{Engine, Reaper};
use iotrail_schema::setup_flag;

/// Steal is counted in 10 ms ticks; every virtual machine occasionally loses one or two.
const STEAL_TICKS_NS: u64 = 30_000_000;

/// The quota kept threads off their CPUs for more than 1 % of the time, so it limited the rate at times.
const THROTTLED: f64 = 0.01;

/// A load on CPUs of its own waits a few per cent of the time because of interrupts, kernel workers and daemons. From
/// 10 %, other work affects throughput.
const CONTENDED: f64 = 0.10;

/// A shorter wait amounts to a few scheduler slices.
const CONTENDED_NS: u64 = 20_000_000;

pub(super) fn steal(c: &Circumstances) -> Option<Warning> {
    let stolen = c.steal_ns?;
    let of = c.span_ns as f64 * c.cpus.len() as f64;
    (stolen >= STEAL_TICKS_NS && stolen as f64 > MATTERS * of).then(|| {
        Warning::new(
            "steal",
            format!("the hypervisor took {} of the time of CPU {}", percent(stolen as f64 / of), numbers(&c.cpus)),
            "repeat when the host is less busy, or on a machine with dedicated CPUs",
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
                "the cgroup's CPU quota{quota} throttled its threads for {} in {}",
                span(ns as f64),
                span(c.span_ns as f64)
            ),
            "raise the quota (cpu.max, cpu.cfs_quota_us), or run the load outside the cgroup",
        )
    })
}

pub(super) fn thermal(c: &Circumstances) -> Option<Warning> {
    let times = c.thermal_throttles.filter(|n| *n > 0)?;
    Some(Warning::new(
        "thermal",
        format!("the CPUs were thermally throttled {}", plural(times as usize, "time")),
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
            "select the governor 'performance', or use a longer --warmup",
        )
    })
}

/// The first interrupt in both lists whose CPUs differ.
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
        format!("interrupt {irq} of the target moved from CPU {} to CPU {}", numbers(before), numbers(after)),
        "stop services that move interrupts (irqbalance) during the measurement",
    ))
}

/// Another program used the load's CPUs. Reported only if the load itself leaves its CPUs to its threads: with more
/// threads than CPUs, helper threads on the same CPU or kernel workers that finish writes, the wait is part of the
/// load.
pub(super) fn cpu_contended(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    if m.program.is_some() {
        // The threads need as many CPUs as they use and wait for, and at least one.
        let cpu_ns = m.cpu.user_ns.unwrap_or(0) + m.cpu.system_ns.unwrap_or(0);
        let waited = c.others_had_cpu_ns?.saturating_sub(c.throttled_ns.unwrap_or(0));
        return contended("program", waited, m.elapsed_ns.max(cpu_ns + waited));
    }
    let l = &m.load;
    let threads = l.jobs as usize
        * (1 + usize::from(l.reaper != Reaper::Same) + usize::from(setup_flag::is_set(&l.ring.granted, "sqpoll")));
    // Unpinned threads occasionally wake up on the same CPU even if other CPUs are idle.
    let room = if l.cpus.is_empty() { m.host.cpus as usize / 2 } else { distinct(&l.cpus) };
    let from_memory = c.page_cache.as_ref().is_some_and(|p| p.resident.before >= 1.0 - MATTERS);
    // A sender on the same machine is part of the load.
    let alone = m.net.as_ref().is_none_or(|net| net.between == "hosts")
        && l.neighbour == "none"
        && threads <= room
        && !l.force_async
        && l.engine != Engine::PosixAio
        && !l.rw.writes()
        && (l.direct || from_memory || m.net.is_some());
    // The cgroup's quota also stops runnable threads, without another program using their CPU.
    let throttled_ns = c.throttled_ns.unwrap_or(0).saturating_mul(threads as u64);
    let waited = c.run_queue_wait_ns.filter(|_| alone)?.saturating_sub(throttled_ns);
    let wall_ns = if m.net.is_some() { m.elapsed_ns * u64::from(l.jobs) } else { m.phases.as_ref()?.total_ns };
    contended("load", waited, wall_ns)
}

fn contended(whose: &str, waited: u64, of_ns: u64) -> Option<Warning> {
    let share = waited as f64 / of_ns as f64;
    (waited >= CONTENDED_NS && share > CONTENDED).then(|| {
        let cpu = "a CPU that another program used";
        Warning::new(
            "cpu_contended",
            match share > 1.0 {
                // The wait covers a slightly longer period than the measurement.
                true => format!(
                    "the {whose}'s threads waited {} for {cpu}, around {} of measurement",
                    span(waited as f64),
                    span(of_ns as f64)
                ),
                false => format!("the {whose}'s threads spent {} of the time waiting for {cpu}", percent(share)),
            },
            format!("stop other CPU-bound programs, or give the {whose} its own CPUs (--cpus)"),
        )
    })
}

fn distinct(cpus: &[u32]) -> usize {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len()
}
