//! Other activity on the machine during a measured span, read directly before and after the span.

use std::path::Path;
use std::time::Instant;

use super::block::{self, Counters, Moved};
use super::page_cache::{Cache, Cached};
use super::{cgroup, cpu, files, procfs};
use iotrail_schema::measurement::{BeforeAfter, Circumstances, DeviceBytes, PageCache};

/// Scope of the readings.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub target: Option<&'a Path>,
    /// The part of the target in use; `None`: all of it.
    pub bytes: Option<u64>,
    /// See [`Circumstances::cpus`].
    pub cpus: &'a [u32],
}

/// The state before the span.
pub struct Before<'a> {
    of: Subject<'a>,
    at: Instant,
    cache: Option<Cache>,
    cached: Option<Cached>,
    counters: Option<Counters>,
    moved: Option<Moved>,
    groups: cgroup::Groups,
    throttled_ns: Vec<Option<u64>>,
    steal_ns: Option<u64>,
    thermal_throttles: Option<u64>,
    frequency_khz: Option<u64>,
    runnable: Option<u32>,
    load_average: Option<f64>,
}

/// Call it while the load has no I/O in flight. Takes some milliseconds; counters for differences are read last.
pub fn before(of: Subject<'_>) -> Before<'_> {
    let root = Path::new(files::ROOT);
    let cache = of.target.and_then(|path| Cache::of(path, of.bytes));
    let cached = cache.as_ref().and_then(Cache::look);
    let counters = of.target.and_then(Counters::below);
    let groups = cgroup::of_this_process();
    let (load_average, runnable) = running(root).unzip();
    Before {
        cache,
        cached,
        frequency_khz: frequency_khz(root, of.cpus),
        thermal_throttles: thermal_throttles(root, of.cpus),
        runnable,
        load_average,
        throttled_ns: groups.throttled_ns(),
        groups,
        steal_ns: steal_ns(of.cpus),
        at: Instant::now(),
        moved: counters.as_ref().and_then(Counters::read),
        counters,
        of,
    }
}

impl Before<'_> {
    /// Changes since `before`. Fields that only the load knows stay null, and its bytes stay 0.
    pub fn after(self) -> Circumstances {
        let root = Path::new(files::ROOT);
        let of = self.of;
        let moved = self.counters.as_ref().and_then(Counters::read).zip(self.moved).map(|(a, b)| a.since(b));
        let span_ns = self.at.elapsed().as_nanos() as u64;
        let steal_ns = difference(steal_ns(of.cpus), self.steal_ns);
        let throttled_ns = cgroup::throttled_since(&self.groups.throttled_ns(), &self.throttled_ns);
        let both = |before: Option<u64>, after: Option<u64>| {
            before.zip(after).map(|(before, after)| BeforeAfter { before, after })
        };
        let page_cache = self.cached.zip(self.cache.as_ref().and_then(Cache::look)).map(|(before, after)| PageCache {
            resident: BeforeAfter { before: before.resident, after: after.resident },
            dirty: before.dirty.zip(after.dirty).map(|(before, after)| BeforeAfter { before, after }),
        });
        let interrupts = of.target.and_then(|path| block::target(path).ok()).map(|t| t.interrupts);
        Circumstances {
            span_ns,
            cpus: of.cpus.to_vec(),
            device: moved.map(|m| DeviceBytes {
                read_bytes: m.read_bytes,
                written_bytes: m.written_bytes,
                asked_bytes: 0,
                writes: Some(m.writes),
                write_ns: Some(m.write_ns),
                flushes: m.flushes.map(|f| f.0),
                flush_ns: m.flushes.map(|f| f.1),
            }),
            page_cache,
            steal_ns,
            cpu_quota: self.groups.quota(),
            throttled_ns,
            thermal_throttles: difference(thermal_throttles(root, of.cpus), self.thermal_throttles),
            frequency_khz: both(self.frequency_khz, frequency_khz(root, of.cpus)),
            interrupts_after: interrupts.unwrap_or_default(),
            runnable_before: self.runnable,
            load_average_before: self.load_average,
            ..Circumstances::default()
        }
    }
}

