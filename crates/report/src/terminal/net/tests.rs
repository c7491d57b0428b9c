use serde_json::json;

use super::*;
use crate::terminal::tests::{narrow, same_as_golden};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Latency, LoadRecord, PerIo, Probe, Warning};
use iotrail_schema::net_record::Counts;
use iotrail_testing::sample;

const PLAIN: Style = Style::PLAIN;
const SECOND: u64 = 1_000_000_000;

fn counts(requests: u64, wall_ns: u64, threads: u64) -> ServerCounts {
    ServerCounts {
        wall_ns,
        user_ns: Some(wall_ns / 10 * threads),
        system_ns: Some(wall_ns * 3 / 10 * threads),
        idle_ns: Some(wall_ns / 2 * threads),
        counts: Counts {
            requests,
            bytes_in: 72 * requests,
            bytes_out: 64 * requests,
            loops: requests / 4,
            completions: requests * 2,
            receives: requests,
            sends: requests,
            accepted: 5,
            closed: 1,
            syscalls: requests / 2,
            ..Counts::default()
        },
    }
}

fn options() -> Map<String, Value> {
    let options = json!({"server-threads": 2, "server-cpus": null, "ring": ["defer_taskrun"], "buffer-size": 4096,
        "receive": "multishot", "napi_ns": 50_000, "register": []});
    options.as_object().unwrap().clone()
}

fn measurement() -> Measurement {
    let server = ServerRecord {
        version: "1".into(),
        engine: "io_uring".into(),
        options: options(),
        total: counts(2_000_000, 2 * SECOND, 2),
        threads: vec![counts(1_500_000, 2 * SECOND, 1), counts(500_000, 2 * SECOND, 1)],
        seconds: vec![],
        memory: Some(Memory { resident_bytes: 20 << 20, resident_before_bytes: 12 << 20, connections: 4 }),
    };
    Measurement {
        load: LoadRecord {
            ring: Ring { requested: vec!["defer_taskrun".into()], granted: vec!["defer_taskrun".into()] },
            ..LoadRecord::default()
        }
        .into(),
        elapsed_ns: 2 * SECOND,
        ios: Some(2_000_000),
        iops: Some(1e6),
        bytes: Some(256_000_000),
        latency_ns: Latency { count: 2_000_000, mean: Some(8000.0), p99: Some(12_000), ..Latency::default() },
        cpu: iotrail_schema::measurement::Cpu {
            user_ns: Some(SECOND * 4 / 10),
            system_ns: Some(SECOND * 12 / 10),
            ..iotrail_schema::measurement::Cpu::default()
        },
        vehicles: vec![DeliveryPathCount {
            vehicle: DeliveryPath::Enter,
            completions: 4_000_000,
            detail: Some("ready".into()),
            delay_ns: None,
        }],
        per_io: PerIo { syscalls: Some(0.5), ..PerIo::default() },
        probe: Probe {
            mode: "aggregate".into(),
            completions_seen: Some(4_000_000),
            untracked: Some(0),
            lost: Some(0),
            ..Probe::default()
        },
        net: Some(
            NetRecord {
                address: "10.0.0.2:7000".into(),
                between: "namespaces".into(),
                asked: SenderPlan {
                    connections: 4,
                    window: 2,
                    request_bytes: 64,
                    response_bytes: 64,
                    threads: 1,
                    cpus: Some(vec![1]),
                    burst: 2,
                    check: "full".into(),
                    ..SenderPlan::default()
                },
                sender: SenderRecord {
                    user_ns: SECOND / 2,
                    system_ns: SECOND,
                    busiest_thread: Some(0.75),
                    ..SenderRecord::default()
                },
                sender_host: None,
                server: Some(server),
            }
            .into(),
        ),
        host: sample::measurement().host,
        warnings: vec![Warning::new("x", "this is so", "change it")],
        ..Measurement::default()
    }
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    narrow(text);
    for part in parts {
        assert!(text.contains(part), "'{part}' is missing in\n{text}");
    }
}

