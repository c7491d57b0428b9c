//! Warnings from the probes, and limits of the counts.

use crate::rings::SeenRing;
use iotrail_answer::warnings::doubt::{self, Counts};
use iotrail_probe::function::sees_receives_in_place;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::{ContextKind, OpcodeCounts};
use iotrail_schema::measurement::{Probe, Warning};
use iotrail_schema::opcode::RECV_ZC;

pub(super) fn probe(observed: &Observed) -> Probe {
    Probe {
        mode: "aggregate".into(),
        completions_seen: Some(observed.seen),
        untracked: None,
        lost: Some(observed.lost),
        missed: observed.missed.clone(),
        programs: observed.programs.clone(),
    }
}

/// `requests`: over all rings and contexts.
pub(super) fn doubts(observed: &Observed, requests: u64, seen: &[&SeenRing]) -> Vec<Warning> {
    let mut warnings = doubt::doubts(Counts {
        completions: observed.seen,
        probe: &probe(observed),
        vehicles: &observed.vehicles,
        interrupts: &observed.interrupts,
    });
    if observed.seen + requests == 0 {
        warnings.push(nothing_seen(observed, seen));
    }
    warnings.extend(doubt::no_room(&observed.full));
    warnings.extend(results_unseen(observed));
    let posix = || observed.contexts.iter().filter(|c| c.kind == ContextKind::PosixAio).flat_map(|c| &c.opcodes);
    let of_posix = |f: fn(&OpcodeCounts) -> u64| posix().map(f).sum();
    warnings.extend(doubt::results_unreturned(of_posix(|o| o.requests), of_posix(|o| o.completions)));
    warnings.extend(doubt::submissions_unseen(observed.aio_unseen));
    if !sees_receives_in_place(&observed.programs) {
        let of_rings =
            observed.rings.iter().flat_map(|r| &r.opcodes).chain(observed.others.iter().flat_map(|o| &o.opcodes));
        let requests = of_rings.filter(|o| o.opcode == RECV_ZC).map(begun).sum();
        warnings.extend(doubt::zero_copy_received(requests));
    }
    warnings
}

/// Requests without the ones that failed before they could receive.
fn begun(of: &OpcodeCounts) -> u64 {
    let failed = |errno: i32| [libc::EINVAL, libc::EBADF, libc::ENOTSOCK].contains(&errno);
    let failed = of.errnos.iter().filter(|(errno, _)| failed(*errno)).map(|(_, count)| count).sum();
    of.requests.saturating_sub(failed)
}

fn nothing_seen(observed: &Observed, seen: &[&SeenRing]) -> Warning {
    let open: Vec<(u32, Vec<u32>)> =
        seen.iter().filter(|ring| ring.found).map(|ring| (ring.tgid, ring.fds.iter().copied().collect())).collect();
    match open.is_empty() {
        true => doubt::nothing_asynchronous(observed.syscalls, observed.pread_pwrite_calls),
        false => doubt::nothing_of_rings(&open),
    }
}

fn results_unseen(observed: &Observed) -> Option<Warning> {
    let other_contexts = || observed.others.iter().filter(|o| o.kind.is_some());
    let ended = observed.contexts.iter().flat_map(|c| &c.vehicles);
    let ended: u64 = ended.chain(other_contexts().flat_map(|o| &o.vehicles)).map(|v| v.completions).sum();
    let reaped = observed.contexts.iter().flat_map(|c| &c.opcodes);
    let reaped = reaped.chain(other_contexts().flat_map(|o| &o.opcodes)).map(|o| o.completions).sum();
    doubt::results_unseen(ended, reaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_copy_receive_that_fails_at_once_lacks_no_data() {
        let errnos = vec![(libc::EINVAL, 4), (libc::ECONNRESET, 1)];
        let of = OpcodeCounts { opcode: RECV_ZC.into(), requests: 6, errnos, ..OpcodeCounts::default() };
        assert_eq!(begun(&of), 2);
    }
}
