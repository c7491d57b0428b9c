//! Screens of runs over the network.

use serde_json::json;

use super::*;
use iotrail_schema::run_record::CellRecord;
use iotrail_testing::sample::{delivered, echo};

fn cell(number: u32, arm: &str, make: impl Fn(&mut Measurement, u64)) -> CellRecord {
    let one = |repeat| {
        let mut m = sample::measurement();
        make(&mut m, repeat);
        m
    };
    let params = json!({"connections": 64, "arm": arm}).as_object().unwrap().clone();
    CellRecord { cell: number, params, untestable: None, measurements: vec![one(0), one(1)].into() }
}

fn made(table: &str) -> RunRecord {
    let reversed = |m: &mut Measurement, repeat| {
        echo(m, 161_300 - 54_000 * repeat, 256 + 157 * repeat, 0.5);
        delivered(m, 200 + 250 * repeat, 2 + 5 * repeat);
    };
    let kept = |m: &mut Measurement, repeat| {
        echo(m, 205_000 + repeat, 140, 0.5);
        delivered(m, 0, 0);
        m.vehicles.clear();
    };
    let names = |of: &[&str]| of.iter().map(|n| (*n).to_owned()).collect();
    let mut r = RunRecord {
        table: table.into(),
        repeats: 2,
        axes: names(&["connections", "arm"]),
        arms: names(&["defer_taskrun", "kept", "not there"]),
        cells: vec![cell(1, "defer_taskrun", reversed), cell(2, "kept", kept), cell(3, "not there", kept)],
        ..sample::run()
    };
    r.cells[2].measurements.open().clear();
    r.cells[2].untestable = Some("a reason".into());
    r.comparisons = of_run(&r, &|_, _| None);
    r
}

#[test]
fn the_order_table_has_one_line_per_run() {
    let text = full(&made("order"), PLAIN).to_string();
    narrow(&text);
    let rows: Vec<String> = text
        .lines()
        .skip_while(|l| !l.starts_with("defer_taskrun  "))
        .take(6)
        .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        rows,
        [
            "defer_taskrun 1 161 k 20.6 M 256 100 644 0.200 2",
            "2 107 k 13.7 M 413 100 487 0.450 7",
            "kept 1 205 k 26.2 M 140 100 760 0.00 0",
            "2 205 k 26.2 M 140 100 760 0.00 0",
            "not there",
            "untested",
        ],
        "\n{text}"
    );
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let compared =
        "Requests per second against defer_taskrun: inconclusive with kept (minimum detectable effect more than ×10).";
    assert!(flat.contains(compared), "{text}");
}

#[test]
fn a_run_shows_the_columns_of_its_experiment() {
    let run = RunRecord { columns: vec!["range".into(), "requests".into()], ..made("net") };
    let text = full(&run, PLAIN).to_string();
    let heading = text.lines().find(|l| l.contains("req/s")).unwrap();
    assert!(
        heading.contains("range") && !heading.contains("p99") && heading.find("range") < heading.find("req/s"),
        "{text}"
    );
}

#[test]
fn the_network_table_counts_requests() {
    let text = full(&made("net"), PLAIN).to_string();
    narrow(&text);
    let row = |name: &str| {
        let line = text.lines().find(|l| l.contains(name)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("134 k"), "64 defer_taskrun 134 k 40 – 5.04 1.00 – timer_tick 99%", "\n{text}");
    assert_eq!(row("205 k"), "kept 205 k 0.0 – 4.20 1.00 – –", "\n{text}");
    assert!(text.contains("2 CPUs · /data/scratch-1g · vda") && text.contains("between network namespaces"), "{text}");
    assert!(text.contains("untested") && !text.contains("IOPS"), "{text}");
}
