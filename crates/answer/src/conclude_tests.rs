use super::*;
use crate::compare::of_run;
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::measurement::{DeliveryPathCount, Measurement, PerIo, Phases};
use iotrail_schema::run_record::CellRecord;
use iotrail_testing::sample;

/// IOPS per repeat, delivery path, kicks per I/O.
type Arm<'a> = (&'a [f64], DeliveryPath, f64);

fn measured((iops, vehicle, kicks): Arm<'_>) -> Vec<Measurement> {
    let one = |iops: &f64| {
        let mut m = sample::measurement();
        m.iops = Some(*iops);
        m.vehicles = vec![DeliveryPathCount { vehicle, completions: 500, detail: None, delay_ns: None }];
        m.per_io = PerIo { kicks: Some(kicks), ..PerIo::default() };
        m
    };
    iops.iter().map(one).collect()
}

fn run(rows: &[(u32, Arm<'_>, Arm<'_>)]) -> RunRecord {
    let mut cells = Vec::new();
    for (depth, base, other) in rows {
        for (arm, measurements) in [("default", measured(*base)), ("coop", measured(*other))] {
            let params = serde_json::json!({"wait": "peek", "depth": depth, "arm": arm});
            let params = params.as_object().unwrap().clone();
            cells.push(CellRecord {
                cell: cells.len() as u32 + 1,
                params,
                untestable: None,
                measurements: measurements.into(),
            });
        }
    }
    compared(RunRecord {
        repeats: rows[0].1.0.len() as u32,
        axes: ["wait", "depth", "arm"].map(Into::into).to_vec(),
        arms: ["default", "coop"].map(Into::into).to_vec(),
        metrics: vec!["iops".into()],
        cells,
        ..sample::run()
    })
}

fn compared(run: RunRecord) -> RunRecord {
    RunRecord { comparisons: of_run(&run, &|_, _| None), ..run }
}

const SLOW: &[f64] = &[250.0, 249.0, 251.0];
const FAST: &[f64] = &[10_000.0, 9_900.0, 10_100.0];
const MIDDLE: &[f64] = &[5_000.0, 4_900.0, 5_100.0];

#[test]
fn the_faster_arm_is_determined_from_the_measurements() {
    let r = run(&[
        (1, (FAST, DeliveryPath::ReschedIpi, 1.0), (SLOW, DeliveryPath::TimerTick, 0.0)),
        (4, (FAST, DeliveryPath::ReschedIpi, 0.9), (FAST, DeliveryPath::Enter, 0.0)),
        (16, (MIDDLE, DeliveryPath::ReschedIpi, 0.8), (FAST, DeliveryPath::Enter, 0.0)),
    ]);
    let all = conclude(&r);
    assert_eq!(all[0].about, "wait peek");
    assert_eq!(
        all[0].sentences,
        [
            "IOPS with coop against default: higher at depth 16 (×2.00, 1.95–2.05); lower at depth 1 (×0.025, 0.025–0.025); \
             equivalent within ±5 % at depth 4.",
            "Completions were mostly delivered by resched_ipi (100 %) with default; timer_tick (100 %) at depth 1 and enter (100 %) \
             at depth 4 and 16 with coop.",
            "With coop completions wait for the timer tick (250 I/Os and 250 ticks per second, 1.00 per tick, at depth 1). \
             With COOP_TASKRUN the kernel sends no interrupt for them, and the thread makes no system call while it polls the CQ \
             ring. Their task work waits for the next kernel entry, which is the tick.",
            "Kicks per I/O: default 1.00 at depth 1, 0.90 at depth 4 and 0.80 at depth 16; coop 0.00 throughout.",
        ]
    );
    assert_eq!(
        all[1].sentences,
        ["Ratios have their 95 % interval, of at least 3 pairs. An arm is called higher or lower if chance alone \
             causes such a difference in less than 5 % of runs, over all 3 comparisons of a metric; equivalent if \
             the interval is within the band. docs/method.md explains it."]
    );
}

