//! Sums over traced completions: latencies, stages, and delays per delivery path. Each completion counts with its
//! weight ([`RequestTrace::weight`]). Pure.

use std::collections::BTreeMap;

use super::division::{Divisions, ReapedStamps};
use super::runnable::Waited;
use super::waits::{self, Limit, Spans};
use iotrail_schema::account::{End, RequestAccount, Start};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Latency, StageRecord, Waits};
use iotrail_schema::runnable::Runnable;
use iotrail_schema::trail::{self, RequestTrace};
use iotrail_stats::durations::Durations;
use iotrail_stats::estimate::{self, Stratum};
use iotrail_stats::mean::Mean;

/// Sums over a set of completions.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// Latencies of all requests, including waits.
    latency: Durations,
    /// Delivery delays of completions with all stages.
    delays: Durations,
    /// Number of completions with *queued*.
    pub with_queued: u64,
    /// Time for which submitters waited for a CPU, over completions with all stages; `None` if unknown for all.
    runnable: Option<Box<Waited>>,
    spans: Spans,
    /// Requests without an armed poll.
    kept: Sums,
    /// Requests with a poll, by the time for which it was armed. Which of them are waits is known only at the end.
    armed: BTreeMap<u8, Sums>,
    /// Requests that are waits.
    waits: Sums,
    /// Requests punted to io-wq, each counted once; includes multishot requests.
    pub handed_over: Stratum,
}

/// Weighted sums over completions, in ns.
#[derive(Debug, Clone, Default)]
struct Sums {
    completions: u64,
    weight: u64,
    latency: Mean,
    stages: Stages,
    divisions: Divisions,
}

/// The same for those with both *issued* and *ready*.
#[derive(Debug, Clone, Copy, Default)]
struct Stages {
    completions: u64,
    weight: u64,
    issue: u128,
    wait: u128,
    delivery: u128,
    /// Part of `delivery` in a file system worker, and whether any completion had such a part.
    file_system: u128,
    ended: bool,
    total: Mean,
    queued: Queued,
}

/// The same for those with *queued*.
#[derive(Debug, Clone, Copy, Default)]
struct Queued {
    completions: u64,
    weight: u64,
    until: u128,
    delivery: u128,
}

impl Times {
    pub fn take(&mut self, trail: &RequestTrace) {
        let armed = waits::armed(trail);
        self.take_latency(trail.latency_ns(), trail.weight);
        armed.into_iter().for_each(|power| self.spans.armed.take(power, trail.weight));
        self.with_queued += u64::from(trail.queued.is_some());
        let sums = match armed {
            Some(power) => self.armed.entry(power).or_default(),
            None => &mut self.kept,
        };
        if let Some(stages) = sums.take(trail) {
            self.delays.take(stages.delivery_ns, trail.weight);
            if let Some(runnable_ns) = stages.runnable_ns {
                self.runnable.get_or_insert_default().take(trail, runnable_ns, stages.delivery_ns);
            }
        }
    }

    /// Adds a native or POSIX AIO request.
    pub fn take_reaped(&mut self, submitted_ns: u64, seen: &ReapedStamps, reaped_ns: u64, weight: u32) {
        let latency_ns = reaped_ns.saturating_sub(submitted_ns);
        self.take_latency(latency_ns, weight);
        self.kept.take_latency(latency_ns, weight);
        self.kept.divisions.take_reaped(submitted_ns, seen, reaped_ns, weight);
    }

    fn take_latency(&mut self, latency_ns: u64, weight: u32) {
        self.latency.take(latency_ns, weight);
        self.spans.latency.take(waits::power(latency_ns), weight);
    }

    /// Statistics of durations and waits.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// Separates waits from the other requests.
    pub fn settle(&mut self, limit: Limit) {
        for (power, sums) in std::mem::take(&mut self.armed) {
            let to = if limit.is_wait(Some(power)) { &mut self.waits } else { &mut self.kept };
            to.add(&sums);
        }
        if limit == Limit::All {
            let kept = std::mem::take(&mut self.kept);
            self.waits.add(&kept);
        }
    }

    pub fn add(&mut self, other: &Times) {
        self.latency.add(&other.latency);
        self.delays.add(&other.delays);
        if let Some(other) = &other.runnable {
            self.runnable.get_or_insert_default().add(other);
        }
        self.with_queued += other.with_queued;
        self.handed_over.add(&other.handed_over);
        self.spans.add(&other.spans);
        self.kept.add(&other.kept);
        self.waits.add(&other.waits);
        for (power, sums) in &other.armed {
            self.armed.entry(*power).or_default().add(sums);
        }
    }

    /// The sums behind the means: all except waits, or the waits if nothing else exists.
    fn of_means(&self) -> Vec<&Sums> {
        let kept: Vec<&Sums> = std::iter::once(&self.kept).chain(self.armed.values()).collect();
        if kept.iter().any(|sums| sums.completions > 0) { kept } else { vec![&self.waits] }
    }

    /// Quantiles, minimum and maximum cover all requests; the mean excludes waits.
    ///
    /// `one_in`: as in [`Durations::latency`].
    pub fn latency(&self, one_in: u32) -> Latency {
        let all = self.latency.latency(one_in);
        let (mut completions, mut latency) = (0, Mean::default());
        for sums in self.of_means() {
            completions += sums.completions;
            latency.add(&sums.latency);
        }
        if completions == all.count {
            return all;
        }
        Latency { mean: latency.mean(), mean_ci95: latency.interval(one_in), ..all }
    }

    /// Latencies of all requests, including waits.
    pub fn durations(&self) -> &Durations {
        &self.latency
    }

