//! How a thread learns of its completions: by tick, by kick, and on which CPU.

use super::calls::{cpu, cpu_outside_calls};
use super::cpu as for_cpu;
use super::{Check, ENOUGH, ENOUGH_EVENTS, ENOUGH_FOLLOWED, RULE, RestsOn, Rule};
use crate::delivered::{WORTH_SAYING, has, share, share_of, tick_rate, why_the_tick};
use iotrail_base::words::{count, percent, span, three_digits};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::finding::{Finding, Severity};
use iotrail_schema::measurement::Wait;
use iotrail_schema::measurement::{DeliveryPathCount, Interrupt, Ipi, Measurement};
use iotrail_schema::trace_record::{CpuPair, RingRecord, TraceRecord};

pub const STRANDED: Rule = Rule {
    code: "stranded",
    about: "at least 5 % (and at least 20) of a ring's completions waited for the timer tick. At least half of them waited 50 µs or longer",
    rests_on: RestsOn::Completions,
    advice: "wait in io_uring_enter instead of polling the CQ ring: a thread in the kernel does not depend on the tick",
    checks: &[Check::Ring(stranded), Check::Measurement(stranded_load)],
    ..RULE
};

fn stranded(t: &TraceRecord, r: &RingRecord) -> Option<Finding> {
    if r.completions < ENOUGH {
        return None;
    }
    // The tick interrupted the thread in user mode; any other kernel entry would have delivered the completion earlier.
    // So the thread polls the CQ ring, or computes.
    let ticks: u64 = r.vehicles.iter().filter(|v| v.vehicle == DeliveryPath::TimerTick).map(|v| v.completions).sum();
    if ticks < ENOUGH_EVENTS {
        return None;
    }
    let mut f = STRANDED.from(r.completions, waited_for_tick(&r.vehicles, &r.flags, true)?);
    let delay = r.vehicles.iter().find(|v| v.vehicle == DeliveryPath::TimerTick).and_then(|v| v.delay_ns.as_ref()?.p50);
    f.bound = r.stages.as_ref().zip(delay).and_then(|(stages, delay)| {
        let of_delivery = share(&r.vehicles, DeliveryPath::TimerTick) * delay as f64 / stages.delivery_ns.max(1.0);
        super::of_delivery(Some(stages), of_delivery.min(1.0))
    });
    let one_thread = crossing(t).filter(|pair| pair.threads.is_none_or(|n| n <= 1));
    if let Some((cpu, line)) = one_thread.and_then(|c| Some((c.ready_cpu, line_on(t, c.ready_cpu)?))) {
        f.remedy += &format!(
            "; or run the thread on CPU {cpu}, where the interrupts of {} would deliver the completions",
            line.name
        );
        f.evidence.insert("interrupt_cpu".into(), f64::from(cpu));
    }
    Some(f)
}

/// A completion delivered by a tick within this time did not wait for the tick. 50 µs is ten times a normal delivery
/// and 1 % of the tick period.
const WAITED_NS: u64 = 50_000;

/// Completions of a traced ring or of a load that waited for the timer tick.
pub fn waited_for_tick(vehicles: &[DeliveryPathCount], ring_flags: &[String], peeks: bool) -> Option<Finding> {
    let share = share(vehicles, DeliveryPath::TimerTick);
    let delay = vehicles.iter().find(|v| v.vehicle == DeliveryPath::TimerTick).and_then(|v| v.delay_ns.as_ref()?.p50);
    if share < WORTH_SAYING || delay.is_some_and(|ns| ns < WAITED_NS) {
        return None;
    }
    let long = delay.map(|ns| format!(" (median {} after ready)", span(ns as f64))).unwrap_or_default();
    let why = why_the_tick(ring_flags, peeks);
    let text = format!("{} of completions waited for the timer tick{long}. {why}", percent(share));
    let mut evidence = vec![("share", share)];
    evidence.extend(delay.map(|ns| ("delay_p50_ns", ns as f64)));
    let mut f = STRANDED.finding(Severity::warning_if(share >= 0.5), text, &evidence);
    if has(ring_flags, "coop_taskrun") {
        f.remedy = match has(ring_flags, "taskrun_flag") {
            false => {
                "set `taskrun_flag`, so that the thread enters the kernel when the ring reports pending task work; \
                 or wait in io_uring_enter; or drop `coop_taskrun`"
            }
            true => {
                "check IORING_SQ_TASKRUN in the SQ ring's flags, and enter the kernel when it is set, as taskrun_flag requires; or wait in \
                 io_uring_enter"
            }
        }
        .into();
    }
    Some(f)
}

