//! Whether a measurement can be compared with another: rules over its circumstances, each with its threshold and the reason
//! for it. What is said stays with the measurement, as its warnings.
//!
//! A rule speaks of what was seen. What nothing here sees: a cache below the block layer (the host's of a virtual machine, the
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
    let of_times = match emulated(&m.host) {
        None => vec![steal(c), throttled(c), thermal(c), frequency_changed(c), cpu_contended(m, c), not_steady(m, c)],
        said => vec![said],
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

#[cfg(test)]
mod tests;
