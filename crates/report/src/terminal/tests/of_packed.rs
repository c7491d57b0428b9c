//! A run with packed measurements prints the same output.

use std::sync::Arc;

use super::hostile::TABLES;
use super::*;
use crate::html::{self, Source};
use iotrail_answer::conclude::conclude;
use iotrail_answer::drift;
use iotrail_answer::expectation::judge;
use iotrail_schema::measurement::{Circumstances, ErrorCount, Followed, Punts, StageRecord, Throughput, Warning};
use iotrail_schema::measurements::Measurements;
use iotrail_schema::packed::{Packer, Unpacked};
use iotrail_schema::program_record::{OwnFigure, ProgramRecord, ProgramRing};
use iotrail_schema::runnable::Runnable;
use iotrail_testing::trace;

/// All measurements differ, and no list is empty.
fn run(table: &str) -> RunRecord {
    let mut r = RunRecord { table: table.into(), ..record() };
    for cell in &mut r.cells {
        for (m, n) in cell.measurements.open().iter_mut().zip(1..) {
            if matches!(table, "net" | "order") {
                sample::echo(m, 1000 * n, 10 * n, 0.5);
                let server = m.net.as_mut().and_then(|net| net.server.as_mut()).expect("a server");
                server.seconds = vec![server.total.clone(); 3];
                server.threads.push(server.total.clone());
            }
            sample::delivered(m, n, n);
            m.stages = Some(stages(n).into());
            m.load.seed = Some(n as u32);
            m.started_unix_s += n;
            m.vehicles.extend(sample::measurement().vehicles);
            m.interrupts.iter_mut().for_each(|i| i.count += n);
            m.task_work_batches.iter_mut().for_each(|b| b.runs += n);
            m.followed = Some(Followed { one_in: n as u32, completions: 10 * n, ..Followed::default() }.into());
            if let Some(c) = &mut m.circumstances {
                (c.span_ns, c.steal_ns) = (n, Some(n));
                c.interrupts_after[0].cpus = vec![n as u32 % 2];
            }
            if let Some(s) = &mut m.cpu_samples {
                (s.taken, s.hz) = (n, n as u32);
            }
        }
    }
    r.comparisons = of_run(&r, &|_, _| Some(sample::histogram()));
    r
}

fn stages(n: u64) -> StageRecord {
    let runnable = Runnable {
        completions: 50_000 + n,
        mean_ns: 300.0 * n as f64,
        delivery_ns: 400.0 * n as f64,
        long: n,
        long_share: 0.25,
        delay_ns: trace::latency(50_000, 100 * n),
        others_share: 1.0,
        by: vec![],
    };
    StageRecord { runnable: Some(runnable.into()), ..trace::ring(0).stages.expect("of a followed ring") }
}

/// Packs the measurements, and counts how often cells are unpacked.
fn packed(whole: &RunRecord) -> (RunRecord, Arc<Unpacked>) {
    let mut r = whole.clone();
    let (mut packer, unpacked) = (Packer::default(), Arc::default());
    for cell in &mut r.cells {
        cell.measurements.open().drain(..).for_each(|m| packer.push(m));
        cell.measurements = packer.end(&unpacked).map(Measurements::from).unwrap_or_default();
    }
    r.comparisons = of_run(&r, &|_, _| Some(sample::histogram()));
    (r, unpacked)
}

fn page(record: &RunRecord) -> String {
    let histograms = &|_, _| Some(sample::histogram());
    let source = Source { name: "run 3".into(), record, histograms, order: None, command: None };
    html::page(&[source], None).unwrap()
}

fn said(r: &RunRecord) -> serde_json::Value {
    serde_json::to_value((conclude(r), judge(r), drift::warnings(r), Head::of_run(r, true))).unwrap()
}

#[test]
fn packed_measurements_produce_the_same_tables_and_pages() {
    for table in TABLES {
        let whole = run(table);
        let (packed, _) = packed(&whole);
        let screen = |r| full(r, PLAIN).to_string();
        assert_eq!(screen(&packed), screen(&whole));
        assert_eq!(page(&packed), page(&whole), "{table:?}");
        assert_eq!(said(&packed), said(&whole));
        assert_eq!(packed.comparisons, whole.comparisons);
    }
}

/// Four cells are cached, and at most three sides are compared at a time.
const AT_ONCE: usize = 7;
/// Maximum number of passes over the run to produce all output.
const PASSES: usize = 70;

