//! Counts completions by the CPU on which they became ready and the CPU on which they were posted.

use std::collections::{BTreeMap, HashMap};

use iotrail_schema::trace_record::CpuPair;
use iotrail_schema::trail::RequestTrace;

/// Completions that became ready on one CPU and were posted on another.
#[derive(Debug, Clone, Default)]
pub(super) struct Pair {
    completions: u64,
    stands_for: u64,
    /// The same by submitting thread.
    by_thread: HashMap<u32, u64>,
}

impl Pair {
    /// Maximum number of kept threads, since a program may create hundreds of thousands.
    const THREADS: usize = 1024;

    pub fn take(&mut self, trail: &RequestTrace) {
        let weight = u64::from(trail.weight.max(1));
        self.completions += 1;
        self.stands_for += weight;
        if self.by_thread.len() < Self::THREADS || self.by_thread.contains_key(&trail.tid) {
            *self.by_thread.entry(trail.tid).or_default() += weight;
        }
    }

    /// Minimum number of threads that submitted 90 % of them.
    fn threads(&self) -> u64 {
        let mut each: Vec<u64> = self.by_thread.values().copied().collect();
        each.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        let (mut left, mut threads) = ((self.stands_for * 9).div_ceil(10), 0);
        for n in each {
            if left == 0 {
                break;
            }
            (left, threads) = (left.saturating_sub(n), threads + 1);
        }
        threads
    }
}

pub(super) fn records(pairs: &BTreeMap<(u32, u32), Pair>) -> Vec<CpuPair> {
    let record = |(&(ready_cpu, posted_cpu), pair): (&(u32, u32), &Pair)| CpuPair {
        ready_cpu,
        posted_cpu,
        completions: pair.completions,
        estimated: Some(pair.stands_for),
        threads: Some(pair.threads()),
    };
    pairs.iter().map(record).collect()
}
