//! The first lines of runs of a program with different settings.

use serde_json::json;

use super::of_heads::compare_with_golden;
use super::*;
use iotrail_schema::program_record::{Legal, OwnFigure, ProgramRecord, ProgramRing, TriedArm, WatchedRun};
use iotrail_schema::run_record::{ARM, CellRecord};

const COOP: &str = "coop_taskrun,taskrun_flag";
const DEFER: &str = "defer_taskrun,single_issuer";

fn flags(list: &str) -> Vec<String> {
    list.split(',').filter(|f| !f.is_empty()).map(str::to_owned).collect()
}

fn tried(name: &str, flags_of: &str, watched: Option<WatchedRun>) -> TriedArm {
    let ring = ProgramRing { pid: 7, asked: vec![], granted: flags(flags_of), ..ProgramRing::default() };
    let dropped = None;
    TriedArm {
        name: name.into(),
        legal: Legal::Yes,
        reason: String::new(),
        rings: vec![ring],
        dropped,
        watched,
        hang: None,
    }
}

fn counted(vehicle: DeliveryPath, kicks: f64, calls: f64) -> Option<WatchedRun> {
    Some(WatchedRun {
        completions: 1000,
        operations: Some(1000),
        elapsed_ns: 1_000_000_000,
        kicks_per_io: Some(kicks),
        syscalls_per_io: Some(calls),
        sleeps_per_io: Some(0.5),
        cpu_per_io_ns: Some(9_000.0 + 1_000.0 * kicks),
        vehicles: vec![(vehicle, 1000)],
        opcodes: vec![("read".into(), 1000)],
        ..WatchedRun::default()
    })
}

/// Arms with their median `tps`; `None` for unmeasured arms.
fn run_of(arms: &[(TriedArm, Option<f64>)]) -> RunRecord {
    let mut run = sample::run();
    (run.experiment, run.table, run.axes) = ("try".into(), "program".into(), vec![ARM.into()]);
    run.arms = arms.iter().map(|(t, _)| t.name.clone()).collect();
    run.tried = arms.iter().map(|(t, _)| t.clone()).collect();
    run.repeats = 6;
    for (arm, tps) in arms {
        let one = |i: usize| {
            let mut m = sample::measurement();
            m.warnings.clear();
            m.probe.mode = "off".into();
            (m.net, m.elapsed_ns) = (None, 2_000_000_000 + 1_000_000 * (i as u64 % 3));
            let value = tps.unwrap_or(0.0) * (1.0 + 0.002 * (i % 3) as f64);
            let figures = vec![OwnFigure { name: "tps".into(), value, less_is_better: false }];
            m.program = Some(ProgramRecord { figures, ..ProgramRecord::default() }.into());
            m
        };
        run.cells.push(CellRecord {
            cell: run.cells.len() as u32 + 1,
            params: [(ARM.to_owned(), json!(arm.name))].into_iter().collect(),
            untestable: tps.is_none().then(|| arm.dropped.clone().unwrap_or_else(|| arm.reason.clone())),
            measurements: if tps.is_some() { (0..6).map(one).collect() } else { vec![].into() },
        });
    }
    run.comparisons = of_run(&run, &|_, _| None);
    run
}

#[test]
fn the_first_lines_of_program_runs_match_the_golden_files() {
    let as_is = || tried("as-is", "", counted(DeliveryPath::ReschedIpi, 0.9, 1.0));
    let coop = || tried(COOP, COOP, counted(DeliveryPath::Enter, 0.0, 1.0));
    let illegal = TriedArm {
        legal: Legal::No,
        reason: "single_issuer: 4 threads of postgres submit to one ring, which the kernel rejects (EEXIST)".into(),
        rings: vec![],
        ..tried(DEFER, "", None)
    };
    let stalled = TriedArm {
        legal: Legal::Risky,
        reason: "sqpoll: a program that does not check IORING_SQ_NEED_WAKEUP stalls (liburing checks it)".into(),
        dropped: Some("it stalled: 4 of 4 requests in flight, and none was delivered for 5.10 s".into()),
        ..tried("sqpoll", "sqpoll", None)
    };
    let faster = run_of(&[(as_is(), Some(10_000.0)), (coop(), Some(13_000.0)), (illegal, None), (stalled, None)]);
    let same = run_of(&[(as_is(), Some(10_000.0)), (coop(), Some(10_000.0))]);
    let slower = run_of(&[
        (as_is(), Some(10_000.0)),
        (coop(), Some(10_000.0)),
        (tried(DEFER, DEFER, counted(DeliveryPath::Enter, 0.0, 2.0)), Some(7_000.0)),
    ]);
    for (name, run) in [("try-faster", &faster), ("try-same", &same), ("try-slower", &slower)] {
        compare_with_golden(name, run);
    }
}
