//! Requests of one opcode.

use serde::{Deserialize, Serialize};

use super::estimates::Estimate;
use crate::measurement::{Latency, StageRecord, Waits};
use crate::opcode::counts_bytes;

/// Requests of one opcode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpcodeRecord {
    pub opcode: String,
    /// Submissions seen.
    pub requests: u64,
    /// Of these, those that asked for no completion if they succeed (IOSQE_CQE_SKIP_SUCCESS).
    #[serde(default)]
    pub skips: u64,
    /// Completions posted, the `more` and `notifications` among them.
    pub completions: u64,
    /// Sum of the results of reads, writes, sends and receives. What requests that succeeded without a completion moved is
    /// not known, and not in it.
    pub bytes: u64,
    pub errors: u64,
    /// Of plain reads, writes and sends: fewer bytes than asked for. What is read into a provided buffer is as much as there is.
    /// `None`: of others (vectored ones, receives, splices, …) it is not looked at how much was asked for.
    pub short: Option<u64>,
    pub more: u64,
    pub notifications: u64,
    /// Requests that were cancelled with their chain and have no completion, since one before them that asked for none if it succeeds
    /// failed.
    #[serde(default)]
    pub unposted: u64,
    /// Times that one was handed to io-wq because the program asked for it. The same request may be so more than once: what a worker
    /// finds not to be ready is handed over again when it is.
    pub punted_asked: u64,
    /// Handed to io-wq because it would have blocked.
    pub punted_would_block: u64,
    /// Handed to io-wq after the ring was drained (IOSQE_IO_DRAIN): those that asked for it, and those that came while it went on.
    #[serde(default)]
    pub punted_drained: u64,
    /// By errno's name: `EAGAIN`.
    pub errnos: Vec<ErrnoCount>,
    pub latency_ns: Latency,
    /// Those that are left out of the mean latency and the stages, unless there are no others; null: there are none.
    #[serde(default)]
    pub waits: Option<Waits>,
    pub stages: Option<StageRecord>,
    /// Requests that were handed to io-wq, each once however often it was; null: none that was followed, or too few to tell.
    #[serde(default)]
    pub punted_requests: Option<Estimate>,
}

impl OpcodeRecord {
    /// It moved data, and how much was asked for is not looked at. A multishot read or zero-copy receive asks for no length.
    pub fn short_not_told(&self) -> bool {
        let asks_for_none = ["read_multishot", "recv_zc"].contains(&self.opcode.as_str());
        self.short.is_none() && !asks_for_none && counts_bytes(&self.opcode) && self.outcomes() > self.errors
    }

    /// What succeeded without a completion moved bytes, and how many is not known.
    pub fn bytes_unknown(&self) -> bool {
        counts_bytes(&self.opcode) && self.silent() > 0
    }

    /// Requests that succeeded without a completion, as they asked (IOSQE_CQE_SKIP_SUCCESS). What they moved is not known.
    /// Those still in flight when watching ended are among them: nothing tells the two apart.
    pub fn silent(&self) -> u64 {
        let ended = self.completions.saturating_sub(self.more);
        self.skips.min(self.requests.saturating_sub(ended).saturating_sub(self.unposted))
    }

    /// I/Os whose outcome is known: a zero-copy send's notification is none, a silent success is one.
    pub fn outcomes(&self) -> u64 {
        self.completions.saturating_sub(self.notifications) + self.silent()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrnoCount {
    pub errno: String,
    pub count: u64,
    /// Of the first followed request that ended with it, in hexadecimal; null: none was followed.
    #[serde(default)]
    pub user_data: Option<String>,
}
