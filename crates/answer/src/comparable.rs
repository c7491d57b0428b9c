//! Whether a measurement can be compared with another: rules over its circumstances, each with its threshold and the reason
//! for it. What is said stays with the measurement, as its warnings.
//!
//! A rule speaks of what was seen. What nothing here sees: a cache below the block layer (the host's of a virtual machine, the
//! drive's own), which answers reads that the device counts as its own; another machine's load on shared storage; a drive's
//! housekeeping; turbo and thermal limits that a hypervisor hides.

use super::unit::Unit;
use iotrail_base::words::{bytes, count, list, percent, plural, span};
use iotrail_schema::measurement::{BeforeAfter, Circumstances, DeviceBytes, Measurement, TargetInterrupt, Warning};
use iotrail_stats::steady;

/// What others did to a measurement while it was made: it is measured again, or left out.
pub const DISTURBED: &[&str] = &[
    "other_io",
    "dirty_cache",
    "steal",
    "throttled",
    "thermal",
    "frequency_changed",
    "interrupt_moved",
    "cpu_contended",
];

/// It measured another load than was asked for: with that there is nothing to compare.
pub const ANOTHER_LOAD: &[&str] = &[
    "not_from_device",
    "cache_changed",
    "not_granted",
    // Of the load itself (`load::outcome`). Failed I/Os are judged by their share where they are compared.
    "unpinned",
    "short_ios",
    "target_lost",
];

/// Differences below it are within what an interrupt here and a page there make; above it they would show in a comparison,
/// whose smallest visible difference is seldom under 5 %.
const MATTERS: f64 = 0.05;

/// Bytes that others may move in any span: a file system's journal, a daemon's log, a program's pages. In a short load they
/// are more than [`MATTERS`] and still no more than a few dozen I/Os.
const OTHERS_BYTES: f64 = (512 << 10) as f64;
/// And for each second: a machine that is otherwise idle writes some tens of KiB.
const OTHERS_BYTES_PER_S: f64 = (128 << 10) as f64;

/// Steal is counted in ticks of 10 ms: one or two are what any virtual machine has now and then.
const STEAL_TICKS_NS: u64 = 30_000_000;

/// Kept off by the quota for more than one part in a hundred: the quota, and not the load, set the pace at times.
const THROTTLED: f64 = 0.01;

/// A load of its own CPUs waits for them where interrupts, the kernel's workers and daemons run: that is a few per cent.
/// From a tenth on, the others' work shows in the throughput.
const CONTENDED: f64 = 0.10;
/// Less is a few turns of the scheduler.
const CONTENDED_NS: u64 = 20_000_000;

/// A direct I/O over a page that waits to be written has to write it first.
const DIRTY: f64 = 0.01;

/// Throughput that changes by so much from one half to the other is said: a linear course of 10 % over the span does that,
/// which is the slope that the SNIA's test specification allows in steady state.
const CHANGES: f64 = 0.05;
/// And by so much, the mean is of no state that the storage was in: the same specification's limit for any excursion.
const CHANGES_TOO_MUCH: f64 = 0.20;

/// What the circumstances say against comparing; and what they say of the course of the throughput.
pub fn warnings(m: &Measurement) -> Vec<Warning> {
    let Some(c) = &m.circumstances else { return not_granted(m).into_iter().collect() };
    let of_counts = [
        other_io(m, c),
        not_from_device(m, c),
        cache_changed(m, c),
        dirty_cache(m, c),
        interrupt_moved(m, c),
        not_granted(m),
    ];
    // What only moves times needs no word where these mean nothing.
    let of_times = if m.host.is_emulated() {
        vec![Some(Warning::new(
            "emulated",
            "software runs this machine's instructions: counts mean what they say, times mean nothing",
            "compare counts, or run where KVM works",
        ))]
    } else {
        vec![steal(c), throttled(c), thermal(c), frequency_changed(c), cpu_contended(m, c), not_steady(m, c)]
    };
    of_counts.into_iter().chain(of_times).flatten().collect()
}

/// What others did to it, one sentence each; empty: nothing that was seen.
pub fn disturbances(m: &Measurement) -> Vec<String> {
    said(m, DISTURBED)
}

/// Why it is no measurement of what was asked for, one sentence each; empty: it is one.
pub fn another_load(m: &Measurement) -> Vec<String> {
    said(m, ANOTHER_LOAD)
}

fn said(m: &Measurement, codes: &[&str]) -> Vec<String> {
    m.warnings.iter().filter(|w| codes.contains(&w.code.as_str())).map(|w| w.text.clone()).collect()
}

