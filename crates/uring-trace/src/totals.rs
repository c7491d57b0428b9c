//! Counts of a trace.

use std::collections::BTreeMap;

use iotrail_probe::observed::Observed;
use iotrail_schema::delivery_path::DeliveryPath;

/// Counts of a trace. They include all requests, also if [`Tracer::one_in`](crate::Tracer::one_in) samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Submitted requests.
    pub requests: u64,
    /// Posted completions.
    pub completions: u64,
    /// Completions by delivery path; they add up to `completions`.
    pub paths: BTreeMap<DeliveryPath, u64>,
    /// Completions passed to the callback.
    pub traced: u64,
    /// Traced requests in flight when the trace ended.
    pub in_flight: u64,
    /// Traced requests with IOSQE_CQE_SKIP_SUCCESS that posted no completion.
    pub skipped: u64,
    /// Missing events and requests.
    pub losses: Losses,
    /// Information that this kernel does not provide, with the reason; empty if it provides everything.
    pub unavailable: Vec<String>,
}

/// Events and requests that a trace is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Kernel events that the BPF programs missed, or that did not fit into their maps. If not 0, the counts are lower
    /// bounds.
    pub events: u64,
    /// Requests that were not traced because too many were in flight.
    pub no_space: u64,
    /// Completions that were not passed to the callback because the buffer was full: the callback was too slow.
    pub buffer_full: u64,
    /// Requests whose completion was not observed, for example because the completion queue was full.
    pub no_completion: u64,
    /// Completions of multishot requests that may belong to a different request with the same user data.
    pub ambiguous: u64,
}

impl Losses {
    /// Whether anything is missing.
    pub fn any(&self) -> bool {
        *self != Losses::default()
    }
}

impl Totals {
    pub(crate) fn of(observed: &Observed, traced: u64, unavailable: Vec<String>) -> Self {
        let loss = &observed.follow_loss;
        let opcodes = observed.rings.iter().map(|ring| &ring.opcodes);
        let opcodes = opcodes.chain(observed.others.iter().map(|others| &others.opcodes));
        let mut paths = BTreeMap::new();
        for path in &observed.vehicles {
            *paths.entry(path.vehicle).or_default() += path.completions;
        }
        Totals {
            requests: opcodes.flatten().map(|opcode| opcode.requests).sum(),
            completions: observed.seen,
            paths,
            traced,
            in_flight: loss.unfinished,
            skipped: loss.skipped,
            losses: Losses {
                events: observed.lost,
                no_space: loss.no_room,
                buffer_full: loss.ring_buffer_full,
                no_completion: loss.no_completion,
                ambiguous: loss.shared,
            },
            unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_probe::rings::{FollowLoss, OpcodeCounts, OtherCounts, RingCounts};
    use iotrail_schema::measurement::DeliveryPathCount;

    #[test]
    fn counts_are_summed_over_rings_and_details() {
        let opcode = |requests| OpcodeCounts { requests, ..OpcodeCounts::default() };
        let path = |vehicle, detail: Option<&str>, completions| DeliveryPathCount {
            vehicle,
            detail: detail.map(Into::into),
            completions,
            delay_ns: None,
        };
        let observed = Observed {
            rings: vec![RingCounts { opcodes: vec![opcode(3), opcode(4)], ..RingCounts::default() }],
            others: vec![OtherCounts { opcodes: vec![opcode(5)], ..OtherCounts::default() }],
            vehicles: vec![
                path(DeliveryPath::Enter, Some("ready"), 6),
                path(DeliveryPath::Enter, Some("slept"), 2),
                path(DeliveryPath::Inline, None, 3),
            ],
            seen: 11,
            lost: 1,
            follow_loss: FollowLoss { ring_buffer_full: 2, unfinished: 1, ..FollowLoss::default() },
            ..Observed::default()
        };
        let totals = Totals::of(&observed, 9, vec![]);
        assert_eq!((totals.requests, totals.completions, totals.traced, totals.in_flight), (12, 11, 9, 1));
        assert_eq!(totals.paths, BTreeMap::from([(DeliveryPath::Enter, 8), (DeliveryPath::Inline, 3)]));
        assert_eq!(totals.losses, Losses { events: 1, buffer_full: 2, ..Losses::default() });
        assert!(totals.losses.any() && !Losses::default().any());
    }
}
