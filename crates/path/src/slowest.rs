//! Keeps the slowest trails: a flight recorder with constant memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::multishot::Multishot;
use iotrail_schema::trail::RequestTrace;

/// Criterion for the slowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// posted − submitted
    Latency,
    /// posted − ready
    Delay,
}

/// A kept trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowRequest {
    pub trail: RequestTrace,
    /// As in [`Multishot::is_later`].
    pub later: bool,
    /// The ranking criterion: latency or delivery delay.
    pub slowness_ns: u64,
    number: u64,
}

/// The least slow request is the maximum, so that a heap drops it first; among equals, the last one.
impl Ord for SlowRequest {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.slowness_ns, self.number).cmp(&(self.slowness_ns, other.number))
    }
}

impl PartialOrd for SlowRequest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The `k` slowest trails. Memory: `k` trails, and [`Multishot`]'s.
#[derive(Debug)]
pub struct Slowest {
    k: usize,
    by: By,
    offered: u64,
    heap: BinaryHeap<SlowRequest>,
    multishot: Multishot,
}

impl Slowest {
    pub fn new(k: usize, by: By) -> Self {
        Self { k, by, offered: 0, heap: BinaryHeap::new(), multishot: Multishot::default() }
    }

    /// Takes a trail, in the order of posting, and clones it only to keep it. Drops a trail without a rank: without
    /// *ready*, the delivery delay is unknown. A later completion has no latency, so its delivery delay counts.
    pub fn offer(&mut self, trail: &RequestTrace) {
        let later = self.multishot.is_later(trail);
        self.rank(trail, later);
    }

    /// Takes a completion that is known to be [later](Multishot::is_later).
    pub fn offer_later(&mut self, trail: &RequestTrace) {
        self.rank(trail, true);
    }

    fn rank(&mut self, trail: &RequestTrace, later: bool) {
        let by_delay = later || self.by == By::Delay;
        let slowness = if by_delay { trail.delay_ns() } else { Some(trail.latency_ns()) };
        let Some(slowness_ns) = slowness else { return };
        let number = self.offered;
        self.offered += 1;
        if self.heap.len() >= self.k {
            match self.heap.peek() {
                Some(least) if least.slowness_ns < slowness_ns => self.heap.pop(),
                _ => return,
            };
        }
        self.heap.push(SlowRequest { trail: trail.clone(), later, slowness_ns, number });
    }

    /// Slowest first; among equals, in the order of posting.
    pub fn into_sorted(self) -> Vec<SlowRequest> {
        self.heap.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::trail::Stamp;
    use iotrail_schema::trail_example::trail;

    fn of(latency_ns: u64, user_data: u64) -> RequestTrace {
        let mut t = trail();
        t.posted.ns = t.submitted.ns + latency_ns;
        t.ready = Some(Stamp { ns: t.posted.ns - latency_ns % 10, cpu: 0 });
        t.user_data = user_data;
        t
    }

    fn kept(slowest: Slowest) -> Vec<u64> {
        slowest.into_sorted().iter().map(|k| k.trail.user_data).collect()
    }

    #[test]
    fn the_slowest_are_kept_in_order_with_ties_in_arrival_order() {
        let mut s = Slowest::new(3, By::Latency);
        for (i, ns) in [500, 900, 100, 900, 700, 900, 600].into_iter().enumerate() {
            s.offer(&of(ns, i as u64));
        }
        assert_eq!(kept(s), [1, 3, 5]);
        let mut s = Slowest::new(2, By::Delay);
        for (i, ns) in [503, 909, 101].into_iter().enumerate() {
            s.offer(&of(ns, i as u64));
        }
        assert_eq!(kept(s), [1, 0]);
    }

    #[test]
    fn the_slowest_match_a_full_sort() {
        let mut x = 88_172_645_463_325_252u64;
        let all: Vec<u64> = std::iter::repeat_with(|| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % 1000
        })
        .take(5000)
        .collect();
        let mut s = Slowest::new(100, By::Latency);
        for (i, &ns) in all.iter().enumerate() {
            s.offer(&of(ns, i as u64));
        }
        let mut sorted: Vec<(u64, usize)> = all.into_iter().zip(0..).collect();
        sorted.sort_by_key(|&(ns, i)| (std::cmp::Reverse(ns), i));
        assert_eq!(kept(s), sorted[..100].iter().map(|&(_, i)| i as u64).collect::<Vec<_>>());
    }

    #[test]
    fn fewer_requests_than_the_limit_are_all_kept() {
        let mut s = Slowest::new(0, By::Latency);
        s.offer(&of(5, 0));
        assert_eq!(kept(s), [0u64; 0]);
        let mut s = Slowest::new(9, By::Latency);
        s.offer(&of(5, 0));
        assert_eq!(kept(s), [0]);
        let mut s = Slowest::new(9, By::Delay);
        s.offer(&RequestTrace { ready: None, ..of(5, 0) });
        assert_eq!(kept(s), [0u64; 0]);
    }

    #[test]
    fn a_later_multishot_completion_is_ranked_by_its_delivery_delay() {
        let mut s = Slowest::new(9, By::Latency);
        let shot = |latency, more| RequestTrace { more, ..of(latency, 7) };
        for t in [shot(1_001, true), shot(5_009, true), shot(9_002, false), of(30, 1), shot(1_234, false)] {
            s.offer(&t);
        }
        let all: Vec<_> = s.into_sorted().into_iter().map(|k| (k.trail.latency_ns(), k.later)).collect();
        // The request ended with its last completion. A later completion with the same user data belongs to another
        // request.
        assert_eq!(all, [(1_234, false), (1_001, false), (30, false), (5_009, true), (9_002, true)]);
    }
}
