//! Totals of the probes' counts over all rings and contexts.

use std::collections::BTreeMap;

use super::batches::{self, enter_batches, enter_calls};
use super::cpu_pairs;
use super::followed::Summary;
use super::losses;
use super::opcodes;
use super::part::Part;
use crate::rings::SeenRing;
use iotrail_answer::warnings::doubt;
use iotrail_path::memory::Memory;
use iotrail_path::order::IsWait;
use iotrail_path::times::Times;
use iotrail_probe::function;
use iotrail_probe::observed::Observed;
use iotrail_probe::rings::OpcodeCounts;
use iotrail_probe::sampled_events::{self, Sampled};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{Host, ModeSwitch, PerIo, TaskWorkBatch};
use iotrail_schema::trace_record::{
    CountIntervals, IowqRecord, MemoryRecord, OpcodeRecord, OverlapRecord, SampledEvents, Total, TraceCpu, operations,
};

/// `None` if no memory was shared.
fn memory(of: &Memory) -> Option<MemoryRecord> {
    let ring = of.overlap.as_ref().map(|o| o.ring).or(of.outlived_first.as_ref().map(|first| first.ring))?;
    Some(MemoryRecord {
        overlapping: of.overlapping,
        overlap: of.overlap.as_ref().map(|o| OverlapRecord {
            opcode: o.opcode.clone(),
            bytes: o.bytes,
            user_data: o.user_data.map(|data| format!("{data:#x}")),
        }),
        outlived: of.outlived,
        outlived_user_data: of.outlived_first.as_ref().map(|first| format!("{:#x}", first.user_data)),
        ring,
    })
}

/// The probes' totals. The caller adds data from /proc.
pub(super) fn total(
    observed: Observed,
    all: &Part,
    times: &Times,
    summary: &Summary,
    elapsed_ns: u64,
    seen: &[&SeenRing],
    is_wait: IsWait<'_>,
) -> Total {
    let opcodes = opcodes::of_all(&observed);
    let batches = batches::of_all(&observed);
    let sum = |f: fn(&OpcodeCounts) -> u64| opcodes.iter().map(f).sum::<u64>();
    let ios = observed.seen;
    let (bytes, errors, short_ios) = (sum(|o| o.bytes), sum(|o| o.errors), sum(|o| o.shorts));
    let mut warnings = losses::doubts(&observed, sum(|o| o.requests), seen);
    let (loss, completions) = (observed.follow_loss, (summary.completions, summary.whole));
    let followed = loss.followed(summary.choice, completions, summary.requests(&loss), times, &observed.programs);
    warnings.extend(doubt::followed_lost(&followed, "--one-in"));
    let one_in = summary.one_in(&observed.follow_loss);
    let opcodes: Vec<OpcodeRecord> = opcodes.iter().map(|o| all.opcode(o, one_in)).collect();
    Total {
        elapsed_ns,
        windows: None,
        ios,
        operations: Some(operations(ios, &opcodes)),
        bytes,
        errors,
        short_ios,
        iops: if elapsed_ns > 0 { ios as f64 * 1e9 / elapsed_ns as f64 } else { 0.0 },
        latency_ns: times.latency(one_in),
        waits: times.waits(one_in),
        cpu: TraceCpu::default(),
        vehicles: all.vehicles(&observed.vehicles),
        per_io: per_io(&observed),
        per_io_intervals: per_io_intervals(&observed),
        intervals: intervals(&observed),
        count_intervals: count_intervals(&observed, None),
        mode_switches: mode_switches(&observed),
        task_work_batches: observed
            .run_batches
            .iter()
            .map(|&(at_least, runs)| TaskWorkBatch { at_least, runs })
            .collect(),
        order: summary.passages.order(function::sees_ends(&observed.programs), is_wait),
        followed,
        opcodes,
        stages: times.stages(one_in),
        enter_batches: enter_batches(&batches, one_in),
        enter_calls: enter_calls(&batches, one_in),
        cpu_pairs: cpu_pairs::records(&summary.cpu_pairs),
        run_items: all.run_items(),
        processes: vec![],
        more_processes: observed.more_processes,
        iowq: IowqRecord {
            workers: observed.iowq_workers,
            most_at_once: Some(observed.iowq_most),
            completions: observed
                .vehicles
                .iter()
                .filter(|v| v.vehicle == DeliveryPath::Iowq)
                .map(|v| v.completions)
                .sum(),
            ..IowqRecord::default()
        },
        page_faults: observed.page_faults,
        stray_calls: observed.stray_calls,
        pread_pwrite_calls: observed.pread_pwrite_calls,
        context_switches: observed.context_switches,
        sampled_events: observed.sampled_events.as_ref().map(sampled_events),
        probe: losses::probe(&observed),
        interrupts: observed.interrupts,
        ipis: observed.ipis,
        cpu_shares: None,
        cpu_samples: None,
        open: vec![],
        memory: memory(&summary.memory),
        files: vec![],
        other_files: None,
        reaping: all.stays.record(),
        reaping_lost: None,
        latency_histograms: summary.histograms.iter().flat_map(|(opcode, of)| of.records(opcode)).collect(),
        timeline: summary.slices.record(),
        probe_costs: None,
        host: Host::default(),
        warnings,
    }
}