#[test]
fn reversed_measurements_reverse_the_conclusion() {
    let r = run(&[
        (1, (SLOW, DeliveryPath::TimerTick, 0.0), (FAST, DeliveryPath::ReschedIpi, 1.0)),
        (16, (FAST, DeliveryPath::Enter, 0.0), (MIDDLE, DeliveryPath::DeviceIrq, 0.1)),
    ]);
    let said = &conclude(&r)[0].sentences;
    assert_eq!(
        said[0],
        "IOPS with coop against default: higher at depth 1 (×40.0, 39.4–40.7); lower at depth 16 (×0.500, 0.487–0.514)."
    );
    assert_eq!(
        said[1],
        "Completions were mostly delivered by timer_tick (100 %) at depth 1 and enter (100 %) at depth 16 with default; resched_ipi \
         (100 %) at depth 1 and device_irq (100 %) at depth 16 with coop."
    );
    assert!(said[2].starts_with("With default completions wait for the timer tick (250 I/Os and 250 ticks per second"));
    assert_eq!(said[3..], ["Kicks per I/O: default 0.00 throughout; coop 1.00 at depth 1 and 0.10 at depth 16."]);
}

#[test]
fn a_conclusion_with_enough_repeats_has_no_qualification() {
    let (a, b) = ([100.0, 101.0, 102.0, 103.0], [200.0, 201.0, 202.0, 203.0]);
    let r = run(&[(1, (&a, DeliveryPath::Enter, 0.0), (&b, DeliveryPath::Enter, 0.0))]);
    assert_eq!(conclude(&r)[0].sentences[0], "IOPS with coop against default: higher at depth 1 (×1.99, 1.96–2.01).");
}

#[test]
fn one_repeat_or_no_measurement_is_inconclusive() {
    let r = run(&[(1, (&FAST[..1], DeliveryPath::Enter, 0.0), (&SLOW[..1], DeliveryPath::Enter, 0.0))]);
    let all = conclude(&r);
    assert_eq!(
        all[0].sentences[0],
        "IOPS with coop against default: inconclusive at depth 1 (×0.025, no interval; 1 pair, and an interval needs \
         at least 2: measure more)."
    );
    assert_eq!(all.len(), 1, "no words on what was not compared");

    let mut nothing = r;
    nothing.cells.iter_mut().for_each(|c| c.measurements.open().clear());
    nothing.comparisons.clear();
    assert_eq!(
        conclude(&nothing)[0].sentences,
        ["0 of 2 measurements are complete: the conclusions cover only these."]
    );
}

#[test]
fn untestable_and_untraced_cells_are_reported() {
    let mut r = run(&[
        (1, (FAST, DeliveryPath::Enter, 0.0), (FAST, DeliveryPath::Enter, 0.0)),
        (4, (FAST, DeliveryPath::Enter, 0.0), (FAST, DeliveryPath::Enter, 0.0)),
        (16, (&[], DeliveryPath::Enter, 0.0), (&[], DeliveryPath::Enter, 0.0)),
    ]);
    for cell in &mut r.cells[4..] {
        cell.untestable = Some("there is no such CPU".into());
    }
    r.cells[0].measurements.open()[0].probe.mode = "off".into();
    let all = conclude(&r);
    assert_eq!(
        all[1].sentences[..2],
        [
            "Not testable here: 2 cells (depth 16): there is no such CPU.",
            "1 measurement was not traced, so its delivery paths are unknown.",
        ]
    );
}

#[test]
fn costs_are_ranked_and_broken_down_by_place() {
    let mut r = run(&[(1, (FAST, DeliveryPath::Inline, 0.0), (FAST, DeliveryPath::Sqpoll, 0.0))]);
    (r.table, r.metrics) = ("cost".into(), Vec::new());
    let set = |cell: &mut CellRecord, ns: u64, submit: f64| {
        for (i, m) in cell.measurements.open().iter_mut().enumerate() {
            m.elapsed_ns = ns + i as u64 * 10_000;
            m.phases = Some(Phases { submit, poll: 0.9 - submit, clear: 0.05, other: 0.05, total_ns: 1 });
        }
    };
    set(&mut r.cells[0], 1_900_000, 0.8);
    set(&mut r.cells[1], 3_800_000, 0.1);
    r = compared(r);
    assert_eq!(
        conclude(&r)[0].sentences,
        [
            "Wall time with coop against default: higher (×1.99, 1.98–2.01).",
            "The largest part of the time goes to submit (80 %) with default; poll (80 %) with coop.",
            "Completions were mostly delivered by inline (100 %) with default; sqpoll (100 %) with coop.",
            "default has the lowest median: 1.91 ms (1.90 ms to 1.92 ms in 3 repeats).",
        ]
    );
    set(&mut r.cells[1], 1_890_000, 0.1);
    r = compared(r);
    let said = &conclude(&r)[0].sentences;
    assert_eq!(
        [&said[0], &said[3]],
        [
            "Wall time with coop against default: equivalent within ±5 %.",
            "coop has the lowest median: 1.90 ms (1.89 ms to 1.91 ms in 3 repeats).",
        ]
    );
}
