//! Synthetic records for tests, with a value in every field of a measurement.

use hdrhistogram::Histogram;

use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::*;
use iotrail_schema::net_record::{Counts, NetRecord, SenderPlan, SenderRecord, ServerCounts, ServerRecord};
use iotrail_schema::place::Place;
use iotrail_schema::run_record::{self, RunRecord};

pub fn histogram() -> Histogram<u64> {
    let mut h = Histogram::new(3).unwrap();
    for n in 1..=10_000 {
        h.record(n * 100).unwrap();
    }
    h
}

/// Circumstances of an undisturbed direct read load.
pub fn circumstances() -> Circumstances {
    Circumstances {
        span_ns: 2_004_000_000,
        cpus: vec![0, 1],
        device: Some(DeviceBytes {
            read_bytes: 500 * 4096,
            written_bytes: 8192,
            asked_bytes: 500 * 4096,
            ..DeviceBytes::default()
        }),
        page_cache: Some(PageCache {
            resident: BeforeAfter { before: 0.0, after: 0.0 },
            dirty: Some(BeforeAfter { before: 0.0, after: 0.0 }),
        }),
        steal_ns: Some(10_000_000),
        cpu_quota: None,
        throttled_ns: Some(0),
        thermal_throttles: None,
        frequency_khz: Some(BeforeAfter { before: 3_000_000, after: 3_010_000 }),
        interrupts_after: vec![TargetInterrupt { irq: 36, name: "virtio1-req.0".into(), cpus: vec![1] }],
        runnable_before: Some(0),
        load_average_before: Some(0.25),
        run_queue_wait_ns: Some(3_000_000),
        others_had_cpu_ns: None,
        involuntary_switches: Some(4),
        minor_faults: Some(1),
        major_faults: Some(0),
        throughput: Some(Throughput { interval_ns: 50_000_000, ios: [12, 13].repeat(20) }),
    }
}

pub fn measurement() -> Measurement {
    Measurement {
        schema: SCHEMA.into(),
        version: "0.1.0".into(),
        started_unix_s: 1_772_366_400,
        load: LoadRecord {
            seed: None,
            engine: "io_uring".into(),
            ring: Ring { requested: vec!["coop_taskrun".into()], granted: vec!["coop_taskrun".into()] },
            sq_cpu: None,
            sq_idle_ms: None,
            register: Vec::new(),
            force_async: false,
            commit: Commit::None,
            rw: "randread".into(),
            bs: 4096,
            depth: 1,
            batch: 1,
            jobs: 1,
            cpus_requested: Some("non-irq".into()),
            cpus: vec![0],
            wait: "peek".into(),
            min_wait_ns: None,
            no_iowait: false,
            reaper: "same".into(),
            think_ns: 0,
            scratch: "none".into(),
            neighbour: "none".into(),
            file: Some("/data/scratch-1g".into()),
            size: Some(1 << 30),
            direct: true,
            runtime_ns: Some(2_000_000_000),
            count: None,
            warmup_ns: 300_000_000,
            rate: None,
            verify: false,
            trace: "auto".into(),
        }
        .into(),
        elapsed_ns: 2_000_000_000,
        ios: Some(500),
        operations: None,
        bytes: Some(500 * 4096),
        errors: Some(0),
        errors_by: Some(vec![]),
        short_ios: Some(0),
        iops: Some(250.0),
        latency_ns: Latency {
            count: 500,
            mean: Some(3_998_123.1),
            mean_ci95: None,
            min: Some(3_500_000),
            p50: Some(3_999_743),
            p90: Some(4_001_791),
            p95: Some(4_003_839),
            p99: None,
            p99_9: None,
            p99_99: None,
            max: Some(4_100_000),
        },
        phases: Some(Phases { submit: 0.002, poll: 0.995, clear: 0.001, other: 0.002, total_ns: 2_000_000_000 }),
        cpu: Cpu { user_ns: Some(1_990_000_000), system_ns: Some(10_000_000), sqpoll_ns: None, ..Cpu::default() },
        vehicles: vec![
            DeliveryPathCount { vehicle: DeliveryPath::TimerTick, completions: 497, detail: None, delay_ns: None },
            DeliveryPathCount {
                vehicle: DeliveryPath::DeviceIrq,
                completions: 3,
                detail: Some("39 virtio2-output.0".into()),
                delay_ns: Some(Delay { p50: Some(900), max: Some(1200), ..Delay::default() }.into()),
            },
        ],
        per_io_intervals: Default::default(),
        per_io: PerIo {
            syscalls: Some(1.0),
            kicks: Some(0.0),
            resched_ipis: Some(0.002),
            device_irqs: Some(0.01),
            mode_switches: Some(2.1),
            context_switches: None,
            task_work_runs: Some(1.0),
        },
        mode_switches: vec![
            ModeSwitch { cause: "syscall".into(), count: 500 },
            ModeSwitch { cause: "timer_tick".into(), count: 500 },
        ],
        task_work_batches: vec![TaskWorkBatch { at_least: 1, runs: 480 }, TaskWorkBatch { at_least: 2, runs: 10 }],
        interrupts: vec![
            Interrupt {
                vector: "LOC".into(),
                name: "local timer".into(),
                cpu: 0,
                count: 500,
                on_watched: 500,
                credited: None,
                credited_ci95: None,
                proc_count: Some(500),
                spent_ns: None,
            },
            Interrupt {
                vector: "36".into(),
                name: "virtio1-req.0".into(),
                cpu: 1,
                count: 498,
                on_watched: 0,
                credited: None,
                credited_ci95: None,
                proc_count: Some(500),
                spent_ns: None,
            },
        ],
        ipis: vec![Ipi { site: "ttwu_queue_wakelist".into(), from_cpu: 1, to_cpu: 0, count: 1 }],
        order: None,
        stages: None,
        followed: None,
        punts: None,
        probe: Probe {
            mode: "aggregate".into(),
            completions_seen: Some(500),
            untracked: Some(0),
            lost: Some(0),
            missed: vec![],
            programs: vec!["ring".into(), "interrupt".into()],
        },
        cpu_shares: Some(
            [(Place::User, 1984, 0.995), (Place::Interrupt, 10, 0.005)]
                .map(|(place, samples, share)| CpuShare {
                    place,
                    samples,
                    share: Some(share),
                    lo: Some(share - 0.003),
                    hi: Some(share + 0.003),
                })
                .to_vec(),
        ),
        cpu_samples: Some(
            CpuSamples {
                clock: "time".into(),
                hz: 997,
                period_ns: Some(1_003_009),
                taken: 1994,
                elsewhere: 1993,
                lost: 1,
                expected: Some(3988),
                idle_cpus: vec![0],
                unplaced: vec![FunctionSamples { function: "a_function".into(), samples: 3 }],
            }
            .into(),
        ),
        circumstances: Some(circumstances().into()),
        net: None,
        program: None,
        host: Host {
            hostname: "bench".into(),
            kernel: "6.18.0".into(),
            cpu_model: "A processor".into(),
            cpus: 2,
            target: Some(Target {
                path: "/data/scratch-1g".into(),
                filesystem: Some("ext4".into()),
                device: Some("vda".into()),
                driver: Some("virtio_blk".into()),
                queue_device: None,
                queues: Some(1),
                poll_queues: Some(0),
                model: None,
                scheduler: Some("none".into()),
                interrupts: vec![TargetInterrupt { irq: 36, name: "virtio1-req.0".into(), cpus: vec![1] }],
            }),
            clock_source: Some("tsc".into()),
            lockdown: Some("integrity".into()),
            virtualisation: None,
        }
        .into(),
        warnings: vec![Warning::new("virtual-machine", "this is a virtual machine", "compare ratios, not times")],
        thrown_away: 0,
    }
}