fn per_io(observed: &Observed) -> PerIo {
    let ios = observed.seen;
    let ratio = |n: Option<u64>| n.filter(|_| ios > 0).map(|n| n as f64 / ios as f64);
    // Without system calls the sum would be meaningless.
    let switches = observed.syscalls.zip(observed.returns.as_ref()).map(|(calls, r)| calls + r.values().sum::<u64>());
    PerIo {
        syscalls: ratio(observed.syscalls),
        kicks: ratio(observed.kicks),
        resched_ipis: ratio(observed.resched_ipis),
        device_irqs: ratio(observed.device_irqs),
        mode_switches: ratio(switches),
        context_switches: ratio(Some(observed.context_switches)),
        task_work_runs: ratio(observed.task_work_runs),
    }
}

/// By field name in [`PerIo`].
fn per_io_intervals(observed: &Observed) -> BTreeMap<String, [f64; 2]> {
    let ios = observed.seen as f64;
    let of = |sampled: Sampled| observed.intervals.get(sampled.name()).copied();
    // Returns that were counted throughout are exact.
    let counted = || observed.returns.as_ref().map(|r| r.values().sum::<u64>() as f64);
    let returns = || of(Sampled::Returns).or(counted().map(|n| (n, n)));
    let switches = || of(Sampled::Syscalls).zip(returns()).map(|(calls, more)| (calls.0 + more.0, calls.1 + more.1));
    let own = [
        Sampled::Syscalls,
        Sampled::DeviceIrqs,
        Sampled::Kicks,
        Sampled::ReschedIpis,
        Sampled::ContextSwitches,
        Sampled::TaskWorkRuns,
    ];
    let own = own.into_iter().map(|sampled| (sampled.name(), of(sampled)));
    let all = own.chain([("mode_switches", switches())]);
    all.filter_map(|(name, interval)| {
        let (lo, hi) = interval.filter(|_| ios > 0.0)?;
        Some((name.to_owned(), [lo / ios, hi / ios]))
    })
    .collect()
}

fn intervals(observed: &Observed) -> BTreeMap<String, [f64; 2]> {
    let of = |(sampled, name): (Sampled, &str)| {
        let (lo, hi) = observed.intervals.get(sampled.name())?;
        Some((name.to_owned(), [*lo, *hi]))
    };
    let named = [
        (Sampled::StrayCalls, Sampled::StrayCalls.name()),
        (Sampled::PreadPwriteCalls, Sampled::PreadPwriteCalls.name()),
        (Sampled::Syscalls, "mode_switches.syscall"),
    ];
    named.into_iter().filter_map(of).collect()
}

/// For one ring, or for the total.
pub(super) fn count_intervals(observed: &Observed, ring: Option<u32>) -> CountIntervals {
    let of = observed.count_intervals.iter().filter(|((of, _), _)| *of == ring);
    of.map(|((_, name), interval)| (name.clone(), interval.map(|(lo, hi)| [lo, hi]))).collect()
}

fn sampled_events(events: &sampled_events::SampledEvents) -> SampledEvents {
    let seen = events.seen();
    SampledEvents { windows: events.windows(), completions: seen.completions, traced_ns: Some(seen.ns) }
}

/// Mode switches by cause, as far as counted.
pub(crate) fn mode_switches(observed: &Observed) -> Vec<ModeSwitch> {
    let calls = observed.syscalls.map(|count| ModeSwitch { cause: "syscall".into(), count });
    let returns = observed.returns.iter().flatten().map(|(cause, n)| ModeSwitch { cause: (*cause).into(), count: *n });
    calls.into_iter().chain(returns).collect()
}
