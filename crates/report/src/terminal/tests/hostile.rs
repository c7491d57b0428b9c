//! Replaces every string of every record, one at a time and all at once, with control sequences or text that imitates
//! iotrail's output.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::of_a_trace::busy;
use super::*;
use crate::{check, top};
use iotrail_answer::across::{Beside, Figure, KernelRecord};
use iotrail_answer::explain::{Selection, explain as explained};
use iotrail_path::slowest::By;
use iotrail_schema::comparison::Comparison;
use iotrail_schema::recorded::{End, Ending, Entry, Header};
use iotrail_testing::hostile::HOSTILE;

pub(super) const TABLES: [&str; 12] = [
    "delivery",
    "cost",
    "placement",
    "mode_switches",
    "delays",
    "timelines",
    "shares",
    "wakeups",
    "punts",
    "kicks",
    "net",
    "order",
];

fn strings(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| strings(v, &format!("{at}/{i}"), found)),
        Value::Object(map) => map.iter().for_each(|(k, v)| strings(v, &format!("{at}/{k}"), found)),
        _ => {}
    }
}

fn hostile<T: Serialize + DeserializeOwned>(record: &T) -> Vec<T> {
    hostile_at(record, |_| true)
}

/// The record with all strings replaced, and one copy per string selected by `alone`. Strings from a fixed set of
/// values are kept. Distinct strings stay distinct.
fn hostile_at<T: Serialize + DeserializeOwned>(record: &T, alone: impl Fn(&str) -> bool) -> Vec<T> {
    let whole = serde_json::to_value(record).unwrap();
    let mut places = Vec::new();
    strings(&whole, "", &mut places);
    let worsen = |value: &mut Value, at: &str| {
        let string = value.pointer_mut(at).unwrap();
        *string = format!("{}{HOSTILE}", string.as_str().unwrap()).into();
    };
    let mut all = whole.clone();
    let mut made = Vec::new();
    for at in &places {
        let mut one = whole.clone();
        worsen(&mut one, at);
        if let Ok(record) = serde_json::from_value(one) {
            worsen(&mut all, at);
            if alone(at) {
                made.push(record);
            }
        }
    }
    assert!(!made.is_empty(), "no strings among {places:?}");
    made.push(serde_json::from_value(all).unwrap());
    made
}

/// With and without colours.
fn tame(screen: impl Fn(Style) -> Screen) {
    let plain = screen(PLAIN).to_string();
    narrow(&plain);
    for line in plain.lines() {
        assert_eq!(sanitise(line), line);
        assert!(!line.starts_with("warning: forged"), "{plain}");
    }
    let coloured = screen(Style { colour: true, ..PLAIN }).to_string();
    assert_eq!(without_colours(&coloured), plain);
}

#[test]
fn hostile_text_in_a_measurement_is_sanitised() {
    let mut m = sample::measurement();
    sample::echo(&mut m, 161_300, 256, 0.5);
    for m in hostile(&sample::measurement()) {
        tame(|style| bench::screen(&m, true, style));
    }
    for m in hostile(&m) {
        [true, false].into_iter().for_each(|full| tame(|style| net::screen(&m, full, style)));
    }
}

