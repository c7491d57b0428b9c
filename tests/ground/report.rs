//! A scenario's facts as one line of JSON: counts that are known because the scenario made the requests and read the
//! completions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Serialize, Default)]
pub struct Report {
    pub scenario: &'static str,
    pub tgid: u32,
    /// Why this kernel or machine cannot produce the scenario; the numbers are then those of the attempt.
    pub unsupported: Option<String>,
    /// The finding that must be reported; null if none.
    pub finding: Option<&'static str>,
    /// Further findings that apply to this scenario and may be reported.
    pub allowed: &'static [&'static str],
    /// The load's CPU, and the CPU that handles its reads' interrupts.
    pub cpu: Option<usize>,
    pub irq_cpu: Option<usize>,
    pub rings: Vec<RingReport>,
    /// I/Os without a ring, by interface and operation.
    pub others: BTreeMap<&'static str, BTreeMap<String, Op>>,
    pub expected: Expected,
    /// Scenario-specific values, by name.
    pub facts: BTreeMap<&'static str, u64>,
    /// From the first request to the last completion.
    pub elapsed_ms: u64,
}

/// Delivery paths of all CQEs and other completions.
#[derive(Serialize, Default)]
pub struct Expected {
    /// All completions, of rings and of other interfaces.
    pub completions: u64,
    /// Completions by delivery path, or by `path:detail`. A path that is not listed has at most `other.max`.
    pub vehicles: BTreeMap<&'static str, Range>,
    pub other: Range,
}

#[derive(Serialize, Default, Clone, Copy)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

/// A ring's counts. A child passes them to its parent as JSON.
#[derive(Serialize, Deserialize, Default)]
pub struct RingReport {
    pub tgid: u32,
    pub tid: u32,
    pub fd: i32,
    pub flags: Vec<String>,
    pub sq_entries: u32,
    pub cq_entries: u32,
    pub opcodes: BTreeMap<String, Op>,
    /// io_uring_enter calls, and (below) those that woke the SQPOLL thread.
    pub enters: u64,
    pub sq_wakeups: u64,
    /// Requests that failed before submission: they have a CQE, but no io_uring_submit_req event.
    pub refused: u64,
    /// CQEs that found the queue full and waited in the kernel's list; included in the completions.
    pub overflows: u64,
    /// Requests that the kernel certainly punts to io-wq, by opcode.
    pub punted: BTreeMap<String, u64>,
    pub order: Order,
}

/// Requests and completions of an opcode or an interface.
#[derive(Serialize, Deserialize, Default, Clone)]
pub struct Op {
    pub requests: u64,
    /// Requests that post no completion on success, and (below) those that succeed.
    pub skips: u64,
    pub skipped: u64,
    /// Requests cancelled with their chain, without a completion; included in the skipped ones.
    pub unposted: u64,
    /// CQEs; with multishot and zero copy, a request has several.
    pub completions: u64,
    pub bytes: u64,
    /// Completions with a negative result; (below) by errno.
    pub errors: u64,
    /// Transfers of fewer bytes than requested.
    pub short: u64,
    /// CQEs with IORING_CQE_F_MORE, and (below) with IORING_CQE_F_NOTIF.
    pub more: u64,
    pub notif: u64,
    /// Notifications that report a copy.
    pub copied: u64,
    pub errnos: BTreeMap<i32, u64>,
}

/// The order of each request's last CQE compared with the submission order.
#[derive(Serialize, Deserialize, Default)]
pub struct Order {
    pub completions: u64,
    /// Completions after one that was submitted later.
    pub overtaken: u64,
    /// Largest displacement, in submissions.
    pub max_displacement: u64,
}

impl Op {
    pub fn add(&mut self, result: i32, asked: u32) {
        self.completions += 1;
        if result < 0 {
            self.errors += 1;
            *self.errnos.entry(-result).or_default() += 1;
        } else if asked > 0 {
            self.bytes += result as u64;
            self.short += u64::from((result as u32) < asked);
        }
    }
}

impl Report {
    /// All completions counted so far.
    pub fn completions(&self) -> u64 {
        let rings = self.rings.iter().flat_map(|ring| ring.opcodes.values());
        rings.chain(self.others.values().flat_map(BTreeMap::values)).map(|op| op.completions).sum()
    }

    /// Exactly this many completions through this delivery path.
    pub fn exactly(&mut self, vehicle: &'static str, completions: u64) {
        self.between(vehicle, completions, completions);
    }

    pub fn between(&mut self, vehicle: &'static str, min: u64, max: u64) {
        self.expected.vehicles.insert(vehicle, Range { min, max });
    }

    /// All completions through this delivery path.
    pub fn all(&mut self, vehicle: &'static str) {
        self.exactly(vehicle, self.completions());
    }

    /// At least this share of completions through this delivery path, the rest through any path.
    pub fn mostly(&mut self, vehicle: &'static str, share: f64) {
        let all = self.completions();
        let least = (all as f64 * share) as u64;
        self.between(vehicle, least, all);
        self.expected.other.max = all - least;
    }
}
