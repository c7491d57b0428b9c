//! Requests of one opcode.

use serde::{Deserialize, Serialize};

use super::estimates::Estimate;
use crate::measurement::{Latency, StageRecord, Waits};
use crate::opcode::{self, READS, UNSIZED, WRITES};

/// The opcode of completions whose request is not known.
const UNKNOWN: &str = "unknown";

/// Requests of one opcode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpcodeRecord {
    /// The operation: IORING_OP_… in lower case. Native aio has `pread`, `pwrite`, `preadv`, `pwritev`, `fsync`,
    /// `fdsync`, `poll`. POSIX AIO has `aio_read`, `aio_write`, `aio_fsync`.
    pub opcode: String,
    /// Submissions seen.
    pub requests: u64,
    /// Requests that request a completion only on failure (IOSQE_CQE_SKIP_SUCCESS). The number that succeeded without a
    /// completion, or had not finished at the end, is min(`skips`, `requests` − (`completions` − `more`) − `unposted`).
    #[serde(default)]
    pub skips: u64,
    /// Completions posted, including `more` and `notifications`.
    pub completions: u64,
    /// Sum of the results of reads, writes, sends and receives. Bytes transferred without a completion are unknown and
    /// not included.
    pub bytes: u64,
    /// Completions with an error. With `seen` it is a lower bound.
    pub errors: u64,
    /// Reads, writes and sends with fewer bytes than requested; null: not checked. The requested length is not checked
    /// for vectored operations, `recv`, `sendmsg`, `recvmsg`, `splice`, `tee` and other operations. Reads into provided
    /// buffers, and sends of bundles, vectors and provided buffers are never short.
    pub short: Option<u64>,
    /// Completions with IORING_CQE_F_MORE: the request will post more.
    pub more: u64,
    /// Zero-copy send notifications.
    pub notifications: u64,
    /// Zero-copy notifications and received data known to be copied by the kernel or not. Notifications report it only
    /// if the send has IORING_SEND_ZC_REPORT_USAGE.
    #[serde(default)]
    pub reporting: u64,
    /// Those of `reporting` whose data the kernel copied.
    #[serde(default)]
    pub copied: u64,
    /// Mean time from the submission of a zero-copy send to its notification. The kernel uses the buffer during this
    /// time.
    #[serde(default)]
    pub held_mean_ns: Option<f64>,
    /// Messages from other rings (IORING_OP_MSG_RING or IORING_REGISTER_SEND_MSG_RING).
    #[serde(default)]
    pub messages: u64,
    /// Requests that a policy rejected with EACCES at submission. The policy is a ring or task restriction, or a BPF
    /// filter.
    #[serde(default)]
    pub denied: u64,
    /// Requests cancelled with their chain, without a completion. An earlier request of the chain, which skips its
    /// completion on success, failed.
    #[serde(default)]
    pub unposted: u64,
    /// Number of times that a request was punted to io-wq because of IOSQE_ASYNC. A worker that finds the file not
    /// ready may punt the same request again.
    pub punted_asked: u64,
    /// Number of times that a request was punted to io-wq because it would have blocked.
    pub punted_would_block: u64,
    /// Number of times that a request was punted to io-wq because of a drain (IOSQE_IO_DRAIN).
    #[serde(default)]
    pub punted_drained: u64,
    /// Outcomes that were seen; `errors`, `short`, `denied` and `errnos` cover only these. Null: all were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// Errors by name.
    pub errnos: Vec<ErrnoCount>,
    /// Latency of the traced requests.
    pub latency_ns: Latency,
    /// Requests that wait for an event of unknown time; null: none. The mean latency, stages and order exclude them.
    #[serde(default)]
    pub waits: Option<Waits>,
    /// Components of the mean latency; null for interfaces other than io_uring.
    pub stages: Option<StageRecord>,
    /// Number of distinct requests punted to io-wq; null: none, or too few for an estimate.
    #[serde(default)]
    pub punted_requests: Option<Estimate>,
}

impl OpcodeRecord {
    /// It moved data, and its requested length is not checked. A multishot read or zero-copy receive does not request a
    /// length.
    pub fn short_not_told(&self) -> bool {
        let asks_for_none = opcode::is(&self.opcode, UNSIZED);
        self.short.is_none() && !asks_for_none && self.counts_bytes() && self.outcomes() > self.errors
    }

