//! The order of completions: whether they were posted in the order in which they were submitted, and in the order in which they
//! were ready; and between which stages either order was lost.
//!
//! A completion is an **inversion** if it overtook another one of the same ring: that one was submitted before it and posted
//! after it. Its **displacement** is how many places apart it stands in the two orders. The same is asked between
//! neighbouring stages, of the completions with all stamps: submitted → issued (`block`), issued → ready (`device`),
//! ready → ended (`file_system`: what no worker of a file system has to finish has ended when it is ready), ended → posted
//! (`task_work`). An order that one stage loses another may restore, so these four need not sum to the inversions.
//!
//! What waits for a peer is ready when the peer sends, whatever was submitted first. So the same is asked of ready → posted
//! (`delivery`), of all completions that were seen to become ready, a multishot request's included. A wait ([`super::waits`]), which all
//! others overtake, is in that order alone.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use super::waits;
use iotrail_schema::measurement::{DeliveredBy, Delivery, Order, OrderBy};
use iotrail_schema::trail::{Stamp, Trail};

/// The order of so many followed completions is kept, the first ones: 56 bytes each.
const KEPT: usize = 1 << 18;

/// One completion's stamps, in nanoseconds; `None`: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passage {
    ring: u32,
    /// As [`Trail::weight`].
    weight: u32,
    /// Index of its operation's name.
    opcode: u16,
    /// As [`waits::armed`].
    armed: Option<u8>,
    /// `None`: it is one of several of its request, whose submission says nothing of when it was to come.
    submitted: Option<NonZeroU64>,
    issued: Option<NonZeroU64>,
    ready: Option<NonZeroU64>,
    /// Only where a worker of a file system had to finish it.
    ended: Option<NonZeroU64>,
    posted: u64,
}

impl Passage {
    /// When it could be delivered.
    fn deliverable(&self) -> Option<u64> {
        Some(self.ended.or(self.ready)?.get())
    }
}

/// The stamps of completions as they come, from which the order is told at the end.
#[derive(Debug, Clone, Default)]
pub struct Passages {
    passages: Vec<Passage>,
    opcodes: Vec<String>,
}

/// Whether a request is a wait, by its ring and operation, and how long a poll was armed for it.
pub type IsWait<'a> = &'a dyn Fn(u32, &str, Option<u8>) -> bool;

/// Whether a worker of a file system leaves its stamp, by the names of the attached programs.
pub fn sees_ends(programs: &[String]) -> bool {
    programs.iter().any(|name| name == "block_ended" || name.starts_with("block_called_back"))
}

impl Passages {
    /// `is_whole`: it is the only completion of its request. One of no known ring, whose order is asked, is not taken.
    pub fn take(&mut self, trail: &Trail, is_whole: bool) {
        let Some(ring) = trail.ring.filter(|_| self.passages.len() < KEPT) else { return };
        let stamp = |s: Stamp| NonZeroU64::new(s.ns);
        let known = self.opcodes.iter().position(|name| *name == trail.opcode);
        let opcode = known.unwrap_or_else(|| {
            self.opcodes.push(trail.opcode.clone());
            self.opcodes.len() - 1
        });
        self.passages.push(Passage {
            ring,
            weight: trail.weight.max(1),
            opcode: opcode as u16,
            armed: waits::armed(trail),
            submitted: stamp(trail.submitted).filter(|_| is_whole),
            issued: trail.issued.and_then(stamp),
            ready: trail.ready.and_then(stamp),
            ended: trail.ended.and_then(stamp),
            posted: trail.posted.ns,
        });
    }

    pub fn clear(&mut self) {
        self.passages.clear();
    }

    /// Each ring's; none of a ring with fewer than two completions, among which there is no order. O(n log n). Of a sample of
    /// requests this is the order among those.
    pub fn by_ring(&self, ends_seen: bool, is_wait: IsWait<'_>) -> BTreeMap<u32, Order> {
        let several = |of: &Vec<&Passage>| of.len() > 1;
        self.rings()
            .into_iter()
            .filter(|(_, of)| several(of))
            .map(|(ring, of)| (ring, self.of_ring(&of, ends_seen, is_wait)))
            .collect()
    }

