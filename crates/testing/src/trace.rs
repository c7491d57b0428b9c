//! Synthetic traces for tests: a program without problems, and parts that add problems.

use std::collections::BTreeMap;

use iotrail_schema::account::{Mode, Reason, ThreadAccount, ThreadRow, ThreadState};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::*;
use iotrail_schema::trace_record::*;

/// Latencies with all quantiles known, around this median.
pub fn latency(count: u64, p50: u64) -> Latency {
    Latency {
        count,
        mean: Some(p50 as f64 * 1.1),
        mean_ci95: None,
        min: Some(p50 / 2),
        p50: Some(p50),
        p90: Some(p50 * 2),
        p95: Some(p50 * 2),
        p99: Some(p50 * 3),
        p99_9: None,
        p99_99: None,
        max: Some(p50 * 10),
    }
}

/// A thread with this state, system call, reason and time per row. Running time is kernel time in a call, and user time
/// outside.
pub fn thread(tid: u32, rows: &[(ThreadState, Option<&str>, Option<Reason>, u64)]) -> ThreadAccount {
    let row = |(state, syscall, reason, ns): &(ThreadState, Option<&str>, Option<Reason>, u64)| ThreadRow {
        mode: (*state == ThreadState::Running).then_some(if syscall.is_some() { Mode::Kernel } else { Mode::User }),
        syscall: syscall.map(Into::into),
        reason: reason.clone(),
        ..ThreadRow::new(*state, *ns)
    };
    let rows: Vec<ThreadRow> = rows.iter().map(row).collect();
    let wall_ns = rows.iter().map(|row| row.ns).sum();
    ThreadAccount { tid, tgid: 7, comm: "fio".into(), wall_ns, rows, ..ThreadAccount::default() }
}

pub fn carried(
    vehicle: DeliveryPath,
    completions: u64,
    detail: Option<&str>,
    delay_p50: Option<u64>,
) -> DeliveryPathCount {
    let delay_ns =
        delay_p50.map(|p50| Delay { p50: Some(p50), p99: Some(p50 * 4), max: Some(p50 * 20), ..Delay::default() });
    DeliveryPathCount { vehicle, completions, detail: detail.map(Into::into), delay_ns: delay_ns.map(Into::into) }
}

pub fn opcode(name: &str, requests: u64, p50: u64) -> OpcodeRecord {
    OpcodeRecord {
        opcode: name.into(),
        requests,
        skips: 0,
        completions: requests,
        bytes: requests * 4096,
        errors: 0,
        short: Some(0),
        more: 0,
        notifications: 0,
        reporting: 0,
        copied: 0,
        held_mean_ns: None,
        messages: 0,
        denied: 0,
        unposted: 0,
        punted_asked: 0,
        punted_would_block: 0,
        punted_drained: 0,
        seen: None,
        errnos: Vec::new(),
        latency_ns: latency(requests, p50),
        waits: None,
        stages: Some(stages(requests, p50)),
        punted_requests: None,
    }
}

pub fn delivered_in_order(completions: u64) -> Delivery {
    let by = DeliveredBy { file_system: Some(0), task_work: 0, inline: Some(0) };
    Delivery { completions, without_ready: 0, inversions: 0, max_displacement: 0, by }
}

fn stages(completions: u64, p50: u64) -> StageRecord {
    let total = p50 as f64 * 1.1;
    StageRecord {
        completions,
        issue_ns: total * 0.1,
        wait_ns: total * 0.8,
        delivery_ns: total * 0.1,
        file_system_ns: None,
        queued_ns: None,
        queued_completions: 0,
        queued_delivery_ns: None,
        runnable: None,
        total_ns: total,
        total_ci95: None,
        delivery_delay_ns: latency(completions, p50 / 10),
    }
}

/// Delivery paths of a program that waits for batches: one sleep for several completions.
fn slept() -> Vec<DeliveryPathCount> {
    vec![
        carried(DeliveryPath::Enter, 78_000, Some("slept, woken by irq 36 nvme0q2 on CPU 1"), Some(3_000)),
        carried(DeliveryPath::Enter, 2_000, Some("ready"), Some(9_000)),
    ]
}

