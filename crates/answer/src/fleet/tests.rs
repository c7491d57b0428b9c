use serde_json::json;

use super::*;
use iotrail_schema::fleet_record::{self, FleetNode, NodeState};
use iotrail_schema::measurement::Measurement;
use iotrail_stats::random::SplitMix64;
use iotrail_testing::sample;

/// Two situations of two arms, in eight blocks; `ratios`: second arm over first in each situation.
fn run(number: i64, ratios: [f64; 2], seed: u64, change: &dyn Fn(&mut Measurement)) -> RunRecord {
    let mut random = SplitMix64::new(seed);
    let mut cell = |n: u32, depth: u32, arm: &str, iops: f64| {
        let mut repeat = |_| {
            let mut m = sample::measurement();
            m.warnings.clear();
            m.iops = Some(iops * (0.01 * random.normal()).exp());
            change(&mut m);
            m
        };
        let params = json!({"depth": depth, "arm": arm}).as_object().unwrap().clone();
        CellRecord { cell: n, params, untestable: None, measurements: (0..8).map(&mut repeat).collect() }
    };
    let mut record = RunRecord {
        run: number,
        experiment: "coop".into(),
        metrics: vec!["iops".into()],
        axes: vec!["depth".into(), ARM.into()],
        arms: vec!["default".into(), "coop".into()],
        repeats: 8,
        cells: vec![
            cell(1, 1, "default", 1000.0),
            cell(2, 1, "coop", 1000.0 * ratios[0]),
            cell(3, 16, "default", 1000.0),
            cell(4, 16, "coop", 1000.0 * ratios[1]),
        ],
        ..sample::run()
    };
    record.comparisons = crate::compare::of_run(&record, &|_, _| None);
    record
}

fn fleet(nodes: Vec<FleetNode>) -> FleetRecord {
    FleetRecord {
        schema: fleet_record::SCHEMA.into(),
        fleet: 3,
        name: "rack".into(),
        experiment: "coop".into(),
        plan: "{}".into(),
        command: None,
        started_unix_s: 0,
        finished_unix_s: Some(1),
        nodes,
    }
}

fn done(node: &str, run: i64) -> FleetNode {
    FleetNode { node: node.into(), state: NodeState::Done, run: Some(run), said: None }
}

/// Machines c1, c2, …, with their ratios.
fn answered(ratios: &[[f64; 2]], change: impl Fn(usize, &mut Measurement)) -> FleetAnswer {
    let mut gathered = Gathered::default();
    let mut nodes = Vec::new();
    for (i, ratios) in ratios.iter().enumerate() {
        let (node, number) = (format!("c{}", i + 1), i as i64 + 1);
        gathered.add(Brought::new(&node, &run(number, *ratios, i as u64, &|m| change(i, m))));
        nodes.push(done(&node, number));
    }
    gathered.answer(fleet(nodes))
}

/// Twelve slightly different machines; no effect in the second situation.
fn twelve() -> Vec<[f64; 2]> {
    (0..12).map(|i| [1.25 + 0.02 * f64::from(i % 4), 1.0]).collect()
}

#[test]
fn a_machine_with_the_opposite_effect_is_reported_with_its_facts() {
    let mut ratios = twelve();
    ratios[6][0] = 0.7;
    let a = answered(&ratios, |i, m| {
        if i == 6 {
            let cpus = m.host.cpus as usize;
            let target = m.host.target.as_mut().unwrap();
            target.interrupts = vec![target.interrupts[0].clone(); cpus];
        }
    });
    let e = &a.effects[0];
    assert_eq!((e.metric.as_str(), e.verdict, e.holds, e.asked, e.machines), ("iops", Verdict::Faster, 11, 12, 12));
    assert_eq!(e.on[6].stands, Stands::TurnsAround);
    let [apart] = &e.apart[..] else { panic!("{:?}", e.apart) };
    assert_eq!((apart.node.as_str(), &apart.with[..]), ("c7", &["vectors one per CPU".to_owned()][..]));
    assert!(a.answer.starts_with("coop against default: "), "{}", a.answer);
    assert!(
        a.answer.ends_with(" at depth 1; holds on 11 of 12; changes sign on c7: there the drive has a vector per CPU"),
        "{}",
        a.answer
    );
    assert_eq!(a.factors.len(), 1, "{:?}", a.factors);
    // An absent effect holds on all machines.
    let e = &a.effects[1];
    assert_eq!((e.verdict, e.claim, e.holds, e.asked), (Verdict::Equivalent, Verdict::Equivalent, 12, 12));
    assert!(e.apart.is_empty() && e.spread.unwrap() < 0.02, "{e:?}");
}

