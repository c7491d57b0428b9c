//! Aggregates traced requests as they arrive.

use std::collections::BTreeMap;

use super::cpu_pairs::Pair;
use super::part::Part;
use iotrail_path::distribution::{ByPath, Slices};
use iotrail_path::files::Files;
use iotrail_path::memory::{Memory, Unregistered};
use iotrail_path::multishot::Multishot;
use iotrail_path::order::OrderTracker;
use iotrail_path::reaped::CqResidence;
use iotrail_path::times::Delays;
use iotrail_probe::choice::Choice;
use iotrail_probe::rings::{FollowLoss, Reaped};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::metrics_record::{BOUNDS_NS, Buckets};
use iotrail_schema::opcode;
use iotrail_schema::trail::RequestTrace;
use iotrail_stats::durations::Durations;
use iotrail_stats::estimate::{self, Stratum};

/// Sums over traced requests.
#[derive(Debug)]
pub struct Summary {
    pub(super) choice: Choice,
    /// Ratio of the represented time to the time being traced.
    pub(crate) scale: u32,
    pub(super) completions: u64,
    /// Completions among them of requests with weight 1.
    pub(super) whole: u64,
    pub(super) parts: BTreeMap<Option<u32>, Part>,
    pub(super) cpu_pairs: BTreeMap<(u32, u32), Pair>,
    pub(super) multishot: Multishot,
    pub(super) passages: OrderTracker,
    pub(super) memory: Memory,
    pub(super) files: Files,
    /// By opcode over all rings.
    pub(super) histograms: BTreeMap<String, ByPath>,
    pub(super) slices: Slices,
    /// Maximum number of rings in the record; the busiest are listed.
    pub(super) listed: usize,
}

/// Maximum number of rings whose latencies a copy keeps separately. With more rings it has only their sum, and its
/// record lists the busiest.
pub(crate) const COPIED: usize = 64;

impl Summary {
    pub fn new(choice: Choice) -> Self {
        Summary {
            choice,
            scale: 1,
            completions: 0,
            whole: 0,
            parts: BTreeMap::new(),
            cpu_pairs: BTreeMap::new(),
            multishot: Multishot::default(),
            passages: OrderTracker::default(),
            memory: Memory::default(),
            files: Files::default(),
            histograms: BTreeMap::new(),
            slices: Slices::default(),
            listed: usize::MAX,
        }
    }

    /// Copies the sums so far. Omits the order of completions, which needs memory per completion.
    pub(crate) fn so_far(&self) -> Self {
        // With many rings, a copy per ring would double the memory of the trace.
        let parts = match self.parts.len() <= COPIED {
            true => self.parts.clone(),
            false => {
                let mut all = Part::default();
                self.parts.values().for_each(|part| all.add(part));
                BTreeMap::from([(None, all)])
            }
        };
        Summary {
            parts,
            cpu_pairs: self.cpu_pairs.clone(),
            memory: self.memory.clone(),
            files: self.files.clone(),
            histograms: self.histograms.clone(),
            slices: self.slices.clone(),
            listed: COPIED,
            ..Summary {
                scale: self.scale,
                completions: self.completions,
                whole: self.whole,
                ..Summary::new(self.choice)
            }
        }
    }

    pub(crate) fn choice(&self) -> Choice {
        self.choice
    }

    /// Weight of a sampled request; 1 if no request was skipped.
    pub(super) fn one_in(&self, loss: &FollowLoss) -> u32 {
        self.choice.stands_for(loss.sampled_from)
    }

    /// Total number of requests, including rejected ones, from the selected and the later requests.
    pub(super) fn requests(&self, loss: &FollowLoss) -> Option<estimate::Total> {
        let one_in = self.one_in(loss);
        let ones = |n: u64| (n, n as f64);
        let chosen = Stratum { whole: ones(loss.chosen.whole), sampled: ones(loss.chosen.sampled) };
        let later = loss.came_later as f64;
        // If all requests are selected, their number is exact.
        let none = estimate::Total { total: 0.0, lo: 0.0, hi: 0.0 };
        let none = (one_in <= 1 && loss.came_later > 0).then_some(none);
        estimate::interval(&[chosen], one_in).or(none).map(|t| t.and(later))
    }

    /// Latencies of the requests traced so far, and delivery delays by delivery path.
    pub(crate) fn buckets(&self) -> (Buckets, Vec<(DeliveryPath, Buckets)>) {
        let mut latency = Durations::default();
        let mut delays = Delays::default();
        for part in self.parts.values() {
            part.by_opcode.values().for_each(|times| latency.add(times.durations()));
            delays.add(&part.delays);
        }
        let delays = delays.by_vehicle().iter().map(|(vehicle, d)| (*vehicle, d.buckets(&BOUNDS_NS))).collect();
        (latency.buckets(&BOUNDS_NS), delays)
    }

