//! Counts by ring and context, and the sums of those without their own record.

use super::delivery_paths::{posix_carriers, vehicles};
use super::readout::Raw;
use crate::carrier::carrier;
use crate::counted::{Counted, RawRing};
use crate::rings::{
    Batches, ContextCounts, ContextKind, OpcodeCounts, OtherCounts, RegisterCounts, RingCounts, ThreadCounts,
    WaitCounts,
};
use crate::skel::types;
use crate::symbols::Symbols;
use crate::{opcode, raw};
use iotrail_base::error::errno_name;
use iotrail_host::clock::{monotonic_ns, tick_hz};
use iotrail_path::delivery::Carrier;
use iotrail_schema::measurement::DeliveryPathCount;
use iotrail_schema::opcode::{MAY_FORCE_WORKER, READS, WRITES, is};
use iotrail_schema::trace_record::{BufferGroup, EndedRequest};
use iotrail_schema::uring;
use iotrail_schema::waker::Line;
use std::collections::BTreeMap;

/// `REGISTER_OPS` in record.h.
const REGISTER_OPS: u32 = 0x8000;

/// At this number of ticks or more, a duration is accurate to 5 %.
const TICKS: u32 = 20;

/// Time from first to last use of a ring (0: never used). The 32-bit tick counter wraps after at least 50 days. With
/// few ticks this is the upper bound, so that rates are not too high.
fn active_ns(first: u32, last: u32, tick_hz: Option<u32>) -> Option<u64> {
    let ticks = last.wrapping_sub(first);
    let ticks = if ticks < TICKS { ticks + 1 } else { ticks };
    (first != 0).then_some(u64::from(ticks) * 1_000_000_000 / u64::from(tick_hz?))
}

