//! Stores synthetic runs of any experiment, generated from its plan without loads: values depend on the cell and the
//! repeat.

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use iotrail_base::units::Bytes;
use iotrail_experiment::builtin;
use iotrail_experiment::file::Experiment;
use iotrail_experiment::load::Load;
use iotrail_experiment::plan::{Facts, Plan, Target, plan};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::*;
use iotrail_schema::net_record::{Counts, NetRecord, SenderPlan, SenderRecord, ServerCounts, ServerRecord};
use iotrail_schema::place::Place;
use iotrail_stats::{histogram, quantile};
use iotrail_store::Store;

pub const REPEATS: u32 = 3;

pub fn built_in(name: &str) -> Experiment {
    builtin::find(name).expect("a built-in experiment")
}

/// Stores every cell of the quick form with `repeats` repeats; returns the run's number.
pub fn store(path: &Path, experiment: &Experiment, repeats: u32) -> i64 {
    let plan = planned(experiment, repeats);
    let mut store = Store::create_or_open(path).expect("a new store");
    let run = store.begin(&plan.record(7, 1_772_366_400), &plan.key()).expect("a run");
    let cells: Vec<_> = plan.testable().collect();
    for repeat in 1..=repeats {
        for cell in &cells {
            let latency = latencies(cell.number, repeat);
            let m = measurement(&cell.load, (cell.number, repeat), &latency);
            store.save(run, cell.number, repeat, &m, &latency).expect("stored");
        }
    }
    store.finish(run, 1_772_366_500).expect("stored");
    run
}

fn planned(experiment: &Experiment, repeats: u32) -> Plan {
    let target = Target {
        path: Some(PathBuf::from("/data/scratch")),
        size: Some(Bytes(1 << 30)),
        scratch: true,
        allow_write: false,
    };
    let facts = Facts { online_cpus: vec![0, 1], may_watch: false, below: &|_| Some(disk()) };
    let mut plan =
        plan(experiment, experiment.quick.is_some(), &target, &facts, &|_, _| None).expect("it can be planned");
    plan.repeats = repeats;
    plan
}

fn disk() -> iotrail_schema::measurement::Target {
    iotrail_schema::measurement::Target {
        path: "/data/scratch".into(),
        filesystem: Some("ext4".into()),
        device: Some("vda".into()),
        driver: Some("virtio_blk".into()),
        model: None,
        queue_device: None,
        queues: Some(1),
        poll_queues: Some(1),
        scheduler: Some("none".into()),
        interrupts: vec![TargetInterrupt { irq: 36, name: "virtio1-req.0".into(), cpus: vec![1] }],
    }
}

/// A thousand I/Os of at least 100 µs, with a tail; different for each cell and repeat.
pub fn latencies(cell: u32, repeat: u32) -> Histogram<u64> {
    let mut all = histogram::new();
    for i in 0..1000u64 {
        let tail = if i % 100 == 99 { 40 } else { 1 };
        let ns = (100_000 + 90 * i) * tail + u64::from(cell * 1000 + repeat * 10);
        all.record(ns).expect("within an hour");
    }
    all
}

/// The stored IOPS of a measurement, by cell and repeat.
pub fn iops(cell: u32, repeat: u32) -> f64 {
    10_000.0 + 100.0 * f64::from(cell) + 12.5 * f64::from(repeat)
}

