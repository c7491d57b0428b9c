//! What is printed of a run does not change with what its measurements were rid of.

use super::hostile::TABLES;
use super::*;
use crate::html::{self, Source};
use crate::lean::Lean;
use iotrail_answer::conclude::conclude;
use iotrail_answer::drift;
use iotrail_answer::expectation::judge;
use iotrail_schema::measurement::{Followed, StageRecord};
use iotrail_schema::runnable::Runnable;
use iotrail_testing::trace;

/// No two measurements alike, and every list filled.
fn run(table: Table) -> RunRecord {
    let mut r = RunRecord { table, ..record() };
    for cell in &mut r.cells {
        for (m, n) in cell.measurements.open().iter_mut().zip(1..) {
            if matches!(table, Table::Net | Table::Order) {
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

/// And what tells of its cells.
fn lean(whole: &RunRecord) -> (RunRecord, Lean) {
    let mut r = whole.clone();
    let mut lean = Lean::default();
    for cell in &mut r.cells {
        cell.measurements.open().drain(..).for_each(|m| lean.take(m));
        cell.measurements = lean.end_cell();
    }
    r.comparisons = of_run(&r, &|_, _| Some(sample::histogram()));
    (r, lean)
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
fn every_table_and_page_is_the_same() {
    for table in TABLES {
        let whole = run(table);
        let (lean, _) = lean(&whole);
        assert_ne!(lean.cells[0].measurements.all()[1], whole.cells[0].measurements.all()[1], "it is rid of something");
        assert_eq!(lean.cells[0].measurements.all()[0], whole.cells[0].measurements.all()[0]);
        let screen = |r| full(r, PLAIN).to_string();
        assert_eq!(screen(&lean), screen(&whole));
        assert_eq!(page(&lean), page(&whole), "{table:?}");
        assert_eq!(said(&lean), said(&whole));
        assert_eq!(lean.comparisons, whole.comparisons);
    }
}

/// Four are kept, and three sides are compared at once.
const AT_ONCE: usize = 7;
/// How often all that is printed may go through the run.
const PASSES: usize = 70;

#[test]
fn few_cells_are_unpacked_at_once_and_seldom() {
    let mut whole = run(Table::Delivery);
    for depth in 5..15 {
        for i in 0..2 {
            let mut cell = whole.cells[i].clone();
            cell.cell = whole.cells.len() as u32 + 1;
            cell.params.insert("depth".into(), depth.into());
            whole.cells.push(cell);
        }
    }
    let (r, lean) = lean(&whole);
    full(&r, PLAIN);
    page(&r);
    said(&r);
    assert!(r.cells.iter().all(|c| c.measurements.is_packed()));
    let (most, times) = (lean.unpacked().most(), lean.unpacked().times());
    assert!((1..=AT_ONCE).contains(&most), "{most} at once");
    assert!(times <= PASSES * r.cells.len(), "{times} times for {} cells", r.cells.len());
}
