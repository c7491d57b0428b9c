//! Whether a measurement is comparable with others: rules on its circumstances, each with its threshold and its
//! rationale. The results are stored with the measurement as warnings.
//!
//! Rules use observations only. Not observable: a cache below the block layer (a hypervisor's or the drive's) that
//! serves reads which the device counts as its own, load from other machines on shared storage, background work in a
//! drive, and turbo and thermal limits hidden by a hypervisor.

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

/// Effects of other programs on a measurement, which is therefore repeated or left out.
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
    // From the load itself (`load::outcome`). A comparison evaluates the share of failed I/Os separately.
    "unpinned",
    "short_ios",
    "target_lost",
];

/// Circumstances that prevent a comparison, and a drift of throughput.
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
    // Circumstances that affect only times do not matter if times are meaningless.
    let of_times = match emulated(&m.host) {
        None => vec![steal(c), throttled(c), thermal(c), frequency_changed(c), cpu_contended(m, c), not_steady(m, c)],
        said => vec![said],
    };
    of_counts.into_iter().chain(of_times).flatten().collect()
}

/// Effects of other programs on the measurement, one sentence each; empty if none was observed.
pub fn disturbances(m: &Measurement) -> Vec<String> {
    said(m, DISTURBED)
}

/// Differences between the actual and the requested load, one sentence each; empty if there are none.
pub fn another_load(m: &Measurement) -> Vec<String> {
    said(m, ANOTHER_LOAD)
}

fn said(m: &Measurement, codes: &[&str]) -> Vec<String> {
    m.warnings.iter().filter(|w| codes.contains(&w.code.as_str())).map(|w| w.text.clone()).collect()
}

#[cfg(test)]
mod tests;