fn difference(after: Option<u64>, before: Option<u64>) -> Option<u64> {
    after.zip(before).map(|(after, before)| after.saturating_sub(before))
}

/// Sum over the CPUs.
fn steal_ns(cpus: &[u32]) -> Option<u64> {
    let all = cpu::steal()?;
    let ticks = |cpu: &u32| all.iter().find(|s| s.cpu == *cpu).map(|s| s.steal_ticks);
    cpus.iter().map(ticks).sum::<Option<u64>>().map(procfs::ticks_to_ns)
}

/// The kernel counts per core, and the events of a package at each of its CPUs.
fn thermal_throttles(root: &Path, cpus: &[u32]) -> Option<u64> {
    let count = |cpu: u32, what: &str| {
        files::number::<u64>(root, format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{what}_throttle_count"))
    };
    let cores = cpus.iter().map(|&cpu| count(cpu, "core")).sum::<Option<u64>>()?;
    let package = cpus.iter().filter_map(|&cpu| count(cpu, "package")).max();
    (!cpus.is_empty()).then_some(cores + package.unwrap_or(0))
}

/// Mean over the CPUs; `None` if one is unknown, as in most virtual machines.
fn frequency_khz(root: &Path, cpus: &[u32]) -> Option<u64> {
    let of = |cpu| files::number::<u64>(root, format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"));
    let sum = cpus.iter().map(of).sum::<Option<u64>>()?;
    sum.checked_div(cpus.len() as u64)
}

/// One-minute load average, and the number of other runnable threads (proc_loadavg(5)).
fn running(root: &Path) -> Option<(f64, u32)> {
    let text = files::text(root, "proc/loadavg")?;
    let mut fields = text.split_whitespace();
    let average = fields.next()?.parse().ok()?;
    let running: u32 = fields.nth(2)?.split('/').next()?.parse().ok()?;
    // The reading thread itself is running.
    Some((average, running.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::fixture::Tree;

    #[test]
    fn throttling_and_frequency_are_read_for_the_requested_cpus() {
        let cpu = "sys/devices/system/cpu";
        let t = Tree::new()
            .file(&format!("{cpu}/cpu0/thermal_throttle/core_throttle_count"), "3\n")
            .file(&format!("{cpu}/cpu0/thermal_throttle/package_throttle_count"), "5\n")
            .file(&format!("{cpu}/cpu1/thermal_throttle/core_throttle_count"), "1\n")
            .file(&format!("{cpu}/cpu1/thermal_throttle/package_throttle_count"), "5\n")
            .file(&format!("{cpu}/cpu0/cpufreq/scaling_cur_freq"), "3000000\n")
            .file(&format!("{cpu}/cpu1/cpufreq/scaling_cur_freq"), "2000000\n");
        assert_eq!(thermal_throttles(t.root(), &[0, 1]), Some(9));
        assert_eq!(thermal_throttles(t.root(), &[0, 2]), None);
        assert_eq!(frequency_khz(t.root(), &[0, 1]), Some(2_500_000));
        assert_eq!(frequency_khz(t.root(), &[1]), Some(2_000_000));
        assert_eq!((frequency_khz(t.root(), &[2]), frequency_khz(t.root(), &[])), (None, None));
    }

    #[test]
    fn running_threads_do_not_include_the_reader() {
        let t = Tree::new().file("proc/loadavg", "1.25 0.18 0.12 3/80 11206\n");
        assert_eq!(running(t.root()), Some((1.25, 2)));
    }

    #[test]
    fn circumstances_without_a_target_have_a_span_and_no_device() {
        let c = before(Subject { target: None, bytes: None, cpus: &[0] }).after();
        assert!(c.span_ns > 0 && c.device.is_none() && c.page_cache.is_none());
        assert_eq!((c.cpus.as_slice(), c.interrupts_after.len()), ([0].as_slice(), 0));
    }
}
