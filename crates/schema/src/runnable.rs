//! Time that a completion waited because its submitter was runnable without a CPU: a part of the delivery.

use serde::{Deserialize, Serialize};

use crate::latency::Latency;
use crate::trail::{Meanwhile, RequestTrace};

/// Time that submitters waited for a CPU, a part of the delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runnable {
    /// Traced completions for which it is known, including waits and completions without waiting.
    pub completions: u64,
    /// Mean time spent waiting for a CPU.
    pub mean_ns: f64,
    /// Mean delivery delay of the same completions; `mean_ns` is a part of it.
    pub delivery_ns: f64,
    /// Completions that waited 100 µs or longer while another thread had their CPU.
    pub long: u64,
    /// Their estimated share of all completions.
    pub long_share: f64,
    /// Distribution of the time spent waiting.
    pub delay_ns: Latency,
    /// Share of the waiting time in which another thread had the CPU. In the rest the CPU was idle and had to wake up.
    pub others_share: f64,
    /// Threads that had the CPU: at most five, longest first.
    pub by: Vec<HadCpu>,
}

/// A thread that had the CPU while a submitter waited for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HadCpu {
    /// The thread; 0: the CPU was idle and had to wake up; null: not seen.
    pub tid: Option<u32>,
    /// Its name; null if `tid` is null.
    pub comm: Option<String>,
    /// Share of the waiting time.
    pub share: f64,
}

impl Runnable {
    /// Share of the delivery in which submitters waited while other threads had the CPU.
    pub fn share(&self) -> Option<f64> {
        (self.delivery_ns > 0.0).then(|| self.mean_ns * self.others_share / self.delivery_ns)
    }
}

impl RequestTrace {
    /// Time from the moment at which its submitter could run and deliver it, to the moment at which the submitter had
    /// the CPU. `None`: not known. The submitter's state was not seen, or it lost its CPU after the completion was
    /// ready, and its state after that is unknown.
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

    /// Another thread had the submitter's CPU at that time, even if the submitter continued elsewhere.
    pub fn waits_behind_another(&self) -> bool {
        match self.meanwhile {
            Some(Meanwhile::Runnable { tid, .. } | Meanwhile::Sleeping { tid, .. }) => tid != 0 && tid != self.tid,
            _ => false,
        }
    }

    /// The thread that had the CPU for which it waited: the one that ran there when the completion was ready, if the
    /// submitter continued on that CPU. `None`: not seen.
    pub fn cpu_was_had_by(&self) -> Option<(u32, &str)> {
        match self.meanwhile.as_ref()? {
            Meanwhile::Runnable { cpu, tid, comm } | Meanwhile::Sleeping { cpu, tid, comm } => {
                (*cpu == self.posted.cpu && *tid != self.tid).then_some((*tid, comm.as_str()))
            }
            Meanwhile::Running { .. } => None,
        }
    }
}
