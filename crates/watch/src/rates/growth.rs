//! Increases of counts between two readings.

use std::collections::HashMap;

use iotrail_probe::observed::Observed;
use iotrail_probe::rings::{OpcodeCounts, RingCounts};
use iotrail_schema::measurement::DeliveryPathCount;

/// Raises each value to at least its predecessor. Counts only grow; the next reading includes the events that this one
/// missed.
pub(super) fn raise(now: &mut Observed, before: Option<&Observed>) {
    let rings: HashMap<u32, &RingCounts> = before.iter().flat_map(|b| &b.rings).map(|ring| (ring.ring, ring)).collect();
    for ring in &mut now.rings {
        if let Some(before) = rings.get(&ring.ring) {
            ring.overflows = ring.overflows.max(before.overflows);
            not_below(&mut ring.opcodes, &mut ring.vehicles, &before.opcodes, &before.vehicles);
        }
    }
    for context in &mut now.contexts {
        let (opcodes, vehicles) = of_context(before, context.context);
        not_below(&mut context.opcodes, &mut context.vehicles, opcodes, vehicles);
    }
}

/// Counts of one context.
pub(super) fn of_context(of: Option<&Observed>, number: u32) -> (&[OpcodeCounts], &[DeliveryPathCount]) {
    let context = of.and_then(|of| of.contexts.iter().find(|c| c.context == number));
    context.map_or((&[], &[]), |c| (&c.opcodes, &c.vehicles))
}

/// Increase of a ring's counts since `before`.
pub(super) fn grown_ring(now: &RingCounts, before: Option<&RingCounts>) -> RingCounts {
    let Some(before) = before else { return now.clone() };
    RingCounts {
        overflows: now.overflows.saturating_sub(before.overflows),
        opcodes: grown_opcodes(&now.opcodes, &before.opcodes),
        vehicles: grown_vehicles(&now.vehicles, &before.vehicles),
        ..now.clone()
    }
}

fn not_below(
    opcodes: &mut Vec<OpcodeCounts>,
    vehicles: &mut Vec<DeliveryPathCount>,
    opcodes_before: &[OpcodeCounts],
    vehicles_before: &[DeliveryPathCount],
) {
    for before in opcodes_before {
        let Some(now) = opcodes.iter_mut().find(|now| now.opcode == before.opcode) else {
            opcodes.push(before.clone());
            continue;
        };
        now.combine(before, u64::max);
    }
    for before in vehicles_before {
        match vehicles.iter_mut().find(|now| (now.vehicle, &now.detail) == (before.vehicle, &before.detail)) {
            Some(now) => now.completions = now.completions.max(before.completions),
            None => vehicles.push(before.clone()),
        }
    }
}

pub(super) fn grown_opcodes(now: &[OpcodeCounts], before: &[OpcodeCounts]) -> Vec<OpcodeCounts> {
    let opcode = |o: &OpcodeCounts| {
        let mut grown = o.clone();
        if let Some(before) = before.iter().find(|b| b.opcode == o.opcode) {
            grown.combine(before, u64::saturating_sub);
        }
        grown.errnos.retain(|(_, n)| *n > 0);
        grown
    };
    now.iter().map(opcode).collect()
}

pub(super) fn grown_vehicles(now: &[DeliveryPathCount], before: &[DeliveryPathCount]) -> Vec<DeliveryPathCount> {
    let was = |v: &DeliveryPathCount| {
        before.iter().find(|b| (b.vehicle, &b.detail) == (v.vehicle, &v.detail)).map_or(0, |b| b.completions)
    };
    now.iter()
        .map(|v| DeliveryPathCount { completions: v.completions.saturating_sub(was(v)), ..v.clone() })
        .filter(|v| v.completions > 0)
        .collect()
}