#[test]
fn few_cells_are_unpacked_at_a_time() {
    let mut whole = run("delivery");
    for depth in 5..15 {
        for i in 0..2 {
            let mut cell = whole.cells[i].clone();
            cell.cell = whole.cells.len() as u32 + 1;
            cell.params.insert("depth".into(), depth.into());
            whole.cells.push(cell);
        }
    }
    let (r, unpacked) = packed(&whole);
    full(&r, PLAIN);
    page(&r);
    said(&r);
    assert!(r.cells.iter().all(|c| c.measurements.is_packed()));
    let (most, times) = (unpacked.most(), unpacked.times());
    assert!((1..=AT_ONCE).contains(&most), "{most} at once");
    assert!(times <= PASSES * r.cells.len(), "{times} times for {} cells", r.cells.len());
}

/// One measurement of each kind; every list is non-empty in at least one of them.
fn every_kind() -> Vec<Measurement> {
    let mut followed = sample::measurement();
    sample::delivered(&mut followed, 7, 3);
    followed.stages = trace::ring(0).stages.map(Box::new);
    followed.followed = Some(Followed { one_in: 4, completions: 125, ..Followed::default() }.into());
    followed.punts = Some(Punts::default());
    followed.errors_by = Some(vec![ErrorCount { error: "EIO".into(), count: 3 }]);
    let mut net = sample::measurement();
    sample::echo(&mut net, 1000, 10, 0.5);
    let both = net.net.as_mut().unwrap();
    both.sender_host = Some((*net.host).clone());
    let server = both.server.as_mut().unwrap();
    server.seconds = vec![server.total.clone(); 3];
    server.options.insert("napi_ns".into(), 50_000.into());
    server.options.insert("buffers".into(), serde_json::json!([0.1, "x", null, { "of": u64::MAX }]));
    let rings = vec![ProgramRing { asked: vec!["sqpoll".into()], proven: Some(true), ..ProgramRing::default() }];
    let figures = vec![OwnFigure { name: "tps".into(), value: 1.0 / 3.0, less_is_better: false }];
    let program = ProgramRecord { argv: vec!["fio".into()], rings, figures, ..ProgramRecord::default() };
    let mut unlike = sample::measurement();
    unlike.host.hostname = "another".into();
    unlike.load.seed = Some(1);
    unlike.circumstances = Some(
        Circumstances {
            throughput: Some(Throughput { interval_ns: 1, ios: vec![u64::MAX] }),
            ..Circumstances::default()
        }
        .into(),
    );
    unlike.warnings = vec![Warning::new("code", "a text of its own", ""); 3];
    let watched = Measurement { program: Some(program.into()), ..sample::measurement() };
    vec![sample::measurement(), followed, net, watched, unlike, Measurement::default()]
}

#[test]
fn packing_is_lossless() {
    let all = every_kind();
    assert!(all[1].stages.as_ref().is_some_and(|s| s.completions > 0));
    // A cell's first measurement is not packed, so another kind precedes each of them.
    let mut packer = Packer::default();
    [&all[0]].into_iter().chain(&all).for_each(|m| packer.push(m.clone()));
    let packed = Measurements::from(packer.end(&Arc::default()).unwrap());
    assert!(packed.is_packed());
    let mut kept = all.clone();
    for m in &mut kept {
        m.load.seed = None;
        (m.errors_by, m.followed, m.task_work_batches, m.probe.programs) = Default::default();
        m.net.iter_mut().flat_map(|net| &mut net.server).for_each(|server| server.seconds.clear());
    }
    assert_eq!(packed.all()[1..], kept);
    let open = Measurements::from(packed.all().to_vec());
    assert_eq!(serde_json::to_value(&packed).unwrap(), serde_json::to_value(&open).unwrap());
    assert_eq!(packed.first(), Some(&all[0]));
    assert!(packed.set_up().eq(packed.all().iter().map(|m| (&*m.host, &*m.load))));
    assert!(packed.each().map(|m| m.iops).eq(packed.all().iter().map(|m| m.iops)));
    let mut opened = packed.clone();
    opened.open().pop();
    assert_eq!((opened.len(), opened.is_packed(), packed.len()), (6, false, 7));
    assert!(packer.end(&Arc::default()).is_none());
}