#[test]
fn the_screen_of_a_network_load_describes_server_and_sender() {
    let text = screen(&measurement(), true, PLAIN).to_string();
    has(
        &text,
        &[
            "4 connections · window 2 · request 64 B, response 64 B",
            "1 sender thread · on CPU 1 · closed loop · bursts of 2",
            "buffers of 4 KiB · napi 50.0 µs · receive multishot",
            "ring defer_taskrun",
            "10.0.0.2:7000 · between network namespaces · io_uring · 2 threads",
            "1.00 M requests/s · 122 MiB/s · 2000000 requests in 2.00 s",
            "mean 8.00 µs",
            "user 25 % of a CPU · system 50 % of a CPU",
            "busiest thread 75 % (with waits for a CPU)",
            "1.25 M requests per CPU second · 800 ns per request",
            "user 20 % of a CPU · system 60 % of a CPU",
            "system calls 0.50 per request",
            "5 accepted · 1 closed · 4 open",
            "20.0 MiB resident, 8 MiB more than before the first",
            "per request  system calls 0.50",
            "4000000 completions seen · 0 untracked · 0 events lost",
            "warning: this is so; change it",
        ],
    );
    let row = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("1  "), "1 500 k 250 k 34.3 M 30.5 M 50% 10% 30% 125 k 8.0");
    assert_eq!(row("all"), "all 2.00 M 1.00 M 137 M 122 M 50% 10% 30% 500 k 8.0");
    assert_eq!(row("enter"), "enter ready 4000000 100 % ############");
}

#[test]
fn the_first_lines_of_a_network_load_match_the_golden_files() {
    let calm = Measurement { warnings: Vec::new(), ..measurement() };
    let mut bound = measurement();
    bound.net.as_mut().unwrap().sender.busiest_thread = Some(0.97);
    bound.warnings = vec![Warning::new(
        "sender_bound",
        "the sender's busiest thread was on a CPU or waited for one 97 % of the time: the rate may be the sender's",
        "give the sender more threads (--sender-threads)",
    )];
    let mut alone = measurement();
    alone.net.as_mut().unwrap().server = None;
    let mut epoll = measurement();
    epoll.net.as_mut().unwrap().server.as_mut().unwrap().engine = "epoll".into();
    epoll.vehicles.clear();
    let mut crowded = measurement();
    (crowded.per_io.kicks, crowded.stages) = (Some(0.7), sample::measurement().stages);
    let warning =
        |code: &str| Warning::new(code, format!("{code} {}", "is so ".repeat(20)), "change it, and measure again");
    crowded.warnings = ["first", "second", "third"].map(warning).into();
    let crowded = ("net-crowded", crowded);
    for (name, m) in [crowded, ("net-calm", calm), ("net-sender", bound), ("net-alone", alone), ("net-epoll", epoll)] {
        let text = screen(&m, false, PLAIN).to_string();
        same_as_golden(name, &text);
    }
}

#[test]
fn unmeasured_values_are_not_shown() {
    let mut m = measurement();
    let net = m.net.as_mut().unwrap();
    net.server.as_mut().unwrap().engine = "epoll".into();
    net.sender.unanswered = 3;
    m.vehicles.clear();
    has(
        &screen(&m, true, PLAIN).to_string(),
        &["nothing: epoll reports readiness, not completions", "3 never answered"],
    );
    m.net.as_mut().unwrap().server = None;
    let text = screen(&m, true, PLAIN).to_string();
    has(&text, &["10.0.0.2:7000 · between network namespaces · not measured"]);
    for part in ["server CPU", "delivered by", "probes"] {
        assert!(!text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn each_second_is_one_line_below_the_heading() {
    let mut of = counts(1_000_000, SECOND, 2);
    of.counts.buffers_exhausted = 12_345;
    let line = second(&of, 2, 10_000);
    assert_eq!(line, "   1.00M   68.7M   61.0M    50%    10%    30%    250k   8.0     0  12.3k  10000");
    assert_eq!(line.len(), HEADING.len());
    narrow(&line);
    let unknown = second(&ServerCounts { wall_ns: SECOND, ..ServerCounts::default() }, 2, 0);
    assert_eq!(unknown, "       0      0B      0B      –      –      –       0     –     0      0      0");
}

#[test]
fn a_server_prints_a_table_at_exit() {
    let r = ServedRecord {
        address: "[::1]:7000".into(),
        control: Some("[::1]:7001".into()),
        engine: "io_uring".into(),
        options: options(),
        total: counts(1000, SECOND, 2),
        threads: vec![counts(600, SECOND, 1), counts(400, SECOND, 1)],
        spans: 2,
        broken_spans: 1,
        refused: 1,
        host: (*sample::measurement().host).clone(),
        ..ServedRecord::default()
    };
    has(
        &served(&r, PLAIN).to_string(),
        &[
            "io_uring · 2 threads · buffers of 4 KiB",
            "ring defer_taskrun, granted none",
            "[::1]:7000 · control [::1]:7001",
            "1000 requests in 1.00 s · 1.00 k receives, 1.00 k sends",
            "2 spans measured · 1 ended early",
        ],
    );
}
