//! Latency histograms with power-of-two buckets.

use std::iter::successors;

/// Lower bounds of all buckets from the first to the last of `known`, including empty ones.
pub fn powers(known: impl Iterator<Item = u64> + Clone) -> Vec<u64> {
    let zero = known.clone().find(|at| *at == 0);
    let first = known.clone().filter(|at| *at > 0).min();
    let last = known.max().unwrap_or(0);
    let rest = successors(first, |at| at.checked_mul(2)).take_while(|at| *at <= last);
    zero.into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_of_two_buckets_include_empty_ones() {
        assert_eq!(powers([8, 1].into_iter()), [1, 2, 4, 8]);
        assert_eq!(powers([0, 4].into_iter()), [0, 4]);
        assert_eq!(powers([1 << 63].into_iter()), [1 << 63]);
        assert!(powers([].into_iter()).is_empty());
    }
}