fn measurement(load: &Load, (cell, repeat): (u32, u32), latency: &Histogram<u64>) -> Measurement {
    let mut m = Measurement {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_unix_s: 1_772_366_400 + u64::from(repeat),
        load: LoadRecord {
            engine: "io_uring".into(),
            rw: "randread".into(),
            bs: 4096,
            depth: load.storage().map_or(16, |spec| spec.depth),
            batch: 1,
            jobs: 1,
            cpus_requested: Some("non-irq".into()),
            cpus: vec![0],
            wait: "block".into(),
            reaper: "same".into(),
            scratch: "none".into(),
            neighbour: "none".into(),
            file: Some("/data/scratch".into()),
            size: Some(1 << 30),
            direct: true,
            runtime_ns: Some(1_000_000_000),
            trace: "auto".into(),
            ..LoadRecord::default()
        }
        .into(),
        elapsed_ns: 1_000_000_000,
        ios: Some(iops(cell, repeat).round() as u64),
        bytes: Some(1000 * 4096),
        iops: Some(iops(cell, repeat)),
        latency_ns: quantile::summary(latency),
        phases: Some(Phases { submit: 0.25, poll: 0.5, clear: 0.125, other: 0.125, total_ns: 1_000_000_000 }),
        cpu: Cpu { user_ns: Some(200_000_000 + u64::from(repeat)), system_ns: Some(300_000_000), ..Cpu::default() },
        vehicles: vehicles(),
        per_io: PerIo {
            syscalls: Some(1.0),
            kicks: Some(0.5 / f64::from(cell)),
            resched_ipis: Some(0.25),
            device_irqs: Some(1.0),
            mode_switches: Some(2.0),
            // Unknown, as if a probe could not be loaded.
            context_switches: None,
            task_work_runs: Some(0.75),
        },
        mode_switches: [("syscall", 1000), ("device_irq", 600), ("timer_tick", 400)]
            .map(|(cause, count)| ModeSwitch { cause: cause.into(), count })
            .to_vec(),
        interrupts: vec![interrupt("36", "virtio1-req.0", 1, 1000), interrupt("LOC", "local timer", 0, 250)],
        ipis: vec![Ipi { site: "task_work_add".into(), from_cpu: 1, to_cpu: 0, count: 500 }],
        stages: Some(
            StageRecord {
                completions: 1000,
                issue_ns: 2_000.0,
                wait_ns: 90_000.0,
                delivery_ns: 8_000.0,
                file_system_ns: None,
                queued_ns: None,
                queued_completions: 0,
                queued_delivery_ns: None,
                runnable: None,
                total_ns: 100_000.0,
                total_ci95: None,
                delivery_delay_ns: quantile::summary(latency),
            }
            .into(),
        ),
        followed: Some(Followed { one_in: 1, completions: 1000, with_stages: 1000, ..Followed::default() }.into()),
        probe: Probe {
            mode: "aggregate".into(),
            completions_seen: Some(1000),
            untracked: Some(0),
            lost: Some(0),
            missed: vec![],
            programs: vec!["ring".into()],
        },
        cpu_shares: Some(
            [(Place::User, 400), (Place::Submit, 500), (Place::Idle, 100)]
                .map(|(place, samples)| CpuShare { place, samples, share: None, lo: None, hi: None })
                .to_vec(),
        ),
        host: Host {
            hostname: "bench".into(),
            kernel: "6.18.0".into(),
            cpu_model: "A processor".into(),
            cpus: 2,
            target: Some(disk()),
            clock_source: Some("tsc".into()),
            lockdown: Some("none".into()),
            virtualisation: Some("none".into()),
        }
        .into(),
        ..Measurement::default()
    };
    if let Load::Net(_) = load {
        network(&mut m, repeat);
    }
    m
}

fn vehicles() -> Vec<DeliveryPathCount> {
    let each = [
        (DeliveryPath::Enter, Some("ready"), 600),
        (DeliveryPath::Enter, Some("slept, woken by irq 36 vda on CPU 1"), 150),
        (DeliveryPath::ReschedIpi, None, 200),
        (DeliveryPath::Unknown, None, 50),
    ];
    let one = |(vehicle, detail, completions): (_, Option<&str>, _)| DeliveryPathCount {
        vehicle,
        completions,
        detail: detail.map(Into::into),
        delay_ns: None,
    };
    each.map(one).to_vec()
}

fn interrupt(vector: &str, name: &str, cpu: u32, count: u64) -> Interrupt {
    Interrupt {
        vector: vector.into(),
        name: name.into(),
        cpu,
        count,
        on_watched: 0,
        credited: None,
        credited_ci95: None,
        proc_count: Some(count),
        spent_ns: None,
    }
}

fn network(m: &mut Measurement, repeat: u32) {
    let total = ServerCounts {
        wall_ns: 1_000_000_000,
        user_ns: m.cpu.user_ns,
        system_ns: m.cpu.system_ns,
        idle_ns: Some(100_000_000 * u64::from(repeat)),
        counts: Counts { requests: 1000, ..Counts::default() },
    };
    m.load.file = None;
    m.phases = Some(Phases::default());
    m.net = Some(
        NetRecord {
            address: "198.18.0.1:7000".into(),
            between: "namespaces".into(),
            asked: SenderPlan {
                connections: 4,
                window: 2,
                request_bytes: 64,
                response_bytes: 64,
                threads: 1,
                ..SenderPlan::default()
            },
            sender: SenderRecord {
                requests: 1000,
                responses: 1000,
                busiest_thread: Some(0.5),
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
    let by = OrderBy { block: 0, device: 0, file_system: None, task_work: 0 };
    let delivery = Delivery {
        completions: 1000,
        without_ready: 0,
        inversions: u64::from(repeat) * 10,
        max_displacement: 3,
        by: DeliveredBy { file_system: None, task_work: u64::from(repeat) * 10, inline: None },
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