/// Two runs of each machine at different times: no single machine shows the effect, but all together do.
#[test]
fn two_runs_per_machine_are_combined() {
    use crate::compare::{Repeat, Side, together, undecided};
    let moments = [1.01, 0.98, 1.0, 1.02, 0.99, 1.0];
    let mut gathered = Gathered::default();
    let mut nodes = Vec::new();
    for (number, moment) in (1..).zip(moments) {
        let before = run(number, [1.0, 1.0], number as u64, &|_| {});
        let mut now = run(number + 10, [1.0, 1.0], number as u64 + 50, &|m| *m.iops.as_mut().unwrap() *= 0.8 * moment);
        let (a, b) = (before.cells[0].measurements.all(), now.clone().cells.remove(0).measurements.into_vec());
        fn repeats(all: &[Measurement]) -> Vec<Repeat<'_>> {
            all.iter().map(|m| Repeat { run: Some(0), ..Repeat::new(m, None) }).collect()
        }
        let (a, b) =
            (Side { name: "f1".into(), repeats: repeats(&a) }, Side { name: "f2".into(), repeats: repeats(&b) });
        let mut all = vec![undecided(Metric::Iops, &a, &b, false, None)];
        together(&mut all, EQUIVALENT_WITHIN);
        assert_eq!((all[0].verdict, all[0].p), (Verdict::Inconclusive, None));
        now.comparisons = all;
        gathered.add(Brought::new(&format!("c{number}"), &now));
        nodes.push(done(&format!("c{number}"), number + 10));
    }
    let a = gathered.answer(fleet(nodes));
    let e = &a.effects[0];
    assert_eq!((e.verdict, e.holds, e.asked, e.machines), (Verdict::Slower, 6, 6, 6), "{e:?}");
    let [lo, hi] = e.ci95.unwrap();
    assert!(lo < 0.8 && 0.8 < hi && hi - lo > 0.015, "the moments are in it: {lo} to {hi}");
    assert_eq!(e.on[0].verdict, Verdict::Inconclusive);
    assert!(a.answer.starts_with("f2 against f1: ") && a.answer.ends_with("holds on 6 of 6"), "{}", a.answer);
}

#[test]
fn a_machine_within_the_spread_is_not_an_outlier() {
    let a = answered(&twelve(), |_, _| {});
    let e = &a.effects[0];
    assert_eq!((e.holds, e.asked, e.verdict), (12, 12, Verdict::Faster));
    assert!(e.apart.is_empty() && a.factors.is_empty() && e.goes_with.is_empty(), "{e:?}");
    let (ratio, [lo, hi], [wide_lo, wide_hi]) = (e.ratio.unwrap(), e.ci95.unwrap(), e.another_ci95.unwrap());
    assert!(wide_lo < lo && lo < ratio && ratio < hi && hi < wide_hi, "{e:?}");
    assert!(lo > 1.2 && hi < 1.35 && (0.01..0.04).contains(&e.spread.unwrap()), "{e:?}");
    assert!(a.answer.ends_with("; holds on 12 of 12"), "{}", a.answer);
}

#[test]
fn a_kernel_that_correlates_with_the_effect_is_a_factor() {
    let ratios: Vec<[f64; 2]> =
        (0..12).map(|i| [if i < 4 { 1.0 } else { 1.3 + 0.01 * f64::from(i % 3) }, 1.0]).collect();
    let a = answered(&ratios, |i, m| {
        if i < 4 {
            m.host.kernel = "6.1.0".into();
            m.host.cpu_model = "An older one".into();
        }
    });
    let e = &a.effects[0];
    let [g] = &e.goes_with[..] else { panic!("{:?}", e.goes_with) };
    // The first value of the first fact that separates the machines this way: those with the later kernel.
    assert_eq!((g.with.len(), g.nodes.len()), (2, 8), "{g:?}");
    assert!(g.with[0].starts_with("kernel ") && g.with[1].starts_with("CPU model "), "{g:?}");
    assert!(g.ratios[0] > 1.28 && (0.98..1.02).contains(&g.ratios[1]) && g.p_adjusted < 1e-3, "{g:?}");
    assert!(a.effects[1].goes_with.is_empty());
    assert!(e.apart.is_empty());
    assert!(a.answer.contains("no difference on c1, c2, c3 and c4: there the kernel is 6.1.0"), "{}", a.answer);
}

