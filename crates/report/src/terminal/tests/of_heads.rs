//! The first lines of all kinds of runs.

use serde_json::{Map, Value, json};

use super::*;
use iotrail_schema::measurement::{DeliveryPathCount, PerIo};
use iotrail_schema::run_record::{ARM, CellRecord};

const REPEATS: usize = 6;

/// One cell per combination of values and arms; `make` returns a repeat's metrics.
fn made(
    axes: &[(&str, Vec<Value>)],
    arms: &[&str],
    make: impl Fn(&mut Measurement, &Map<String, Value>, usize),
) -> RunRecord {
    let mut places: Vec<Map<String, Value>> = vec![Map::new()];
    for (name, values) in axes {
        let with = |at: &Map<String, Value>| {
            let at = at.clone();
            values.iter().map(move |v| at.clone().into_iter().chain([((*name).to_owned(), v.clone())]).collect())
        };
        places = places.iter().flat_map(with).collect();
    }
    let mut cells = Vec::new();
    for at in &places {
        for arm in arms {
            let mut params = at.clone();
            params.insert(ARM.into(), json!(arm));
            let repeat = |i: usize| {
                let mut m = sample::measurement();
                m.warnings.clear();
                m.per_io = PerIo { syscalls: Some(1.0), kicks: Some(0.0), ..PerIo::default() };
                m.iops = Some(10_000.0);
                make(&mut m, &params, i);
                *m.iops.as_mut().unwrap() *= 1.0 + 0.002 * (i % 3) as f64;
                m
            };
            let measurements = (0..REPEATS).map(repeat).collect();
            cells.push(CellRecord {
                cell: cells.len() as u32 + 1,
                params: params.clone(),
                untestable: None,
                measurements,
            });
        }
    }
    let mut run = sample::run();
    run.experiment = "coop".into();
    run.axes = axes.iter().map(|(name, _)| (*name).to_owned()).chain([ARM.to_owned()]).collect();
    run.arms = arms.iter().map(|a| (*a).to_owned()).collect();
    run.repeats = REPEATS as u32;
    run.metrics = vec!["iops".into()];
    run.expectations.clear();
    run.cells = cells;
    run.comparisons = of_run(&run, &|_, _| None);
    run
}

fn coop(at: &Map<String, Value>) -> bool {
    at[ARM] == "coop_taskrun"
}

fn by(vehicle: DeliveryPath) -> Vec<DeliveryPathCount> {
    vec![DeliveryPathCount { vehicle, completions: 500, detail: None, delay_ns: None }]
}

fn sixteen() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("cpus", vec![json!("irq"), json!("non-irq")]),
        ("wait", vec![json!("block"), json!("peek")]),
        ("neighbour", vec![json!("none"), json!("busy:1")]),
        ("depth", vec![json!(1), json!(16)]),
    ]
}

const TWO: [&str; 2] = ["default", "coop_taskrun"];

fn peeking_elsewhere_is_slow(m: &mut Measurement, at: &Map<String, Value>, _: usize) {
    let slow = coop(at) && at["wait"] == "peek" && at["cpus"] == "non-irq";
    m.vehicles = by(if slow { DeliveryPath::TimerTick } else { DeliveryPath::ReschedIpi });
    m.load.wait = at["wait"].as_str().unwrap_or_default().into();
    if slow {
        m.iops = if at["depth"] == 1 { Some(200.0) } else { Some(700.0) };
    }
}

fn spread(m: &mut Measurement, at: &Map<String, Value>, i: usize) {
    *m.iops.as_mut().unwrap() *= [0.5, 1.9, 0.7, 1.4, 0.6, 1.6][(i + usize::from(coop(at)) * 3) % 6];
}

