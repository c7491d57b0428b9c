//! The order of completions: whether they were posted in the order in which they were submitted, and between which stages
//! that order was lost.
//!
//! A completion is an **inversion** if it overtook another one of the same ring: that one was submitted before it and posted
//! after it. Its **displacement** is how many places apart it stands in the two orders. The same is asked between
//! neighbouring stages, of the completions with all stamps: submitted → issued (`block`), issued → ready (`device`),
//! ready → ended (`file_system`: what no worker of a file system has to finish has ended when it is ready), ended → posted
//! (`task_work`). An order that one stage loses another may restore, so these four need not sum to the inversions.

use std::collections::BTreeMap;

use super::trail::Trail;
use crate::measurement::{Order, OrderBy};

/// The order of so many followed requests is kept, the first ones: 56 bytes each.
pub const KEPT: usize = 1 << 20;

/// One completion's stamps, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    pub ring: u32,
    pub submitted: u64,
    pub posted: u64,
    /// Where *issued* and *ready* are known.
    pub between: Option<Between>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between {
    pub issued: u64,
    pub ready: u64,
    /// *Ready*, where no worker of a file system had to finish it.
    pub ended: u64,
}

impl Passage {
    /// `None`: it is of no known ring, whose order is asked.
    pub fn of(trail: &Trail) -> Option<Self> {
        Some(Passage {
            ring: trail.ring?,
            submitted: trail.submitted.ns,
            posted: trail.posted.ns,
            between: trail.issued.zip(trail.ready).map(|(issued, ready)| Between {
                issued: issued.ns,
                ready: ready.ns,
                ended: trail.ended.unwrap_or(ready).ns,
            }),
        })
    }
}

/// Of all rings together. Each request enters with its first completion only. `ends_seen`: a worker of a file system leaves its
/// stamp. `None`: there is no order of fewer than two. O(n log n). Of a sample of requests this is the order among those.
pub fn order(passages: &[Passage], ends_seen: bool) -> Option<Order> {
    if passages.len() < 2 {
        return None;
    }
    let mut rings: BTreeMap<u32, Vec<&Passage>> = BTreeMap::new();
    for p in passages {
        rings.entry(p.ring).or_default().push(p);
    }
    let mut order = Order {
        completions: passages.len() as u64,
        inversions: 0,
        max_displacement: 0,
        by: OrderBy { block: 0, device: 0, file_system: ends_seen.then_some(0), task_work: 0 },
    };
    for ring in rings.values() {
        let mut whole: Vec<_> = ring.iter().map(|p| (p.submitted, p.posted)).collect();
        order.inversions += inversions(&mut whole);
        order.max_displacement = order.max_displacement.max(displacement(&mut whole));
        let lost_in = |span: fn(&Passage, Between) -> (u64, u64)| {
            inversions(&mut ring.iter().filter_map(|p| Some(span(p, p.between?))).collect::<Vec<_>>())
        };
        order.by.block += lost_in(|p, b| (p.submitted, b.issued));
        order.by.device += lost_in(|_, b| (b.issued, b.ready));
        order.by.file_system = order.by.file_system.map(|n| n + lost_in(|_, b| (b.ready, b.ended)));
        order.by.task_work += lost_in(|p, b| (b.ended, p.posted));
    }
    Some(order)
}

/// How many of the (from, to) overtook another. Equal stamps overtake nobody. Leaves them in the order of `to`.
fn inversions(spans: &mut [(u64, u64)]) -> u64 {
    // From the last `to` backwards: one overtook if any after it has an earlier `from`. Among those of one `to`, the
    // latest `from` stands last and is looked at first.
    spans.sort_unstable_by_key(|(from, to)| (*to, *from));
    let mut earliest = u64::MAX;
    let overtook = spans.iter().rev().filter(|(from, _)| {
        let overtook = earliest < *from;
        earliest = earliest.min(*from);
        overtook
    });
    overtook.count() as u64
}

