//! Parses the text like a scraper.

use std::collections::BTreeMap;

use super::*;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{Interrupt, Ipi, Missed, ModeSwitch};
use iotrail_schema::metrics_record::{BOUNDS_NS, Buckets, MetricsRecord, Observer, OpcodeMetrics, RingMetrics};

const HOSTILE: &str = "a\"b\\c\nd},{ \u{1b}[31m=cmd|'/c'!A1\r";

fn ring(ring: u32, completions: u64) -> RingMetrics {
    RingMetrics {
        ring,
        interface: "io_uring",
        tgid: 7,
        comm: HOSTILE.into(),
        vehicles: vec![(DeliveryPath::ReschedIpi, completions), (DeliveryPath::Inline, 1)],
        opcodes: vec![OpcodeMetrics {
            opcode: "read".into(),
            requests: completions + 1,
            bytes: 4096,
            ..OpcodeMetrics::default()
        }],
        overflows: Some(0),
    }
}

fn scraped(record: MetricsRecord) -> Scraped {
    Scraped::Trace(Box::new(record))
}

fn record(rings: u32) -> MetricsRecord {
    let mut counts = vec![0; BOUNDS_NS.len() + 1];
    (counts[0], counts[3], counts[BOUNDS_NS.len()]) = (1, 2, 1);
    let buckets = Buckets { count: 4, sum_ns: 2_500_000_000, counts };
    MetricsRecord {
        elapsed_ns: 1_500_000_000,
        one_in: 100,
        adaptive: true,
        rings: (0..rings).map(|i| ring(i, 10)).collect(),
        apart: vec![(DeliveryPath::Unknown, 3)],
        followed: 4,
        followed_lost: vec![("no_room", 0)],
        latency: buckets.clone(),
        delays: vec![(DeliveryPath::TimerTick, buckets)],
        kicks: Some(9),
        mode_switches: vec![ModeSwitch { cause: "syscall".into(), count: 2 }],
        interrupts: (0..2)
            .map(|cpu| Interrupt {
                vector: "36".into(),
                name: HOSTILE.into(),
                cpu,
                count: 5,
                on_watched: 1,
                credited: None,
                credited_ci95: None,
                proc_count: None,
                spent_ns: None,
            })
            .collect(),
        ipis: vec![
            Ipi { site: "task_work_add".into(), from_cpu: 0, to_cpu: 1, count: 4 },
            Ipi { site: "task_work_add".into(), from_cpu: 1, to_cpu: 0, count: 5 },
        ],
        missed: vec![Missed { program: "ring".into(), events: 1 }],
        observer: Observer { user_ns: 1_500_000_000, system_ns: 1 },
        ..MetricsRecord::default()
    }
}

/// Series → value. Grammar: a name, labels with escaped values, a number.
fn read(text: &str) -> BTreeMap<(String, BTreeMap<String, String>), f64> {
    let mut all = BTreeMap::new();
    for line in text.split('\n').filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let name_end = line.find(['{', ' ']).expect(line);
        let (name, mut rest) = line.split_at(name_end);
        let mut labels = BTreeMap::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner;
            while !rest.starts_with('}') {
                let (label, value) = rest.trim_start_matches(',').split_once("=\"").expect(line);
                let mut text = String::new();
                let mut chars = value.char_indices();
                let end = loop {
                    match chars.next().expect(line) {
                        (at, '"') => break at,
                        (_, '\\') => text.push(match chars.next().expect(line).1 {
                            'n' => '\n',
                            c @ ('\\' | '"') => c,
                            other => panic!("\\{other} in {line}"),
                        }),
                        (_, c) => text.push(c),
                    }
                };
                labels.insert(label.to_owned(), text);
                rest = &value[end + 1..];
            }
            rest = &rest[1..];
        }
        let value = rest.strip_prefix(' ').expect(line).parse().expect(line);
        assert!(all.insert((name.to_owned(), labels), value).is_none(), "duplicate: {line}");
    }
    all
}

fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
}