    /// Of all rings together; `None` of fewer than two completions.
    pub fn order(&self, ends_seen: bool, is_wait: IsWait<'_>) -> Option<Order> {
        if self.passages.len() < 2 {
            return None;
        }
        let rings = self.rings();
        let mut order = rings.values().map(|of| self.of_ring(of, ends_seen, is_wait)).reduce(sum)?;
        if let Some(delivery) = &mut order.delivery {
            // Rings of which none was seen to become ready have no such part.
            delivery.without_ready = rings.values().map(|of| of.len() as u64).sum::<u64>() - delivery.completions;
        }
        Some(order)
    }

    /// Of each ring the completions that were followed in one way, all or a sample: among a sample, one overtakes only what is as far
    /// away as its neighbours are, so that the two say different things. It is the way that stands for more of them.
    fn rings(&self) -> BTreeMap<u32, Vec<&Passage>> {
        let mut rings: BTreeMap<u32, Vec<&Passage>> = BTreeMap::new();
        for p in &self.passages {
            rings.entry(p.ring).or_default().push(p);
        }
        for of in rings.values_mut() {
            let weight =
                |whole: bool| of.iter().filter(|p| (p.weight == 1) == whole).map(|p| u64::from(p.weight)).sum::<u64>();
            let whole = weight(true) >= weight(false);
            of.retain(|p| (p.weight == 1) == whole);
        }
        rings
    }

    fn of_ring(&self, ring: &[&Passage], ends_seen: bool, is_wait: IsWait<'_>) -> Order {
        let opcode = |p: &Passage| self.opcodes.get(usize::from(p.opcode)).map_or("", String::as_str);
        let waits = |p: &&Passage| p.submitted.is_some() && is_wait(p.ring, opcode(p), p.armed);
        let (waits, others): (Vec<&Passage>, Vec<&Passage>) = ring.iter().copied().partition(waits);
        Order { waits: waits.len() as u64, ..of_ring(ring, &others, ends_seen) }
    }
}

/// `others`: those of the ring that are no waits.
fn of_ring(ring: &[&Passage], others: &[&Passage], ends_seen: bool) -> Order {
    let of = |these: &[&Passage], span: &dyn Fn(&Passage) -> Option<(u64, u64)>| {
        let mut spans: Vec<_> = these.iter().filter_map(|p| span(p)).collect();
        Lost {
            completions: spans.len() as u64,
            overtaken: overtaken(&mut spans),
            inversions: inversions(&mut spans),
            max_displacement: displacement(&spans),
        }
    };
    let whole = of(others, &|p| Some((p.submitted?.get(), p.posted)));
    // Between neighbours, of those with all stamps.
    let staged = |p: &Passage| p.submitted.zip(p.issued).zip(p.ready).is_some();
    let between =
        |span: &dyn Fn(&Passage) -> Option<(u64, u64)>| of(others, &|p| span(p).filter(|_| staged(p))).inversions;
    let lost = |span: &dyn Fn(&Passage) -> Option<(u64, u64)>| of(ring, span);
    let in_file_system = |p: &Passage| Some((p.ready?.get(), p.deliverable()?));
    let in_task_work = |p: &Passage| Some((p.deliverable()?, p.posted));
    let delivered = lost(&|p| Some((p.ready?.get(), p.posted)));
    Order {
        completions: whole.completions,
        inversions: whole.inversions,
        overtaken: Some(whole.overtaken),
        waits: 0,
        max_displacement: whole.max_displacement,
        by: OrderBy {
            block: between(&|p| Some((p.submitted?.get(), p.issued?.get()))),
            device: between(&|p| Some((p.issued?.get(), p.ready?.get()))),
            file_system: ends_seen.then(|| between(&in_file_system)),
            task_work: between(&in_task_work),
        },
        delivery: (delivered.completions > 0).then(|| Delivery {
            completions: delivered.completions,
            without_ready: ring.len() as u64 - delivered.completions,
            inversions: delivered.inversions,
            max_displacement: delivered.max_displacement,
            by: DeliveredBy {
                file_system: ends_seen.then(|| lost(&in_file_system).inversions),
                task_work: lost(&in_task_work).inversions,
            },
        }),
    }
}

