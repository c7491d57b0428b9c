//! The three ways in which a job that waits in the kernel gets its completions, distinguished by delivery path.

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Measurement};
use iotrail_stats::middle::median;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeline {
    /// Posted before the job waited: by an interrupt, at the exit of an unrelated system call, or during submission.
    Before,
    /// The waiting call ran task work and returned.
    Ready,
    /// The waiting call slept.
    Slept,
    /// A kernel thread posted it, or the path is unknown.
    Else,
}

pub const WAYS: [Timeline; 4] = [Timeline::Before, Timeline::Ready, Timeline::Slept, Timeline::Else];

/// How a call obtains the completions.
pub fn does(timeline: Timeline) -> &'static str {
    match timeline {
        Timeline::Before => "finds them posted",
        Timeline::Ready => "runs task work and returns",
        Timeline::Slept => "sleeps",
        Timeline::Else => "leaves them to a kernel thread, or the path is unknown",
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

/// All completions that arrived in one way, over all repeats.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathSummary {
    /// Share of all completions.
    pub share: f64,
    /// Median delivery delay: the median of the repeats' medians. With several delivery paths, of the most frequent
    /// path that has one.
    pub delay_p50_ns: Option<u64>,
    /// Delivery paths, or wakers of the job, with their shares of this way's completions; the most frequent first.
    pub by: Vec<(String, f64)>,
}

/// `None` if nothing was traced.
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

/// All entries that share a name.
#[derive(Default)]
struct Kind {
    name: String,
    completions: u64,
    /// One per repeat with a known delay.
    delays: Vec<RepeatsDelay>,
}

/// If several delivery paths share the name, the most frequent one.
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

/// The waker of a sleeping job; otherwise the delivery path with its system call.
fn name(v: &DeliveryPathCount) -> String {
    match (v.waker(), v.vehicle) {
        (Some(waker), _) => waker.to_string(),
        (_, DeliveryPath::SyscallExit) => {
            format!("task work at the exit of {}", v.detail.as_deref().unwrap_or_default())
        }
        _ => v.vehicle.to_string(),
    }
}
