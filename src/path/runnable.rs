//! How long a completion that could be delivered waited for its submitter to get a CPU: a part of delivery. The submitter was awake, or
//! had just been woken for it, and its CPU ran something else. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::trail::{Meanwhile, Trail};
use crate::measurement::Latency;
use crate::stats::durations::Durations;

/// A wait of this length is told apart. A wake-up of a thread whose CPU is free takes some 10 µs, in a virtual machine 50; a CPU that has to be
/// waited for is given away by the scheduler in slices of 0.7 ms and more. Shorter waits are mostly wake-ups.
pub const LONG_NS: u64 = 100_000;

/// Threads that are told of.
const TOLD: usize = 5;

/// Threads that are kept: they may come and go by the thousand. Whoever is met later counts as nobody who is known.
const KEPT: usize = 256;

/// Waiting for a CPU, a part of delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runnable {
    /// Followed completions with all stages of which it is known, waits included; those that did not wait for a CPU are among them with 0.
    pub completions: u64,
    pub mean_ns: f64,
    /// Mean delivery delay of the same: what `mean_ns` is a part of.
    pub delivery_ns: f64,
    /// Of `completions`, those that waited for [`LONG_NS`] or longer while another thread had their CPU,
    pub long: u64,
    /// and the share of all that these stand for.
    pub long_share: f64,
    pub delay_ns: Latency,
    /// The part of the time that was waited in which another thread had the CPU; in the rest it was idle, and had to wake up.
    pub others_share: f64,
    /// Who had the CPU, by their shares of the time, the most first.
    pub by: Vec<HadCpu>,
}

/// Who had the CPU that a submitter waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HadCpu {
    /// Null: nobody was seen there, or the submitter got another CPU than its last one; 0: the CPU was idle, and had to wake up.
    pub tid: Option<u32>,
    /// Null where `tid` is.
    pub comm: Option<String>,
    /// Of the time that was waited.
    pub share: f64,
}

impl Runnable {
    /// Waiting while others had the CPU, of the delivery of those of which it is known.
    pub fn share(&self) -> Option<f64> {
        (self.delivery_ns > 0.0).then(|| self.mean_ns * self.others_share / self.delivery_ns)
    }
}

impl Trail {
    /// From the moment at which its submitter could run and deliver it, to the one at which it had the CPU on which it did. `None`: not
    /// known, since it was not seen what the submitter did, or it lost its CPU after the completion was there (and whether it slept then,
    /// nobody saw).
    pub fn runnable_ns(&self) -> Option<u64> {
        let deliverable = self.deliverable()?.ns;
        let running = self.wake.as_ref().and_then(|w| w.running).or(self.on_cpu);
        match self.meanwhile.as_ref()? {
            Meanwhile::Running { .. } => (running?.ns <= deliverable).then_some(0),
            Meanwhile::Sleeping { .. } => running?.ns.checked_sub(self.wake.as_ref()?.woken.ns.max(deliverable)),
            Meanwhile::Runnable { .. } => {
                let since = self.wake.as_ref().map_or(deliverable, |w| w.woken.ns.max(deliverable));
                running?.ns.checked_sub(since)
            }
        }
    }

    /// When it could be delivered another thread had its submitter's CPU, wherever the submitter went on then.
    fn waits_behind_another(&self) -> bool {
        match self.meanwhile {
            Some(Meanwhile::Runnable { tid, .. } | Meanwhile::Sleeping { tid, .. }) => tid != 0 && tid != self.tid,
            _ => false,
        }
    }

    /// Who had the CPU that it waited for: what ran there when the completion was there, if that is where it went on. `None`: nobody who
    /// was seen.
    pub fn cpu_was_had_by(&self) -> Option<(u32, &str)> {
        match self.meanwhile.as_ref()? {
            Meanwhile::Runnable { cpu, tid, comm } | Meanwhile::Sleeping { cpu, tid, comm } => {
                (*cpu == self.posted.cpu && *tid != self.tid).then_some((*tid, comm.as_str()))
            }
            Meanwhile::Running { .. } => None,
        }
    }
}

/// Sums over followed completions, each as often as it stands for.
#[derive(Debug, Clone, Default)]
pub struct Waited {
    completions: u64,
    weight: u64,
    sum: u128,
    delivery: u128,
    /// Of `sum`, behind other threads.
    others: u128,
    /// Those of them that waited long, and what they stand for.
    long: u64,
    long_weight: u64,
    delays: Durations,
    by: BTreeMap<Option<(u32, String)>, u128>,
}

impl Waited {
    /// A completion with all stages.
    pub fn take(&mut self, trail: &Trail, runnable_ns: u64, delivery_ns: u64) {
        let weight = trail.weight.max(1);
        let weighted = |ns: u64| u128::from(ns) * u128::from(weight);
        self.completions += 1;
        self.weight += u64::from(weight);
        self.sum += weighted(runnable_ns);
        self.delivery += weighted(delivery_ns);
        if trail.waits_behind_another() {
            self.others += weighted(runnable_ns);
            if runnable_ns >= LONG_NS {
                self.long += 1;
                self.long_weight += u64::from(weight);
            }
        }
        self.delays.take(runnable_ns, weight);
        if runnable_ns > 0 {
            let by = trail.cpu_was_had_by().map(|(tid, comm)| (tid, comm.to_owned()));
            self.had(by, weighted(runnable_ns));
        }
    }

    fn had(&mut self, by: Option<(u32, String)>, ns: u128) {
        let known = self.by.len() < KEPT || self.by.contains_key(&by);
        *self.by.entry(if known { by } else { None }).or_default() += ns;
    }