#[test]
fn hostile_text_in_a_run_and_its_comparisons_is_sanitised() {
    let mut r = record();
    r.cells.truncate(3);
    for cell in &mut r.cells {
        cell.measurements.open().truncate(1);
    }
    (r.cells[2].untestable, r.cells[2].measurements) = (Some("no such queue".into()), vec![].into());
    // Another test covers the strings of a measurement.
    let of_the_run = hostile_at(&r, |at| !at.contains("/measurements/"));
    for table in TABLES {
        let records = if table == "delivery" { &of_the_run[..] } else { &of_the_run[of_the_run.len() - 1..] };
        for r in records {
            let r = RunRecord { table: table.into(), ..r.clone() };
            tame(|style| full(&r, style));
            tame(|style| {
                let mut screen = Screen::new(style);
                compare::tables(&mut screen, &r.comparisons);
                screen
            });
            let kernel = KernelRecord {
                asked: HOSTILE.into(),
                kernel: Some(r.title.clone() + HOSTILE),
                runs: vec![1],
                emulated: Some(true),
                failed: vec![HOSTILE.into()],
            };
            let figure = Figure { name: r.title.clone() + HOSTILE, values: vec![Some(HOSTILE.into())] };
            let cell = Beside { label: r.title.clone(), differing: vec![figure], alike: vec![HOSTILE.into()] };
            let of = Across { run: &r, kernels: &[kernel], cells: &[cell], said: &[HOSTILE.into()], store: "" };
            let head = Head::of_run(&r, false);
            [true, false].into_iter().for_each(|full| tame(|style| across::screen(&of, &head, full, style)));
        }
    }
    // Parameter names come from the experiment.
    let name = |params: &mut serde_json::Map<String, Value>| {
        *params = params
            .iter()
            .map(|(k, v)| (if k == "arm" { k.clone() } else { format!("{k}{HOSTILE}") }, v.clone()))
            .collect();
    };
    r.cells.iter_mut().for_each(|c| name(&mut c.params));
    r.axes.iter_mut().filter(|a| *a != "arm").for_each(|a| a.push_str(HOSTILE));
    r.comparisons = of_run(&r, &|_, _| None);
    assert!(r.comparisons.iter().any(|c: &Comparison| c.at.keys().any(|k| k.contains(HOSTILE))));
    tame(|style| full(&r, style));
}

#[test]
fn hostile_text_in_a_trace_and_in_top_is_sanitised() {
    for t in hostile(&busy()) {
        tame(|style| trace::screen(&t, true, style));
    }
    for t in hostile(&top::sample::record()) {
        tame(|style| top::block(&t, style));
    }
}

#[test]
fn hostile_text_in_a_recording_is_sanitised() {
    let lines = include_str!("../../../../../tests/golden/explain/every_vehicle.jsonl").lines();
    let values: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let header: Header = serde_json::from_value(values[0].clone()).unwrap();
    let end = values.iter().find_map(|v| v.get("end")).map(|end| serde_json::from_value::<End>(end.clone()).unwrap());
    let end = end.expect("this recording has its end");
    let entries: Vec<Entry> = values[1..].iter().filter_map(|v| serde_json::from_value(v.clone()).ok()).collect();
    let wanted = Selection { slowest: 100, by: By::Latency, ring: None, opcode: None, failed: false };
    let show = |header: &Header, entries: &[Entry], end: &End| {
        let ending = |_: &_| Ending::Whole(Box::new(end.clone()));
        let e = explained(header.clone(), entries.iter().cloned().map(Ok), ending, &wanted).unwrap();
        assert!(!e.ios.is_empty());
        tame(|style| explain::screen(HOSTILE, &e, style));
    };
    hostile(&header).iter().for_each(|header| show(header, &entries, &end));
    hostile(&end).iter().for_each(|end| show(&header, &entries, end));
    let worse: Vec<Entry> = entries.iter().flat_map(hostile_or_same).collect();
    show(&header, &worse, &end);
}

/// An entry may contain no free text.
fn hostile_or_same(entry: &Entry) -> Vec<Entry> {
    let mut places = Vec::new();
    let value = serde_json::to_value(entry).unwrap();
    strings(&value, "", &mut places);
    places
        .iter()
        .filter_map(|at| {
            let mut one = value.clone();
            *one.pointer_mut(at)? = HOSTILE.into();
            serde_json::from_value(one).ok()
        })
        .chain([entry.clone()])
        .collect()
}

#[test]
fn hostile_text_in_the_list_and_in_check_is_sanitised() {
    let text = || HOSTILE.to_owned();
    let run = RunSummary {
        corruption: None,
        run: 1,
        kind: text(),
        experiment: text(),
        started: text(),
        started_unix_s: 0,
        finished_unix_s: None,
        done: 999_999_999_999,
        planned: 999_999_999_999,
        hosts: vec![text()],
        kernels: vec![text(), text()],
    };
    tame(|style| {
        let mut screen = Screen::new(style);
        run::list(&mut screen, std::slice::from_ref(&run));
        screen
    });
    let item = check::Item::missing(check::Section::Target, HOSTILE, HOSTILE, text(), text(), text());
    let items = vec![item.clone(), item.clone().in_group("programs"), item.in_group("programs")];
    let report = check::Report {
        schema: check::SCHEMA,
        version: "0",
        host: Default::default(),
        cpus: Default::default(),
        tick_hz: None,
        items,
    };
    tame(|style| check::screen(&report, style));
}
