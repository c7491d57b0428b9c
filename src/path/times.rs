//! Sums over followed completions: latencies, the stages that they consist of, and how late each vehicle delivered. Each completion
//! counts as often as it stands for ([`Trail::weight`]). Pure.

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

/// Sums over completions with both *issued* and *ready*, each as often as it stands for: in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    pub completions: u64,
    weight: u64,
    issue: u128,
    wait: u128,
    delivery: u128,
    /// Of `delivery`, and whether any had it.
    file_system: u128,
    ended: bool,
    delays: Durations,
    queued: Queued,
}

/// The same over those of them of which *queued* was seen.
#[derive(Debug, Clone, Default)]
struct Queued {
    completions: u64,
    weight: u64,
    until: u128,
    delivery: u128,
}

impl Times {
    pub fn take(&mut self, trail: &Trail) {
        self.latency.take(trail.latency_ns(), trail.weight);
        self.with_queued += u64::from(trail.queued.is_some());
        let Some(stages) = trail.stages() else { return };
        let weight = trail.weight.max(1);
        let weighted = |ns: u64| u128::from(ns) * u128::from(weight);
        let sum = &mut self.stages;
        sum.completions += 1;
        sum.weight += u64::from(weight);
        sum.issue += weighted(stages.issue_ns);
        sum.wait += weighted(stages.wait_ns);
        sum.delivery += weighted(stages.delivery_ns);
        sum.file_system += weighted(stages.file_system_ns);
        sum.ended |= trail.ended.is_some();
        sum.delays.take(stages.delivery_ns, weight);
        if let Some(until) = stages.until_queued_ns {
            sum.queued.completions += 1;
            sum.queued.weight += u64::from(weight);
            sum.queued.until += weighted(until);
            sum.queued.delivery += weighted(stages.delivery_ns);
        }
    }

    pub fn add(&mut self, other: &Times) {
        self.latency.add(&other.latency);
        self.with_queued += other.with_queued;
        let (sum, other) = (&mut self.stages, &other.stages);
        sum.completions += other.completions;
        sum.weight += other.weight;
        sum.issue += other.issue;
        sum.wait += other.wait;
        sum.delivery += other.delivery;
        sum.file_system += other.file_system;
        sum.ended |= other.ended;
        sum.delays.add(&other.delays);
        sum.queued.completions += other.queued.completions;
        sum.queued.weight += other.queued.weight;
        sum.queued.until += other.queued.until;
        sum.queued.delivery += other.queued.delivery;
    }
}

impl Stages {
    pub fn record(&self) -> Option<StageRecord> {
        let of = |sum: u128, weight: u64| (weight > 0).then(|| sum as f64 / weight as f64);
        let mean = |sum: u128| of(sum, self.weight);
        Some(StageRecord {
            completions: self.completions,
            issue_ns: mean(self.issue)?,
            wait_ns: mean(self.wait)?,
            delivery_ns: mean(self.delivery)?,
            file_system_ns: mean(self.file_system).filter(|_| self.ended),
            queued_ns: of(self.queued.until, self.queued.weight),
            queued_completions: self.queued.completions,
            queued_delivery_ns: of(self.queued.delivery, self.queued.weight),
            total_ns: mean(self.issue + self.wait + self.delivery)?,
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
            self.0.entry((trail.vehicle, trail.detail)).or_default().take(delay, trail.weight);
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