/// The most places that one stands apart in the order of `from` and in that of `to`. Takes them in the order of `to`.
fn displacement(spans: &mut [(u64, u64)]) -> u64 {
    let mut by_from: Vec<usize> = (0..spans.len()).collect();
    by_from.sort_by_key(|i| spans[*i]);
    by_from.iter().enumerate().map(|(place, i)| place.abs_diff(*i)).max().unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Submitted at 0, 1, 2 …; the places of each at the three later stages, with no worker between the last two.
    fn ring(ring: u32, places: &[[u64; 3]]) -> Vec<Passage> {
        let of = |(i, [issued, ready, posted]): (usize, &[u64; 3])| Passage {
            ring,
            submitted: i as u64,
            posted: 3000 + posted,
            between: Some(Between { issued: 1000 + issued, ready: 2000 + ready, ended: 2000 + ready }),
        };
        places.iter().enumerate().map(of).collect()
    }

    fn numbers(passages: &[Passage]) -> [u64; 5] {
        let o = order(passages, true).unwrap();
        assert_eq!((o.completions, o.by.file_system), (passages.len() as u64, Some(0)));
        [o.inversions, o.max_displacement, o.by.block, o.by.device, o.by.task_work]
    }

    #[test]
    fn one_order_from_end_to_end() {
        assert_eq!(numbers(&ring(0, &[[0, 0, 0], [1, 1, 1], [2, 2, 2]])), [0, 0, 0, 0, 0]);
        assert_eq!(order(&ring(0, &[[0, 0, 0]]), true), None);
    }

    #[test]
    fn where_it_was_lost() {
        // Reversed by task work: all but the first submitted overtook somebody.
        let reversed = ring(0, &[[0, 0, 3], [1, 1, 2], [2, 2, 1], [3, 3, 0]]);
        assert_eq!(numbers(&reversed), [3, 3, 0, 0, 3]);
        // One slow read in the device: the three after it overtook it.
        let slow = ring(0, &[[0, 3, 3], [1, 0, 0], [2, 1, 1], [3, 2, 2]]);
        assert_eq!(numbers(&slow), [3, 3, 0, 3, 0]);
        // One that overtakes the three before it in the block layer.
        let first = ring(0, &[[1, 1, 1], [2, 2, 2], [3, 3, 3], [0, 0, 0]]);
        assert_eq!(numbers(&first), [1, 3, 1, 0, 0]);
        // Lost by the device, restored by task work.
        let twice = ring(0, &[[0, 1, 0], [1, 0, 1]]);
        assert_eq!(numbers(&twice), [0, 0, 0, 1, 1]);
        // The order in which they are handed over is nobody's order.
        let mut shuffled = slow.clone();
        shuffled.reverse();
        assert_eq!(numbers(&shuffled), numbers(&slow));
    }

    #[test]
    fn a_worker_of_the_file_system_is_not_task_work() {
        // Ready in order; the worker finishes the first one last, and task work posts them as they are finished.
        let mut writes = ring(0, &[[0, 0, 2], [1, 1, 0], [2, 2, 1]]);
        for p in &mut writes {
            p.between.as_mut().unwrap().ended = p.posted - 500;
        }
        let o = order(&writes, true).unwrap();
        assert_eq!((o.inversions, o.by.file_system, o.by.task_work), (2, Some(2), 0));
        // A read that is ready while the worker is at the write before it overtakes that there.
        let mut mixed = ring(0, &[[0, 0, 1], [1, 1, 0]]);
        mixed[0].between.as_mut().unwrap().ended = 2500;
        let o = order(&mixed, true).unwrap();
        assert_eq!((o.inversions, o.by.file_system, o.by.task_work), (1, Some(1), 0));
        // Where nobody sees the end, it is not known which of the two it was.
        assert_eq!(order(&ring(0, &[[0, 0, 1], [1, 1, 0]]), false).unwrap().by.file_system, None);
    }

    #[test]
    fn rings_have_nothing_to_do_with_one_another() {
        let mut two = ring(0, &[[0, 0, 5], [1, 1, 6]]);
        two.extend(ring(1, &[[0, 0, 1], [1, 1, 0]]));
        assert_eq!(numbers(&two), [1, 1, 0, 0, 1]);
    }

    #[test]
    fn equal_stamps_overtake_nobody_and_missing_ones_are_left_out() {
        let at = |submitted, posted| Passage { ring: 0, submitted, posted, between: None };
        assert_eq!(numbers(&[at(5, 9), at(5, 8), at(4, 8), at(3, 8)]), [0, 0, 0, 0, 0]);
        assert_eq!(numbers(&[at(1, 9), at(2, 8)]), [1, 1, 0, 0, 0]);
    }
}
