//! Counts by opcode over all rings and contexts.

use std::collections::BTreeMap;

use iotrail_probe::observed::Observed;
use iotrail_probe::rings::OpcodeCounts;

/// Over all rings and contexts.
pub(super) fn of_all(observed: &Observed) -> Vec<OpcodeCounts> {
    let of_rings = observed.rings.iter().flat_map(|ring| &ring.opcodes);
    let of_rings = of_rings.chain(observed.others.iter().flat_map(|others| &others.opcodes));
    merged(of_rings.chain(observed.contexts.iter().flat_map(|context| &context.opcodes)))
}

/// Each opcode once, busiest first.
fn merged<'a>(opcodes: impl Iterator<Item = &'a OpcodeCounts>) -> Vec<OpcodeCounts> {
    let mut by_name: BTreeMap<&str, OpcodeCounts> = BTreeMap::new();
    for o in opcodes {
        let sum = by_name
            .entry(&o.opcode)
            .or_insert_with(|| OpcodeCounts { opcode: o.opcode.clone(), ..OpcodeCounts::default() });
        sum.add(o);
    }
    let mut merged: Vec<OpcodeCounts> = by_name.into_values().collect();
    merged.sort_by_key(|o| std::cmp::Reverse(o.completions));
    merged
}
