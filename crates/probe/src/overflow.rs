//! Attributes completions that found the completion queue full. Their event (io_uring_cqe_overflow) does not name the
//! request.
//!
//! At the end of a trace, a request of a ring has posted its last completion (the one without IORING_CQE_F_MORE), or is
//! in flight, or its last completion has no opcode. If as many last completions are missing as completions have no
//! opcode, and none of these has IORING_CQE_F_MORE, no request is in flight, and each opcode's missing completions are
//! its own. This requires that all requests and completions were observed. So nothing is attributed for rings older
//! than the trace, for requests that may post no completion, or if events were lost.

use super::counted::Counted;
use super::skel::types::op_count;
use crate::opcode::OPCODE_NONE as NONE;

/// Attributes completions without an opcode to opcodes if that is certain. Their results (bytes, errors) are attributed
/// only if all belong to one opcode.
pub(super) fn name(counted: &mut Counted) {
    let Some(nameless) = counted.ops.get(&NONE).copied() else { return };
    let named = || counted.ops.iter().filter(|(opcode, _)| **opcode != NONE);
    let missing: Option<Vec<(u32, u64)>> = named().map(|(opcode, op)| Some((*opcode, missing(op)?))).collect();
    let Some(mut missing) = missing else { return };
    missing.retain(|(_, missing)| *missing > 0);
    let certain = nameless.more == 0 && nameless.notifications == 0 && nameless.requests == 0;
    let sum: u64 = missing.iter().map(|(_, missing)| missing).sum();
    // Messages from other rings and resource tags have no opcode either.
    let are_overflows = counted.ring.overflows >= nameless.completions;
    if nameless.completions == 0 || !certain || !are_overflows || sum != nameless.completions {
        return;
    }
    let mut rest = op_count { completions: 0, ..nameless };
    for (opcode, missing) in &missing {
        counted.ops.entry(*opcode).or_default().completions += missing;
    }
    if let [(only, _)] = missing[..] {
        let op = counted.ops.entry(only).or_default();
        op.bytes += nameless.bytes;
        op.errors += nameless.errors;
        (rest.bytes, rest.errors) = (0, 0);
        let of_none: Vec<(u32, u32)> =
            counted.errnos.range((NONE, 0)..=(NONE, u32::MAX)).map(|(key, _)| *key).collect();
        for key @ (_, errno) in of_none {
            let n = counted.errnos.remove(&key).unwrap_or_default();
            *counted.errnos.entry((only, errno)).or_default() += n;
        }
    }
    counted.ops.insert(NONE, rest);
}

/// Number of an opcode's requests that lack their last completion; `None` if unknown.
fn missing(op: &op_count) -> Option<u64> {
    let last = op.completions.checked_sub(op.more + op.messages)?;
    (op.skips == 0 && op.unposted == 0).then_some(op.requests.checked_sub(last)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = 22;
    const NOP: u32 = 0;
    const RECV: u32 = 27;

    fn op(requests: u64, completions: u64) -> op_count {
        op_count { requests, completions, ..op_count::default() }
    }

    fn named(of: &[(u32, op_count)]) -> Counted {
        of_overflows(of, u64::MAX)
    }

    fn of_overflows(of: &[(u32, op_count)], overflows: u64) -> Counted {
        let mut counted = Counted::default();
        of.iter().for_each(|(opcode, counts)| counted.op(*opcode, counts));
        counted.ring.overflows = overflows;
        name(&mut counted);
        counted
    }

    fn completions(of: &[(u32, op_count)], opcodes: [u32; 3]) -> [u64; 3] {
        let ops = named(of).ops;
        opcodes.map(|opcode| ops.get(&opcode).map_or(0, |op| op.completions))
    }

    #[test]
    fn overflowed_completions_belong_to_the_only_open_opcode() {
        let of = [(NOP, op(64, 16)), (READ, op(9, 9)), (NONE, op(0, 48))];
        assert_eq!(completions(&of, [NOP, READ, NONE]), [64, 9, 0]);
    }

    #[test]
    fn overflowed_completions_are_assigned_per_opcode_if_the_sum_matches() {
        let of = [(NOP, op(64, 60)), (READ, op(9, 3)), (NONE, op(0, 10))];
        assert_eq!(completions(&of, [NOP, READ, NONE]), [64, 9, 0]);
        // A multishot request has several completions, but only one last completion.
        let multishot = op_count { more: 7, ..op(1, 8) };
        let of = [(RECV, multishot), (READ, op(9, 3)), (NONE, op(0, 6))];
        assert_eq!(completions(&of, [RECV, READ, NONE]), [8, 9, 0]);
    }

    #[test]
    fn ambiguous_overflowed_completions_are_not_assigned() {
        let same = |of: &[(u32, op_count)]| {
            let wanted = [NOP, READ, NONE].map(|i| of.iter().find(|(o, _)| *o == i).map_or(0, |(_, c)| c.completions));
            assert_eq!(completions(of, [NOP, READ, NONE]), wanted, "{of:?}");
        };
        // One request is in flight, but its opcode is unknown.
        same(&[(NOP, op(64, 60)), (READ, op(9, 3)), (NONE, op(0, 9))]);
        // More than are missing: completions of requests that are older than the trace or were not observed.
        same(&[(NOP, op(64, 60)), (NONE, op(0, 5))]);
        same(&[(NOP, op(5, 6)), (READ, op(9, 3)), (NONE, op(0, 5))]);
        // A completion without an opcode has IORING_CQE_F_MORE, so it is not a last completion.
        same(&[(NOP, op(64, 60)), (NONE, op_count { more: 1, ..op(0, 4) })]);
        // These requests may have completed without posting (IOSQE_CQE_SKIP_SUCCESS).
        same(&[(NOP, op_count { skips: 4, ..op(64, 60) }), (NONE, op(0, 4))]);
        same(&[(NOP, op(64, 60))]);
        // Only one of the two completions overflowed: the other is a message, and a request is in flight.
        let of = [(RECV, op(3, 1)), (NONE, op(0, 2))];
        assert_eq!(of_overflows(&of, 1).ops[&RECV].completions, 1);
        assert_eq!(of_overflows(&of, 2).ops[&RECV].completions, 3);
    }

    #[test]
    fn overflowed_results_are_assigned_if_there_is_one_opcode() {
        let results = op_count { bytes: 4096, errors: 2, ..op(0, 3) };
        let mut one = Counted::default();
        one.op(READ, &op_count { bytes: 100, ..op(5, 2) });
        one.op(NONE, &results);
        one.ring.overflows = 3;
        one.errnos = [((NONE, 5), 2), ((READ, 5), 1)].into();
        name(&mut one);
        let (read, none) = (one.ops[&READ], one.ops[&NONE]);
        assert_eq!((read.completions, read.bytes, read.errors), (5, 4196, 2));
        assert_eq!((none.bytes, none.errors, one.errnos), (0, 0, [((READ, 5), 3)].into()));
        let of_two = named(&[(READ, op(5, 3)), (NOP, op(1, 0)), (NONE, results)]).ops;
        assert_eq!((of_two[&READ].completions, of_two[&NOP].completions), (5, 1));
        assert_eq!((of_two[&NONE].completions, of_two[&NONE].bytes, of_two[&NONE].errors), (0, 4096, 2));
    }
}