/// Why these two must not be compared with each other, though each alone may be in order; empty: they may.
pub fn reasons_between(a: &Measurement, b: &Measurement) -> Vec<String> {
    let Some((ca, cb)) = a.circumstances.as_ref().zip(b.circumstances.as_ref()) else { return Vec::new() };
    let mut reasons = Vec::new();
    let cached = |m: &Measurement, c: &Circumstances| {
        (!m.load.direct && m.load.file.is_some()).then_some(c.page_cache.as_ref()).flatten().map(|p| p.resident.before)
    };
    if let Some((x, y)) = cached(a, ca).zip(cached(b, cb))
        && (x - y).abs() > MATTERS
    {
        reasons.push(format!(
            "{} of the target was in the page cache before one, {} before the other",
            percent(x),
            percent(y)
        ));
    }
    let khz = |c: &Circumstances| c.frequency_khz.map(|f| (f.before + f.after) as f64 / 2.0);
    if let Some((x, y)) = khz(ca).zip(khz(cb))
        && x > 0.0
        && (y / x - 1.0).abs() > MATTERS
    {
        reasons.push(format!("the CPUs ran at {} in one and at {} in the other", mhz(x), mhz(y)));
    }
    if let Some((irq, before, after)) = moved(&ca.interrupts_after, &cb.interrupts_after) {
        reasons.push(format!(
            "the target's interrupt {irq} came to CPU {} in one and to CPU {} in the other",
            cpu_list(before),
            cpu_list(after)
        ));
    }
    reasons
}

/// Failed I/Os that one side has more than the other, as a share of all: less is in the noise of any comparison.
const FAILED: f64 = 0.01;

/// Why two sides are not of one load though neither was asked to be another: of the one more failed, and a failed I/O is other work.
pub fn failed_apart(a: (&str, &[&Measurement]), b: (&str, &[&Measurement])) -> Option<String> {
    let share = |of: &[&Measurement]| {
        let sum = |f: fn(&Measurement) -> u64| of.iter().map(|m| f(m)).sum::<u64>() as f64;
        sum(|m| m.errors) / sum(|m| m.ios).max(1.0)
    };
    let (x, y) = (share(a.1), share(b.1));
    ((x - y).abs() > FAILED).then(|| {
        format!(
            "{} of the I/Os of {} failed and {} of those of {}: a failed I/O is other work",
            percent(x),
            a.0,
            percent(y),
            b.0
        )
    })
}

/// Direct I/O of a target whose disks count: what they moved is to be what was asked for.
fn direct_device<'a>(m: &Measurement, c: &'a Circumstances) -> Option<&'a DeviceBytes> {
    // The bytes of failed I/Os may have moved or not; a load with failures has a warning of its own.
    c.device.as_ref().filter(|_| m.load.direct && m.load.file.is_some() && m.errors == 0)
}

/// Bytes (read, written) that the load moved; where it mixes them, all of them are in the first.
fn asked(m: &Measurement, d: &DeviceBytes) -> (u64, u64) {
    if m.load.rw.ends_with("write") { (0, d.asked_bytes) } else { (d.asked_bytes, 0) }
}

/// Bytes that the disks may have moved more, or less, than was asked for.
fn allowance(c: &Circumstances, d: &DeviceBytes) -> f64 {
    MATTERS * d.asked_bytes as f64 + OTHERS_BYTES + OTHERS_BYTES_PER_S * c.span_ns as f64 / 1e9
}

fn other_io(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let d = direct_device(m, c)?;
    let (read, written) = asked(m, d);
    let several = m.host.target.as_ref().and_then(|t| t.device.as_ref()).is_some_and(|name| name.contains('+'));
    let (more_read, more_written) = match m.load.rw.as_str() {
        // Several disks keep copies and checksums: what they write, and read to do so, is not what was asked for.
        "write" | "randwrite" | "randrw" if several => return None,
        "randrw" => ((d.read_bytes + d.written_bytes).saturating_sub(read), 0),
        _ => (d.read_bytes.saturating_sub(read), d.written_bytes.saturating_sub(written)),
    };
    let more = more_read + more_written;
    (more as f64 > allowance(c, d)).then(|| {
        let what = match (m.load.rw.as_str(), more_read, more_written) {
            ("randrw", more, _) => bytes(more),
            (_, read, 0) => format!("{} of reads", bytes(read)),
            (_, 0, written) => format!("{} of writes", bytes(written)),
            (_, read, written) => format!("{} of reads and {} of writes", bytes(read), bytes(written)),
        };
        Warning::new(
            "other_io",
            format!("beside the load's {} the disk did {what} for others", bytes(d.asked_bytes)),
            "stop what else uses the disk (`iotrail trace -a` shows it), let `sync` finish before, and repeat",
        )
    })
}

