//! How a job that waits in the kernel came to each completion: three ways, told by what carried it.

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Measurement};
use iotrail_stats::middle::median;

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

pub const WAYS: [Timeline; 4] = [Timeline::Before, Timeline::Ready, Timeline::Slept, Timeline::Else];

/// What asking does for them.
pub fn does(timeline: Timeline) -> &'static str {
    match timeline {
        Timeline::Before => "finds them posted",
        Timeline::Ready => "runs task work and returns",
        Timeline::Slept => "sleeps",
        Timeline::Else => "leaves them to a thread of the kernel, or it is not told",
    }
}

pub fn of(v: &DeliveryPathCount) -> Timeline {
    match v.vehicle {
        DeliveryPath::Enter if v.waker().is_some() => Timeline::Slept,
        DeliveryPath::Enter => Timeline::Ready,
        DeliveryPath::Inline
        | DeliveryPath::SyscallExit
        | DeliveryPath::ReschedIpi
        | DeliveryPath::DeviceIrq
        | DeliveryPath::TimerTick
        | DeliveryPath::PageFault
        | DeliveryPath::OtherIrq => Timeline::Before,
        _ => Timeline::Else,
    }
}

/// All that went one way, of all repeats together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathSummary {
    /// Of all completions.
    pub share: f64,
    /// Delivery delay at the median, the middle of the repeats' own; of several kinds of vehicles, that of the most frequent one
    /// which has one.
    pub delay_p50_ns: Option<u64>,
    /// What carried them, or who woke the job: with the share of this way's completions, the most frequent first.
    pub by: Vec<(String, f64)>,
}

/// `None`: nothing was watched.
pub fn way(measurements: &[Measurement], timeline: Timeline) -> Option<PathSummary> {
    let all = || measurements.iter().flat_map(|m| &m.vehicles);
    let sum: u64 = all().map(|v| v.completions).sum();
    let mut kinds: Vec<Kind> = Vec::new();
    for (repeat, m) in measurements.iter().enumerate() {
        for v in m.vehicles.iter().filter(|v| of(v) == timeline) {
            let name = name(v);
            let i = kinds.iter().position(|k| k.name == name).unwrap_or_else(|| {
                kinds.push(Kind { name, ..Kind::default() });
                kinds.len() - 1
            });
            kinds[i].add(repeat, v);
        }
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.completions));
    let here: u64 = kinds.iter().map(|kind| kind.completions).sum();
    (sum > 0).then(|| PathSummary {
        share: here as f64 / sum as f64,
        delay_p50_ns: kinds
            .iter()
            .find_map(|k| median(k.delays.iter().map(|d| d.p50_ns as f64)))
            .map(|ns| ns.round() as u64),
        by: kinds.iter().map(|k| (k.name.clone(), k.completions as f64 / here as f64)).collect(),
    })
}

/// What has one name.
#[derive(Default)]
struct Kind {
    name: String,
    completions: u64,
    /// One of each repeat that knows it.
    delays: Vec<RepeatsDelay>,
}

/// Of several vehicles that have the name, that of the most frequent one.
struct RepeatsDelay {
    repeat: usize,
    completions: u64,
    p50_ns: u64,
}

impl Kind {
    fn add(&mut self, repeat: usize, v: &DeliveryPathCount) {
        self.completions += v.completions;
        let Some(p50_ns) = v.delay_ns.as_ref().and_then(|d| d.p50) else { return };
        let delay = RepeatsDelay { repeat, completions: v.completions, p50_ns };
        match self.delays.last_mut() {
            Some(last) if last.repeat == repeat => {
                if last.completions < v.completions {
                    *last = delay;
                }
            }
            _ => self.delays.push(delay),
        }
    }
}

/// The waker of one that slept; else the vehicle, with the call that it came out of.
fn name(v: &DeliveryPathCount) -> String {
    match (v.waker(), v.vehicle) {
        (Some(waker), _) => waker.to_string(),
        (_, DeliveryPath::SyscallExit) => {
            format!("task work on the way out of {}", v.detail.as_deref().unwrap_or_default())
        }
        _ => v.vehicle.to_string(),
    }
}
