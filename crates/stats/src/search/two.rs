//! Evidence that one candidate dominates another in two objectives, valid at every block simultaneously.
//!
//! **Formula.** `a` dominates `b` if it is better in one objective, and in the other not worse by more than the
//! threshold. The evidence for both is the smaller of the two e-values: if `a` does not dominate, one of them is an
//! e-process, and the smaller one is at most as large. `a` may be better in either objective; the mean of both cases is
//! also bounded by an e-process.
//!
//! **The front.** A candidate is dropped when the mean evidence of the others that they dominate it reaches (remaining
//! candidates) / α. As long as no member was dropped wrongly, at least as many candidates as members remain. So the
//! probability that any member is ever dropped is at most α (Holm's argument, over time).

use super::table::Fit;

/// Fits of both objectives, and the largest loss that does not count.
pub(super) struct Two<'f> {
    pub(super) fits: [&'f Fit; 2],
    pub(super) threshold: f64,
}

impl Two<'_> {
    /// Evidence that `a` dominates `b`.
    pub(super) fn evidence(&self, a: usize, b: usize) -> f64 {
        let loss = self.threshold.ln_1p();
        let better = |in_which: usize| {
            let [one, other] = [self.fits[in_which], self.fits[1 - in_which]];
            one.evidence(a, b, 0.0).min(other.evidence(a, b, -loss))
        };
        (better(0) + better(1)) / 2.0
    }

    /// Whether some `a` in `of` has an estimated gain in one objective that exceeds its loss in the other. Without this
    /// condition, candidates that are each slightly better in one objective and slightly worse in the other could drop
    /// each other in a cycle. (Requiring both estimates to be at least as good is too strict: if two candidates are
    /// equal in one objective, chance would decide.)
    pub(super) fn has_better(&self, b: usize, of: &[usize]) -> bool {
        let both = |i: usize| Some(self.fits[0].level(i)? + self.fits[1].level(i)?);
        let Some(own) = both(b) else { return false };
        of.iter().filter_map(|a| both(*a)).any(|its| its > own)
    }

    /// Whether every pair of candidates is settled: one certainly loses more than the threshold in some objective, or both
    /// are equivalent in both objectives.
    pub(super) fn is_settled(&self, of: &[usize], needed: f64) -> bool {
        let threshold = self.threshold.ln_1p();
        let surely = |objective: usize, a: usize, b: usize, bound| self.fits[objective].evidence(a, b, bound) >= needed;
        let loses = |a: usize, b: usize| (0..2).any(|objective| surely(objective, b, a, threshold));
        let same = |a: usize, b: usize| (0..2).all(|o| surely(o, a, b, -threshold) && surely(o, b, a, -threshold));
        let pairs = of.iter().enumerate().flat_map(|(i, a)| of[..i].iter().map(move |b| (*a, *b)));
        pairs.into_iter().all(|(a, b)| loses(a, b) && loses(b, a) || same(a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Better, Table};

    /// Fits of candidates with these levels and noise of about 0.5 %.
    fn fits(levels: &[[f64; 2]], blocks: usize) -> [Fit; 2] {
        [0, 1].map(|objective| {
            let mut table = Table::new(levels.len(), Better::More);
            for block in 0..blocks {
                for (i, level) in levels.iter().enumerate() {
                    let noise = 0.005 * ((block * 7 + i * 3 + block * i + objective) as f64 * 2.4).sin();
                    table.record(block, i, (level[objective] + noise).exp());
                }
            }
            table.fit()
        })
    }

    #[test]
    fn dominance_ignores_losses_within_the_threshold() {
        let fits = fits(&[[0.0, 0.0], [0.1, -0.005], [0.1, -0.1], [-0.1, 0.08]], 20);
        let two = Two { fits: [&fits[0], &fits[1]], threshold: 0.02 };
        assert!(two.evidence(1, 0) > 1e4 && two.evidence(0, 1) < 0.5, "{}", two.evidence(1, 0));
        assert!(two.evidence(2, 0) < 0.5 && two.evidence(0, 2) < 0.5 && two.evidence(1, 2) > 1e4);
        assert_eq!([0, 1, 2, 3].map(|b| two.has_better(b, &[0, 1, 2, 3])), [true, false, true, true]);
        // 0 and 1 are not settled, because 1 dominates; 2 and 3 are.
        assert!(two.is_settled(&[2, 3], 1e3) && !two.is_settled(&[0, 1], 1e3) && two.is_settled(&[0], 1e3));
    }

    #[test]
    fn equivalent_candidates_are_settled_and_unknown_ones_are_not() {
        let same = fits(&[[0.0, 0.0], [0.0, 0.0]], 20);
        assert!(Two { fits: [&same[0], &same[1]], threshold: 0.02 }.is_settled(&[0, 1], 1e3));
        assert!(!Two { fits: [&same[0], &same[1]], threshold: 1e-4 }.is_settled(&[0, 1], 1e3));
        let none = fits(&[[0.0, 0.0], [1.0, 1.0]], 1);
        let two = Two { fits: [&none[0], &none[1]], threshold: 0.02 };
        assert!(two.evidence(1, 0) == 1.0 && !two.is_settled(&[0, 1], 20.0));
    }
}