fn not_from_device(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let d = direct_device(m, c)?;
    let (what, did) = match m.load.rw.as_str() {
        "randrw" => ("moved", d.read_bytes + d.written_bytes),
        "write" | "randwrite" => ("written", d.written_bytes),
        _ => ("read", d.read_bytes),
    };
    let missing = d.asked_bytes.saturating_sub(did);
    if missing as f64 <= allowance(c, d) {
        return None;
    }
    let (asked, did) = (bytes(d.asked_bytes), bytes(did));
    let target = m.host.target.as_ref();
    let above = target.and_then(|t| Some((t.queue_device.as_deref()?, t.device.as_deref()?)));
    let (text, remedy) = match above {
        Some((above, disk)) if above.starts_with("loop") => (
            format!(
                "of {asked} {what} by direct I/O on {above} the disk below it, {disk}, did {did}: the rest never reached it"
            ),
            "make the loop device pass the page cache by (losetup --direct-io=on), look for holes in a sparse file, or lay the \
             target out anew (--size) on a plain disk",
        ),
        _ => (
            format!("of {asked} {what} by direct I/O the disk did {did}: the rest never reached it"),
            "look for holes in a sparse file, a volume that compresses or caches, a loop device; lay the target out anew \
             (--size) on a plain disk",
        ),
    };
    Some(Warning::new("not_from_device", text, remedy))
}

fn cache_changed(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let resident = c.page_cache.as_ref()?.resident;
    if m.load.direct || m.load.file.is_none() || m.load.rw.ends_with("write") || apart(resident) <= MATTERS {
        return None;
    }
    // All of it read from the device is one state, cold, from beginning to end.
    let cold = c.device.as_ref().is_some_and(|d| d.read_bytes as f64 >= (1.0 - MATTERS) * d.asked_bytes as f64);
    (!cold).then(|| {
        Warning::new(
            "cache_changed",
            format!(
                "{} of the target was in the page cache at the beginning and {} at the end: part of the reads came from \
                 memory, and that part changed",
                percent(resident.before),
                percent(resident.after)
            ),
            "read the target into memory beforehand (a longer --warmup), use a smaller --size, or leave --buffered away",
        )
    })
}

fn apart(x: BeforeAfter<f64>) -> f64 {
    (x.after - x.before).abs()
}

fn dirty_cache(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let dirty = c.page_cache.as_ref()?.dirty?.before;
    (m.load.direct && m.load.file.is_some() && dirty > DIRTY).then(|| {
        Warning::new(
            "dirty_cache",
            format!(
                "{} of the target waited in the page cache to be written: direct I/O there has to write it first",
                percent(dirty)
            ),
            "let `sync` finish before",
        )
    })
}

fn steal(c: &Circumstances) -> Option<Warning> {
    let stolen = c.steal_ns?;
    let of = c.span_ns as f64 * c.cpus.len() as f64;
    (stolen >= STEAL_TICKS_NS && stolen as f64 > MATTERS * of).then(|| {
        Warning::new(
            "steal",
            format!("the hypervisor took {} of the time of CPU {}", percent(stolen as f64 / of), cpu_list(&c.cpus)),
            "repeat when the host is less busy, or on a machine with CPUs of its own",
        )
    })
}

fn throttled(c: &Circumstances) -> Option<Warning> {
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

fn thermal(c: &Circumstances) -> Option<Warning> {
    let times = c.thermal_throttles.filter(|n| *n > 0)?;
    Some(Warning::new(
        "thermal",
        format!("the CPUs slowed down {} to stay cool", plural(times as usize, "time")),
        "let the machine cool down, and pause between loads",
    ))
}

fn cpu_list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn mhz(khz: f64) -> String {
    format!("{:.0} MHz", khz / 1000.0)
}

fn frequency_changed(c: &Circumstances) -> Option<Warning> {
    let f = c.frequency_khz.filter(|f| f.before > 0)?;
    let (before, after) = (f.before as f64, f.after as f64);
    ((after / before - 1.0).abs() > MATTERS).then(|| {
        Warning::new(
            "frequency_changed",
            format!("CPU {} ran at {} before and at {} after", cpu_list(&c.cpus), mhz(before), mhz(after)),
            "choose the governor 'performance', use a longer --warmup",
        )
    })
}

/// The first interrupt that is in both lists, with other CPUs.
fn moved<'a>(before: &'a [TargetInterrupt], after: &'a [TargetInterrupt]) -> Option<(u32, &'a [u32], &'a [u32])> {
    let pair = |b: &'a TargetInterrupt| after.iter().find(|a| a.irq == b.irq && a.cpus != b.cpus).map(|a| (b, a));
    before.iter().find_map(pair).map(|(b, a)| (b.irq, b.cpus.as_slice(), a.cpus.as_slice()))
}

