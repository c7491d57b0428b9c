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
        for (m, n) in cell.measurements.iter_mut().zip(1..) {
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

fn lean(whole: &RunRecord) -> RunRecord {
    let mut r = whole.clone();
    let mut lean = Lean::default();
    for cell in &mut r.cells {
        cell.measurements.iter_mut().for_each(|m| lean.take(cell.cell, m));
    }
    r.comparisons = of_run(&r, &|_, _| Some(sample::histogram()));
    r
}

#[test]
fn every_table_and_page_is_the_same() {
    for table in TABLES {
        let whole = run(table);
        let lean = lean(&whole);
        assert_ne!(lean.cells[0].measurements[1], whole.cells[0].measurements[1], "it is rid of something");
        assert_eq!(lean.cells[0].measurements[0], whole.cells[0].measurements[0]);
        let screen = |r| full(r, PLAIN).to_string();
        assert_eq!(screen(&lean), screen(&whole));
        let page = |record| {
            let histograms = &|_, _| Some(sample::histogram());
            let source = Source { name: "run 3".into(), record, histograms, order: None, command: None };
            html::page(&[source], None).unwrap()
        };
        assert_eq!(page(&lean), page(&whole), "{table:?}");
        let said =
            |r| serde_json::to_value((conclude(r), judge(r), drift::warnings(r), Head::of_run(r, true))).unwrap();
        assert_eq!(said(&lean), said(&whole));
        assert_eq!(lean.comparisons, whole.comparisons);
    }
}