fn stranded_load(m: &Measurement) -> Option<Finding> {
    let mut f = waited_for_tick(&m.vehicles, &m.load.ring.requested, m.load.wait == Wait::Peek)?;
    let iops = m.iops?;
    f.evidence.insert("iops".into(), iops);
    if let Some(ticks) = tick_rate(m) {
        f.text += &format!(
            ". The CPU took {} ticks per second, and {} I/Os per second completed: {} per tick",
            count(ticks.round()),
            count(iops.round()),
            three_digits(iops / (ticks * m.load.cpus.len() as f64))
        );
        f.evidence.insert("ticks_per_s".into(), ticks);
    }
    Some(f)
}

pub const KICK_STORM: Rule = Rule {
    code: "kick_storm",
    about: "at least 0.5 kicks per I/O, with at least 100 kicks in total and 1,000 per second. It is a warning at 10,000 per second or more",
    rests_on: RestsOn::Completions,
    advice: "set coop_taskrun (with taskrun_flag if the thread only polls the CQ ring) or defer_taskrun, which send no kicks; a thread on the CPU \
             that takes the interrupts needs no kicks",
    checks: &[Check::Trace(kick_storm), Check::Measurement(|m| kicks(m.per_io.kicks?, m.iops?, ""))],
    ..RULE
};

fn kick_storm(t: &TraceRecord) -> Option<Finding> {
    if t.total.ios < ENOUGH {
        return None;
    }
    let per_io = t.total.per_io.kicks?;
    if per_io * (t.total.ios as f64) < ENOUGH as f64 {
        return None;
    }
    // The total I/O rate applies to the full span.
    let ios_per_s = t.total.ios as f64 / super::seconds(t)?;
    let mut f = KICK_STORM.from(t.total.ios, kicks(per_io, ios_per_s, " while the rings were in use")?);
    // The kernel handles a kick outside of system calls, like page faults and other interrupts.
    f.bound = cpu(cpu_outside_calls(t));
    // Kicks are not counted per ring, but only these rings request them.
    let kicked: Vec<&RingRecord> = t.rings.iter().filter(|r| asks_for_kicks(r)).collect();
    if let [one] = kicked.as_slice() {
        f.ring = Some(one.ring);
    }
    Some(f)
}

/// A kick for every other I/O. Below it, most I/Os found the thread in the kernel already, or completed in batches.
const KICKS_PER_IO: f64 = 0.5;
/// A kick costs the interrupted thread about 1 µs (several in a virtual machine), so this rate takes 0.1 % of a CPU.
const KICKS_PER_S: f64 = 1_000.0;
/// 1 % of a CPU.
const KICKS_COST_PER_S: f64 = 10_000.0;

/// Frequent interrupts that make a running thread notice its completions.
fn kicks(per_io: f64, ios_per_s: f64, within: &str) -> Option<Finding> {
    let per_s = per_io * ios_per_s;
    if per_io < KICKS_PER_IO || per_s < KICKS_PER_S {
        return None;
    }
    let text = format!(
        "{} kicks per I/O, {} per second{within}. The thread was running when its completions became ready, and another CPU sent it a reschedule \
         interrupt",
        three_digits(per_io),
        count(per_s)
    );
    let evidence = [("kicks_per_io", per_io), ("kicks_per_s", per_s)];
    Some(KICK_STORM.finding(Severity::warning_if(per_s >= KICKS_COST_PER_S), text, &evidence))
}

fn asks_for_kicks(r: &RingRecord) -> bool {
    let quiet = ["coop_taskrun", "defer_taskrun", "sqpoll", "iopoll"];
    r.completions > 0 && !quiet.iter().any(|flag| has(&r.flags, flag))
}

/// Three of four: threads on two CPUs cross half of the time by chance.
const CROSSING: f64 = 0.75;
/// Notifications of the thread by the other CPU, per I/O. In batches, one wake-up covers many I/Os, and crossing CPUs
/// costs little.
const TOLD_PER_IO: f64 = 0.25;
/// Device interrupts per crossing completion. With fewer, another cause made the completions ready on that CPU.
const INTERRUPTS_PER_IO: f64 = 0.1;

/// The pair of ready and posting CPUs that most traced completions crossed, if most completions crossed at all.
fn crossing(t: &TraceRecord) -> Option<&CpuPair> {
    let followed: u64 = t.total.cpu_pairs.iter().map(|p| p.completions).sum();
    let all: u64 = t.total.cpu_pairs.iter().map(CpuPair::stands_for).sum();
    let most = t.total.cpu_pairs.iter().filter(|p| p.ready_cpu != p.posted_cpu).max_by_key(|p| p.stands_for())?;
    // Completions with known CPUs must be the majority of traced completions to be representative.
    let enough = followed >= ENOUGH_FOLLOWED && 2 * followed >= t.total.followed.completions;
    (enough && most.stands_for() as f64 >= CROSSING * all as f64).then_some(most)
}