#[test]
fn the_first_lines_of_runs_match_the_golden_files() {
    let depth = |n: &[i64]| vec![("depth", n.iter().map(|d| json!(d)).collect::<Vec<_>>())];
    let mut disturbed = made(&sixteen(), &TWO, peeking_elsewhere_is_slow);
    for c in disturbed.comparisons.iter_mut().take(3) {
        (c.disturbed.left_out, c.disturbed.counted) = (1, 2);
    }
    let mut partial =
        made(&depth(&[1, 16]), &TWO, |m, at, _| *m.iops.as_mut().unwrap() *= if coop(at) { 2.0 } else { 1.0 });
    partial.cells.iter_mut().for_each(|c| c.measurements.open().truncate(4));
    (partial.finished_unix_s, partial.comparisons) = (None, of_run(&partial, &|_, _| None));
    let mut emulated = made(&depth(&[1, 16]), &TWO, |m, at, _| {
        m.per_io.kicks = Some(if coop(at) { 0.0 } else { 1.0 });
        m.host.virtualisation = Some("qemu".into());
    });
    emulated.metrics = vec!["kicks_per_io".into()];
    emulated.comparisons = of_run(&emulated, &|_, _| None);
    let mut apart = made(&depth(&[1]), &TWO, |m, at, _| m.bytes = if coop(at) { Some(1) } else { Some(2) });
    for c in &mut apart.comparisons {
        c.verdict = iotrail_schema::comparison::Verdict::NotComparable;
        c.reasons = vec!["they moved different numbers of bytes".into()];
    }
    let mut untestable = made(&depth(&[1, 16]), &TWO, |_, _, _| {});
    untestable.cells[3].measurements.open().clear();
    untestable.cells[3].untestable = Some("vda has no poll queues".into());
    untestable.comparisons = of_run(&untestable, &|_, _| None);
    let flags = ["io_uring", "io_uring files", "io_uring buffers", "sqpoll", "libaio", "posix_aio", "pread"];
    let times = |arm: &Value| match arm.as_str() {
        Some("posix_aio") => 0.1,
        Some("pread") => 0.5,
        Some("sqpoll") => 1.3,
        _ => 1.0,
    };
    let runs = [
        ("sixteen", made(&sixteen(), &TWO, peeking_elsewhere_is_slow)),
        (
            "all-slower",
            made(&depth(&[1, 4, 16]), &TWO, |m, at, _| *m.iops.as_mut().unwrap() *= if coop(at) { 0.8 } else { 1.0 }),
        ),
        ("all-equivalent", made(&sixteen(), &TWO, |_, _, _| {})),
        ("all-inconclusive", made(&depth(&[1, 16]), &TWO, spread)),
        (
            "faster",
            made(&depth(&[1, 4, 16, 64]), &TWO, |m, at, _| {
                let deep = at["depth"].as_i64() >= Some(16);
                m.per_io.kicks = Some(if coop(at) { 0.0 } else { 0.9 });
                *m.iops.as_mut().unwrap() *= if coop(at) && deep { 1.3 } else { 1.0 };
            }),
        ),
        (
            "mixed",
            made(&depth(&[1, 4, 16]), &TWO, |m, at, i| match at["depth"].as_i64() {
                Some(1) if coop(at) => *m.iops.as_mut().unwrap() *= 0.4,
                Some(4) => spread(m, at, i),
                _ if coop(at) => *m.iops.as_mut().unwrap() *= 1.3,
                _ => {}
            }),
        ),
        ("one", made(&[], &TWO, |m, at, _| *m.iops.as_mut().unwrap() *= if coop(at) { 0.93 } else { 1.0 })),
        (
            "forty",
            made(
                &[
                    ("depth", (0..10).map(|n| json!(1 << n)).collect()),
                    ("bs", vec![json!("4k"), json!("8k"), json!("16k"), json!("64k")]),
                ],
                &TWO,
                |m, at, _| {
                    *m.iops.as_mut().unwrap() *= if coop(at) && at["depth"].as_i64() < Some(8) {
                        0.7 - at["depth"].as_f64().unwrap_or(0.0) / 40.0
                    } else {
                        1.0
                    }
                },
            ),
        ),
        ("seven-arms", made(&depth(&[1, 16]), &flags, |m, at, _| *m.iops.as_mut().unwrap() *= times(&at[ARM]))),
        (
            "four-others",
            made(&depth(&[1, 4, 16, 64, 256]), &flags[..5], |m, at, _| *m.iops.as_mut().unwrap() *= times(&at[ARM])),
        ),
        ("one-arm", made(&depth(&[1, 16]), &["default"], |_, _, _| {})),
        ("disturbed", disturbed),
        ("partial", partial),
        ("emulated", emulated),
        ("not-comparable", apart),
        ("untestable", untestable),
    ];
    for (name, run) in &runs {
        compare_with_golden(name, run);
    }
}

pub fn compare_with_golden(name: &str, run: &RunRecord) {
    same_as_golden(name, &first_lines(run));
}
