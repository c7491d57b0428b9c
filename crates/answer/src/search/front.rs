//! Selects the members of a Pareto front to confirm in fresh blocks.

use super::TOLD;
use iotrail_schema::search_record::SearchRecord;
use iotrail_stats::search::Search;

/// Maximum members to confirm besides the current configuration.
const MOST: usize = 3;

/// The best in each objective, then those with the largest joint gain; each represented by the candidate with the least
/// effort among those indistinguishable from it.
pub(super) fn picks(search: &Search, record: &SearchRecord) -> Vec<usize> {
    let both = |i: usize| {
        let levels = [0, 1].map(|objective| search.fit_of(objective).level(i));
        levels.into_iter().map(|level| level.unwrap_or(f64::NEG_INFINITY)).sum::<f64>()
    };
    let mut by_both = search.survivors().to_vec();
    by_both.sort_by(|a, b| both(*b).total_cmp(&both(*a)));
    let effort = |i: usize| record.candidates.get(i).map(|c| c.effort);
    let mut picks: Vec<usize> = Vec::new();
    let ends = [search.leader_of(0), search.leader_of(1)].into_iter().flatten();
    for best in ends.chain(by_both) {
        let alike = |i: &usize| *i == best || cannot_be_told(search, best, *i);
        let pick = search.survivors().iter().copied().filter(alike).min_by_key(|i| (effort(*i), *i != best));
        let pick = pick.unwrap_or(best);
        let is_new = !picks.iter().any(|p| alike(p) || *p == pick);
        if picks.len() < MOST && pick != 0 && is_new {
            picks.push(pick);
        }
    }
    picks
}

/// Neither is clearly better in any objective, and the best cannot be much better.
fn cannot_be_told(search: &Search, best: usize, other: usize) -> bool {
    let advantage = |objective| search.advantage_of(objective, best, other);
    (0..2).all(|objective| advantage(objective).is_some_and(|a| a.lo <= 1.0 && a.hi >= 1.0 && a.hi <= 1.0 + TOLD))
}

#[cfg(test)]
mod tests {
    use crate::search::made::of_two;
    use crate::search::state;
    use iotrail_schema::search_record::Ended;

    #[test]
    fn the_ends_and_the_middle_of_the_front_are_picked() {
        // Fast; balanced; frugal; dominated by the balanced one.
        let run = of_two(&[[1.0, 1.0], [1.6, 1.1], [1.4, 0.7], [1.1, 0.5], [1.2, 0.8]], 40);
        let s = state(&run).unwrap();
        assert_eq!((s.set(), s.ended), (vec![1, 2, 3], Some(Ended::Settled)));
        let mut picks = s.picks.clone();
        picks.sort_unstable();
        assert_eq!(picks, [1, 2, 3]);
        assert_eq!(picks.len(), s.picks.len());
    }

    #[test]
    fn no_candidate_is_picked_if_the_current_configuration_may_be_best() {
        let s = state(&of_two(&[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], 40)).unwrap();
        assert!(s.set().contains(&0) && s.picks.is_empty(), "{s:?}");
        // It is best in both objectives.
        let s = state(&of_two(&[[1.0, 1.0], [0.8, 1.2]], 40)).unwrap();
        assert_eq!((s.set(), s.picks, s.ended), (vec![0], vec![], Some(Ended::OneLeft)));
        // c1 and c2 are equally good, but c2 needs a flag and c1 a few lines.
        let s = state(&of_two(&[[1.0, 1.0], [1.5, 0.8], [1.5, 0.8]], 40)).unwrap();
        assert_eq!((s.set(), s.picks), (vec![1, 2], vec![2]));
    }

    #[test]
    fn a_single_objective_has_no_front() {
        assert_eq!(state(&crate::search::made::search(&[1.0, 1.3], 40)).unwrap().picks, [0; 0]);
    }
}
