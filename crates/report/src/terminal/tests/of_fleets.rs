//! A fleet's brief and full screens.

use serde_json::json;

use super::*;
use iotrail_answer::fleet::{Brought, Gathered};
use iotrail_schema::fleet_record::{self, FleetNode, FleetRecord, NodeState};
use iotrail_schema::run_record::{ARM, CellRecord};

/// Six blocks of two arms in two situations; in the first situation the second arm is faster by `ratio`.
fn run_of(number: i64, kernel: &str, ratio: f64) -> RunRecord {
    let mut cells = Vec::new();
    for depth in [1, 16] {
        for arm in ["default", "coop"] {
            let factor = if arm == "coop" && depth == 1 { ratio } else { 1.0 };
            let repeat = |i: usize| {
                let mut m = sample::measurement();
                m.warnings.clear();
                m.host.kernel = kernel.into();
                m.iops = Some(10_000.0 * factor * (1.0 + 0.01 * ((i * 7 + cells.len()) % 3) as f64));
                m
            };
            let params = json!({"depth": depth, ARM: arm}).as_object().unwrap().clone();
            let measurements = (0..6).map(repeat).collect();
            cells.push(CellRecord { cell: cells.len() as u32 + 1, params, untestable: None, measurements });
        }
    }
    let mut r = sample::run();
    (r.run, r.repeats, r.cells) = (number, 6, cells);
    (r.experiment, r.metrics) = ("coop".into(), vec!["iops".into()]);
    r.axes = vec!["depth".into(), ARM.into()];
    r.arms = vec!["default".into(), "coop".into()];
    r.comparisons = of_run(&r, &|_, _| None);
    r
}

fn node(node: String, state: NodeState, run: Option<i64>, said: Option<&str>) -> FleetNode {
    FleetNode { node, state, run, said: said.map(Into::into) }
}

fn made(ratios: &[(f64, &str)], others: Vec<FleetNode>) -> FleetAnswer {
    let mut gathered = Gathered::default();
    let mut nodes = Vec::new();
    for (i, (ratio, kernel)) in (1..).zip(ratios) {
        let name = format!("c{i}");
        gathered.add(Brought::new(&name, &run_of(i, kernel, *ratio)));
        nodes.push(node(name, NodeState::Done, Some(i), None));
    }
    nodes.extend(others);
    gathered.answer(FleetRecord {
        schema: fleet_record::SCHEMA.into(),
        fleet: 3,
        name: "rack 4".into(),
        experiment: "coop".into(),
        plan: "{}".into(),
        command: None,
        started_unix_s: 0,
        finished_unix_s: Some(1),
        nodes,
    })
}

#[test]
fn the_first_lines_of_fleets_match_the_golden_files() {
    let (old, new) = ("6.1.0", "6.18.0");
    let one_turns: Vec<(f64, &str)> =
        (0..8).map(|i| if i == 6 { (0.7, old) } else { (1.3 + 0.01 * f64::from(i % 3), new) }).collect();
    let by_kernel: Vec<(f64, &str)> =
        (0..8).map(|i| if i < 3 { (1.0, old) } else { (1.3 + 0.01 * f64::from(i % 3), new) }).collect();
    let lost = || {
        vec![
            node("c9".into(), NodeState::Lost, None, None),
            node("c10".into(), NodeState::Failed, None, Some("cannot open /dev/nvme0n1: permission denied")),
        ]
    };
    for (name, ratios, others) in [
        ("fleet-turns", &one_turns[..], vec![]),
        ("fleet-kernels", &by_kernel, lost()),
        ("fleet-two", &one_turns[..2], vec![]),
        ("fleet-none", &[], lost()),
    ] {
        let a = made(ratios, others);
        same_as_golden(name, &fleet::screen(&a, Unit::Io, false, "", PLAIN).to_string());
        narrow(&fleet::screen(&a, Unit::Io, true, "", PLAIN).to_string());
    }
    let whole = fleet::screen(&made(&one_turns, lost()), Unit::Io, true, "", PLAIN).to_string();
    assert!(whole.contains("- 0.697") && whole.contains("+ 0.995") && whole.contains("+ 1.304"), "{whole}");
    assert!(whole.contains("differences between the machines") && whole.contains("permission denied"), "{whole}");
}