    pub fn add(&mut self, other: &Waited) {
        self.completions += other.completions;
        self.weight += other.weight;
        self.sum += other.sum;
        self.delivery += other.delivery;
        self.others += other.others;
        self.long += other.long;
        self.long_weight += other.long_weight;
        self.delays.add(&other.delays);
        other.by.iter().for_each(|(by, ns)| self.had(by.clone(), *ns));
    }

    /// `one_in`: as of [`Durations::latency`].
    pub fn record(&self, one_in: u32) -> Option<Runnable> {
        let of = |sum: u128| sum as f64 / self.weight as f64;
        (self.weight > 0).then(|| Runnable {
            completions: self.completions,
            mean_ns: of(self.sum),
            delivery_ns: of(self.delivery),
            long: self.long,
            long_share: self.long_weight as f64 / self.weight as f64,
            delay_ns: self.delays.latency(one_in),
            others_share: if self.sum > 0 { self.others as f64 / self.sum as f64 } else { 0.0 },
            by: self.most(),
        })
    }

    fn most(&self) -> Vec<HadCpu> {
        let mut most: Vec<_> = self.by.iter().collect();
        most.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
        let had = |(by, ns): (&Option<(u32, String)>, &u128)| HadCpu {
            tid: by.as_ref().map(|(tid, _)| *tid),
            comm: by.as_ref().map(|(_, comm)| comm.clone()),
            share: *ns as f64 / self.sum as f64,
        };
        most.into_iter().take(TOLD).map(had).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::delivery::Waker;
    use crate::path::trail::{Stamp, Wake};
    use crate::path::trail_example;

    /// Ready 100 µs after its submission and posted on CPU 0 after 3 ms. Times are in microseconds after the submission.
    fn trail(meanwhile: Option<Meanwhile>, woken: Option<u64>, running: Option<u64>) -> Trail {
        let t = trail_example::trail();
        let at = |us: u64| Stamp { ns: t.submitted.ns + us * 1000, cpu: 0 };
        let on_cpu = running.map(at);
        let wake = |woken| Wake { woken, by: Waker::Unseen, running: on_cpu.filter(|r| r.ns >= woken.ns) };
        Trail { ready: Some(at(100)), meanwhile, wake: woken.map(at).map(wake), on_cpu, ..t }
    }

    fn sleeping(tid: u32) -> Option<Meanwhile> {
        Some(Meanwhile::Sleeping { cpu: 0, tid, comm: "hog".into() })
    }

    fn runnable(cpu: u32) -> Option<Meanwhile> {
        Some(Meanwhile::Runnable { cpu, tid: 9, comm: "hog".into() })
    }

    #[test]
    fn it_waits_from_the_moment_at_which_it_could_run() {
        let ns = |meanwhile, woken, running| trail(meanwhile, woken, running).runnable_ns();
        assert_eq!(ns(sleeping(9), Some(150), Some(550)), Some(400_000), "from its wake-up on");
        assert_eq!(ns(runnable(0), None, Some(550)), Some(450_000), "from ready on");
        // Stamped as ready a moment before it was woken.
        assert_eq!(ns(runnable(0), Some(101), Some(550)), Some(449_000));
        let running = Some(Meanwhile::Running { cpu: 0 });
        assert_eq!(ns(running.clone(), None, Some(50)), Some(0), "it had its CPU all the time");
        // It lost it, and what it did in between was not seen; or nothing is known.
        assert_eq!(ns(running.clone(), None, Some(550)), None);
        assert_eq!(ns(running, None, None), None);
        assert_eq!(ns(sleeping(9), None, Some(550)), None);
        assert_eq!(ns(sleeping(9), Some(150), None), None);
        assert_eq!(ns(None, None, Some(550)), None);
    }

    #[test]
    fn only_a_worker_that_finished_it_made_it_deliverable() {
        let mut t = trail(runnable(0), None, Some(550));
        t.ended = Some(Stamp { ns: t.submitted.ns + 500_000, cpu: 1 });
        assert_eq!(t.runnable_ns(), Some(50_000));
    }

    #[test]
    fn sums_quantiles_and_who_had_the_cpu() {
        let mut waited = Waited::default();
        let mut take = |t: Trail| waited.take(&t, t.runnable_ns().unwrap(), t.delay_ns().unwrap());
        for _ in 0..10 {
            take(trail(sleeping(9), Some(150), Some(550)));
        }
        take(Trail { weight: 10, ..trail(Some(Meanwhile::Running { cpu: 0 }), None, Some(50)) });
        // It got another CPU than its last one.
        take(Trail { weight: 2, ..trail(runnable(1), None, Some(1_100)) });
        let r = waited.record(1).unwrap();
        assert_eq!((r.completions, r.mean_ns), (12, (10.0 * 400e3 + 2.0 * 1e6) / 22.0));
        assert_eq!((r.delivery_ns, r.long, r.long_share), (2_900_000.0, 11, 12.0 / 22.0));
        // As a histogram of three digits has it.
        assert_eq!(r.delay_ns.max.map(|ns| ns / 1_000), Some(1_000));
        let by: Vec<_> = r.by.iter().map(|b| (b.tid, b.comm.as_deref(), (b.share * 6.0).round())).collect();
        assert_eq!(by, [(Some(9), Some("hog"), 4.0), (None, None, 2.0)]);
        let mut twice = waited.clone();
        twice.add(&waited);
        assert_eq!(twice.record(1).unwrap().by, r.by);
        assert_eq!(Waited::default().record(1), None);
    }
}