    /// Number of completions traced so far.
    pub fn completions(&self) -> u64 {
        self.completions
    }

    pub fn take(&mut self, mut trail: RequestTrace) {
        self.completions += 1;
        self.whole += u64::from(trail.weight <= 1);
        let is_first = !self.multishot.is_later(&trail);
        let is_whole = is_first && trail.is_last_result();
        let part = self.parts.entry(trail.ring).or_default();
        if is_first && trail.punted.is_some() {
            part.by_opcode.entry(trail.opcode.clone()).or_default().handed_over.take(trail.weight, self.scale.into());
        }
        part.tid = trail.tid;
        self.files.take(&trail, is_first, self.scale);
        part.take_error(&trail);
        self.passages.take(&trail, is_whole);
        if is_whole {
            self.memory.take(&trail);
        }
        trail.weight = trail.weight.max(1).saturating_mul(self.scale);
        self.slices.take(trail.posted.ns, is_whole.then(|| trail.latency_ns()), trail.weight.into());
        part.threads.take(&trail, is_first);
        if is_whole {
            let histogram = self.histograms.entry(trail.opcode.clone()).or_default();
            histogram.take(Some(trail.vehicle), trail.latency_ns(), trail.weight.into());
            part.by_opcode.entry(trail.opcode.clone()).or_default().take(&trail);
        }
        if let Some(items) = trail.run_items {
            part.carried_by_run(items, trail.weight);
        }
        if let Some(ready) = trail.ready {
            self.cpu_pairs.entry((ready.cpu, trail.posted.cpu)).or_default().take(&trail);
        }
        part.delays.take(trail);
    }

    /// Adds a request whose completion found the CQ full, so that it has no latency and no delivery path.
    pub fn take_overflowed(&mut self, trail: &RequestTrace) {
        self.files.take_overflowed(trail);
        if trail.result < 0 {
            self.parts.entry(trail.ring).or_default().take_error(trail);
        }
    }

    pub fn unregistered(&mut self, at: Unregistered) {
        self.memory.unregistered(at);
    }

    /// Adds a native or POSIX AIO request.
    pub fn take_reaped(&mut self, reaped: Reaped) {
        self.completions += 1;
        self.whole += u64::from(reaped.weight <= 1);
        let part = self.parts.entry(Some(reaped.context)).or_default();
        let latency_ns = reaped.reaped_ns.saturating_sub(reaped.submitted_ns);
        let (tgid, fd) = (reaped.tgid, reaped.fd);
        let weight = reaped.weight.max(1).saturating_mul(self.scale);
        self.files.take_reaped(tgid, fd, &reaped.opcode, (reaped.weight, self.scale), reaped.result, latency_ns);
        // glibc's threads complete POSIX AIO; no event shows when.
        let is_posix = opcode::POSIX_AIO.iter().any(|op| op.name == reaped.opcode);
        let mut seen = reaped.seen;
        seen.ended_ns = seen.ended_ns.or(is_posix.then_some(reaped.reaped_ns));
        self.slices.take(reaped.reaped_ns, Some(latency_ns), weight.into());
        self.histograms.entry(reaped.opcode.clone()).or_default().take(None, latency_ns, weight.into());
        let times = part.by_opcode.entry(reaped.opcode).or_default();
        times.take_reaped(reaped.submitted_ns, &seen, reaped.reaped_ns, weight);
    }

    /// Adds a completion that was sampled in the CQ.
    pub fn take_stay(&mut self, stay: &CqResidence) {
        let weight = stay.weight.max(1).saturating_mul(self.scale);
        self.parts.entry(stay.ring).or_default().stays.take(&CqResidence { weight, ..*stay });
    }

    /// Takes the requests traced since the last interval, by ring. Keeps only the state that later completions need.
    pub(crate) fn turn(&mut self) -> BTreeMap<Option<u32>, Part> {
        self.cpu_pairs.clear();
        self.histograms.clear();
        self.passages.clear();
        self.files.clear();
        let mut parts = std::mem::take(&mut self.parts);
        parts.values_mut().for_each(|part| drop(part.settle()));
        parts
    }

    /// Merges these rings into the others; they no longer have their own record.
    pub(crate) fn fold(&mut self, rings: &[u32]) {
        for ring in rings {
            if let Some(part) = self.parts.remove(&Some(*ring)) {
                self.parts.entry(None).or_default().add(&part);
            }
        }
    }
}