pub(super) fn by_ring(raw: &Raw, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Vec<RingCounts> {
    let ring = |r: &RawRing| RingCounts {
        ring: r.number,
        tgid: r.info.tgid,
        comm: raw::text(&r.info.comm),
        setup_flags: r.info.setup_flags,
        sq_entries: r.info.sq_entries,
        cq_entries: r.info.cq_entries,
        found: r.info.found != 0,
        closed: r.info.gone != 0,
        of: r.info.of.checked_sub(1),
        active_ns: active_ns(r.info.first_jiffy, r.info.last_jiffy, tick_hz()),
        overflows: r.counted.ring.overflows,
        waits: WaitCounts {
            all: r.counted.ring.waits,
            min_wait: r.counted.ring.waits_min,
            registered: r.counted.ring.waits_registered,
            no_iowait: r.counted.ring.waits_no_iowait,
            bpf_loop: r.counted.ring.waits_loop,
        },
        registered: registered(&r.counted),
        buffers: r.counted.buffers.iter().map(|(group, n)| buffers(*group, n)).collect(),
        ended: raw
            .disarmed
            .iter()
            .filter(|(key, _)| key.ring == r.number)
            .map(|(key, end)| ended(key.fd, end))
            .collect(),
        batches: batches(&r.counted),
        threads: threads(&r.counted),
        opcodes: opcodes(&r.counted),
        vehicles: carried(r, symbols, line),
    };
    told(raw).filter(|r| kind(r).is_none()).map(ring).collect()
}

pub(super) fn by_context(raw: &Raw, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Vec<ContextCounts> {
    let context = |r: &RawRing| {
        Some(ContextCounts {
            context: r.number,
            kind: kind(r)?,
            tgid: r.info.tgid,
            comm: raw::text(&r.info.comm),
            entries: (r.info.cq_entries != 0).then_some(r.info.cq_entries),
            found: r.info.found != 0,
            active_ns: active_ns(r.info.first_jiffy, r.info.last_jiffy, tick_hz()),
            opcodes: opcodes(&r.counted),
            vehicles: carried(r, symbols, line),
        })
    };
    told(raw).filter_map(context).collect()
}

pub(super) fn others(raw: &Raw, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Vec<OtherCounts> {
    let others = |r: &RawRing| OtherCounts {
        kind: kind(r),
        tgid: (r.info.tgid != 0).then_some(r.info.tgid),
        comm: raw::text(&r.info.comm),
        rings: r.info.others.into(),
        overflows: r.counted.ring.overflows,
        batches: batches(&r.counted),
        opcodes: opcodes(&r.counted),
        vehicles: carried(r, symbols, line),
    };
    let all = raw.rings.iter().filter(|r| r.is_others()).map(others);
    all.filter(|o| o.rings > 0 || !o.opcodes.is_empty() || !o.vehicles.is_empty()).collect()
}

/// Rings with their own record, by number.
fn told(raw: &Raw) -> impl Iterator<Item = &RawRing> {
    raw.rings.iter().filter(|r| !r.is_others())
}

/// `None` for an io_uring instance.
fn kind(ring: &RawRing) -> Option<ContextKind> {
    match ring.info.interface {
        types::interface::INTERFACE_AIO => Some(ContextKind::Libaio),
        types::interface::INTERFACE_POSIX_AIO => Some(ContextKind::PosixAio),
        _ => None,
    }
}

/// Completions by delivery path: task work, other paths, and for native aio those that ended outside both.
fn carried(ring: &RawRing, symbols: Option<&Symbols>, line: &dyn Fn(u32) -> Line) -> Vec<DeliveryPathCount> {
    let of = &ring.counted.ring;
    let mut carriers = vec![
        (Carrier::Inline, of.inlined),
        (Carrier::SqpollThread, of.sqpoll),
        (Carrier::IowqWorker, of.iowq),
        (Carrier::DevicePoll, of.iopoll),
        (Carrier::Unseen, of.unseen),
        (Carrier::Undecided, ring.counted.undecided),
    ];
    if kind(ring) == Some(ContextKind::PosixAio) {
        carriers.extend(posix_carriers(&ring.counted));
    }
    carriers.extend(ring.counted.deliveries().map(|(key, n)| (carrier(&key, symbols, line), n)));
    vehicles(carriers)
}

fn batches(counted: &Counted) -> Batches {
    let mut by_power = Batches::new();
    for (&(batch, sampled, wide), &n) in counted.batches.iter().filter(|(of, n)| of.0 > 0 && **n > 0) {
        let taken = by_power.entry(1 << batch.ilog2()).or_default();
        let part = if sampled { &mut taken.sampled } else { &mut taken.whole };
        *part = (part.0 + n, part.1 + (n << u32::from(wide)) as f64 / f64::from(batch));
    }
    by_power
}

fn buffers(group: u32, n: &types::buffer_count) -> BufferGroup {
    let known = |of: u32| (n.looks > 0).then_some(of);
    let missing = |now: u32| known(n.most.saturating_sub(now));
    let placed = |of: u64| (n.placed > 0 && n.unplaced == 0).then_some(of);
    BufferGroup {
        group,
        entries: (n.entries > 0).then_some(n.entries),
        taken: n.taken,
        enobufs: n.enobufs,
        available_mean: (n.looks > 0).then(|| n.available as f64 / n.looks as f64),
        available_max: known(n.most),
        available_min: known(n.least),
        sufficient: missing(n.least).filter(|_| n.enobufs == 0),
        not_returned: missing(n.last),
        out_of_order: placed(n.out_of_order),
        repeated_offsets: placed(n.repeated),
        rearmed: n.rearmed,
        unarmed_ns: n.unarmed_ns,
    }
}

fn ended(fd: i32, end: &types::disarmed) -> EndedRequest {
    EndedRequest {
        opcode: opcode::opcode(end.opcode),
        descriptor: if fd < 0 { format!("fixed {}", !fd) } else { format!("fd {fd}") },
        errno: (end.result < 0).then(|| errno_name(-end.result)),
        for_ns: monotonic_ns().saturating_sub(end.ns),
    }
}

fn registered(counted: &Counted) -> Vec<RegisterCounts> {
    let mut by_op: BTreeMap<u32, RegisterCounts> = BTreeMap::new();
    for (&(opcode, errno), &n) in counted.errnos.range((REGISTER_OPS, 0)..) {
        let op = opcode - REGISTER_OPS;
        let named = || RegisterCounts { operation: uring::register_op(op), ..RegisterCounts::default() };
        let counts = by_op.entry(op).or_insert_with(named);
        counts.calls += n;
        if errno != 0 && n > 0 {
            counts.errnos.push((errno as i32, n));
        }
    }
    by_op.into_values().filter(|counts| counts.calls > 0).collect()
}

fn threads(counted: &Counted) -> Vec<ThreadCounts> {
    let of =
        |(tid, n): (&u32, &types::ring_thread)| ThreadCounts { tid: *tid, comm: raw::text(&n.comm), waits: n.waits };
    counted.threads.iter().map(of).collect()
}

fn opcodes(counted: &Counted) -> Vec<OpcodeCounts> {
    let used = counted.ops.iter().filter(|(_, op)| op.requests + op.completions + op.errors > 0);
    used.map(|(&number, op)| {
        let errnos = counted.errnos.range((number, 0)..=(number, u32::MAX));
        let opcode = opcode::opcode(number);
        let always = is(&opcode, MAY_FORCE_WORKER);
        OpcodeCounts {
            bytes: if is(&opcode, READS | WRITES) { op.bytes } else { 0 },
            punted_asked: if always { 0 } else { op.punted_asked },
            punted_would_block: op.punted_would_block + if always { op.punted_asked + op.punted_drained } else { 0 },
            punted_drained: if always { 0 } else { op.punted_drained },
            seen: counted.seen.get(&number).copied(),
            errnos: errnos.filter(|(_, n)| **n > 0).map(|((_, errno), n)| (*errno as i32, *n)).collect(),
            ..OpcodeCounts::of(opcode, op)
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_active_time_of_a_ring_is_rounded_to_ticks() {
        assert_eq!(active_ns(1000, 1025, Some(250)), Some(100_000_000));
        assert_eq!(active_ns(u32::MAX - 9, 10, Some(1000)), Some(20_000_000), "the clock went round");
        assert_eq!(active_ns(1000, 1020, Some(250)), Some(80_000_000));
        assert_eq!(active_ns(1000, 1019, Some(250)), Some(80_000_000), "20 ticks at most");
        assert_eq!(active_ns(1000, 1000, Some(250)), Some(4_000_000), "a tick at most");
        assert_eq!([active_ns(0, 0, Some(100)), active_ns(1000, 2000, None)], [None, None]);
    }
}
