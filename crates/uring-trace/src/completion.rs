//! One completion of a traced request.

use std::time::Duration;

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::trail::{RequestTrace, Stages, Stamp};

/// One completion of a traced request. A multishot request posts several.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Completion {
    /// The operation: IORING_OP_… in lower case, such as `read_fixed`.
    pub opcode: String,
    /// Number of the ring within the trace, from 0; `None` if the trace has too many rings to number this one.
    pub ring: Option<u32>,
    /// The process.
    pub pid: u32,
    /// The submitting thread, or the SQPOLL thread.
    pub tid: u32,
    /// The request's user data.
    pub user_data: u64,
    /// Requested bytes; `None` if the operation has no single length.
    pub requested_bytes: Option<u64>,
    /// File offset of a read or write; `None` if it has none, or uses the file position.
    pub offset: Option<u64>,
    /// The completion's result: a byte count or another number, or a negative errno.
    pub result: i32,
    /// The request will post more completions (IORING_CQE_F_MORE).
    pub more: bool,
    /// Number of requests that this one represents if [`Tracer::one_in`](crate::Tracer::one_in) samples; otherwise 1.
    pub weight: u32,
    /// The kernel entry that posted the completion.
    pub path: DeliveryPath,
    /// The system call, interrupt or waker of the path; `None` if it has none.
    pub path_detail: Option<String>,
    /// *posted* − *submitted*; `None` if the request has posted a completion before.
    pub latency: Option<Duration>,
    /// The parts of the latency; `None` if *issued* or *ready* is not known, or if the latency is not.
    pub stages: Option<Stages>,
    /// When the request was submitted, and on which CPU.
    pub submitted: Stamp,
    /// When it was issued to the device, or when its poll was armed; `None` if not observed.
    pub issued: Option<Stamp>,
    /// When the device or the peer was done; `None` if not observed.
    pub ready: Option<Stamp>,
    /// When the completion was posted, and on which CPU.
    pub posted: Stamp,
}

impl Completion {
    /// `is_later`: the request has posted a completion before.
    pub(crate) fn new(trace: RequestTrace, is_later: bool) -> Self {
        Completion {
            latency: (!is_later).then(|| Duration::from_nanos(trace.latency_ns())),
            stages: trace.stages().filter(|_| !is_later),
            opcode: trace.opcode,
            ring: trace.ring,
            pid: trace.tgid,
            tid: trace.tid,
            user_data: trace.user_data,
            requested_bytes: trace.asked_bytes,
            offset: trace.offset,
            result: trace.result,
            more: trace.more,
            weight: trace.weight,
            path: trace.vehicle,
            path_detail: trace.detail,
            submitted: trace.submitted,
            issued: trace.issued.filter(|_| !is_later),
            ready: trace.ready,
            posted: trace.posted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trail_example::trail;

    #[test]
    fn the_stages_of_a_completion_add_up_to_its_latency() {
        let c = Completion::new(trail(), false);
        assert_eq!((c.path, c.latency), (DeliveryPath::TimerTick, Some(Duration::from_millis(3))));
        let stages = c.stages.unwrap();
        assert_eq!([stages.issue_ns, stages.wait_ns, stages.delivery_ns], [12_000, 89_000, 2_899_000]);
        assert_eq!((c.submitted.cpu, c.ready.unwrap().cpu, c.posted.cpu), (0, 1, 0));
    }

    #[test]
    fn only_the_first_completion_of_a_multishot_request_has_a_latency() {
        let later = Completion::new(trail(), true);
        assert_eq!((later.latency, later.stages, later.issued), (None, None, None));
        assert_eq!(later.ready, trail().ready);
    }
}