/// Turns it into one second of a network load with this many requests and this much server idle time.
pub fn echo(m: &mut Measurement, requests: u64, idle_ms: u64, busiest_thread: f64) {
    (m.ios, m.iops, m.bytes) = (Some(requests), Some(requests as f64), Some(128 * requests));
    m.elapsed_ns = 1_000_000_000;
    let (user_ns, system_ns) = (Some(100_000_000), Some(900_000_000 - idle_ms * 1_000_000));
    m.cpu = Cpu { user_ns, system_ns, ..Cpu::default() };
    let total = ServerCounts {
        wall_ns: 1_000_000_000,
        user_ns,
        system_ns,
        idle_ns: Some(idle_ms * 1_000_000),
        counts: Counts { requests, ..Counts::default() },
    };
    m.net = Some(
        NetRecord {
            address: "198.18.0.1:7000".into(),
            between: "namespaces".into(),
            asked: SenderPlan { connections: 4, window: 2, ..SenderPlan::default() },
            sender: SenderRecord {
                requests,
                responses: requests,
                busiest_thread: Some(busiest_thread),
                ..SenderRecord::default()
            },
            sender_host: None,
            server: Some(ServerRecord {
                version: "0.1.0".into(),
                engine: "io_uring".into(),
                options: serde_json::Map::new(),
                threads: vec![total.clone()],
                total,
                seconds: vec![],
                memory: None,
            }),
        }
        .into(),
    );
}

/// A thousand traced completions, some of them posted before earlier-ready ones.
pub fn delivered(m: &mut Measurement, inversions: u64, max_displacement: u64) {
    let by = OrderBy { block: 0, device: 0, file_system: None, task_work: 0 };
    let delivery = Delivery {
        completions: 1000,
        without_ready: 0,
        inversions,
        max_displacement,
        by: DeliveredBy { file_system: None, task_work: inversions, inline: None },
    };
    m.order = Some(
        Order {
            completions: 1000,
            inversions: 0,
            overtaken: Some(0),
            waits: 0,
            max_displacement: 0,
            by,
            delivery: Some(delivery),
        }
        .into(),
    );
}

/// A finished run without cells and conclusions.
pub fn run() -> RunRecord {
    RunRecord {
        corruption: None,
        schema: run_record::SCHEMA.into(),
        run: 1,
        experiment: "x".into(),
        title: "X".into(),
        question: "?".into(),
        expect: "!".into(),
        table: "delivery".into(),
        columns: Vec::new(),
        quick: false,
        seed: 7,
        repeats: 1,
        stop: None,
        axes: Vec::new(),
        arms: Vec::new(),
        tried: Vec::new(),
        search: None,
        metrics: Vec::new(),
        equivalent_within: None,
        expectations: Vec::new(),
        started_unix_s: 1,
        finished_unix_s: Some(2),
        cells: Vec::new(),
        comparisons: Vec::new(),
    }
}
