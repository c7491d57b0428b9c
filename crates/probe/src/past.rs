//! Counts of closed rings, removed from the maps.
//!
//! A program may create hundreds of thousands of rings. Few closed rings are kept individually; of many, only the
//! busiest are, and the others are summed by process. Each count is stored in exactly one place.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::counted::{Counted, OTHERS, RawRing};
use super::skel::types;

/// Maximum number of rings with their own record. While the trace runs, up to twice as many closed rings are kept.
pub(super) const TOLD: usize = 512;

/// Maximum number of processes with separate sums of other rings; the rest share one sum.
const PROCESSES: usize = 1024;

/// Number of closed rings whose owner is remembered, for counts that a CPU or thread moves to the maps after the ring
/// was closed.
const REMEMBERED: usize = 65536;

/// Identifies a sum of other rings: TGID and interface.
type RingOwner = (u32, u32);

/// Counts removed from the maps.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// By ring number.
    kept: BTreeMap<u32, RawRing>,
    others: BTreeMap<RingOwner, RawRing>,
    /// Counts that were reported and dropped; only totals include them.
    pub forgotten: Counted,
    whose: HashMap<u32, (RingOwner, [i8; 16])>,
    order: VecDeque<u32>,
    /// Rings summed since the last call of [`folded`](Self::folded).
    folded: Vec<u32>,
    /// By number, for rings reported among the others that stay in the maps: the counts reported so far.
    told: HashMap<u32, Counted>,
}

impl Past {
    /// Takes a closed ring.
    pub fn take(&mut self, mut ring: RawRing) {
        self.remember(&ring);
        if ring.is_others() {
            ring.counted = self.taken(ring.number, &ring.counted);
        }
        match self.kept.get_mut(&ring.number) {
            Some(known) => known.counted.add(&ring.counted),
            None if ring.is_others() => self.fold(ring),
            None => {
                self.kept.insert(ring.number, ring);
            }
        }
    }

    fn remember(&mut self, ring: &RawRing) {
        if self.whose.insert(ring.number, ((ring.info.tgid, ring.info.interface.0), ring.info.comm)).is_none() {
            self.order.push_back(ring.number);
        }
        while self.order.len() > REMEMBERED {
            if let Some(number) = self.order.pop_front() {
                self.whose.remove(&number);
            }
        }
    }

    /// Adds counts of a ring that was taken earlier.
    pub fn late(&mut self, number: u32, counted: &Counted) {
        let counted = self.taken(number, counted);
        match self.kept.get_mut(&number) {
            Some(ring) => ring.counted.add(&counted),
            None => {
                let (of, comm) = self.whose.get(&number).copied().unwrap_or_default();
                self.others(of, comm).counted.add(&counted);
            }
        }
    }

    /// Growth since the last report of counts that stay in the maps.
    pub fn untold(&self, number: u32, counted: Counted) -> Counted {
        self.told.get(&number).map_or(counted.clone(), |told| counted.beyond(told))
    }

    /// The ring was reported among the others and stays in the maps.
    pub fn tell(&mut self, number: u32, counted: &Counted) {
        self.told.entry(number).or_default().add(counted);
    }

    /// Growth since the last report of counts that are removed from the maps.
    fn taken(&mut self, number: u32, counted: &Counted) -> Counted {
        let Some(told) = self.told.remove(&number) else { return counted.clone() };
        let left = told.beyond(counted);
        if left.is_any() {
            self.told.insert(number, left);
        }
        counted.beyond(&told)
    }

    /// The same without changing any state, for a reading that includes the maps.
    pub fn as_late(&self, number: u32, counted: Counted) -> RawRing {
        if let Some(ring) = self.kept.get(&number) {
            return RawRing { number, info: ring.info, counted };
        }
        let (of, comm) = self.whose.get(&number).copied().unwrap_or_default();
        let info = types::ring_info { tgid: of.0, interface: types::interface(of.1), comm, ..Default::default() };
        RawRing { number: OTHERS, info, counted }
    }