#[test]
fn both_formats_have_all_counts_with_their_labels() {
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let text = Exposition::default().text(&scraped(record(1)), Answered::default(), format);
        let all = read(&text);
        let is = |name: &str, of: &[(&str, &str)]| all[&(name.to_owned(), labels(of))];
        let comm = iotrail_base::plain::sanitise(HOSTILE);
        let of_ring = [("ring", "0"), ("interface", "io_uring"), ("tgid", "7"), ("comm", comm.as_str())];
        let with = |name, value| [&of_ring[..], &[(name, value)]].concat();
        assert_eq!(is("iotrail_completions_total", &with("vehicle", "resched_ipi")), 10.0);
        assert_eq!(is("iotrail_requests_total", &with("opcode", "read")), 11.0);
        assert_eq!(is("iotrail_transferred_bytes_total", &of_ring), 4096.0);
        assert_eq!(is("iotrail_ipis_total", &[("site", "task_work_add")]), 9.0);
        assert_eq!(is("iotrail_interrupts_total", &[("vector", "36"), ("name", comm.as_str()), ("cpu", "1")]), 5.0);
        assert_eq!(is("iotrail_kicks_total", &[]), 9.0);
        assert_eq!(is("iotrail_observer_cpu_seconds_total", &[("mode", "user")]), 1.5);
        let bucket = |le| is("iotrail_delivery_delay_seconds_bucket", &[("vehicle", "timer_tick"), ("le", le)]);
        assert_eq!(
            [bucket("1e-6"), bucket("5e-6"), bucket("1e-5"), bucket("1.0"), bucket("+Inf")],
            [1.0, 1.0, 3.0, 3.0, 4.0]
        );
        assert_eq!(is("iotrail_latency_seconds_sum", &[]), 2.5);
        assert_eq!(is("iotrail_latency_seconds_count", &[]), 4.0);
        // Unknown values are omitted.
        assert!(!text.contains("iotrail_page_faults"));
        assert_eq!(text.ends_with("# EOF\n"), format == Format::OpenMetrics);
    }
}

#[test]
fn series_are_bounded_and_sums_stay_complete() {
    let few =
        read(&Exposition::default().text(&scraped(record(RINGS as u32)), Answered::default(), Format::Prometheus));
    let mut many = record(5000);
    many.ipis = (0..500).map(|i| Ipi { site: format!("site{i}").into(), from_cpu: 0, to_cpu: i, count: 2 }).collect();
    let irq = many.interrupts[0].clone();
    many.interrupts =
        (0..4000).map(|i| Interrupt { vector: (i / 8).to_string().into(), cpu: i % 8, ..irq.clone() }).collect();
    for r in &mut many.rings {
        r.opcodes =
            (0..60).map(|i| OpcodeMetrics { opcode: i.to_string(), requests: 1, ..OpcodeMetrics::default() }).collect();
    }
    let many = read(&Exposition::default().text(&scraped(many), Answered::default(), Format::Prometheus));
    assert!(many.len() < few.len() + RINGS * OPCODES + 2 * INTERRUPTS + SITES + 40, "{} of {}", many.len(), few.len());
    let sum = |name: &str| many.iter().filter(|((n, _), _)| n == name).map(|(_, v)| v).sum::<f64>();
    assert_eq!(sum("iotrail_completions_total"), 5000.0 * 11.0 + 3.0);
    assert_eq!(sum("iotrail_requests_total"), 5000.0 * 60.0);
    assert_eq!(sum("iotrail_ipis_total"), 1000.0);
    assert_eq!(sum("iotrail_interrupts_total"), 4000.0 * 5.0);
}

#[test]
fn counters_never_decrease() {
    let mut exposition = Exposition::default();
    let mut kicks = |n| {
        let record = MetricsRecord { kicks: Some(n), ..MetricsRecord::default() };
        let text = exposition.text(&scraped(record.clone()), Answered::default(), Format::Prometheus);
        read(&text)[&("iotrail_kicks_total".to_owned(), BTreeMap::new())]
    };
    assert_eq!([kicks(10), kicks(9), kicks(11)], [10.0, 10.0, 11.0]);
}

#[test]
fn the_accept_header_selects_the_format() {
    use Format::{OpenMetrics, Prometheus};
    for (header, expected) in [
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OpenMetrics,
        ),
        ("", Prometheus),
        ("*/*", Prometheus),
        ("text/plain", Prometheus),
        ("text/plain;q=0.9, Application/OpenMetrics-Text; q=0.3", Prometheus),
        ("application/openmetrics-text;q=0", Prometheus),
        ("application/openmetrics-text;q=nonsense", Prometheus),
        (";;;,,,q=", Prometheus),
    ] {
        assert_eq!(Format::accepted(header), expected, "{header}");
    }
}

#[test]
fn a_program_name_cannot_control_the_terminal() {
    let labels = vec![("comm", iotrail_testing::hostile::HOSTILE.to_owned()), ("other", "a\"b\\c".to_owned())];
    let text = braces(&labels, &[]);
    assert!(text.starts_with("{comm=\"x\\\\u{1b}[2J") && text.ends_with(",other=\"a\\\"b\\\\c\"}"), "{text}");
    assert_eq!(iotrail_base::plain::sanitise(&text), text, "no control characters");
}
