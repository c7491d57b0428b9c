//! Clocks and the timer tick.

use iotrail_host::clock;
use iotrail_report::check::{Item, Section};

pub(in crate::cli::check) fn clock() -> Vec<Item> {
    clocks(clock::source().as_deref(), clock::tsc(), clock::tick_hz())
}

pub(super) fn clocks(source: Option<&str>, tsc: Option<clock::Tsc>, tick_hz: Option<u32>) -> Vec<Item> {
    const HERE: Section = Section::Clock;
    // The vDSO reads these clock sources; others need a system call per timestamp.
    const CHEAP: [&str; 6] =
        ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase", "riscv_clocksource"];
    let (id, name) = ("clock.source", "clock source");
    let first = match source {
        Some(s) if CHEAP.contains(&s) => Item::ok(HERE, id, name, format!("{s}: read without a system call")),
        Some(s) => Item::missing(
            HERE,
            id,
            name,
            format!("{s}: each reading needs a slow system call"),
            "cheap latency measurement: each timestamp may cost microseconds",
            "boot with clocksource=tsc if the machine's time-stamp counters are reliable",
        ),
        None => Item::unknown(HERE, id, name, "the clock source can't be read", "mount sysfs on /sys"),
    };
    let (id, name) = ("clock.tsc", "invariant TSC");
    let lost = "the cheapest timestamps: clock_gettime is used instead";
    let second = match (tsc, source) {
        (Some(t), Some("tsc")) if t.invariant() => Item::ok(HERE, id, name, "and the kernel trusts it"),
        (Some(t), _) if t.invariant() => Item::missing(
            HERE,
            id,
            name,
            "invariant, but not the kernel's clock source",
            lost,
            "boot with clocksource=tsc if the machine's time-stamp counters are reliable",
        ),
        (Some(_), _) => Item::missing(
            HERE,
            id,
            name,
            "its rate depends on the processor's power state, or it stops in some states",
            lost,
            "a processor, or a virtual machine's CPU model, with constant_tsc and nonstop_tsc",
        ),
        (None, Some("arch_sys_counter")) if cfg!(target_arch = "aarch64") => {
            Item::ok(HERE, id, name, "the generic timer replaces it (cntvct_el0), and the kernel trusts it")
        }
        (None, _) => Item::fact(HERE, id, name, "this processor has none; clock_gettime is used"),
    };
    let (id, name) = ("clock.tick", "tick");
    let third = match tick_hz {
        Some(hz) => {
            let ms = 1000.0 / f64::from(hz);
            Item::fact(HERE, id, name, format!("{hz} Hz: a completion without a notification waits up to {ms:.1} ms"))
        }
        None => Item::unknown(HERE, id, name, "its rate is unknown", "let clock_getres through the seccomp filter"),
    };
    vec![first, second, third]
}
