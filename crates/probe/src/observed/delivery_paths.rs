//! Delivery paths in the record's form.

use std::collections::BTreeMap;

use super::readout::Raw;
use crate::carrier::carrier;
use crate::counted::Counted;
use crate::opcode;
use crate::skel::types;
use crate::subject::{Interface, Subject};
use crate::symbols::Symbols;
use iotrail_path::delivery::Carrier;
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::waker::Line;

/// Delivery paths with their counts, most frequent first.
pub(super) fn vehicles(carriers: Vec<(Carrier, u64)>) -> Vec<DeliveryPathCount> {
    let mut by_vehicle = BTreeMap::new();
    for (carrier, count) in carriers.into_iter().filter(|(_, count)| *count > 0) {
        *by_vehicle.entry(carrier.vehicle()).or_insert(0) += count;
    }
    let mut vehicles: Vec<DeliveryPathCount> = by_vehicle
        .into_iter()
        .map(|((vehicle, detail), completions)| DeliveryPathCount {
            vehicle,
            completions,
            detail: detail.map(Into::into),
            delay_ns: None,
        })
        .collect();
    vehicles.sort_by(|a, b| b.completions.cmp(&a.completions).then(a.vehicle.cmp(&b.vehicle)));
    vehicles
}

/// glibc's threads complete POSIX AIO. Requests that aio_cancel removes from their queue complete immediately with
/// ECANCELED, without a system call.
pub(super) fn posix_carriers(counted: &Counted) -> [(Carrier, u64); 2] {
    let opcodes = opcode::POSIX_AIO_OPCODES..opcode::INVALID_OPCODE;
    let all: u64 = counted.ops.range(opcodes.clone()).map(|(_, op)| op.completions).sum();
    let errnos = counted.errnos.range((opcodes.start, 0)..(opcodes.end, 0));
    let cancelled: u64 = errnos.filter(|((_, e), _)| *e == libc::ECANCELED as u32).map(|(_, n)| n).sum();
    [(Carrier::HelperThread, all.saturating_sub(cancelled)), (Carrier::Cancelled, cancelled)]
}

/// Delivery paths of all observed completions.
pub(super) fn of_all(
    raw: &Raw,
    subject: &Subject,
    symbols: Option<&Symbols>,
    line: &dyn Fn(u32) -> Line,
) -> Vec<DeliveryPathCount> {
    let sum = |f: fn(&types::cpu_slot) -> u64| raw.slots.iter().map(f).sum::<u64>();
    let counted = || raw.rings.iter().map(|r| &r.counted).chain([&raw.forgotten]);
    let rings = |f: fn(&types::ring_count) -> u64| counted().map(|c| f(&c.ring)).sum::<u64>();
    // Completions that are pending while the load is idle were posted inline, without a run.
    let mut carriers: Vec<(Carrier, u64)> = vec![
        (Carrier::Inline, sum(|s| s.inlined) + rings(|r| r.inlined) + sum(|s| s.pending) + raw.parked),
        (Carrier::SqpollThread, sum(|s| s.sqpoll) + rings(|r| r.sqpoll)),
        (Carrier::IowqWorker, sum(|s| s.iowq) + rings(|r| r.iowq)),
        (Carrier::DevicePoll, sum(|s| s.iopoll) + rings(|r| r.iopoll)),
        (Carrier::Unseen, rings(|r| r.unseen)),
        (Carrier::Undecided, counted().map(|c| c.undecided).sum()),
    ];
    carriers.extend(counted().flat_map(Counted::deliveries).map(|(key, n)| (carrier(&key, symbols, line), n)));
    carriers.extend(counted().flat_map(posix_carriers));
    match subject.interface {
        Interface::OwnCalls => carriers.push((Carrier::Submitter, sum(|s| s.rw_calls))),
        Interface::HelperCalls => carriers.push((Carrier::HelperThread, sum(|s| s.rw_calls))),
        Interface::IoUring { .. } | Interface::Aio | Interface::Any | Interface::Readiness => {}
    }
    carriers.extend(raw.deliveries.iter().map(|(key, count)| (carrier(key, symbols, line), *count)));
    vehicles(carriers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_posix_aio_requests_are_not_attributed_to_a_helper() {
        let mut counted = Counted::default();
        let read = opcode::POSIX_AIO_OPCODES;
        counted.op(read, &types::op_count { completions: 64, ..types::op_count::default() });
        counted.errnos.insert((read, libc::ECANCELED as u32), 60);
        assert_eq!(posix_carriers(&counted), [(Carrier::HelperThread, 4), (Carrier::Cancelled, 60)]);
    }
}
