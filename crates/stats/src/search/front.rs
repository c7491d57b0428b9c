//! The front of two objectives: candidates that no other candidate certainly dominates.

/// Candidates that no other one dominates with confidence. `points`: both objectives of each candidate, where larger is
/// better ([`Fit::level`](super::Fit::level)). `advantage(objective, a, b)`: interval of the factor by which `a` is
/// better than `b`.
///
/// A candidate dominates another one if the sum of its points is larger, one interval is above 1, and neither extends
/// below 1 / (1 + `threshold`). The first condition prevents cycles of candidates that drop each other, so that some
/// always remain.
pub fn front(
    points: &[[f64; 2]],
    advantage: impl Fn(usize, usize, usize) -> Option<(f64, f64)>,
    threshold: f64,
) -> Vec<usize> {
    let dominates = |a: usize, b: usize| {
        let better = points[a].iter().sum::<f64>() > points[b].iter().sum::<f64>();
        let lows = || (0..2).map(|objective| advantage(objective, a, b).map_or(0.0, |(lo, _)| lo));
        better && lows().any(|lo| lo > 1.0) && lows().all(|lo| lo >= 1.0 / (1.0 + threshold))
    };
    let all = 0..points.len();
    all.clone().filter(|b| !all.clone().any(|a| a != *b && dominates(a, *b))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals from the points' ratio divided by 1 + `width` to the ratio times 1 + `width`.
    fn stays(points: &[[f64; 2]], width: f64) -> Vec<usize> {
        let advantage = |objective: usize, a: usize, b: usize| {
            let ratio = (points[a][objective] - points[b][objective]).exp();
            Some((ratio / (1.0 + width), ratio * (1.0 + width)))
        };
        front(points, advantage, 0.01)
    }

    #[test]
    fn only_clearly_dominated_candidates_are_removed() {
        // Fast; balanced; frugal; worse than balanced in both; as fast as fast but less frugal.
        let points = [[0.5, 0.0], [0.3, 0.3], [0.0, 0.5], [0.2, 0.2], [0.5, -0.2]];
        assert_eq!(stays(&points, 0.005), [0, 1, 2]);
        // The last one may be faster by more than the threshold.
        assert_eq!(stays(&points, 0.05), [0, 1, 2, 4]);
        assert_eq!(stays(&points, 0.5), [0, 1, 2, 3, 4]);
        assert_eq!(front(&points, |_, _, _| None, 0.01), [0, 1, 2, 3, 4]);
        assert_eq!(stays(&[[0.1, 0.1]; 3], 0.0), [0, 1, 2]);
        assert_eq!(stays(&[], 0.0), [0; 0]);
    }
}