    /// Requests that succeeded without a completion moved an unknown number of bytes.
    pub fn bytes_unknown(&self) -> bool {
        self.counts_bytes() && self.silent() > 0
    }

    fn counts_bytes(&self) -> bool {
        opcode::is(&self.opcode, READS | WRITES)
    }

    /// Requests that succeeded without a completion, as requested (IOSQE_CQE_SKIP_SUCCESS). Their bytes are not known.
    /// Requests still in flight at the end are included, because they are indistinguishable.
    pub fn silent(&self) -> u64 {
        let ended = self.completions.saturating_sub(self.more + self.messages);
        self.skips.min(self.requests.saturating_sub(ended).saturating_sub(self.unposted))
    }

    /// I/Os with a known outcome: the notification of a zero-copy send does not count, a silent success counts.
    pub fn outcomes(&self) -> u64 {
        self.completions.saturating_sub(self.notifications) + self.silent()
    }

    /// The outcomes among which failures were counted. In windows, outcomes are multiplied and failures are not.
    pub fn judged(&self) -> u64 {
        self.seen.unwrap_or_else(|| self.outcomes())
    }
}

/// The operations among `completions` completions of these opcodes. An operation is a result that the program had of a
/// request. A multishot request has one operation per result. A request that succeeds without a completion
/// (IOSQE_CQE_SKIP_SUCCESS) is one. Two kinds of completions do not count: the notification of a zero-copy send, and
/// the message of an IORING_OP_MSG_RING, whose sender has its own completion. The sender of an
/// IORING_REGISTER_SEND_MSG_RING has none, so its message is the operation.
pub fn operations(completions: u64, opcodes: &[OpcodeRecord]) -> u64 {
    let sum = |of: fn(&OpcodeRecord) -> u64| opcodes.iter().map(of).sum::<u64>();
    let without_request = sum(|o| if o.opcode == UNKNOWN { o.outcomes() } else { o.messages });
    let sent = sum(|o| if o.opcode == "msg_ring" { o.outcomes() - o.messages } else { 0 });
    let extra = sum(|o| o.notifications) + without_request.min(sent);
    completions.saturating_sub(extra) + sum(OpcodeRecord::silent)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrnoCount {
    /// Its name: `EAGAIN`.
    pub errno: String,
    /// Number of completions with this error.
    pub count: u64,
    /// User data of the first traced one, in hexadecimal; null: none was traced.
    #[serde(default)]
    pub user_data: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(opcode: &str, requests: u64, completions: u64) -> OpcodeRecord {
        let zeros = serde_json::json!({
            "opcode": opcode, "requests": requests, "completions": completions, "bytes": 0, "errors": 0, "short": null, "more": 0,
            "notifications": 0, "punted_asked": 0, "punted_would_block": 0, "errnos": [], "latency_ns": Latency::default(), "stages": null
        });
        serde_json::from_value(zeros).unwrap()
    }

    #[test]
    fn each_result_of_a_program_counts_as_one_operation() {
        let zero_copy = OpcodeRecord { more: 6400, notifications: 6400, ..of("send_zc", 6400, 12_800) };
        assert_eq!(operations(12_800, &[zero_copy]), 6400);
        let of_before = OpcodeRecord { notifications: 500, ..of("unknown", 0, 500) };
        assert_eq!(operations(1000, &[of("msg_ring", 500, 500), of_before]), 500, "notifications of earlier sends");
        let messages = [of("msg_ring", 500, 500), of("unknown", 0, 500)];
        assert_eq!(operations(1000, &messages), 500);
        let named = OpcodeRecord { messages: 500, ..of("msg_ring", 500, 1000) };
        assert_eq!((named.silent(), operations(1000, &[named])), (0, 500));
        let by_register = OpcodeRecord { messages: 300, ..of("msg_ring", 0, 300) };
        assert_eq!(operations(300, &[by_register]), 300);
        // If the sender is not traced, its messages are the only completions of the operation.
        assert_eq!(operations(500, &[of("unknown", 0, 500)]), 500);
        let multishot = OpcodeRecord { more: 99, ..of("recv", 1, 100) };
        assert_eq!(operations(100, &[multishot]), 100);
        let silent = OpcodeRecord { skips: 30, ..of("write", 40, 10) };
        assert_eq!(operations(10, &[silent]), 40);
    }
}
