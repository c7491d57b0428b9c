//! The order of completions: whether they were posted in the order in which they were submitted and in which they
//! became ready, and which stage changed the order.
//!
//! A completion is an **inversion** if it overtook another completion of the same ring, which was submitted earlier and
//! posted later. Its **displacement** is the difference of its positions in both orders. The same is computed between
//! adjacent stages, for completions with all timestamps: submitted → issued (`block`), issued → ready (`device`), ready
//! → ended (`file_system`; without a file system worker, a request ends when it is ready), ended → posted
//! (`task_work`). A later stage may restore an order, so the four stages need not add up to the total.
//!
//! A request that waits for a peer becomes ready when the peer sends, regardless of the submission order. The same is
//! therefore computed for ready → posted (`delivery`), for all completions with an observed ready time, including
//! multishot ones. Waits ([`super::waits`]), which all other requests overtake, count only in that order.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use super::waits;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveredBy, Delivery, Order, OrderBy};
use iotrail_schema::trail::{RequestTrace, Stamp};

/// Maximum number of traced completions whose order is kept, the first ones; 56 bytes each.
const KEPT: usize = 1 << 18;

/// Timestamps of one completion in ns; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passage {
    ring: u32,
    /// As [`RequestTrace::weight`].
    weight: u32,
    /// Index of the operation's name.
    opcode: u16,
    /// As [`waits::armed`].
    armed: Option<u8>,
    /// `None` for one of several completions of a request: the submission does not determine its order.
    submitted: Option<NonZeroU64>,
    issued: Option<NonZeroU64>,
    ready: Option<NonZeroU64>,
    /// Only if a file system worker had to finish the request.
    ended: Option<NonZeroU64>,
    posted: u64,
    /// Posted during its own submission.
    inline: bool,
}

impl Passage {
    /// Time from which the completion could be posted.
    fn deliverable(&self) -> Option<u64> {
        Some(self.ended.or(self.ready)?.get())
    }
}

/// Collects the completions' timestamps in order of arrival. The order is computed at the end.
#[derive(Debug, Clone, Default)]
pub struct OrderTracker {
    passages: Vec<Passage>,
    opcodes: Vec<String>,
}

/// Whether a request is a wait, from its ring, its operation and the time for which a poll was armed.
pub type IsWait<'a> = &'a dyn Fn(u32, &str, Option<u8>) -> bool;

impl OrderTracker {
    /// `is_whole`: the request's only completion. Completions of unknown rings are ignored.
    pub fn take(&mut self, trail: &RequestTrace, is_whole: bool) {
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
            inline: trail.vehicle == DeliveryPath::Inline,
        });
    }

    pub fn clear(&mut self) {
        self.passages.clear();
    }

    /// Order of each ring with at least two completions, in O(n log n). For a sample of requests, it is the order
    /// within the sample.
    pub fn by_ring(&self, ends_seen: bool, is_wait: IsWait<'_>) -> BTreeMap<u32, Order> {
        let several = |of: &Vec<&Passage>| of.len() > 1;
        self.rings()
            .into_iter()
            .filter(|(_, of)| several(of))
            .map(|(ring, of)| (ring, self.of_ring(&of, ends_seen, is_wait)))
            .collect()
    }

    /// Order over all rings; `None` for fewer than two completions.
    pub fn order(&self, ends_seen: bool, is_wait: IsWait<'_>) -> Option<Order> {
        if self.passages.len() < 2 {
            return None;
        }
        let rings = self.rings();
        let mut order = rings.values().map(|of| self.of_ring(of, ends_seen, is_wait)).reduce(sum)?;
        if let Some(delivery) = &mut order.delivery {
            // Rings without any observed ready time have no such part.
            delivery.without_ready = rings.values().map(|of| of.len() as u64).sum::<u64>() - delivery.completions;
        }
        Some(order)
    }

    /// Per ring, the completions traced with the same weight: either all requests or a sample. In a sample a completion
    /// can only overtake more distant ones, so the two are not comparable. Uses the weight that represents more
    /// completions.
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

/// `others`: the ring's completions that are not waits.
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
    // Between adjacent stages, for completions with all timestamps.
    let staged = |p: &Passage| p.submitted.zip(p.issued).zip(p.ready).is_some();
    let between =
        |span: &dyn Fn(&Passage) -> Option<(u64, u64)>| of(others, &|p| span(p).filter(|_| staged(p))).inversions;
    let lost = |span: &dyn Fn(&Passage) -> Option<(u64, u64)>| of(ring, span);
    let in_file_system = |p: &Passage| Some((p.ready?.get(), p.deliverable()?));
    let in_task_work = |p: &Passage| Some((p.deliverable()?, p.posted));
    let delivered = lost(&|p| Some((p.ready?.get(), p.posted)));
    let mut posted: Vec<_> = ring.iter().filter_map(|p| Some((in_task_work(p)?, p.inline))).collect();
    let inline: Vec<bool> = overtakers(&mut posted).collect();
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
                task_work: inline.len() as u64,
                inline: Some(inline.iter().filter(|inline| **inline).count() as u64),
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

/// Combines the orders of two rings.
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
            inline: both(a.by.inline, b.by.inline),
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

/// Number of (from, to) pairs that overtook another. Leaves the pairs sorted by `to`.
fn inversions(spans: &mut [(u64, u64)]) -> u64 {
    spans.sort_unstable_by_key(|(from, to)| (*to, *from));
    overtook(spans.iter().rev().map(|span| (*span, ()))).count() as u64
}

/// The notes of the (from, to) pairs that overtook another.
fn overtakers<T: Copy>(spans: &mut [((u64, u64), T)]) -> impl Iterator<Item = T> {
    spans.sort_unstable_by_key(|((from, to), _)| (*to, *from));
    overtook(spans.iter().rev().copied())
}

/// Iterates from the last `to` backwards: a pair overtook if any pair after it has an earlier `from`. At equal `to`,
/// the latest `from` comes first, because equal timestamps do not overtake.
fn overtook<T>(backwards: impl Iterator<Item = ((u64, u64), T)>) -> impl Iterator<Item = T> {
    let mut earliest = u64::MAX;
    backwards.filter_map(move |((from, _), noted)| {
        let overtook = earliest < from;
        earliest = earliest.min(from);
        overtook.then_some(noted)
    })
}

/// Number of (from, to) pairs that were overtaken. Leaves the pairs sorted by `to`.
fn overtaken(spans: &mut [(u64, u64)]) -> u64 {
    // Mirrored: overtaken if any pair before it has a later `from`. At equal `to`, the earliest `from` comes first.
    spans.sort_unstable_by_key(|(from, to)| (*to, *from));
    let (mut latest, mut overtaken) = (0, 0);
    for same in spans.chunk_by(|a, b| a.1 == b.1) {
        overtaken += same.iter().filter(|(from, _)| *from < latest).count() as u64;
        latest = same.iter().map(|(from, _)| *from).fold(latest, u64::max);
    }
    overtaken
}

/// Maximum difference between a pair's positions by `from` and by `to`. Expects the pairs sorted by `to`.
fn displacement(spans: &[(u64, u64)]) -> u64 {
    let mut by_from: Vec<usize> = (0..spans.len()).collect();
    by_from.sort_by_key(|i| spans[*i]);
    by_from.iter().enumerate().map(|(place, i)| place.abs_diff(*i)).max().unwrap_or(0) as u64
}

#[cfg(test)]
mod tests;