fn interrupt_moved(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let (irq, before, after) = moved(&m.host.target.as_ref()?.interrupts, &c.interrupts_after)?;
    Some(Warning::new(
        "interrupt_moved",
        format!(
            "interrupt {irq} of the target went to CPU {} and goes to CPU {} since",
            cpu_list(before),
            cpu_list(after)
        ),
        "stop what moves interrupts (irqbalance) while it is measured",
    ))
}

fn not_granted(m: &Measurement) -> Option<Warning> {
    let ring = &m.load.ring;
    let missing: Vec<String> = ring.requested.iter().filter(|f| !granted(f, &ring.granted)).cloned().collect();
    (!missing.is_empty()).then(|| {
        Warning::new(
            "not_granted",
            format!("the kernel did not grant {}", list(&missing)),
            "`iotrail check` says which kernel has it",
        )
    })
}

/// The kernel rounds the size of the completion queue up and names the result.
fn granted(flag: &str, granted: &[String]) -> bool {
    match flag.split_once('=') {
        Some((name, _)) => granted.iter().any(|g| g.split_once('=').is_some_and(|(n, _)| n == name)),
        None => granted.iter().any(|g| g == flag),
    }
}

/// Something else than the load had its CPUs. Only said where the load itself leaves them to its threads: with neighbours,
/// helper threads that share the CPU, and kernel workers that finish writes, waiting is what was asked for.
fn cpu_contended(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let l = &m.load;
    let ring = |flag: &str| l.ring.granted.iter().any(|f| f == flag);
    let threads = l.jobs as usize * (1 + usize::from(l.reaper != "same") + usize::from(ring("sqpoll")));
    // Unbound, threads that wake up meet on one CPU now and then, though others are free.
    let room = if l.cpus.is_empty() { m.host.cpus as usize / 2 } else { distinct(&l.cpus) };
    let from_memory = c.page_cache.as_ref().is_some_and(|p| p.resident.before >= 1.0 - MATTERS);
    // A sender on the same machine is a part of the load.
    let alone = m.net.as_ref().is_none_or(|net| net.between == "hosts")
        && l.neighbour == "none"
        && threads <= room
        && !l.force_async
        && l.engine != "posix_aio"
        && !matches!(l.rw.as_str(), "write" | "randwrite" | "randrw")
        && (l.direct || from_memory || m.net.is_some());
    // The control group's quota keeps threads that could run waiting too: nobody else has their CPU then.
    let throttled_ns = c.throttled_ns.unwrap_or(0).saturating_mul(threads as u64);
    let waited = c.run_queue_wait_ns.filter(|_| alone)?.saturating_sub(throttled_ns);
    let wall_ns = if m.net.is_some() { m.elapsed_ns * u64::from(l.jobs) } else { m.phases.total_ns };
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

fn not_steady(m: &Measurement, c: &Circumstances) -> Option<Warning> {
    let t = c.throughput.as_ref()?;
    let trend = steady::trend(&t.ios)?;
    if !trend.real || trend.change.abs() < CHANGES {
        return None;
    }
    let per_s = |n: f64| count(n / (t.interval_ns as f64 / 1e9));
    let unit = Unit::of(m).per_second();
    let course = if trend.change < 0.0 { "fell" } else { "rose" };
    let text = format!(
        "throughput {course} by {} from the first half of the measurement ({} {unit}) to the second ({} {unit})",
        percent(trend.change.abs()),
        per_s(trend.first),
        per_s(trend.second)
    );
    let remedy = "use a longer --warmup and a longer --runtime, until it no longer changes";
    let code = if trend.change.abs() >= CHANGES_TOO_MUCH { "unsteady" } else { "not_steady" };
    Some(Warning::new(code, text, remedy))
}

#[cfg(test)]
#[path = "comparable_tests.rs"]
mod tests;