/// The IRQ that ended most of the program's I/O on this CPU. The device's other work does not count.
fn line_on(t: &TraceRecord, cpu: u32) -> Option<&Interrupt> {
    let own = |i: &&Interrupt| i.cpu == cpu && i.credited.is_some_and(|n| n > 0);
    t.total.interrupts.iter().filter(own).max_by_key(|i| i.credited)
}

pub const WRONG_CORE: Rule = Rule {
    code: "wrong_core",
    about: "at least three in four completions became ready in a device's interrupts on one CPU, and were posted on one other CPU. The other CPU needed at least one notification per four I/Os. If several threads submit, the advice is to move the interrupts, not the threads",
    rests_on: RestsOn::Followed,
    checks: &[Check::Trace(wrong_core)],
    ..RULE
};

/// The thread runs on one CPU but its device interrupts another, which has to notify it each time.
fn wrong_core(t: &TraceRecord) -> Option<Finding> {
    let pair = crossing(t)?;
    let line = line_on(t, pair.ready_cpu)?;
    let crossing = pair.estimated.map_or(pair.completions as f64 * f64::from(t.total.followed.one_in), |n| n as f64);
    // Interrupts are also counted while windows finish.
    let crossing = crossing * t.total.followed.of_all();
    // An SQPOLL thread polls, so no CPU has to notify it.
    let interrupts = line.credited? as f64;
    if interrupts < INTERRUPTS_PER_IO * crossing || share(&t.total.vehicles, DeliveryPath::Sqpoll) >= CROSSING {
        return None;
    }
    let across = |i: &&Ipi| i.from_cpu == pair.ready_cpu && i.to_cpu == pair.posted_cpu;
    let ipis: u64 = t.total.ipis.iter().filter(across).map(|i| i.count).sum();
    let ipis_per_io = ipis as f64 / t.total.ios.max(1) as f64;
    // An idle CPU that polls is woken without an interrupt; then the thread's sleeps count instead.
    let woken = share_of(&t.total.vehicles, |v| v.waker().and_then(|w| w.cpu()) == Some(pair.ready_cpu));
    let sleeps_per_io = if woken >= CROSSING { t.total.per_io.context_switches.unwrap_or(0.0) } else { 0.0 };
    let told = ipis_per_io.max(sleeps_per_io);
    if told < TOLD_PER_IO {
        return None;
    }
    let all: u64 = t.total.cpu_pairs.iter().map(CpuPair::stands_for).sum();
    let followed = t.total.cpu_pairs.iter().map(|p| p.completions).sum();
    let crossed = pair.stands_for() as f64 / all as f64;
    let (ready, posted) = (pair.ready_cpu, pair.posted_cpu);
    // Several threads do not fit on one CPU, so the interrupts have to move to the threads.
    let threads = pair.threads.unwrap_or(1);
    let (who, remedy) = match threads {
        0 | 1 => (
            "the thread runs".to_owned(),
            format!(
                "run the thread on CPU {ready} (`taskset -c {ready}`), where the device's own interrupt delivers the completion; \
                 or, if the line's affinity can be set, move the line to CPU {posted}"
            ),
        ),
        n => (
            format!("the {n} threads that submit run"),
            format!(
                "give the device an interrupt on each CPU that submits: configure as many queues as CPUs (num-queues of virtio-blk; the default of \
                 NVMe), and spread the lines over the CPUs (smp_affinity of /proc/irq/{}, irqbalance). Do not move all {n} threads to CPU {ready}, \
                 where they would compete for that CPU",
                line.vector
            ),
        ),
    };
    let text = format!(
        "{} of completions became ready on CPU {ready}, which takes the interrupts of {} ({}), and were posted on CPU {posted}, where {who}. CPU \
         {ready} notified CPU {posted} {} times per I/O",
        percent(crossed),
        line.name,
        line.vector,
        three_digits(told)
    );
    let evidence = [
        ("threads", threads as f64),
        ("share", crossed),
        ("told_per_io", told),
        ("ipis_per_io", ipis_per_io),
        ("ready_cpu", f64::from(ready)),
        ("posted_cpu", f64::from(posted)),
    ];
    // On another CPU the thread would wait for that CPU, too.
    let stages = t.total.stages.as_ref();
    let bound = super::of_delivery(stages, crossed * (1.0 - for_cpu::waits_in_delivery(stages)));
    Some(Finding { remedy, bound, ..WRONG_CORE.finding_from(followed, Severity::Warning, text, &evidence) })
}
