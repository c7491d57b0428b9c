//! The clock of the hot loop.
//!
//! Uses the processor's counter if the kernel itself uses it as clock source: x86's invariant time-stamp counter
//! (current_clocksource is `tsc`), or arm64's generic timer (`arch_sys_counter`; the vDSO also reads `cntvct_el0`). A
//! timestamp costs a few ns and no system call. Otherwise uses CLOCK_MONOTONIC. A timestamp is a number of *ticks*,
//! converted to nanoseconds only when it is recorded.
//!
//! **Error**: the counter's rate is measured once, over 20 ms against CLOCK_MONOTONIC, with both ends read within about
//! 100 ns, so its error is about 10 parts per million. x86 timestamps are not serialising, so they may be a few ns
//! early or late. An arm64 processor may read its counter before an earlier load has completed, which makes it early by
//! up to a cache miss; `isb` waits for earlier instructions there, as in the vDSO.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Counter,
    Monotonic,
}

/// The kernel's name of the clock source, and the name in measurements.
#[cfg(target_arch = "x86_64")]
const COUNTER: (&str, &str) = ("tsc", "tsc");
#[cfg(target_arch = "aarch64")]
const COUNTER: (&str, &str) = ("arch_sys_counter", "cntvct");

#[inline]
fn counter() -> u64 {
    // SAFETY: the instruction reads a counter and touches no memory; every x86-64 processor has it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    // SAFETY: as above. If the kernel traps it (because of an erratum), it emulates the read.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        let count: u64;
        core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags));
        count
    }
}

/// A calibrated clock; every thread of the load has a copy.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: Source,
    /// Nanoseconds per tick, times 2^32.
    ns_per_tick: u64,
}

impl Clock {
    /// The best available clock; calibrated on the first call.
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Self::calibrate)
    }

    fn calibrate() -> Self {
        let trusted = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|s| s.trim() == COUNTER.0);
        if !trusted {
            return Self::monotonic();
        }
        let (tick0, ns0) = pair();
        std::thread::sleep(Duration::from_millis(20));
        let (tick1, ns1) = pair();
        if tick1 <= tick0 || ns1 <= ns0 {
            return Self::monotonic(); // whatever the kernel says, this counter is of no use
        }
        let ns_per_tick = (u128::from(ns1 - ns0) << 32) / u128::from(tick1 - tick0);
        u64::try_from(ns_per_tick)
            .map_or_else(|_| Self::monotonic(), |n| Self { source: Source::Counter, ns_per_tick: n })
    }

    fn monotonic() -> Self {
        Self { source: Source::Monotonic, ns_per_tick: 1 << 32 }
    }

    /// `tsc`, `cntvct` or `monotonic`.
    pub fn name(&self) -> &'static str {
        match self.source {
            Source::Counter => COUNTER.1,
            Source::Monotonic => "monotonic",
        }
    }

    /// A timestamp in ticks.
    #[inline]
    pub fn now(&self) -> u64 {
        match self.source {
            Source::Counter => counter(),
            Source::Monotonic => monotonic_ns(),
        }
    }

    /// Converts ticks to nanoseconds.
    #[inline]
    pub fn ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32) as u64
    }

    /// Converts a duration to ticks.
    pub fn ticks(&self, span: Duration) -> u64 {
        let ticks = (span.as_nanos() << 32) / u128::from(self.ns_per_tick.max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX >> 1)
    }
}

fn monotonic_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Reads the counter and CLOCK_MONOTONIC together: the closest pair of several attempts.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..32 {
        let before = counter();
        let ns = monotonic_ns();
        let width = counter().wrapping_sub(before);
        if width < best.0 {
            best = (width, before + width / 2, ns);
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_clock_agrees_with_the_kernel_clock() {
        let clock = Clock::get();
        let (ticks, time) = (clock.now(), Instant::now());
        std::thread::sleep(Duration::from_millis(100));
        let (ns, kernel) = (clock.ns(clock.now() - ticks), time.elapsed().as_nanos() as u64);
        // A preemption may separate both reads; a wrong rate would cause a much larger difference.
        assert!(ns.abs_diff(kernel) < kernel / 100, "{ns} ns by the clock, {kernel} ns by the kernel");
    }

    #[test]
    fn conversions_between_ticks_and_nanoseconds_are_inverse() {
        let clock = Clock { source: Source::Monotonic, ns_per_tick: 1 << 31 };
        assert_eq!(clock.ns(1000), 500);
        assert_eq!(clock.ticks(Duration::from_nanos(500)), 1000);
    }
}
