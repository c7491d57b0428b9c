//! Completions that found the completion queue full name no request (io_uring_cqe_overflow): whose they were, where that is
//! certain.
//!
//! At the end of a watched span, each request of a ring has had its last completion (one that announces no more), or is
//! unfinished, or its last completion is among those without an opcode. If no more last completions are missing than there are
//! without an opcode, and none of these announces more, then none is unfinished, and what an opcode is missing is its own. That
//! rests on every request and completion having been seen: of a ring that was there before, of requests that may end without
//! a completion, and where events were lost, nothing is said.

use super::skel::types::{errno_key, op_count};
use super::trails::OPCODE_NONE;

const NONE: usize = OPCODE_NONE as usize;

/// Gives the completions without an opcode to the opcodes that they are of, or leaves them as they are. What they returned (bytes,
/// errors) goes with them where all are of one opcode; where they are of several, it stays behind.
pub(super) fn name(ops: &mut [op_count], errnos: &mut [(errno_key, u64)]) {
    let nameless = ops[NONE];
    let missing: Option<Vec<u64>> = ops[..NONE].iter().map(missing).collect();
    let Some(missing) = missing else { return };
    let certain = nameless.more == 0 && nameless.notifications == 0 && nameless.requests == 0;
    if nameless.completions == 0 || !certain || missing.iter().sum::<u64>() != nameless.completions {
        return;
    }
    for (op, missing) in ops.iter_mut().zip(&missing) {
        op.completions += missing;
    }
    ops[NONE].completions = 0;
    let mut open = missing.iter().enumerate().filter(|(_, missing)| **missing > 0);
    if let (Some((only, _)), None) = (open.next(), open.next()) {
        ops[only].bytes += nameless.bytes;
        ops[only].errors += nameless.errors;
        (ops[NONE].bytes, ops[NONE].errors) = (0, 0);
        let of_none = errnos.iter_mut().filter(|(key, _)| u32::from(key.opcode) == OPCODE_NONE);
        of_none.for_each(|(key, _)| key.opcode = only as u16);
    }
}

/// How many of an opcode's requests have not had their last completion; `None`: it cannot be told.
fn missing(op: &op_count) -> Option<u64> {
    let last = op.completions.checked_sub(op.more)?;
    (op.skips == 0).then_some(op.requests.checked_sub(last)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: usize = 22;
    const NOP: usize = 0;
    const RECV: usize = 27;

    fn op(requests: u64, completions: u64) -> op_count {
        op_count { requests, completions, ..op_count::default() }
    }

    fn named(of: &[(usize, op_count)]) -> Vec<op_count> {
        let mut ops = vec![op_count::default(); NONE + 1];
        of.iter().for_each(|(opcode, counts)| ops[*opcode] = *counts);
        name(&mut ops, &mut []);
        ops
    }

    fn completions(of: &[(usize, op_count)], opcodes: [usize; 3]) -> [u64; 3] {
        let ops = named(of);
        opcodes.map(|opcode| ops[opcode].completions)
    }

    #[test]
    fn the_missing_ones_of_the_only_open_opcode_are_those() {
        let of = [(NOP, op(64, 16)), (READ, op(9, 9)), (NONE, op(0, 48))];
        assert_eq!(completions(&of, [NOP, READ, NONE]), [64, 9, 0]);
    }

    #[test]
    fn each_opcode_has_its_own_where_the_sum_is_right() {
        let of = [(NOP, op(64, 60)), (READ, op(9, 3)), (NONE, op(0, 10))];
        assert_eq!(completions(&of, [NOP, READ, NONE]), [64, 9, 0]);
        // A multishot request has one last completion, and some before it.
        let multishot = op_count { more: 7, ..op(1, 8) };
        let of = [(RECV, multishot), (READ, op(9, 3)), (NONE, op(0, 6))];
        assert_eq!(completions(&of, [RECV, READ, NONE]), [8, 9, 0]);
    }

    #[test]
    fn nothing_is_guessed() {
        let same = |of: &[(usize, op_count)]| {
            let wanted = [NOP, READ, NONE].map(|i| of.iter().find(|(o, _)| *o == i).map_or(0, |(_, c)| c.completions));
            assert_eq!(completions(of, [NOP, READ, NONE]), wanted, "{of:?}");
        };
        // One is unfinished: it may be of either.
        same(&[(NOP, op(64, 60)), (READ, op(9, 3)), (NONE, op(0, 9))]);
        // More than are missing: completions of before, or of a request that was not seen.
        same(&[(NOP, op(64, 60)), (NONE, op(0, 5))]);
        same(&[(NOP, op(5, 6)), (READ, op(9, 3)), (NONE, op(0, 5))]);
        // One of those without an opcode announces more: it is no last one.
        same(&[(NOP, op(64, 60)), (NONE, op_count { more: 1, ..op(0, 4) })]);
        // They may have ended as they asked to, without a completion.
        same(&[(NOP, op_count { skips: 4, ..op(64, 60) }), (NONE, op(0, 4))]);
        same(&[(NOP, op(64, 60))]);
    }

    #[test]
    fn results_go_with_completions_of_one_opcode_alone() {
        let results = op_count { bytes: 4096, errors: 2, ..op(0, 3) };
        let mut ops = vec![op_count::default(); NONE + 1];
        (ops[READ], ops[NONE]) = (op_count { bytes: 100, ..op(5, 2) }, results);
        let mut errnos = [(errno_key { ring: 0, opcode: NONE as u16, number: 5 }, 2)];
        name(&mut ops, &mut errnos);
        assert_eq!((ops[READ].completions, ops[READ].bytes, ops[READ].errors), (5, 4196, 2));
        assert_eq!((ops[NONE].bytes, ops[NONE].errors, errnos[0].0.opcode), (0, 0, READ as u16));
        let of_two = named(&[(READ, op(5, 3)), (NOP, op(1, 0)), (NONE, results)]);
        assert_eq!((of_two[READ].completions, of_two[NOP].completions), (5, 1));
        assert_eq!((of_two[NONE].completions, of_two[NONE].bytes, of_two[NONE].errors), (0, 4096, 2));
    }
}