    fn others(&mut self, of: RingOwner, comm: [i8; 16]) -> &mut RawRing {
        let is_apart = self.others.contains_key(&of) || self.others.len() < PROCESSES;
        let (of, comm) = if is_apart { (of, comm) } else { ((0, of.1), [0; 16]) };
        self.others.entry(of).or_insert_with(|| RawRing {
            number: OTHERS,
            info: types::ring_info { tgid: of.0, interface: types::interface(of.1), comm, ..Default::default() },
            counted: Counted::default(),
        })
    }

    /// Adds the ring to the sum of its process's other rings.
    fn fold(&mut self, ring: RawRing) {
        let rings = if ring.is_others() { ring.info.others } else { 1 };
        if !ring.is_others() {
            self.folded.push(ring.number);
        }
        let others = self.others((ring.info.tgid, ring.info.interface.0), ring.info.comm);
        others.info.others = others.info.others.saturating_add(rings);
        others.counted.add(&ring.counted);
    }

    /// If there are more than twice as many rings as a record lists, sums all but the busiest. Keeps rings with a
    /// number below `told`.
    pub fn thin(&mut self, told: u32) {
        if self.kept.len() > 2 * TOLD {
            let all = std::mem::take(&mut self.kept);
            self.keep(all.into_values().collect(), told);
        }
    }

    /// For the final report: rings with their own record, by number, then the others.
    pub fn told(&mut self, mut all: Vec<RawRing>) -> Vec<RawRing> {
        self.kept.clear();
        self.others.clear();
        all.extract_if(.., |ring| ring.is_others()).for_each(|ring| self.fold(ring));
        self.keep(all, 0);
        self.all(vec![])
    }

    /// Keeps the busiest rings and sums the rest.
    fn keep(&mut self, mut all: Vec<RawRing>, told: u32) {
        all.sort_by_key(|r| (r.number >= told, std::cmp::Reverse(r.counted.activity()), r.number));
        let first = all.iter().take_while(|r| r.number < told).count();
        for (i, ring) in all.into_iter().enumerate() {
            match i < first.max(TOLD) {
                true => drop(self.kept.insert(ring.number, ring)),
                false => self.fold(ring),
            }
        }
    }

    /// The rings in `now` and those kept here, by number, then the others.
    pub fn all(&self, now: Vec<RawRing>) -> Vec<RawRing> {
        let mut all: BTreeMap<u32, RawRing> = self.kept.clone();
        let mut others = self.others.clone();
        for ring in now {
            match ring.is_others() {
                // A process may have other rings both here and in the maps, if these were full.
                true => match others.get_mut(&(ring.info.tgid, ring.info.interface.0)) {
                    Some(sum) => {
                        sum.info.others += ring.info.others;
                        sum.counted.add(&ring.counted);
                    }
                    None => drop(others.insert((ring.info.tgid, ring.info.interface.0), ring)),
                },
                false => match all.get_mut(&ring.number) {
                    Some(sum) => sum.counted.add(&ring.counted),
                    None => drop(all.insert(ring.number, ring)),
                },
            }
        }
        all.into_values().chain(others.into_values()).collect()
    }

    /// Drops the kept counts after they were reported.
    pub fn forget(&mut self) {
        for ring in std::mem::take(&mut self.kept).into_values().chain(std::mem::take(&mut self.others).into_values()) {
            self.forgotten.add(&ring.counted);
        }
    }

    /// Rings summed since the last call.
    pub fn folded(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.folded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(number: u32, tgid: u32, requests: u64) -> RawRing {
        let mut counted = Counted::default();
        counted.op(0, &types::op_count { requests, completions: requests, ..Default::default() });
        RawRing { number, info: types::ring_info { tgid, ..Default::default() }, counted }
    }

    fn requests<'a>(rings: impl IntoIterator<Item = &'a RawRing>) -> u64 {
        rings.into_iter().flat_map(|r| r.counted.ops.values()).map(|op| op.requests).sum()
    }