/// A third of the completions stay for half a second, in a queue that was never full.
pub fn reaping() -> Reaping {
    let delay =
        |p50, p90, max| Delay { p50: Some(p50), p90: Some(p90), max: Some(max), count: Some(300), ..Delay::default() };
    Reaping {
        completions: 300,
        estimated: 2_400,
        at_least_ns: delay(4_000_000, 500_000_000, 520_000_000),
        at_most_ns: delay(6_000_000, 504_000_000, 524_000_000),
        mean_ns_ci95: None,
        left_ns: delay(4_000_000, 500_000_000, 520_000_000),
        left_long: 100,
        left_long_estimated: 800,
        depth: Depth { p50: Some(4), p99: Some(60), max: Some(90) },
        deepest: 96,
        unreaped: 0,
        unreaped_estimated: 0,
        unreaped_at_least_ns: None,
    }
}

pub fn ring(number: u32) -> RingRecord {
    RingRecord {
        ring: number,
        tgid: 1234,
        comm: "fio".into(),
        fds: vec![5],
        flags: vec!["single_issuer".into(), "defer_taskrun".into()],
        sq_entries: 64,
        cq_entries: 128,
        found: false,
        use_of: None,
        requests: 80_000,
        completions: 80_000,
        bytes: 80_000 * 4096,
        errors: 0,
        overflows: 0,
        active_ns: Some(2_000_000_000),
        opcodes: vec![opcode("read", 80_000, 100_000)],
        vehicles: slept(),
        latency_ns: latency(80_000, 100_000),
        waits: None,
        enter_waits: None,
        register_calls: None,
        buffers: None,
        ended: vec![],
        napi: None,
        stages: Some(stages(80_000, 100_000)),
        enter_batches: vec![EnterBatch {
            at_least: 16,
            requests: 80_000,
            estimated: None,
            calls: 5_000.0,
            calls_ci95: None,
        }],
        enter_calls: Some(Estimate { total: 5_000.0, ci95: [5_000.0; 2] }),
        order: None,
        reaping: None,
        run_items: vec![
            RunItems { items: 4, completions: 8_000, estimated: None },
            RunItems { items: 12, completions: 24_000, estimated: None },
            RunItems { items: 16, completions: 48_000, estimated: None },
        ],
        sqpoll: None,
        threads: None,
        count_intervals: BTreeMap::new(),
    }
}

