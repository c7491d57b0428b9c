//! The first lines of one plan on several kernels.

use serde_json::json;

use super::*;
use iotrail_answer::across::short;
use iotrail_answer::across::{Boots, KernelRecord, merged};
use iotrail_schema::run_record::{ARM, CellRecord};

const BASE: &str = "6.1.153+deb12-amd64";
const OTHER: &str = "6.12.107+deb13-amd64";

/// A boot that measured two arms in two situations.
fn boot(run: i64, kernel: &str, table: &str, emulated: bool) -> RunRecord {
    let new = kernel == OTHER;
    let mut cells = Vec::new();
    for depth in [1, 16] {
        for arm in ["defer", "coop"] {
            let repeat = |i: usize| {
                let mut m = sample::measurement();
                m.warnings.clear();
                m.host.kernel = kernel.into();
                m.host.virtualisation = emulated.then(|| "qemu".into());
                m.iops = Some(10_000.0 * if new && depth == 16 { 1.2 } else { 1.0 } * (1.0 + 0.002 * (i % 3) as f64));
                m.per_io.kicks = Some(if new || arm == "coop" { 0.0 } else { 1.0 });
                sample::delivered(&mut m, if new || arm == "coop" { 0 } else { 30 }, 3);
                m
            };
            let params = json!({"depth": depth, ARM: arm}).as_object().unwrap().clone();
            let measurements = (0..6).map(repeat).collect();
            cells.push(CellRecord { cell: cells.len() as u32 + 1, params, untestable: None, measurements });
        }
    }
    let mut r = sample::run();
    (r.run, r.table, r.repeats, r.cells) = (run, table.into(), 6, cells);
    (r.experiment, r.metrics) = ("tw-order".into(), vec!["iops".into()]);
    r.axes = vec!["depth".into(), ARM.into()];
    r.arms = vec!["defer".into(), "coop".into()];
    r
}

#[test]
fn the_first_lines_of_several_kernels_match_the_golden_files() {
    for (name, table, emulated, failed) in [
        ("kernels", "delivery", false, None),
        ("kernels-emulated", "delivery", true, None),
        ("kernels-order", "order", true, None),
        ("kernels-failed", "delivery", false, Some("the machine showed no sign of life for 90 s")),
    ] {
        let of = |kernel: &str, runs: [i64; 3]| Boots {
            kernel: kernel.into(),
            runs: runs.map(|run| boot(run, kernel, table, emulated)).into(),
        };
        let mut kernels = vec![of(BASE, [1, 3, 5]), of(OTHER, [2, 4, 6])];
        if failed.is_some() {
            kernels[1].runs.truncate(1);
        }
        let record = |k: &Boots| KernelRecord {
            asked: short(&k.kernel).rsplit_once('.').unwrap().0.into(),
            kernel: Some(k.kernel.clone()),
            runs: k.runs.iter().map(|r| r.run).collect(),
            emulated: Some(emulated),
            failed: if k.runs.len() < 3 { failed.map(str::to_owned).into_iter().collect() } else { Vec::new() },
        };
        let records: Vec<KernelRecord> = kernels.iter().map(record).collect();
        let run = merged(&kernels, &|_, _, _| None).unwrap();
        let head = Head::of_kernels(&run, &kernels, &records);
        let of = Across { run: &run, kernels: &records, cells: &[], said: &[], store: "" };
        let text = across::screen(&of, &head, false, PLAIN).to_string();
        same_as_golden(name, &text);
    }
}
