//! Extrapolates counts from windows to the time between them.

use std::collections::{BTreeMap, BTreeSet};

use super::readout::Raw;
use crate::counted::{Counted, RawRing};
use crate::skel::types;

/// Combines two values of one key; a missing value is 0.
type Combine<'a> = &'a dyn Fn(u64, u64) -> u64;

impl Raw {
    /// Keeps the counts of `whole` (completely traced time) and multiplies the others by `factor`, except failures.
    pub(crate) fn expand(&mut self, whole: &Raw, factor: f64) {
        let seen: Vec<Counted> = self.rings.iter().map(|ring| ring.counted.clone()).collect();
        self.combine(whole, &|all, whole| whole + (all.saturating_sub(whole) as f64 * factor).round() as u64);
        self.rings.iter_mut().zip(&seen).for_each(|(ring, seen)| ring.counted.with_failures_of(seen));
    }

    pub(crate) fn since(&mut self, before: &Raw) {
        self.combine(before, &u64::saturating_sub);
    }

    pub(crate) fn add(&mut self, more: &Raw) {
        self.combine(more, &u64::wrapping_add);
    }

    /// Combines the counters. Outcomes of single requests are unchanged.
    fn combine(&mut self, other: &Raw, of: Combine<'_>) {
        self.slots.resize(self.slots.len().max(other.slots.len()), types::cpu_slot::default());
        let none = types::cpu_slot::default();
        for (cpu, slot) in self.slots.iter_mut().enumerate() {
            slots(slot, other.slots.get(cpu).unwrap_or(&none), of);
        }
        let none = types::irq_count::default();
        by_key(
            &mut self.irqs,
            &other.irqs,
            |i| (i.0, i.1),
            |i| (i.0, i.1, none),
            |(.., n), (.., other)| {
                n.count = of(n.count, other.count);
                n.on_watched = of(n.on_watched, other.on_watched);
                n.credited = of(n.credited, other.credited);
                n.spent_ns = of(n.spent_ns, other.spent_ns);
                n.threaded = of(n.threaded, other.threaded);
            },
        );
        let key = |(k, _): &(types::return_key, u64)| (k.entry, k.vector.0, k.line);
        by_key(&mut self.returns, &other.returns, key, |r| (r.0, 0), |(_, n), (_, other)| *n = of(*n, *other));
        let key = |(k, _): &(types::ipi_key, u64)| (k.site, k.to_cpu, k.flags.0, k.from_cpu);
        by_key(&mut self.ipis, &other.ipis, key, |i| (i.0, 0), |(_, n), (_, other)| *n = of(*n, *other));
        self.forgotten = self.forgotten.combine(&other.forgotten, of);
        by_key(
            &mut self.rings,
            &other.rings,
            |ring| (ring.number, ring.info.tgid, ring.info.interface.0),
            |ring| RawRing { counted: Counted::default(), ..ring.clone() },
            |ring, other| ring.counted = ring.counted.combine(&other.counted, of),
        );
    }
}

/// Combines each entry of `own` with the one in `other` with the same key. Keys only in `other` start from `empty`.
fn by_key<T, K: Ord>(
    own: &mut Vec<T>,
    other: &[T],
    key: impl Fn(&T) -> K,
    empty: impl Fn(&T) -> T,
    combine: impl Fn(&mut T, &T),
) {
    let known: BTreeSet<K> = own.iter().map(&key).collect();
    own.extend(other.iter().filter(|o| !known.contains(&key(o))).map(&empty));
    let by_key: BTreeMap<K, &T> = other.iter().map(|o| (key(o), o)).collect();
    for one in own {
        match by_key.get(&key(one)) {
            Some(other) => combine(one, other),
            None => {
                let none = empty(one);
                combine(one, &none);
            }
        }
    }
}

macro_rules! counts {
    ($slot:ident $other:ident $of:ident: $($number:ident)*) => {
        $($slot.$number = $of($slot.$number, $other.$number);)*
    };
}

fn slots(slot: &mut types::cpu_slot, other: &types::cpu_slot, of: Combine<'_>) {
    counts!(slot other of: runs switches page_faults syscalls rw_calls stray_calls sqpoll iowq iopoll inlined aio_unseen credits posted);
    for (n, other) in slot.run_batch.iter_mut().zip(&other.run_batch) {
        *n = of(*n, *other);
    }
    for (n, other) in slot.vectors.iter_mut().zip(&other.vectors) {
        (n.count, n.on_watched) = (of(n.count, other.count), of(n.on_watched, other.on_watched));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(switches: u64, kick: Option<u64>, requests: u64) -> Raw {
        let mut counted = Counted::default();
        counted.op(0, &types::op_count { requests, completions: requests, ..Default::default() });
        Raw {
            slots: vec![types::cpu_slot { switches, ..Default::default() }],
            ipis: kick.map(|n| (types::ipi_key { site: 7, ..Default::default() }, n)).into_iter().collect(),
            rings: vec![RawRing { number: 1, info: types::ring_info::default(), counted }],
            ..Raw::default()
        }
    }

    fn numbers(raw: &Raw) -> (u64, Vec<u64>, u64) {
        let requests = raw.rings.iter().flat_map(|ring| ring.counted.ops.values()).map(|op| op.requests).sum();
        (raw.slots[0].switches, raw.ipis.iter().map(|(_, n)| *n).collect(), requests)
    }

    #[test]
    fn window_counts_are_expanded_to_the_time_between_windows() {
        let mut all = raw(130, Some(4), 1_010);
        all.expand(&raw(100, None, 1_000), 20.0);
        assert_eq!(numbers(&all), (700, vec![80], 1_200));
    }

    #[test]
    fn failure_counts_of_windows_are_not_expanded() {
        let failing = |requests: u64, errors: u64| {
            let mut raw = raw(0, None, requests);
            let counted = &mut raw.rings[0].counted;
            counted.op(0, &types::op_count { errors, denied: errors, shorts: 2 * errors, ..Default::default() });
            counted.errnos.insert((0, 28), errors);
            counted.ring.overflows = errors;
            raw
        };
        let mut all = failing(1_010, 3);
        all.expand(&failing(1_000, 1), 20.0);
        let counted = &all.rings[0].counted;
        let op = counted.ops[&0];
        assert_eq!((op.requests, op.errors, op.denied, op.shorts), (1_200, 3, 3, 6));
        assert_eq!((counted.errnos[&(0, 28)], counted.ring.overflows, counted.seen[&0]), (3, 3, 1_010));
    }

    #[test]
    fn counts_of_completely_traced_periods_are_added() {
        let mut sum = raw(1, None, 10);
        let mut later = raw(9, Some(5), 100);
        later.since(&raw(4, Some(2), 60));
        sum.add(&later);
        assert_eq!(numbers(&sum), (6, vec![3], 50));
    }
}