struct Lost {
    completions: u64,
    overtaken: u64,
    inversions: u64,
    max_displacement: u64,
}

/// Of two rings, or more of each.
fn sum(a: Order, b: Order) -> Order {
    let both = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    let delivery = |a: Delivery, b: Delivery| Delivery {
        completions: a.completions + b.completions,
        without_ready: a.without_ready + b.without_ready,
        inversions: a.inversions + b.inversions,
        max_displacement: a.max_displacement.max(b.max_displacement),
        by: DeliveredBy {
            file_system: both(a.by.file_system, b.by.file_system),
            task_work: a.by.task_work + b.by.task_work,
        },
    };
    Order {
        completions: a.completions + b.completions,
        inversions: a.inversions + b.inversions,
        overtaken: both(a.overtaken, b.overtaken),
        waits: a.waits + b.waits,
        max_displacement: a.max_displacement.max(b.max_displacement),
        by: OrderBy {
            block: a.by.block + b.by.block,
            device: a.by.device + b.by.device,
            file_system: both(a.by.file_system, b.by.file_system),
            task_work: a.by.task_work + b.by.task_work,
        },
        delivery: match (a.delivery, b.delivery) {
            (Some(a), Some(b)) => Some(delivery(a, b)),
            (one, other) => one.or(other),
        },
    }
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

/// How many of the (from, to) were overtaken by another. Leaves them in the order of `to`.
fn overtaken(spans: &mut [(u64, u64)]) -> u64 {
    // The other way round: any before it has a later `from`. Of those of one `to`, the earliest `from` stands first.
    spans.sort_unstable_by_key(|(from, to)| (*to, *from));
    let (mut latest, mut overtaken) = (0, 0);
    for same in spans.chunk_by(|a, b| a.1 == b.1) {
        overtaken += same.iter().filter(|(from, _)| *from < latest).count() as u64;
        latest = same.iter().map(|(from, _)| *from).fold(latest, u64::max);
    }
    overtaken
}

/// The most places that one stands apart in the order of `from` and in that of `to`. Takes them in the order of `to`.
fn displacement(spans: &[(u64, u64)]) -> u64 {
    let mut by_from: Vec<usize> = (0..spans.len()).collect();
    by_from.sort_by_key(|i| spans[*i]);
    by_from.iter().enumerate().map(|(place, i)| place.abs_diff(*i)).max().unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Submitted at 1, 2, 3 …; the places of each at the three later stages, with no worker between the last two.
    fn ring(ring: u32, places: &[[u64; 3]]) -> Vec<Passage> {
        let of = |(i, [issued, ready, posted]): (usize, &[u64; 3])| Passage {
            ring,
            weight: 1,
            opcode: 0,
            armed: None,
            submitted: NonZeroU64::new(1 + i as u64),
            issued: NonZeroU64::new(1000 + issued),
            ready: NonZeroU64::new(2000 + ready),
            ended: None,
            posted: 3000 + posted,
        };
        places.iter().enumerate().map(of).collect()
    }

    fn order(passages: &[Passage], ends_seen: bool) -> Option<Order> {
        these(passages).order(ends_seen, NONE)
    }

    const NONE: IsWait<'static> = &|_, _, _| false;

    fn these(passages: &[Passage]) -> Passages {
        Passages { passages: passages.to_vec(), opcodes: vec!["read".into()] }
    }

    fn numbers(passages: &[Passage]) -> [u64; 5] {
        let o = order(passages, true).unwrap();
        assert_eq!((o.completions, o.by.file_system), (passages.len() as u64, Some(0)));
        [o.inversions, o.max_displacement, o.by.block, o.by.device, o.by.task_work]
    }

    fn delivery(passages: &[Passage]) -> [u64; 4] {
        let d = order(passages, true).unwrap().delivery.unwrap();
        [d.completions, d.without_ready, d.inversions, d.max_displacement]
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
        assert_eq!(delivery(&reversed), [4, 0, 3, 3]);
        // One slow read in the device: the three after it overtook it.
        let slow = ring(0, &[[0, 3, 3], [1, 0, 0], [2, 1, 1], [3, 2, 2]]);
        assert_eq!(numbers(&slow), [3, 3, 0, 3, 0]);
        assert_eq!(delivery(&slow), [4, 0, 0, 0]);
        // One that overtakes the three before it in the block layer.
        let first = ring(0, &[[1, 1, 1], [2, 2, 2], [3, 3, 3], [0, 0, 0]]);
        assert_eq!(numbers(&first), [1, 3, 1, 0, 0]);
        // Lost by the device, restored by task work.
        let twice = ring(0, &[[0, 1, 0], [1, 0, 1]]);
        assert_eq!(numbers(&twice), [0, 0, 0, 1, 1]);
        assert_eq!(delivery(&twice), [2, 0, 1, 1]);
        // The order in which they are handed over is nobody's order.
        let mut shuffled = slow.clone();
        shuffled.reverse();
        assert_eq!(numbers(&shuffled), numbers(&slow));
    }

    #[test]
    fn one_that_takes_long_is_overtaken_by_all_and_overtakes_none() {
        let long = ring(0, &[[0, 9, 9], [1, 1, 1], [2, 2, 2], [3, 3, 3]]);
        let o = order(&long, true).unwrap();
        assert_eq!((o.inversions, o.overtaken), (3, Some(1)));
        let reversed = ring(0, &[[0, 0, 3], [1, 1, 2], [2, 2, 1], [3, 3, 0]]);
        assert_eq!(order(&reversed, true).unwrap().overtaken, Some(3));
        assert_eq!(order(&ring(0, &[[0, 0, 0], [1, 1, 1]]), true).unwrap().overtaken, Some(0));
        let mut same = reversed;
        same.iter_mut().for_each(|p| p.posted = 9);
        assert_eq!(order(&same, true).unwrap().overtaken, Some(0));
    }

    #[test]
    fn a_wait_is_in_the_order_of_delivery_alone() {
        let mut all = ring(0, &[[0, 9, 9], [1, 1, 1], [2, 2, 3], [3, 3, 2]]);
        all[0].armed = Some(20);
        all.extend(ring(1, &[[0, 0, 0], [1, 1, 1]]));
        let is_wait: IsWait<'_> = &|ring, opcode, armed| ring == 0 && opcode == "read" && armed >= Some(20);
        let o = these(&all).order(true, is_wait).unwrap();
        assert_eq!((o.completions, o.waits, o.inversions, o.max_displacement), (5, 1, 1, 1));
        assert_eq!((o.by.device, o.by.task_work), (0, 1));
        assert_eq!(o.delivery.map(|d| (d.completions, d.inversions)), Some((6, 1)));
        let each = these(&all).by_ring(true, is_wait);
        assert_eq!(each.values().map(|o| (o.completions, o.waits)).collect::<Vec<_>>(), [(3, 1), (2, 0)]);
    }

    #[test]
    fn a_worker_of_the_file_system_is_not_task_work() {
        // Ready in order; the worker finishes the first one last, and task work posts them as they are finished.
        let mut writes = ring(0, &[[0, 0, 2], [1, 1, 0], [2, 2, 1]]);
        for p in &mut writes {
            p.ended = NonZeroU64::new(p.posted - 500);
        }
        let o = order(&writes, true).unwrap();
        assert_eq!((o.inversions, o.by.file_system, o.by.task_work), (2, Some(2), 0));
        let d = o.delivery.unwrap();
        assert_eq!((d.inversions, d.by.file_system, d.by.task_work), (2, Some(2), 0));
        // A read that is ready while the worker is at the write before it overtakes that there.
        let mut mixed = ring(0, &[[0, 0, 1], [1, 1, 0]]);
        mixed[0].ended = NonZeroU64::new(2500);
        let o = order(&mixed, true).unwrap();
        assert_eq!((o.inversions, o.by.file_system, o.by.task_work), (1, Some(1), 0));
        // Where nobody sees the end, it is not known which of the two it was.
        let o = order(&ring(0, &[[0, 0, 1], [1, 1, 0]]), false).unwrap();
        assert_eq!((o.by.file_system, o.delivery.unwrap().by.file_system), (None, None));
    }

    #[test]
    fn rings_have_nothing_to_do_with_one_another() {
        let mut two = ring(0, &[[0, 0, 5], [1, 1, 6], [2, 2, 7]]);
        two.extend(ring(1, &[[0, 0, 1], [1, 1, 0]]));
        let unseen = Passage { ready: None, ..two[0] };
        two.extend([Passage { ring: 2, ..unseen }, Passage { ring: 3, ..unseen }, Passage { ring: 3, ..unseen }]);
        let all = these(&two);
        let o = all.order(true, NONE).unwrap();
        assert_eq!((o.completions, o.inversions, o.max_displacement, o.by.task_work), (8, 1, 1, 1));
        let d = o.delivery.unwrap();
        assert_eq!((d.completions, d.without_ready, d.inversions), (5, 3, 1));
        let each = all.by_ring(true, NONE);
        let figures = each.iter().map(|(ring, o)| (*ring, o.completions, o.inversions)).collect::<Vec<_>>();
        assert_eq!(figures, [(0, 3, 0), (1, 2, 1), (3, 2, 0)], "one alone has no order");
        assert_eq!(each[&3].delivery, None);
    }

    #[test]
    fn the_order_is_of_those_that_were_followed_in_one_way() {
        // All in order while all were followed; later two of a sample, turned round.
        let mut all = ring(0, &[[0, 0, 0], [1, 1, 1], [2, 2, 2]]);
        let mut sample = ring(0, &[[9, 9, 9], [8, 8, 8]]);
        sample.iter_mut().for_each(|p| p.weight = 100);
        all.extend(&sample[..1]);
        assert_eq!((numbers(&sample)[0], order(&all, true).unwrap().completions), (1, 1), "it stands for most");
        all.extend(ring(1, &[[0, 0, 0], [1, 1, 1]]));
        all.extend(&sample[1..]);
        let o = order(&all, true).unwrap();
        assert_eq!((o.completions, o.inversions), (4, 1), "two of the first ring, two of the second");
        assert_eq!(o.delivery.unwrap().without_ready, 0);
    }

    #[test]
    fn equal_stamps_overtake_nobody_and_missing_ones_are_left_out() {
        let at = |submitted, posted| Passage {
            ring: 0,
            weight: 1,
            opcode: 0,
            armed: None,
            submitted: NonZeroU64::new(submitted),
            issued: None,
            ready: None,
            ended: None,
            posted,
        };
        assert_eq!(numbers(&[at(5, 9), at(5, 8), at(4, 8), at(3, 8)]), [0, 0, 0, 0, 0]);
        assert_eq!(numbers(&[at(1, 9), at(2, 8)]), [1, 1, 0, 0, 0]);
        assert_eq!(order(&[at(1, 9), at(2, 8)], true).unwrap().delivery, None);
    }

    #[test]
    fn a_multishot_requests_completions_have_an_order_of_delivery_alone() {
        use iotrail_schema::trail_example::trail;
        let at = |ns| Stamp { ns, cpu: 0 };
        let shot =
            |ready: Option<u64>, posted| Trail { ready: ready.map(at), posted: at(posted), more: true, ..trail() };
        let mut all = Passages::default();
        // The second and third were found by the run that the first one's wake-up had begun; the last overtakes.
        for t in [shot(Some(10), 30), shot(None, 31), shot(None, 32), shot(Some(20), 29)] {
            all.take(&t, false);
        }
        all.take(&Trail { ring: None, ..trail() }, true);
        let o = all.order(true, NONE).unwrap();
        assert_eq!((o.completions, o.inversions), (0, 0));
        let d = o.delivery.unwrap();
        assert_eq!((d.completions, d.without_ready, d.inversions, d.max_displacement), (2, 2, 1, 1));
        assert_eq!((d.by.task_work, o.by.task_work), (1, 0));
    }
}
