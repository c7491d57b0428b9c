//! Whether a measurement can be compared with others: rules on its circumstances, each with its threshold and the reason
//! for it. The results stay with the measurement, as its warnings.
//!
//! A rule uses observations only. Not observable here: a cache below the block layer (the host's of a virtual machine, the
//! drive's own), which answers reads that the device counts as its own; another machine's load on shared storage; a drive's
//! housekeeping; turbo and thermal limits that a hypervisor hides.

mod between;
mod cpus;
mod load;
mod storage;
mod threshold;

use super::warnings::doubt::emulated;
use cpus::{cpu_contended, frequency_changed, interrupt_moved, steal, thermal, throttled};
use iotrail_schema::measurement::{Measurement, Warning};
use load::{not_granted, not_steady};
use storage::{cache_changed, dirty_cache, not_from_device, other_io};

pub use between::{failed_apart, reasons_between};

/// Effects of other programs on a measurement: it is repeated, or left out.
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

/// The load differed from the requested one: no comparison is possible.
pub const ANOTHER_LOAD: &[&str] = &[
    "not_from_device",
    "cache_changed",
    "not_granted",
    // From the load itself (`load::outcome`). Failed I/Os are judged by their share in a comparison.
    "unpinned",
    "short_ios",
    "target_lost",
];

/// Circumstances that prevent a comparison; and the course of the throughput.
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
    // Circumstances that only affect times are irrelevant if times are meaningless.
    let of_times = match emulated(&m.host) {
        None => vec![steal(c), throttled(c), thermal(c), frequency_changed(c), cpu_contended(m, c), not_steady(m, c)],
        said => vec![said],
    };
    of_counts.into_iter().chain(of_times).flatten().collect()
}

/// Effects of other programs on it, one sentence each; empty: none was observed.
pub fn disturbances(m: &Measurement) -> Vec<String> {
    said(m, DISTURBED)
}

/// Why the measurement does not have the requested load, one sentence each; empty: it has.
pub fn another_load(m: &Measurement) -> Vec<String> {
    said(m, ANOTHER_LOAD)
}

fn said(m: &Measurement, codes: &[&str]) -> Vec<String> {
    m.warnings.iter().filter(|w| codes.contains(&w.code.as_str())).map(|w| w.text.clone()).collect()
}

#[cfg(test)]
mod tests;
