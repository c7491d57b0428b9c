//! Requests of one opcode.

use serde::{Deserialize, Serialize};

use super::estimates::Estimate;
use crate::measurement::{Latency, StageRecord, Waits};
use crate::opcode::counts_bytes;

/// Requests of one opcode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpcodeRecord {
    /// The operation: IORING_OP_… in lower case. Of native aio `pread`, `pwrite`, `preadv`, `pwritev`, `fsync`, `fdsync`, `poll`; of
    /// POSIX AIO `aio_read`, `aio_write`, `aio_fsync`.
    pub opcode: String,
    /// Submissions seen.
    pub requests: u64,
    /// Of these, those that asked for no completion if they succeed (IOSQE_CQE_SKIP_SUCCESS). Those that succeeded so, or were
    /// unfinished at the end, are min(`skips`, `requests` − (`completions` − `more`) − `unposted`).
    #[serde(default)]
    pub skips: u64,
    /// Completions posted, the `more` and `notifications` among them.
    pub completions: u64,
    /// Sum of the results of reads, writes, sends and receives. What moved without a completion is not known, and not in it.
    pub bytes: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Reads, writes and sends with fewer bytes than asked for; null: not looked at. It is not looked at how much vectored ones,
    /// `recv`, `sendmsg`, `recvmsg`, `splice`, `tee` and other operations ask for. Reads into provided buffers, and sends of bundles,
    /// vectors and provided buffers are never short.
    pub short: Option<u64>,
    /// Completions that announce others of the same request.
    pub more: u64,
    /// Notifications of zero-copy sends.
    pub notifications: u64,
    /// Requests cancelled with their chain, without a completion. One before them that asked for none if it succeeds failed.
    #[serde(default)]
    pub unposted: u64,
    /// Times that one was handed to io-wq because of IOSQE_ASYNC. The same request may be handed over more than once, where a worker
    /// found it not to be ready.
    pub punted_asked: u64,
    /// Times that one was handed to io-wq because it would have blocked.
    pub punted_would_block: u64,
    /// Times that one was handed to io-wq because the ring was drained (IOSQE_IO_DRAIN).
    #[serde(default)]
    pub punted_drained: u64,
    /// The errors by name.
    pub errnos: Vec<ErrnoCount>,
    /// Latency of the followed ones.
    pub latency_ns: Latency,
    /// Those that are in no mean latency, no stages and no order; null: there are none. They were kept open until something came.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// The parts of the mean latency; null of other interfaces than io_uring.
    pub stages: Option<StageRecord>,
    /// How many different requests were handed to io-wq; null: none, or too few to tell.
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
    /// Its name: `EAGAIN`.
    pub errno: String,
    /// How many completions ended with it.
    pub count: u64,
    /// User data of the first followed one, in hexadecimal; null: none was followed.
    #[serde(default)]
    pub user_data: Option<String>,
}
