//! Costs per I/O: metrics divided by the number of I/Os.

use iotrail_schema::measurement::{CpuShare, DeliveryPathCount, DeviceBytes, Interrupt, Measurement};
use iotrail_schema::net_record::{ServerCounts, ServerRecord};
use iotrail_schema::place::Place;
use iotrail_schema::setup_flag;

/// Whether SQPOLL threads submit the load's requests.
pub fn has_sqpoll(m: &Measurement) -> bool {
    setup_flag::is_set(&m.load.ring.granted, "sqpoll")
}

/// CPU time of the load's threads and its helpers, in ns. Unknown if an SQPOLL thread's time is unknown. Measurements
/// of older versions exclude other helpers.
pub fn cpu_ns(m: &Measurement) -> Option<f64> {
    // Unknown if the server is not iotrail's, was lost before it reported its time, or runs on a kernel that does not
    // report it.
    let unknown = |server: &ServerRecord| {
        server.threads.is_empty() || server.total.user_ns.is_none() || server.total.system_ns.is_none()
    };
    if m.net.as_ref().is_some_and(|net| net.server.as_ref().is_none_or(unknown)) {
        return None;
    }
    let helpers = m.cpu.sqpoll_ns.or((!has_sqpoll(m)).then_some(0))? + m.cpu.helpers_ns.unwrap_or(0);
    let own = m.cpu.user_ns? + m.cpu.system_ns?;
    // An operation may have two completions.
    match m.operations {
        Some(operations) => (operations > 0).then(|| (own + helpers) as f64 / operations as f64),
        None => m.per_io(own + helpers),
    }
}

/// CPU time of the SQPOLL threads only.
pub fn sqpoll_ns(m: &Measurement) -> Option<f64> {
    m.per_io(m.cpu.sqpoll_ns?)
}

/// CPU time of the other helpers: io-wq workers and glibc's threads.
pub fn helpers_ns(m: &Measurement) -> Option<f64> {
    m.per_io(m.cpu.helpers_ns?)
}

pub fn wakeups(m: &Measurement) -> Option<f64> {
    m.per_io(m.cpu.sqpoll_wakeups?)
}

/// Total time of the server's threads per second, in ns. Idle: neither running nor waiting for a CPU.
pub fn server_ns(m: &Measurement, ns: impl Fn(&ServerCounts) -> Option<u64>) -> Option<f64> {
    let total = &m.net.as_ref()?.server.as_ref()?.total;
    ns(total).filter(|_| total.wall_ns > 0).map(|ns| ns as f64 / total.wall_ns as f64 * 1e9)
}

/// Requests punted to io-wq: on request, and because they would have blocked.
pub fn punts(m: &Measurement) -> Option<(f64, f64)> {
    let punts = m.punts?;
    m.per_io(punts.asked).zip(m.per_io(punts.would_block))
}

/// I/O counters of the target's disks.
pub fn device(m: &Measurement) -> Option<&DeviceBytes> {
    m.circumstances.as_ref()?.device.as_ref()
}

/// Causes of returns to user mode.
pub const CAUSES: [&str; 6] = ["syscall", "page_fault", "device_irq", "timer_tick", "resched_ipi", "other"];

/// Number of returns to user mode with this cause.
pub fn mode_switches(m: &Measurement, cause: &str) -> Option<f64> {
    let all = m.per_io.mode_switches.map(|_| &m.mode_switches)?;
    let count: u64 = all.iter().filter(|s| s.cause == cause).map(|s| s.count).sum();
    m.per_io(count)
}

/// A sampled estimate and its standard error. Few of many samples hit a given place, so their number is
/// Poisson-distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    pub ns: f64,
    pub error_ns: f64,
    pub samples: u64,
}

/// CPU time at these places, from the samples of all repeats; `None` without samples, or if they are not taken by time.
pub fn place(measurements: &[Measurement], is: impl Fn(Place) -> bool) -> Option<Sampled> {
    let (mut samples, mut ns, mut ios) = (0u64, 0.0, 0u64);
    for m in measurements {
        let period = m.cpu_samples.as_ref()?.period_ns? as f64;
        let here: u64 = m.cpu_shares.as_ref()?.iter().filter(|s| is(s.place)).map(|s| s.samples).sum();
        samples += here;
        ns += here as f64 * period;
        ios += m.ios?;
    }
    // With no sample, assume one: that many may have been missed.
    let error = |period: f64| (samples.max(1) as f64).sqrt() * period / ios as f64;
    let period = measurements.first()?.cpu_samples.as_ref()?.period_ns? as f64;
    (ios > 0).then(|| Sampled { ns: ns / ios as f64, error_ns: error(period), samples })
}

/// A place's share of the samples of all repeats.
pub fn share_of_place(measurements: &[Measurement], place: Place) -> Option<f64> {
    let (mut here, mut all) = (0u64, 0u64);
    for m in measurements {
        let shares: &[CpuShare] = m.cpu_shares.as_deref()?;
        here += shares.iter().filter(|s| s.place == place).map(|s| s.samples).sum::<u64>();
        all += shares.iter().map(|s| s.samples).sum::<u64>();
    }
    (all > 0).then(|| here as f64 / all as f64)
}

/// Share of the jobs' CPU time spent on device interrupts; `None` if interrupts were not timed or the jobs were not
/// pinned.
pub fn interrupt_share(m: &Measurement) -> Option<f64> {
    let mut cpus = m.load.cpus.clone();
    cpus.sort_unstable();
    cpus.dedup();
    // Only numbered IRQs; the kernel's own vectors are not timed.
    let on_them = |i: &&Interrupt| cpus.contains(&i.cpu) && i.vector.parse::<u32>().is_ok();
    let timed = m.cpu_samples.is_some() && !cpus.is_empty() && m.elapsed_ns > 0;
    let spent = m.interrupts.iter().filter(on_them).map(|i| i.spent_ns).sum::<Option<u64>>()?;
    timed.then(|| spent as f64 / (m.elapsed_ns as f64 * cpus.len() as f64))
}

/// Share of completions delivered more than 1 ms late, among those with a known delay in all repeats.
pub fn late_share(measurements: &[Measurement]) -> Option<f64> {
    let delays = measurements.iter().flat_map(|m| &m.vehicles).filter_map(|v: &DeliveryPathCount| v.delay_ns.as_ref());
    let (mut late, mut all) = (0, 0);
    for d in delays {
        late += d.over_1ms?;
        all += d.count?;
    }
    (all > 0).then(|| late as f64 / all as f64)
}

/// Number of CPUs that the load kept busy; `None` if unknown.
pub fn busy(m: &Measurement) -> Option<f64> {
    let mut cpus = m.load.cpus.clone();
    cpus.sort_unstable();
    cpus.dedup();
    let cpus = if cpus.is_empty() { m.load.jobs as usize } else { cpus.len() };
    let spent = m.cpu.user_ns? + m.cpu.system_ns? + m.cpu.helpers_ns.unwrap_or(0);
    (m.elapsed_ns > 0 && cpus > 0).then(|| spent as f64 / (m.elapsed_ns as f64 * cpus as f64))
}