/// DEFER_TASKRUN, 16 requests per call; waits in io_uring_enter on the CPU that its drive interrupts.
pub fn clean() -> TraceRecord {
    let r = ring(0);
    TraceRecord {
        schema: iotrail_schema::trace_record::SCHEMA.into(),
        version: "0.1.0".into(),
        started_unix_s: 1_772_366_400,
        subject: Subject::Command { argv: vec!["fio".into(), "job.fio".into()], exit_status: Some(0) },
        ended_by: None,
        total: Total {
            elapsed_ns: 2_500_000_000,
            windows: None,
            ios: 80_000,
            operations: Some(80_000),
            bytes: r.bytes,
            errors: 0,
            short_ios: 0,
            iops: 32_000.0,
            latency_ns: r.latency_ns.clone(),
            waits: None,
            cpu: TraceCpu { user_ns: Some(200_000_000), system_ns: Some(800_000_000) },
            vehicles: r.vehicles.clone(),
            per_io: PerIo {
                syscalls: None,
                kicks: Some(0.0),
                resched_ipis: Some(0.001),
                device_irqs: Some(0.2),
                mode_switches: None,
                context_switches: Some(0.06),
                task_work_runs: Some(0.08),
            },
            mode_switches: vec![
                ModeSwitch { cause: "page_fault".into(), count: 1_900 },
                ModeSwitch { cause: "timer_tick".into(), count: 600 },
            ],
            task_work_batches: vec![
                TaskWorkBatch { at_least: 4, runs: 2_000 },
                TaskWorkBatch { at_least: 8, runs: 2_000 },
                TaskWorkBatch { at_least: 16, runs: 3_000 },
            ],
            interrupts: vec![Interrupt {
                vector: "36".into(),
                name: "nvme0q2".into(),
                cpu: 1,
                count: 16_000,
                on_watched: 12_000,
                credited: Some(16_000),
                credited_ci95: None,
                proc_count: Some(16_000),
                spent_ns: None,
            }],
            ipis: vec![Ipi { site: "ttwu_queue_wakelist".into(), from_cpu: 1, to_cpu: 0, count: 40 }],
            order: Some(Order {
                completions: 80_000,
                inversions: 4_000,
                overtaken: Some(4_000),
                waits: 0,
                max_displacement: 9,
                by: OrderBy { block: 200, device: 3_800, file_system: Some(0), task_work: 0 },
                delivery: Some(delivered_in_order(80_000)),
            }),
            followed: Followed {
                one_in: 1,
                adaptive: false,
                completions: 80_000,
                whole: 80_000,
                sampled_from: None,
                came_later: None,
                requests_estimated: Some(80_000.0),
                requests_ci95: Some([80_000.0, 80_000.0]),
                with_stages: 79_990,
                with_queued: None,
                no_room: 4,
                ring_buffer_full: 0,
                skipped: 0,
                no_completion: 0,
                unfinished: 2,
                unreaped: 0,
                shared_user_data: 0,
            },
            opcodes: r.opcodes.clone(),
            stages: r.stages.clone(),
            enter_batches: r.enter_batches.clone(),
            enter_calls: r.enter_calls,
            cpu_pairs: vec![
                CpuPair { ready_cpu: 1, posted_cpu: 1, completions: 79_000, estimated: None, threads: Some(1) },
                CpuPair { ready_cpu: 0, posted_cpu: 1, completions: 990, estimated: None, threads: Some(1) },
            ],
            run_items: r.run_items.clone(),
            processes: vec![ProcessRecord { tgid: 1234, here: None, comm: "fio".into(), found: false }],
            more_processes: 0,
            iowq: IowqRecord::default(),
            page_faults: Some(1_900),
            intervals: BTreeMap::new(),
            per_io_intervals: BTreeMap::new(),
            count_intervals: BTreeMap::new(),
            stray_calls: Some(0),
            pread_pwrite_calls: Some(0),
            context_switches: 5_000,
            sampled_events: None,
            probe: Probe {
                mode: "aggregate".into(),
                completions_seen: Some(80_000),
                untracked: Some(0),
                lost: Some(0),
                missed: vec![],
                programs: vec!["ring".into()],
            },
            cpu_shares: None,
            cpu_samples: None,
            open: vec![],
            memory: None,
            files: vec![],
            other_files: None,
            reaping: None,
            reaping_lost: Some(0),
            latency_histograms: Vec::new(),
            timeline: None,
            probe_costs: None,
            host: Host {
                hostname: "bench".into(),
                kernel: "6.18.44".into(),
                cpu_model: "A processor".into(),
                cpus: 2,
                target: None,
                clock_source: Some("tsc".into()),
                lockdown: Some("none".into()),
                virtualisation: None,
            },
            warnings: Vec::new(),
        },
        rings: vec![r],
        contexts: Vec::new(),
        account: None,
        calls: None,
        state: None,
        stacks: None,
        others: Vec::new(),
        findings: Vec::new(),
    }
}

/// The clean program with its only ring modified; updates the totals.
pub fn with_ring(change: impl FnOnce(&mut RingRecord)) -> TraceRecord {
    let mut t = clean();
    change(&mut t.rings[0]);
    let r = t.rings[0].clone();
    let total = &mut t.total;
    (total.ios, total.bytes, total.errors) = (r.completions, r.bytes, r.errors);
    total.iops = total.ios as f64 / (total.elapsed_ns as f64 / 1e9);
    (total.vehicles, total.opcodes, total.latency_ns) = (r.vehicles, r.opcodes, r.latency_ns);
    (total.enter_batches, total.run_items) = (r.enter_batches, r.run_items);
    total.probe.completions_seen = Some(total.ios);
    t
}
