//! Records of rings.

use std::collections::{BTreeMap, HashMap};

use super::batches::{enter_batches, enter_calls};
use super::part::{Part, named};
use super::seen::ProcView;
use crate::rings::{SQPOLL, SeenRing, work_ns};
use iotrail_probe::rings::{OpcodeCounts, RegisterCounts, RingCounts};
use iotrail_schema::setup_flag;
use iotrail_schema::trace_record::{EnterWaits, RegisterCalls, RingRecord, SqpollRecord};

/// SQPOLL threads that were seen submitting, by ring.
pub(crate) fn sq_tids(rings: &[RingCounts], followed: &BTreeMap<Option<u32>, Part>) -> HashMap<u32, u32> {
    let polled = rings.iter().filter(|c| c.setup_flags & SQPOLL != 0);
    polled.filter_map(|c| Some((c.ring, followed.get(&Some(c.ring)).filter(|part| part.tid != 0)?.tid))).collect()
}

pub(super) fn ring(
    counts: &RingCounts,
    seen: Option<&SeenRing>,
    part: &Part,
    one_in: u32,
    sqpoll: Option<SqpollRecord>,
) -> RingRecord {
    let sum = |f: fn(&OpcodeCounts) -> u64| counts.opcodes.iter().map(f).sum::<u64>();
    let times = part.times();
    RingRecord {
        ring: counts.ring,
        tgid: counts.tgid,
        comm: counts.comm.clone(),
        fds: seen.map_or(vec![], |ring| ring.fds.iter().copied().collect()),
        flags: setup_flag::names(counts.setup_flags, Some(counts.cq_entries)),
        // The last sample is newer than the probes' sizes, which are from creation or the last overflow.
        sq_entries: seen.map_or(counts.sq_entries, |ring| ring.sq_entries),
        cq_entries: seen.map_or(counts.cq_entries, |ring| ring.cq_entries),
        found: counts.found,
        use_of: counts.of,
        requests: sum(|o| o.requests),
        completions: sum(|o| o.completions),
        bytes: sum(|o| o.bytes),
        errors: sum(|o| o.errors),
        overflows: counts.overflows,
        active_ns: counts.active_ns,
        opcodes: counts.opcodes.iter().map(|o| part.opcode(o, one_in)).collect(),
        vehicles: part.vehicles(&counts.vehicles),
        latency_ns: times.latency(one_in),
        waits: times.waits(one_in),
        enter_waits: Some(EnterWaits {
            waits: counts.waits.all,
            min_wait: counts.waits.min_wait,
            registered: counts.waits.registered,
            no_iowait: counts.waits.no_iowait,
            bpf_loop: counts.waits.bpf_loop,
            iowait_ns: None,
        }),
        register_calls: Some(counts.registered.iter().map(register_calls).collect()),
        stages: times.stages(one_in),
        buffers: Some(counts.buffers.clone()),
        ended: counts.ended.clone(),
        napi: None,
        enter_batches: enter_batches(&counts.batches, one_in),
        enter_calls: enter_calls(&counts.batches, one_in),
        run_items: part.run_items(),
        order: None,
        reaping: part.stays.record(),
        sqpoll,
        threads: None,
        count_intervals: BTreeMap::new(),
    }
}

fn register_calls(counts: &RegisterCounts) -> RegisterCalls {
    RegisterCalls { operation: counts.operation.clone(), calls: counts.calls, errnos: named(&counts.errnos, |_| None) }
}

/// `None` if the ring has no SQPOLL thread, or neither /proc nor a traced request shows it.
pub(super) fn sqpoll(
    counts: &RingCounts,
    found: Option<&SeenRing>,
    by_trails: Option<u32>,
    seen: &ProcView<'_>,
) -> Option<SqpollRecord> {
    if counts.setup_flags & SQPOLL == 0 {
        return None;
    }
    // fdinfo shows the creating thread until the SQPOLL thread has started, so an observed submission takes
    // precedence.
    let tid = by_trails.or(found.and_then(|ring| ring.sq_thread))?;
    let thread = (seen.sq_thread)(counts.tgid, tid);
    // Each ring of the thread shows its values.
    let is_of_thread = |ring: &&&SeenRing| ring.tgid == counts.tgid && ring.sq_thread == Some(tid);
    let mut shown: Vec<&SeenRing> = seen.rings.iter().filter(is_of_thread).copied().collect();
    if shown.is_empty() {
        shown.extend(found);
    }
    Some(SqpollRecord {
        tid,
        cpu: shown.iter().max_by_key(|ring| ring.last_work_ns).and_then(|ring| ring.sq_cpu),
        elapsed_ns: thread.map(|t| t.elapsed_ns).filter(|ns| *ns > 0),
        cpu_ns: thread.and_then(|t| t.cpu_ns),
        work_ns: work_ns(&shown),
        wakeups: thread.and_then(|t| t.sleeps),
        requests: counts.opcodes.iter().map(|o| o.requests).sum(),
        shared_with: vec![],
    })
}

/// Rings that share a thread (IORING_SETUP_ATTACH_WQ) list each other, because the thread's times cover all of them.
pub(super) fn share_threads(rings: &mut [RingRecord]) {
    let on: Vec<(u32, u32)> = rings.iter().filter_map(|r| Some((r.ring, r.sqpoll.as_ref()?.tid))).collect();
    for (ring, s) in rings.iter_mut().filter_map(|r| Some((r.ring, r.sqpoll.as_mut()?))) {
        s.shared_with =
            on.iter().filter(|(other, tid)| *tid == s.tid && *other != ring).map(|(other, _)| *other).collect();
    }
}