    #[test]
    fn the_busiest_rings_are_kept_and_the_others_summed_by_process() {
        let mut past = Past::default();
        for number in 0..100_000 {
            past.take(ring(number, 7 + number % 2, if number == 31_415 { 1000 } else { 2 }));
            past.thin(0);
        }
        assert!(past.kept.len() <= 2 * TOLD, "{}", past.kept.len());
        assert_eq!(past.folded().len() + past.kept.len(), 100_000);
        let all = past.all(vec![ring(100_000, 7, 50), ring(100_001, 9, 1)]);
        let all = past.told(all);
        let (others, told): (Vec<_>, Vec<_>) = all.iter().partition(|r| r.is_others());
        assert_eq!(told.len(), TOLD);
        assert!([31_415, 100_000].iter().all(|n| told.iter().any(|r| r.number == *n)));
        assert_eq!(requests(&all), 99_999 * 2 + 1000 + 51);
        let rings = |tgid: u32| others.iter().find(|r| r.info.tgid == tgid).map(|r| r.info.others);
        assert_eq!(told.len() as u32 + rings(7).unwrap() + rings(8).unwrap() + rings(9).unwrap(), 100_002);
        let of_8: u64 = requests(all.iter().filter(|r| r.info.tgid == 8));
        assert_eq!(of_8, 49_999 * 2 + 1000, "a process's sum is whole");
    }

    #[test]
    fn late_counts_are_added_to_their_process() {
        let mut past = Past::default();
        (0..2000).for_each(|number| past.take(ring(number, 7 + number % 2, 1)));
        past.thin(64);
        let late = |n| ring(0, 0, n).counted;
        past.late(3, &late(10)); // one that is kept
        past.late(1501, &late(100)); // one of 8's others
        past.late(4_000_000, &late(1000)); // of an unknown process
        let all = past.all(vec![]);
        let of = |tgid: u32| requests(all.iter().filter(|r| r.info.tgid == tgid));
        assert_eq!((of(7), of(8), of(0)), (1000, 1000 + 10 + 100, 1000));
        assert!(all.iter().any(|r| r.number == 63), "told before, and so from then on");
        past.forget();
        assert_eq!((past.all(vec![]).len(), past.forgotten.ops[&0].requests), (0, 3110));
    }

    #[test]
    fn counts_still_in_the_maps_are_reported_only_once() {
        let mut past = Past::default();
        let mut told = vec![];
        let mut look = |past: &mut Past, now: u64| {
            let untold = past.untold(9, ring(9, 7, now).counted);
            past.tell(9, &untold);
            told.push(untold.ops[&0].requests);
        };
        look(&mut past, 10);
        look(&mut past, 10);
        look(&mut past, 8); // two are in transit
        look(&mut past, 15);
        assert_eq!(told, [10, 0, 0, 5]);
        // 20 of the counts leave the maps, some of them not yet reported; then more of them leave.
        past.late(9, &ring(9, 7, 20).counted);
        assert_eq!(requests(&past.all(vec![])), 5);
        past.forget();
        past.late(9, &ring(9, 7, 3).counted);
        assert_eq!((requests(&past.all(vec![])), past.told.len()), (3, 0));
        // Some of the reported counts are still in a CPU's slot.
        past.forget();
        past.tell(9, &ring(9, 7, 30).counted);
        past.late(9, &ring(9, 7, 12).counted);
        past.late(9, &ring(9, 7, 20).counted);
        assert_eq!((requests(&past.all(vec![])), past.told.len()), (2, 0));
    }

    #[test]
    fn processes_beyond_the_limit_are_summed_together() {
        let mut past = Past::default();
        (0..10_000).for_each(|number| past.take(ring(number, number + 1, 1)));
        let all = past.all(vec![]);
        let all = past.told(all);
        assert_eq!(requests(&all), 10_000);
        assert_eq!(all.iter().filter(|r| r.is_others()).count(), PROCESSES + 1);
    }
}
