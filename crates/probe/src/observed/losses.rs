//! Missed events, and events that did not fit.

use super::readout::Raw;
use crate::function::same_as;
use crate::rings::{Chosen, FollowLoss};
use crate::skel::types;
use crate::subject::Subject;
use iotrail_path::loss::Full;

/// Whether a program only counts, or only observes stages of traced requests. If it misses events, a count is too low
/// or a stage is unknown, but no delivery path is wrong.
fn counts_only(program: &str) -> bool {
    ["interrupt_", "mode_page", "block_", "queue_", "credit_"].iter().any(|family| same_as(program).starts_with(family))
}

/// Number of losses that affect completions.
pub(crate) fn lost(raw: &Raw, subject: &Subject) -> u64 {
    // If the trace found no context, the ends of direct I/O belonged to untraced processes.
    let idle = |program: &str| subject.follow.is_some() && !raw.native_aio && program.starts_with("aio_");
    let rests_on = |program: &str| !counts_only(program) && !idle(program);
    let missed = raw.misses.iter().filter(|(program, _)| rests_on(program)).map(|(_, events)| events);
    let full = full(raw).into_iter().filter(|(what, _)| matches!(what, Full::Threads | Full::Counts | Full::Calls));
    full.map(|(_, n)| n).sum::<u64>() + missed.sum::<u64>()
}

/// Events that did not fit, by kind.
pub(super) fn full(raw: &Raw) -> Vec<(Full, u64)> {
    use types::loss as l;
    let all = [
        (l::LOSS_THREAD, Full::Threads),
        (l::LOSS_COUNT, Full::Counts),
        (l::LOSS_CALL, Full::Calls),
        (l::LOSS_CHILD, Full::Children),
        (l::LOSS_ERRNO, Full::Errnos),
        (l::LOSS_INTERRUPT, Full::Interrupts),
        (l::LOSS_IPI, Full::Ipis),
        (l::LOSS_WORKER, Full::Workers),
        (l::LOSS_WAIT, Full::Waits),
    ];
    let sum = |loss: types::loss| raw.slots.iter().map(|s| s.losses[loss.0 as usize]).sum::<u64>();
    all.into_iter().map(|(loss, what)| (what, sum(loss))).filter(|(_, n)| *n > 0).collect()
}

/// Outcomes of the requests selected for tracing.
pub(super) fn of_followed(raw: &Raw) -> FollowLoss {
    let sum = |f: fn(&types::cpu_slot) -> u64| raw.slots.iter().map(f).sum::<u64>();
    // Rejected requests may have been subtracted on another CPU.
    let of_chosen = |f: fn(&types::cpu_slot) -> u64| raw.slots.iter().fold(0, |sum: u64, s| sum.wrapping_add(f(s)));
    FollowLoss {
        no_room: sum(|s| s.no_room),
        ring_buffer_full: sum(|s| s.trails_lost),
        no_completion: sum(|s| s.no_completion) + raw.overflowed,
        skipped: sum(|s| s.skipped) + raw.skipped,
        unfinished: raw.unfinished,
        unreaped: raw.unreaped + sum(|s| s.unreaped),
        chosen: Chosen { whole: of_chosen(|s| s.chosen_whole), sampled: of_chosen(|s| s.chosen_sampled) },
        shared: sum(|s| s.shared.into()),
        // `gaps` already includes the gap to the next selected request.
        sampled_from: sum(|s| s.gaps.saturating_sub(s.until_next.into())),
        came_later: of_chosen(|s| s.came_later),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Choice;
    use crate::subject::{Follow, Interface, Scope};
    use std::collections::BTreeMap;

    #[test]
    fn a_missed_event_is_a_loss_if_completions_depend_on_it() {
        let subject = |follow| Subject {
            who: Scope::Followed,
            interface: Interface::Any,
            target_irqs: vec![],
            follow,
            aio_awaited: false,
            spans_timed: false,
        };
        let traced = subject(Some(Follow { choice: Choice::fixed(1), ring_bytes: 4096, stacks: false }));
        let mut raw = Raw {
            misses: BTreeMap::from([("aio_iomap_complete", 1), ("block_ended", 2), ("interrupt_ipi_send", 4)]),
            ..Raw::default()
        };
        assert_eq!(lost(&raw, &traced), 0, "nobody who is watched uses native aio");
        assert_eq!(lost(&raw, &subject(None)), 1, "a load of our own is native aio where this program is there");
        raw.native_aio = true;
        assert_eq!(lost(&raw, &traced), 1);
        raw.misses.insert("follow_complete", 8);
        assert_eq!(lost(&raw, &traced), 9);
    }
}