#[test]
fn machines_without_a_result_or_a_test_are_reported() {
    let mut gathered = Gathered::default();
    let mut lacking = run(2, [1.3, 1.0], 2, &|_| {});
    lacking.cells[3].untestable = Some("vda has no poll queues".into());
    lacking.cells[3].measurements.open().clear();
    lacking.comparisons = crate::compare::of_run(&lacking, &|_, _| None);
    gathered.add(Brought::new("c1", &run(1, [1.3, 1.0], 1, &|_| {})));
    gathered.add(Brought::new("c2", &lacking));
    let mut partial = run(4, [1.3, 1.0], 4, &|_| {});
    partial.cells[0].measurements.open().pop();
    gathered.add(Brought::new("c4", &partial));
    let other = |node: &str, state, said: Option<&str>| FleetNode {
        node: node.into(),
        state,
        run: None,
        said: said.map(Into::into),
    };
    let nodes = vec![
        done("c1", 1),
        done("c2", 2),
        other("c3", NodeState::Lost, None),
        done("c4", 4),
        other("c5", NodeState::Failed, Some("no file")),
    ];
    let a = gathered.answer(fleet(nodes));
    assert_eq!(
        a.notes,
        [
            "1 of 5 machines lost: c3",
            "1 of 5 machines failed: c5: no file",
            "1 cell not testable on c2: vda has no poll queues",
            "partial on c4: 31 of 32 measurements"
        ]
    );
    let e = &a.effects[1];
    assert_eq!((e.on[1].stands, e.on[1].reason.as_deref()), (Stands::CannotTest, Some("vda has no poll queues")));
    assert_eq!((e.asked, e.machines), (2, 2));
    assert_eq!(e.another_ci95, None);
}

#[test]
fn fewer_than_two_machines_have_no_common_answer() {
    let one = answered(&[[1.3, 1.0]], |_, _| {});
    assert_eq!(one.answer, "coop: of 1 machine only c1 completed a measurement: `iotrail report 1` has its answer");
    assert_eq!((one.effects[0].ratio, one.effects[0].claim, one.effects[0].holds), (None, Verdict::Faster, 1));
    let none = Gathered::default().answer(fleet(vec![]));
    assert_eq!(none.answer, "coop: none of 0 machines completed a measurement");
}

#[test]
fn machines_with_opposite_results_have_no_common_answer() {
    let ratios: Vec<[f64; 2]> = (0..10).map(|i| [if i % 2 == 0 { 1.4 } else { 0.7 }, 1.0]).collect();
    let a = answered(&ratios, |_, _| {});
    let e = &a.effects[0];
    assert_eq!((e.verdict, e.holds, e.asked), (Verdict::Inconclusive, 5, 10));
    assert!(
        a.answer.starts_with("coop against default: no common answer for 10 machines in iops at depth 1: "),
        "{}",
        a.answer
    );
    assert!(a.answer.contains(" on 5 of 10; changes sign on c"), "{}", a.answer);
}

#[test]
fn identical_machines_rarely_yield_an_outlier() {
    let mut random = SplitMix64::new(3);
    let runs: Vec<RunRecord> = (0..8).map(|i| run(i, [1.0, 1.0], i as u64, &|_| {})).collect();
    let mut called = 0;
    for _ in 0..20 {
        let mut gathered = Gathered::default();
        for (i, run) in runs.iter().enumerate() {
            let by = (0.05 * random.normal()).exp();
            let mut run = run.clone();
            // Shifts the comparisons by this machine's deviation from the others.
            for c in &mut run.comparisons {
                (c.ratio, c.ci95) = (c.ratio.map(|r| r * by), c.ci95.map(|ci| ci.map(|x| x * by)));
            }
            gathered.add(Brought::new(&format!("c{i}"), &run));
        }
        let a = gathered.answer(self::fleet(vec![]));
        called += usize::from(a.effects.iter().any(|e| !e.apart.is_empty()));
    }
    assert!(called <= 3, "{called} of 20");
}
