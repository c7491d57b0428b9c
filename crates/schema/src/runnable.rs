//! How long a completion that could be delivered waited for its submitter to get a CPU: a part of delivery.

use serde::{Deserialize, Serialize};

use crate::latency::Latency;
use crate::trail::{Meanwhile, RequestTrace};

/// Waiting for a CPU, a part of delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runnable {
    /// Followed completions of which it is known, waits and those that did not wait among them.
    pub completions: u64,
    /// Mean time waited for a CPU.
    pub mean_ns: f64,
    /// Mean delivery of the same completions: what `mean_ns` is a part of.
    pub delivery_ns: f64,
    /// Those that waited 100 µs or longer while another thread had their CPU.
    pub long: u64,
    /// The share of all completions that these stand for.
    pub long_share: f64,
    /// Distribution of the time waited.
    pub delay_ns: Latency,
    /// Part of the time waited in which another thread had the CPU. In the rest it was idle, and had to wake up.
    pub others_share: f64,
    /// Who had the CPU, five at most, the most first.
    pub by: Vec<HadCpu>,
}

/// Who had the CPU that a submitter waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HadCpu {
    /// The thread; 0: the CPU was idle and had to wake up; null: nobody was seen.
    pub tid: Option<u32>,
    /// Its name; null where `tid` is.
    pub comm: Option<String>,
    /// Share of the time that was waited.
    pub share: f64,
}

impl Runnable {
    /// Waiting while others had the CPU, of the delivery of those of which it is known.
    pub fn share(&self) -> Option<f64> {
        (self.delivery_ns > 0.0).then(|| self.mean_ns * self.others_share / self.delivery_ns)
    }
}

impl RequestTrace {
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
    pub fn waits_behind_another(&self) -> bool {
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
