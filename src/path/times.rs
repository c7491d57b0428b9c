//! Sums over followed completions: latencies, the stages that they consist of, and how late each vehicle delivered. Pure.

use std::collections::BTreeMap;

use super::trail::Trail;
use super::vehicle::Vehicle;
use crate::measurement::{StageRecord, VehicleCount};
use crate::stats::durations::Durations;

/// Of one set of completions.
#[derive(Debug, Clone, Default)]
pub struct Times {
    pub latency: Durations,
    pub stages: Stages,
    /// How many have *queued*.
    pub with_queued: u64,
}

/// Sums in nanoseconds over completions with both *issued* and *ready*.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    pub completions: u64,
    issue: u64,
    wait: u64,
    delivery: u64,
    /// Of `delivery`, and of how many completions.
    file_system: u64,
    ended: u64,
    /// The same until *queued*.
    until_queued: u64,
    queued: u64,
    delays: Durations,
}

impl Times {
    pub fn take(&mut self, trail: &Trail) {
        self.latency.take(trail.latency_ns());
        self.with_queued += u64::from(trail.queued.is_some());
        if let Some(stages) = trail.stages() {
            self.stages.completions += 1;
            self.stages.issue += stages.issue_ns;
            self.stages.wait += stages.wait_ns;
            self.stages.delivery += stages.delivery_ns;
            self.stages.file_system += stages.file_system_ns;
            self.stages.ended += u64::from(trail.ended.is_some());
            self.stages.until_queued += stages.until_queued_ns.unwrap_or(0);
            self.stages.queued += u64::from(stages.until_queued_ns.is_some());
            self.stages.delays.take(stages.delivery_ns);
        }
    }

    pub fn add(&mut self, other: &Times) {
        self.latency.add(&other.latency);
        self.with_queued += other.with_queued;
        self.stages.completions += other.stages.completions;
        self.stages.issue += other.stages.issue;
        self.stages.wait += other.stages.wait;
        self.stages.delivery += other.stages.delivery;
        self.stages.file_system += other.stages.file_system;
        self.stages.ended += other.stages.ended;
        self.stages.until_queued += other.stages.until_queued;
        self.stages.queued += other.stages.queued;
        self.stages.delays.add(&other.stages.delays);
    }
}

impl Stages {
    pub fn record(&self) -> Option<StageRecord> {
        let mean = |sum: u64| sum as f64 / self.completions as f64;
        (self.completions > 0).then(|| StageRecord {
            completions: self.completions,
            issue_ns: mean(self.issue),
            wait_ns: mean(self.wait),
            delivery_ns: mean(self.delivery),
            file_system_ns: (self.ended > 0).then(|| mean(self.file_system)),
            queued_ns: (self.queued > 0).then(|| mean(self.until_queued)),
            total_ns: mean(self.issue + self.wait + self.delivery),
            delivery_delay_ns: self.delays.latency(),
        })
    }
}

/// Delivery delays by what carried the completion.
#[derive(Debug, Clone, Default)]
pub struct Delays(BTreeMap<(Vehicle, Option<String>), Durations>);

impl Delays {
    /// A completion of which *ready* was not seen has no delay, and is not taken.
    pub fn take(&mut self, trail: Trail) {
        if let Some(delay) = trail.delay_ns() {
            self.0.entry((trail.vehicle, trail.detail)).or_default().take(delay);
        }
    }

    pub fn add(&mut self, other: &Delays) {
        for (vehicle, delays) in &other.0 {
            self.0.entry(vehicle.clone()).or_default().add(delays);
        }
    }

    /// The exact counts, with the delays of those that were followed.
    pub fn beside(&self, counts: &[VehicleCount]) -> Vec<VehicleCount> {
        let delay = |c: &VehicleCount| self.0.get(&(c.vehicle, c.detail.clone()))?.delay();
        counts.iter().map(|c| VehicleCount { delay_ns: delay(c), ..c.clone() }).collect()
    }

    /// Whatever their detail.
    pub fn by_vehicle(&self) -> BTreeMap<Vehicle, Durations> {
        let mut sum: BTreeMap<Vehicle, Durations> = BTreeMap::new();
        for ((vehicle, _), delays) in &self.0 {
            sum.entry(*vehicle).or_default().add(delays);
        }
        sum
    }

    /// Of all vehicles.
    pub fn all(&self) -> Durations {
        let mut sum = Durations::default();
        self.0.values().for_each(|delays| sum.add(delays));
        sum
    }
}
