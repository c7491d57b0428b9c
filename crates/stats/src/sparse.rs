//! A histogram of few distinct values, with the buckets of [`histogram`](super::histogram), of which it stores only
//! those with a count.

use super::histogram::MAX_NS;

/// Buckets below this index hold one value each; above it, each power of two has 1024 buckets.
const EXACT: u64 = 2048;

/// Number of bits for the count; the bucket index is in the bits above.
const COUNT: u32 = 48;

/// Buckets and their counts in ascending order, 8 bytes each.
#[derive(Debug, Clone, Default)]
pub struct Sparse(Vec<u64>);

impl Sparse {
    pub fn take(&mut self, ns: u64, times: u64) {
        let bucket = bucket(ns);
        match self.0.binary_search_by_key(&bucket, |entry| entry >> COUNT) {
            Ok(at) => {
                let count = (self.0[at] & MOST).saturating_add(times).min(MOST);
                self.0[at] = bucket << COUNT | count;
            }
            Err(at) => {
                if self.0.len() == self.0.capacity() {
                    self.0.reserve_exact(self.0.len() / 4 + 8);
                }
                self.0.insert(at, bucket << COUNT | times.min(MOST));
            }
        }
    }

    /// Number of used buckets.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lowest value and count of each used bucket.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|entry| (lowest(entry >> COUNT), entry & MOST))
    }
}

const MOST: u64 = (1 << COUNT) - 1;

fn bucket(ns: u64) -> u64 {
    let ns = ns.clamp(1, MAX_NS);
    if ns < EXACT {
        return ns;
    }
    let shift = u64::from(ns.ilog2() - 10);
    EXACT + (shift - 1) * 1024 + ((ns >> shift) - 1024)
}

fn lowest(bucket: u64) -> u64 {
    if bucket < EXACT {
        return bucket;
    }
    let (shift, place) = ((bucket - EXACT) / 1024 + 1, (bucket - EXACT) % 1024);
    (1024 + place) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram;

    #[test]
    fn sparse_buckets_match_those_of_the_histogram() {
        let h = histogram::new();
        let powers =
            (0..42).flat_map(|p| [(1u64 << p) - 1, 1 << p, (1 << p) + 1, (1 << p) * 3 / 2, (1 << p) * 1000 / 999]);
        for ns in powers.chain([0, 1, MAX_NS, MAX_NS - 1]).map(|ns| ns.clamp(1, MAX_NS)) {
            assert_eq!(lowest(bucket(ns)), h.lowest_equivalent(ns), "{ns}");
        }
        assert!(bucket(u64::MAX) < 33 * 1024);
    }

    #[test]
    fn sparse_buckets_are_unique_and_sorted() {
        let mut all = Sparse::default();
        for ns in [5000, 3, 5001, 3, u64::MAX, 0] {
            all.take(ns, 10);
        }
        let buckets: Vec<(u64, u64)> = all.iter().collect();
        assert_eq!(buckets, [(1, 10), (3, 20), (5000, 20), (lowest(bucket(MAX_NS)), 10)]);
        all.take(3, u64::MAX);
        assert_eq!(all.iter().nth(1), Some((3, MOST)));
        assert_eq!((all.len(), all.is_empty()), (4, false));
    }
}
