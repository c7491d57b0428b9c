//! Clocks: the clock source, whether the CPU's counter can replace it, and the tick.

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::cpu::cpuinfo;
use super::files::{self, ROOT};

const SOURCE: &str = "sys/devices/system/clocksource/clocksource0";

/// The kernel's own CLOCK_MONOTONIC, which the probes use. Programs in a time namespace see another value.
pub fn monotonic_ns() -> u64 {
    static OFFSET_NS: LazyLock<i64> = LazyLock::new(|| {
        let text = files::text(Path::new(ROOT), "proc/self/timens_offsets");
        text.and_then(|text| parse_offset(&text)).unwrap_or(0)
    });
    let at = clock_gettime(ClockId::Monotonic);
    (at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64).wrapping_add_signed(-*OFFSET_NS)
}

/// Seconds since 1970, by the machine's clock.
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// CPU time of the calling thread.
pub fn of_this_thread() -> Duration {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(at.tv_sec as u64, at.tv_nsec as u32)
}

/// CPU time of a process including its exited threads, with the scheduler's precision; `None` if this PID namespace has
/// no such process.
pub fn of_process_ns(tgid: u32) -> Option<u64> {
    let mut clock = 0;
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls only write to the pointer that they receive.
    let told = unsafe {
        libc::clock_getcpuclockid(tgid as libc::pid_t, &mut clock) == 0 && libc::clock_gettime(clock, &mut at) == 0
    };
    told.then(|| at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64)
}

/// Offset that the time namespace adds to CLOCK_MONOTONIC, from `monotonic SECONDS NANOSECONDS`.
fn parse_offset(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(|n| n.parse::<i64>().ok());
    let (seconds, nanoseconds) = (numbers.next()??, numbers.next()??);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// The current clock source: `tsc`, `kvm-clock`, `arch_sys_counter`, …
pub fn source() -> Option<String> {
    files::text(Path::new(ROOT), format!("{SOURCE}/current_clocksource"))
}

/// The time-stamp counter as described in /proc/cpuinfo; `None` if the CPU has none (not x86), or the file is
/// unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tsc {
    /// Runs at a constant rate, whatever the CPU's frequency (`constant_tsc`).
    pub constant: bool,
    /// Runs in all sleep states (`nonstop_tsc`).
    pub nonstop: bool,
}

impl Tsc {
    pub fn invariant(self) -> bool {
        self.constant && self.nonstop
    }
}

pub fn tsc() -> Option<Tsc> {
    parse_tsc(&files::text(Path::new(ROOT), "proc/cpuinfo")?)
}

fn parse_tsc(info: &str) -> Option<Tsc> {
    let flags = cpuinfo(info, "flags")?;
    let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
    if !has("tsc") {
        return None;
    }
    Some(Tsc { constant: has("constant_tsc"), nonstop: has("nonstop_tsc") })
}

/// Tick rate (CONFIG_HZ), from the resolution of the coarse clock, which is one tick. Requires neither the kernel's
/// configuration nor privileges.
pub fn tick_hz() -> Option<u32> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer refers to a live, writable timespec, which the call does not retain.
    let rc = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    if rc != 0 || resolution.tv_sec != 0 { None } else { hz_of(resolution.tv_nsec) }
}

/// The kernel rounds 10⁹/HZ to full nanoseconds. Rounding back yields any configurable HZ.
fn hz_of(tick_ns: i64) -> Option<u32> {
    // Below 100 µs it is not a tick: some sandboxes report 1 ns for all clocks.
    if tick_ns < 100_000 { None } else { u32::try_from((1_000_000_000 + tick_ns / 2) / tick_ns).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_parsed() {
        let text = "monotonic      100000         7\nboottime       200000         0\n";
        assert_eq!(parse_offset(text), Some(100_000_000_000_007));
        assert_eq!(parse_offset("monotonic -1000 0\n"), Some(-1_000_000_000_000));
        assert_eq!((parse_offset("boottime 1 0\n"), parse_offset("monotonic x 0")), (None, None));
    }

    #[test]
    fn the_tick_rate_is_derived_from_the_coarse_clock_resolution() {
        assert_eq!(hz_of(10_000_000), Some(100));
        assert_eq!(hz_of(4_000_000), Some(250));
        assert_eq!(hz_of(3_333_333), Some(300));
        assert_eq!(hz_of(1_000_000), Some(1000));
        assert_eq!(hz_of(1), None);
    }

    #[test]
    fn an_invariant_tsc_is_constant_and_nonstop() {
        let tsc = |flags: &str| parse_tsc(&format!("processor : 0\nflags\t\t: {flags}\n"));
        assert!(tsc("fpu tsc constant_tsc nonstop_tsc").unwrap().invariant());
        assert!(!tsc("tsc constant_tsc").unwrap().invariant());
        assert_eq!(tsc("fpu constant_tsc"), None);
        assert_eq!(parse_tsc("Features : fp asimd\n"), None);
    }
}
