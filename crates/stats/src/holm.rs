//! Holm's step-down correction for multiple tests. If all null hypotheses are true, the probability of rejecting any is
//! that of a single test, whatever the dependence between the tests.

/// Adjusted p-value of each test, in input order.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut so_far: f64 = 0.0;
    for (rank, i) in order.into_iter().enumerate() {
        so_far = so_far.max(p[i] * (p.len() - rank) as f64).min(1.0);
        adjusted[i] = so_far;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_p_values_match_published_ones() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let got = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (got, wanted) in got.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - wanted).abs() < 1e-12, "{got} {wanted}");
        }
        assert_eq!((adjusted(&[]), adjusted(&[0.7]), adjusted(&[0.7, 0.9])), (vec![], vec![0.7], vec![1.0, 1.0]));
    }
}
