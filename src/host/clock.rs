//! The clocks: what the kernel keeps time with, whether the processor's counter can be used in its place, and the tick.

use std::path::Path;

use super::cpu::cpuinfo;
use super::files::{self, ROOT};

const SOURCE: &str = "sys/devices/system/clocksource/clocksource0";

/// The kernel's clock source at present: `tsc`, `kvm-clock`, `arch_sys_counter`, …
pub fn source() -> Option<String> {
    files::text(Path::new(ROOT), format!("{SOURCE}/current_clocksource"))
}

/// The clock sources that the kernel could use here.
pub fn sources() -> Option<Vec<String>> {
    let text = files::text(Path::new(ROOT), format!("{SOURCE}/available_clocksource"))?;
    Some(text.split_whitespace().map(str::to_owned).collect())
}

/// The time-stamp counter as /proc/cpuinfo describes it. `None` on a processor that has none (not x86), or where
/// the file can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tsc {
    /// Counts at one rate, whatever the CPU's frequency (`constant_tsc`).
    pub constant: bool,
    /// Goes on counting in every sleep state (`nonstop_tsc`).
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

/// The kernel's tick rate (CONFIG_HZ), from the resolution of the coarse clock, which is one tick. It needs neither
/// the kernel's configuration nor any privilege.
pub fn tick_hz() -> Option<u32> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live, writable timespec; the call keeps nothing.
    let rc = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    if rc != 0 || resolution.tv_sec != 0 { None } else { hz_of(resolution.tv_nsec) }
}

/// The kernel rounds 10⁹/HZ to whole nanoseconds; rounding back restores every HZ that can be configured.
fn hz_of(tick_ns: i64) -> Option<u32> {
    // Below 100 µs it is no tick: some sandboxes answer 1 ns for every clock.
    if tick_ns < 100_000 { None } else { u32::try_from((1_000_000_000 + tick_ns / 2) / tick_ns).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_rates() {
        assert_eq!(hz_of(10_000_000), Some(100));
        assert_eq!(hz_of(4_000_000), Some(250));
        assert_eq!(hz_of(3_333_333), Some(300));
        assert_eq!(hz_of(1_000_000), Some(1000));
        assert_eq!(hz_of(1), None);
    }

    #[test]
    fn an_invariant_counter_is_constant_and_nonstop() {
        let tsc = |flags: &str| parse_tsc(&format!("processor : 0\nflags\t\t: {flags}\n"));
        assert!(tsc("fpu tsc constant_tsc nonstop_tsc").unwrap().invariant());
        assert!(!tsc("tsc constant_tsc").unwrap().invariant());
        assert_eq!(tsc("fpu constant_tsc"), None);
        assert_eq!(parse_tsc("Features : fp asimd\n"), None);
    }
}
