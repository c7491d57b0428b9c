//! Time for which a deliverable completion waited until its submitter got a CPU, as part of delivery. The submitter was
//! runnable, or was woken for it, while another thread had its CPU. Pure.

use std::collections::BTreeMap;

use iotrail_schema::runnable::{HadCpu, Runnable};
use iotrail_schema::trail::RequestTrace;
use iotrail_stats::durations::Durations;

/// Waits of this length count as long. Waking a thread on an idle CPU takes about 10 µs, in a virtual machine 50 µs.
/// The scheduler releases a busy CPU after at least 0.7 ms. Shorter waits are mostly wake-up latency.
pub const LONG_NS: u64 = 100_000;

/// Maximum number of listed threads.
const TOLD: usize = 5;

/// Maximum number of kept threads, since a program may create thousands. Later ones count as unknown.
const KEPT: usize = 256;

/// Weighted sums over traced completions.
#[derive(Debug, Clone, Default)]
pub struct Waited {
    completions: u64,
    weight: u64,
    sum: u128,
    delivery: u128,
    /// The part of `sum` spent behind other threads.
    others: u128,
    /// Number of long waits, and the sum of their weights.
    long: u64,
    long_weight: u64,
    delays: Durations,
    by: BTreeMap<Option<(u32, String)>, u128>,
}

impl Waited {
    /// Takes a completion with all stages.
    pub fn take(&mut self, trail: &RequestTrace, runnable_ns: u64, delivery_ns: u64) {
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

    /// `one_in`: as in [`Durations::latency`].
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
    use iotrail_schema::trail::{Meanwhile, Stamp, Wake};
    use iotrail_schema::trail_example;
    use iotrail_schema::waker::Waker;

    /// Ready 100 µs after submission, and posted on CPU 0 after 3 ms. Times are in µs since submission.
    fn trail(meanwhile: Option<Meanwhile>, woken: Option<u64>, running: Option<u64>) -> RequestTrace {
        let t = trail_example::trail();
        let at = |us: u64| Stamp { ns: t.submitted.ns + us * 1000, cpu: 0 };
        let on_cpu = running.map(at);
        let wake = |woken| Wake { woken, by: Waker::Unseen, running: on_cpu.filter(|r| r.ns >= woken.ns) };
        RequestTrace { ready: Some(at(100)), meanwhile, wake: woken.map(at).map(wake), on_cpu, ..t }
    }

    fn sleeping(tid: u32) -> Option<Meanwhile> {
        Some(Meanwhile::Sleeping { cpu: 0, tid, comm: "hog".into() })
    }

    fn runnable(cpu: u32) -> Option<Meanwhile> {
        Some(Meanwhile::Runnable { cpu, tid: 9, comm: "hog".into() })
    }

    #[test]
    fn cpu_wait_starts_when_the_thread_became_runnable() {
        let ns = |meanwhile, woken, running| trail(meanwhile, woken, running).runnable_ns();
        assert_eq!(ns(sleeping(9), Some(150), Some(550)), Some(400_000), "from its wake-up on");
        assert_eq!(ns(runnable(0), None, Some(550)), Some(450_000), "from ready on");
        // Timestamped as ready just before the wake-up.
        assert_eq!(ns(runnable(0), Some(101), Some(550)), Some(449_000));
        let running = Some(Meanwhile::Running { cpu: 0 });
        assert_eq!(ns(running.clone(), None, Some(50)), Some(0), "it had its CPU all the time");
        // It lost the CPU and was unobserved in between; or nothing is known.
        assert_eq!(ns(running.clone(), None, Some(550)), None);
        assert_eq!(ns(running, None, None), None);
        assert_eq!(ns(sleeping(9), None, Some(550)), None);
        assert_eq!(ns(sleeping(9), Some(150), None), None);
        assert_eq!(ns(None, None, Some(550)), None);
    }

    #[test]
    fn cpu_wait_starts_only_after_the_worker_has_ended_the_request() {
        let mut t = trail(runnable(0), None, Some(550));
        t.ended = Some(Stamp { ns: t.submitted.ns + 500_000, cpu: 1 });
        assert_eq!(t.runnable_ns(), Some(50_000));
    }

    #[test]
    fn cpu_waits_are_reported_with_quantiles_and_running_threads() {
        let mut waited = Waited::default();
        let mut take = |t: RequestTrace| waited.take(&t, t.runnable_ns().unwrap(), t.delay_ns().unwrap());
        for _ in 0..10 {
            take(trail(sleeping(9), Some(150), Some(550)));
        }
        take(RequestTrace { weight: 10, ..trail(Some(Meanwhile::Running { cpu: 0 }), None, Some(50)) });
        // It got a different CPU than before.
        take(RequestTrace { weight: 2, ..trail(runnable(1), None, Some(1_100)) });
        let r = waited.record(1).unwrap();
        assert_eq!((r.completions, r.mean_ns), (12, (10.0 * 400e3 + 2.0 * 1e6) / 22.0));
        assert_eq!((r.delivery_ns, r.long, r.long_share), (2_900_000.0, 11, 12.0 / 22.0));
        // To the histogram's three digits.
        assert_eq!(r.delay_ns.max.map(|ns| ns / 1_000), Some(1_000));
        let by: Vec<_> = r.by.iter().map(|b| (b.tid, b.comm.as_deref(), (b.share * 6.0).round())).collect();
        assert_eq!(by, [(Some(9), Some("hog"), 4.0), (None, None, 2.0)]);
        let mut twice = waited.clone();
        twice.add(&waited);
        assert_eq!(twice.record(1).unwrap().by, r.by);
        assert_eq!(Waited::default().record(1), None);
    }
}