    /// `one_in`: as in [`Durations::latency`]. `None` if no request was a wait.
    pub fn waits(&self, one_in: u32) -> Option<Waits> {
        let Sums { completions, weight, latency, .. } = &self.waits;
        // Each wait has weight 1 or `one_in`, unless it was traced in a window.
        let sampled = (weight - completions).checked_div(u64::from(one_in.max(1)) - 1).unwrap_or(0).min(*completions);
        let some = |n: u64| (n, n as f64);
        let taken = Stratum { whole: some(completions - sampled), sampled: some(sampled) };
        let is_all = taken.stands_for(one_in) == *weight;
        let estimated_ci95 = estimate::interval(&[taken], one_in).filter(|_| is_all).map(|t| [t.lo, t.hi]);
        Some(Waits { requests: *completions, estimated: *weight, estimated_ci95, mean_ns: latency.mean()? })
    }

    /// Account of the requests in the mean latency; `None` if there are none.
    pub fn account(&self) -> Option<RequestAccount> {
        let (mut weight, mut divisions) = (0, Divisions::default());
        for sums in self.of_means() {
            weight += sums.weight;
            divisions.add(&sums.divisions);
        }
        let rows = divisions.rows();
        let latency_sum_ns = rows.iter().map(|row| row.ns).sum();
        let (from, to) = (Start::Submitted, End::Posted);
        (weight > 0).then_some(RequestAccount { count: weight, latency_sum_ns, from, to, rows })
    }

    /// Number of requests with all stages, including waits.
    pub fn with_stages(&self) -> u64 {
        let armed = self.armed.values().map(|sums| sums.stages.completions).sum::<u64>();
        self.kept.stages.completions + self.waits.stages.completions + armed
    }

    /// Means, based on the same requests as in [`latency`](Self::latency).
    pub fn stages(&self, one_in: u32) -> Option<StageRecord> {
        let runnable = self.runnable.as_ref().and_then(|r| r.record(one_in));
        let mut stages = Stages::default();
        self.of_means().iter().for_each(|sums| stages.add(&sums.stages));
        stages.record(&self.delays, runnable, one_in)
    }
}

impl Sums {
    /// Adds a completion. Returns its stages if all are known.
    fn take(&mut self, trail: &RequestTrace) -> Option<trail::Stages> {
        self.take_latency(trail.latency_ns(), trail.weight);
        self.divisions.take(trail);
        let stages = trail.stages()?;
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
        sum.total.take((stages.issue_ns + stages.wait_ns + stages.delivery_ns) as f64, weight);
        if let Some(until) = stages.until_queued_ns {
            sum.queued.completions += 1;
            sum.queued.weight += u64::from(weight);
            sum.queued.until += weighted(until);
            sum.queued.delivery += weighted(stages.delivery_ns);
        }
        Some(stages)
    }

    fn take_latency(&mut self, ns: u64, weight: u32) {
        let weight = weight.max(1);
        self.completions += 1;
        self.weight += u64::from(weight);
        self.latency.take(ns as f64, weight);
    }

    fn add(&mut self, other: &Sums) {
        self.completions += other.completions;
        self.weight += other.weight;
        self.latency.add(&other.latency);
        self.divisions.add(&other.divisions);
        self.stages.add(&other.stages);
    }
}

impl Stages {
    fn add(&mut self, other: &Stages) {
        self.completions += other.completions;
        self.weight += other.weight;
        self.issue += other.issue;
        self.wait += other.wait;
        self.delivery += other.delivery;
        self.file_system += other.file_system;
        self.ended |= other.ended;
        self.total.add(&other.total);
        self.queued.completions += other.queued.completions;
        self.queued.weight += other.queued.weight;
        self.queued.until += other.queued.until;
        self.queued.delivery += other.queued.delivery;
    }

    fn record(&self, delays: &Durations, runnable: Option<Runnable>, one_in: u32) -> Option<StageRecord> {
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
            runnable: runnable.map(Box::new),
            total_ns: mean(self.issue + self.wait + self.delivery)?,
            total_ci95: self.total.interval(one_in),
            delivery_delay_ns: delays.latency(one_in),
        })
    }
}

/// Delivery delays by delivery path.
#[derive(Debug, Clone, Default)]
pub struct Delays(BTreeMap<(DeliveryPath, Option<String>), Durations>);

impl Delays {
    /// Ignores a completion without an observed *ready*, which has no delay.
    pub fn take(&mut self, trail: RequestTrace) {
        if let Some(delay) = trail.delay_ns() {
            self.0.entry((trail.vehicle, trail.detail)).or_default().take(delay, trail.weight);
        }
    }

    pub fn add(&mut self, other: &Delays) {
        for (vehicle, delays) in &other.0 {
            self.0.entry(vehicle.clone()).or_default().add(delays);
        }
    }

    /// Adds the delays of the traced completions to the exact counts.
    pub fn beside(&self, counts: &[DeliveryPathCount]) -> Vec<DeliveryPathCount> {
        let delay = |c: &DeliveryPathCount| self.0.get(&(c.vehicle, c.detail.clone().map(Into::into)))?.delay();
        counts.iter().map(|c| DeliveryPathCount { delay_ns: delay(c).map(Into::into), ..c.clone() }).collect()
    }

    /// Over all details of each delivery path.
    pub fn by_vehicle(&self) -> BTreeMap<DeliveryPath, Durations> {
        let mut sum: BTreeMap<DeliveryPath, Durations> = BTreeMap::new();
        for ((vehicle, _), delays) in &self.0 {
            sum.entry(*vehicle).or_default().add(delays);
        }
        sum
    }

    /// Over all delivery paths.
    pub fn all(&self) -> Durations {
        let mut sum = Durations::default();
        self.0.values().for_each(|delays| sum.add(delays));
        sum
    }
}
