//! A sample interval for tests: a database that waits in system calls, and a program with an SQPOLL thread.

use iotrail_schema::account::{Reason, ThreadRow, ThreadState};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Latency, StageRecord};
use iotrail_schema::top_record::{
    DeliveryPathShare, OpcodeRates, ProcessRates, Rates, RingRates, SCHEMA, ThreadTime, TopRecord, TotalRates,
};

/// Shares computed from completion counts.
pub fn shares(parts: &[(DeliveryPath, u64)]) -> Vec<DeliveryPathShare> {
    let all: u64 = parts.iter().map(|(_, n)| n).sum();
    let share = |&(vehicle, completions): &(DeliveryPath, u64)| DeliveryPathShare {
        vehicle,
        completions,
        share: completions as f64 / all as f64,
    };
    parts.iter().map(share).collect()
}

fn quantiles(count: u64, p50: u64, p99: u64) -> Latency {
    Latency { count, p50: Some(p50), p99: Some(p99), max: Some(p99), ..Latency::default() }
}

/// Two threads that mostly wait for completions.
fn threads() -> ThreadTime {
    let row = |state, syscall: Option<&str>, reason, ns| ThreadRow {
        syscall: syscall.map(Into::into),
        reason,
        ..ThreadRow::new(state, ns)
    };
    let rows = vec![
        row(ThreadState::Blocked, Some("io_uring_enter"), Some(Reason::UringCompletions), 1_500_000_000),
        row(ThreadState::Running, None, None, 400_000_000),
        row(ThreadState::Runnable, None, Some(Reason::Woken), 100_000_000),
    ];
    ThreadTime { threads: 2, wall_ns: 2_000_000_000, rows }
}

pub fn record() -> TopRecord {
    let db = Rates {
        requests_per_s: 12_340.0,
        completions_per_s: 12_300.0,
        bytes_per_s: 12_300.0 * 4096.0,
        errors_per_s: 3.0,
        punts_per_s: 120.0,
        overflows: 7,
        latency_ns: quantiles(768, 101_000, 4_000_000),
        waits: None,
        delivery_delay_ns: quantiles(700, 4_100, 3_900_000),
        vehicles: shares(&[(DeliveryPath::Enter, 9000), (DeliveryPath::TimerTick, 3000)]),
    };
    let polled = Rates {
        requests_per_s: 50.0,
        completions_per_s: 50.0,
        latency_ns: Latency { count: 3, ..Latency::default() },
        vehicles: shares(&[(DeliveryPath::Sqpoll, 50)]),
        ..Rates::default()
    };
    let ring = |ring, tgid, comm: &str, rates: &Rates| RingRates {
        ring,
        tgid,
        comm: comm.into(),
        fds: vec![5],
        sq_entries: 64,
        cq_entries: 128,
        rates: rates.clone(),
        ..RingRates::default()
    };
    let process = |tgid, comm: &str, rings, rates: &Rates| ProcessRates {
        tgid,
        comm: comm.into(),
        rings,
        rates: rates.clone(),
        sqpoll_cpu: None,
        threads: Some(threads()),
    };
    TopRecord {
        schema: SCHEMA.into(),
        version: "0".into(),
        interval: 3,
        ended_unix_s: 86_400 + 3_661,
        elapsed_ns: 1_000_000_000,
        one_in: 16,
        adaptive: true,
        total: TotalRates {
            rates: Rates {
                requests_per_s: 12_390.0,
                completions_per_s: 12_400.0,
                vehicles: shares(&[
                    (DeliveryPath::Enter, 9000),
                    (DeliveryPath::TimerTick, 3000),
                    (DeliveryPath::Sqpoll, 50),
                ]),
                ..db.clone()
            },
            kicks_per_s: Some(42.0),
            ..TotalRates::default()
        },
        processes: vec![process(4711, "database", 2, &db), process(99, "\x1b[31mred", 1, &polled)],
        other_rings: None,
        rings: vec![
            RingRates {
                flags: vec!["coop_taskrun".into()],
                opcodes: vec![OpcodeRates {
                    opcode: "read_fixed".into(),
                    requests_per_s: 12_340.0,
                    completions_per_s: 12_300.0,
                    bytes_per_s: 12_300.0 * 4096.0,
                    errors_per_s: 3.0,
                    punts_per_s: 120.0,
                    latency_ns: db.latency_ns.clone(),
                    waits: None,
                }],
                carried: vec![DeliveryPathCount {
                    vehicle: DeliveryPath::Enter,
                    completions: 9000,
                    detail: Some("ready".into()),
                    delay_ns: None,
                }],
                stages: Some(StageRecord {
                    completions: 700,
                    issue_ns: 10_000.0,
                    wait_ns: 80_000.0,
                    delivery_ns: 10_000.0,
                    file_system_ns: None,
                    queued_ns: None,
                    queued_completions: 0,
                    queued_delivery_ns: None,
                    runnable: None,
                    total_ns: 100_000.0,
                    total_ci95: Some([94_000.0, 113_000.0]),
                    delivery_delay_ns: Latency::default(),
                }),
                ..ring(0, 4711, "database", &db)
            },
            RingRates { sqpoll_cpu: Some(0.25), ..ring(2, 99, "\x1b[31mred", &polled) },
            ring(1, 4711, "database", &Rates::default()),
        ],
    }
}
