//! How a job that waits in the kernel came to each completion: three ways, told by what carried it.

use crate::measurement::{Measurement, VehicleCount};
use crate::path::vehicle::Vehicle;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeline {
    /// It was posted before it was asked for: by an interrupt, on the way out of a system call that asked for something else, or
    /// while it was submitted.
    Before,
    /// The call that asked for it ran task work and returned.
    Ready,
    /// The call that asked for it slept.
    Slept,
    /// It was carried by a thread of the kernel, or it could not be told.
    Else,
}

pub fn of(v: &VehicleCount) -> Timeline {
    let slept = || v.detail.as_deref().is_some_and(|d| d.starts_with("slept"));
    match v.vehicle {
        Vehicle::Enter if slept() => Timeline::Slept,
        Vehicle::Enter => Timeline::Ready,
        Vehicle::Inline
        | Vehicle::SyscallExit
        | Vehicle::ReschedIpi
        | Vehicle::DeviceIrq
        | Vehicle::TimerTick
        | Vehicle::PageFault
        | Vehicle::OtherIrq => Timeline::Before,
        _ => Timeline::Else,
    }
}

/// All that went one way, of all repeats together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Way {
    /// Of all completions.
    pub share: f64,
    /// Delivery delay at the median; of several kinds of vehicles, that of the most frequent one which has one.
    pub delay_p50_ns: Option<u64>,
    /// What carried them, or who woke the job: with the share of this way's completions, the most frequent first.
    pub by: Vec<(String, f64)>,
}

/// `None`: nothing was watched.
pub fn way(measurements: &[Measurement], timeline: Timeline) -> Option<Way> {
    let all = || measurements.iter().flat_map(|m| &m.vehicles);
    let sum: u64 = all().map(|v| v.completions).sum();
    let mut kinds: Vec<(String, u64, Option<u64>)> = Vec::new();
    for v in all().filter(|v| of(v) == timeline) {
        let name = name(v);
        let delay = v.delay_ns.as_ref().and_then(|d| d.p50);
        match kinds.iter_mut().find(|(n, ..)| *n == name) {
            Some((_, n, known)) => {
                *n += v.completions;
                *known = known.or(delay);
            }
            None => kinds.push((name, v.completions, delay)),
        }
    }
    kinds.sort_by_key(|(_, n, _)| std::cmp::Reverse(*n));
    let here: u64 = kinds.iter().map(|(_, n, _)| n).sum();
    (sum > 0).then(|| Way {
        share: here as f64 / sum as f64,
        delay_p50_ns: kinds.iter().find_map(|(.., delay)| *delay),
        by: kinds.iter().map(|(name, n, _)| (name.clone(), *n as f64 / here as f64)).collect(),
    })
}

/// The waker of one that slept; else the vehicle, with the call that it came out of.
fn name(v: &VehicleCount) -> String {
    let detail = v.detail.as_deref().unwrap_or_default();
    match (of(v), v.vehicle) {
        (Timeline::Slept, _) => detail.strip_prefix("slept, woken by ").unwrap_or("an unseen waker").to_owned(),
        (_, Vehicle::SyscallExit) => format!("task work on the way out of {detail}"),
        _ => v.vehicle.to_string(),
    }
}
