use serde_json::Map;

use super::*;
use iotrail_schema::comparison::{Comparison, Disturbed, Verdict};
use iotrail_schema::measurement::{Measurement, Warning};
use iotrail_schema::run_record::{CellRecord, RunRecord};
use iotrail_stats::bootstrap::Counts;
use iotrail_testing::sample;

fn measured(iops: &[f64]) -> Vec<Measurement> {
    let one = |iops: &f64| Measurement { iops: Some(*iops), ..sample::measurement() };
    iops.iter().map(one).collect()
}

fn side<'a>(name: &str, measurements: &'a [Measurement]) -> Side<'a> {
    let repeat = |measurement| Repeat::new(measurement, None);
    Side { name: name.into(), repeats: measurements.iter().map(repeat).collect() }
}

fn with_latencies<'a>(name: &str, measurements: &'a [Measurement], ns: u64) -> Side<'a> {
    let mut s = side(name, measurements);
    for (i, repeat) in s.repeats.iter_mut().enumerate() {
        let mut h = iotrail_stats::histogram::new();
        h.record_n(ns + i as u64 * ns / 500, 1_000).unwrap();
        repeat.latency = Some(Counts::of(&h).into());
    }
    s
}

const A: [f64; 5] = [1000.0, 1010.0, 990.0, 1005.0, 995.0];

fn times(factor: f64) -> Vec<f64> {
    // The ratio varies slightly between the pairs.
    A.iter().zip([1.001, 0.999, 1.002, 0.998, 1.0]).map(|(a, noise)| a * factor * noise).collect()
}

fn of(b: &[f64], noise: Option<f64>) -> Comparison {
    let (a, b) = (measured(&A), measured(b));
    compare(Metric::Iops, &side("base", &a), &side("other", &b), true, noise)
}

#[test]
fn the_verdict_describes_side_b_and_respects_the_metrics_direction() {
    let c = of(&times(1.1), None);
    assert_eq!((c.verdict, c.pairs, c.paired), (Verdict::Faster, 5, true));
    assert_eq!((c.metric.as_str(), c.a.as_str(), c.b.as_str()), ("iops", "base", "other"));
    let [lo, hi] = c.ci95.unwrap();
    assert!(
        (c.ratio.unwrap() - 1.1).abs() < 0.001 && (1.095..1.1).contains(&lo) && (1.1..1.105).contains(&hi),
        "{c:?}"
    );
    assert_eq!(of(&times(0.9), None).verdict, Verdict::Slower);
    assert_eq!(of(&times(1.0), None).verdict, Verdict::Equivalent);
    let (a, mut b) = (measured(&A), measured(&A));
    b.iter_mut().zip(1..).for_each(|(m, i)| m.elapsed_ns = m.elapsed_ns * 11 / 10 + i);
    assert_eq!(compare(Metric::Elapsed, &side("a", &a), &side("b", &b), true, None).verdict, Verdict::Slower);
}

#[test]
fn a_difference_below_the_noise_floor_does_not_count() {
    let c = of(&times(1.1), Some(0.15));
    assert_eq!(c.verdict, Verdict::Inconclusive);
    assert_eq!(c.reasons, ["the difference is within the noise floor: the load differs as much from itself"]);
    assert!(c.smallest_visible.unwrap() > 0.15 && c.noise_floor == Some(0.15));
    assert_eq!(of(&times(1.1), Some(0.05)).verdict, Verdict::Faster);
    // The bound is symmetric in logarithm: 1 / 1.15 is 0.87.
    assert_eq!(of(&times(0.88), Some(0.15)).verdict, Verdict::Inconclusive);
    assert_eq!(of(&times(0.86), Some(0.15)).verdict, Verdict::Slower);
}

#[test]
fn the_noise_floor_is_the_difference_between_the_load_and_its_control() {
    let (a, twin, off) = (measured(&A), measured(&times(1.0)), measured(&times(1.2)));
    let small = noise_floor(Metric::Iops, &side("a", &a), &side("control", &twin)).unwrap();
    assert!((0.001..0.005).contains(&small), "{small}");
    let large = noise_floor(Metric::Iops, &side("a", &a), &side("control", &off)).unwrap();
    assert!((large - 0.2).abs() < 0.002, "{large}");
    assert_eq!(noise_floor(Metric::Iops, &side("a", &a[..1]), &side("control", &twin)), None);
}

#[test]
fn a_single_pair_has_no_interval_and_is_inconclusive() {
    let c = of(&[2000.0], None);
    assert_eq!(
        (c.pairs, c.verdict, c.ratio, c.ci95, c.smallest_visible),
        (1, Verdict::Inconclusive, Some(2.0), None, None)
    );
    assert_eq!(c.reasons, ["1 pair, and an interval needs at least 2: measure more"]);
    assert_eq!(why_open(&c), Some(c.reasons[0].as_str()));
    let (a, b) = (measured(&A), measured(&A[..1]));
    let c = compare(Metric::Iops, &side("a", &a), &side("b", &b), false, None);
    assert_eq!(c.reasons[0], "1 repeat, and an interval needs at least 2 of each side: measure more");
    assert!(c.reasons[1].starts_with("measured in separate runs, 1 run per side: "), "{c:?}");
}

#[test]
fn a_changed_load_prevents_a_verdict_and_a_disturbance_drops_a_pair() {
    let of_six = |of: Vec<f64>| measured(&[of.as_slice(), &of[..1]].concat());
    let (a, mut b) = (of_six(A.to_vec()), of_six(times(1.5).to_vec()));
    let warned = |code: &str| vec![Warning::new(code, "something was", "")];
    (b[1].warnings, b[3].warnings) = (warned("not_granted"), warned("not_granted"));
    let c = compare(Metric::Iops, &side("a", &a), &side("b", &b), true, None);
    assert_eq!((c.verdict, c.p), (Verdict::NotComparable, None));
    assert_eq!(c.reasons, ["b, 2 of 6 measurements: something was"]);
    assert!(c.ratio.is_some_and(|r| (r - 1.5).abs() < 0.01));
    // Noise is not a reason by itself. Pairs are excluded by the observed machine state, as long as enough remain.
    (b[1].warnings, b[3].warnings) = (warned("steal"), warned("steal"));
    b[3].thrown_away = 2;
    let c = compare(Metric::Iops, &side("a", &a), &side("b", &b), true, None);
    assert_eq!((c.verdict, c.pairs), (Verdict::Faster, 4));
    assert_eq!(c.disturbed, Disturbed { measurements: 12, repeated: 1, left_out: 2, counted: 0 });
    let said = "2 of 6 pairs were disturbed and are left out; 1 was measured again: something was, and 1 more";
    assert_eq!(c.reasons, [said]);
    b[0].warnings = warned("steal");
    let c = compare(Metric::Iops, &side("a", &a), &side("b", &b), true, None);
    assert_eq!((c.verdict, c.pairs, c.disturbed.counted), (Verdict::Faster, 6, 3), "too few would be left: all count");
    // The caveat also appears in the answer to comparisons outside a run.
    let (answer, _) = crate::summary::of_comparisons(&[c], crate::unit::Unit::Io);
    assert!(answer.ends_with("; other work disturbed every comparison"), "{answer}");
    // One of four or of five pairs may be excluded, but not two of five.
    for (all, bad, left) in [(4, 1, 3), (4, 2, 4), (5, 1, 4), (5, 2, 5)] {
        b.iter_mut().enumerate().for_each(|(i, m)| m.warnings = if i < bad { warned("steal") } else { Vec::new() });
        let c = compare(Metric::Iops, &side("a", &a[..all]), &side("b", &b[..all]), true, None);
        assert_eq!((c.pairs, c.disturbed.left_out), (left, all - left), "{bad} of {all}");
    }
    // Other warnings do not exclude pairs.
    b.iter_mut().for_each(|m| m.warnings = vec![Warning::new("virtual-machine", "it is one", "")]);
    assert_eq!(compare(Metric::Iops, &side("a", &a), &side("b", &b), true, None).verdict, Verdict::Faster);
}

#[test]
fn only_counts_are_compared_on_emulated_machines() {
    let (mut a, mut b) = (measured(&A), measured(&times(1.5)));
    for m in a.iter_mut().chain(&mut b) {
        m.host.virtualisation = Some("qemu".into());
    }
    b.iter_mut().for_each(|m| m.per_io.mode_switches = Some(4.2));
    let c = compare(Metric::Iops, &side("a", &a), &side("b", &b), true, None);
    assert_eq!((c.verdict, c.p), (Verdict::NotComparable, None));
    assert_eq!(c.reasons, ["times are meaningless on an emulated machine"]);
    let c = compare(Metric::ModeSwitchesPerIo, &side("a", &a), &side("b", &b), true, None);
    assert_eq!((c.verdict, c.ratio), (Verdict::Slower, Some(2.0)));
    let cell = |measurements| CellRecord { cell: 1, params: Map::new(), untestable: None, measurements };
    let run = RunRecord { cells: vec![cell(a.into())], table: "mode_switches".into(), ..sample::run() };
    assert_eq!(metrics(&run), [Metric::ModeSwitchesPerIo], "those of its table that are counts");
    assert_eq!(metrics(&RunRecord { table: "delivery".into(), ..run }), Metric::COUNTS, "else all counts");
}

#[test]
fn pairs_with_differing_cpu_frequency_are_dropped_unless_the_arms_differ() {
    let (mut a, mut b) = (measured(&A), measured(&times(1.5)));
    let frequency = |all: &mut [Measurement], khz: u64| {
        for m in all {
            let c = m.circumstances.get_or_insert_default();
            c.frequency_khz = Some(iotrail_schema::measurement::BeforeAfter { before: khz, after: khz });
        }
    };
    frequency(&mut a, 2_000_000);
    frequency(&mut b, 3_000_000);
    let compared =
        |a: &[Measurement], b: &[Measurement]| compare(Metric::Iops, &side("a", a), &side("b", b), true, None);
    let c = compared(&a, &b);
    assert_eq!(c.verdict, Verdict::Faster);
    assert!(c.reasons[0].starts_with("in every pair, the CPUs ran at "), "{c:?}");
    frequency(&mut b[1..], 2_000_000);
    let c = compared(&a, &b);
    assert_eq!((c.verdict, c.pairs, c.disturbed.left_out), (Verdict::Faster, 4, 1));
    assert!(c.reasons[0].starts_with("1 of 5 pairs was disturbed and is left out: the CPUs ran at "), "{c:?}");
}

#[test]
fn unknown_values_are_not_compared() {
    let (a, mut b) = (measured(&A), measured(&A));
    b[2].per_io.kicks = None;
    let c = compare(Metric::KicksPerIo, &side("a", &a), &side("b", &b), true, None);
    assert_eq!((c.verdict, c.ratio), (Verdict::NotComparable, None));
    assert_eq!(c.reasons, ["kicks_per_io is not known in 1 of 5 measurements of b"]);
}

#[test]
fn quantiles_use_merged_histograms_or_are_labelled_as_medians() {
    let (a, b) = (measured(&A), measured(&A));
    let c =
        compare(Metric::LatencyP99, &with_latencies("a", &a, 100_000), &with_latencies("b", &b, 150_000), true, None);
    assert_eq!((c.verdict, c.reasons.len()), (Verdict::Slower, 0));
    assert!((c.ratio.unwrap() - 1.5).abs() < 0.002, "{c:?}");
    let c = compare(Metric::LatencyP50, &with_latencies("a", &a, 100_000), &side("b", &b), true, None);
    assert_eq!((c.verdict, c.ratio), (Verdict::Equivalent, Some(1.0)));
    assert_eq!(
        c.reasons,
        [
            "latency_p50 is compared by the medians of the measurements' own quantiles, because some histograms are not stored"
        ]
    );
    let c = compare(Metric::LatencyP99_99, &with_latencies("a", &a, 1000), &with_latencies("b", &b, 1500), true, None);
    assert_eq!(c.reasons, ["too few I/Os of a for latency_p99_99, even over all its repeats"]);
}

#[test]
fn zero_counts_are_compared_by_difference() {
    let kicks = |values: &[f64]| {
        let mut all = measured(&A.into_iter().cycle().take(values.len()).collect::<Vec<_>>());
        all.iter_mut().zip(values).for_each(|(m, kicks)| m.per_io.kicks = Some(*kicks));
        all
    };
    let of =
        |a: &[f64], b: &[f64]| compare(Metric::KicksPerIo, &side("a", &kicks(a)), &side("b", &kicks(b)), true, None);
    let c = of(&[1.0, 0.9, 1.0, 1.0], &[0.0; 4]);
    assert_eq!((c.verdict, c.ratio, c.ci95), (Verdict::Faster, Some(0.0), None));
    assert_eq!(
        c.reasons,
        [
            "kicks_per_io is sometimes 0: the ratio is that of the means, without an interval; the verdict uses the differences"
        ]
    );
    // Repeated measurements do not explain the missing interval.
    let (a, mut b) = (kicks(&[1.0, 0.0, 1.0, 1.0]), kicks(&[0.0, 1.0, 1.0, 0.0]));
    b[0].thrown_away = 1;
    let c = compare(Metric::KicksPerIo, &side("a", &a), &side("b", &b), true, None);
    assert_eq!(c.reasons[1], "1 of 8 measurements was disturbed and measured again");
    assert!(why_open(&c).is_some_and(|why| why.starts_with("kicks_per_io is sometimes 0")), "{c:?}");
    let c = of(&[0.0; 4], &[1.0; 4]);
    assert_eq!((c.verdict, c.ratio), (Verdict::Slower, None));
    assert_eq!(of(&[0.0; 4], &[0.0; 4]).verdict, Verdict::Equivalent);
    assert_eq!(of(&[0.0, 0.5, 0.0, 0.0], &[0.0, 0.4, 0.6, 0.0]).verdict, Verdict::Inconclusive);
    assert_eq!(of(&[1.0; 3], &[0.0; 3]).verdict, Verdict::Faster);
    let one = of(&[1.0], &[0.0]);
    assert_eq!(one.verdict, Verdict::Inconclusive, "one pair has no spread");
    assert!(one.reasons[0].starts_with("1 pair, and an interval needs at least 2"), "{:?}", one.reasons);
    // Most values of the first side and all values of the second are 0: the medians are equal, the means are not.
    let at_times = [0.0, 0.0, 9.0, 0.0, 9.0, 0.0, 9.0, 0.0, 9.0, 0.0];
    let c = of(&at_times, &[0.0; 10]);
    assert_eq!((c.verdict, c.ratio), (Verdict::Faster, Some(0.0)));
    let c = of(&[0.0; 10], &at_times);
    assert_eq!((c.verdict, c.ratio), (Verdict::Slower, None));
}

#[test]
fn a_negative_metric_has_no_verdict() {
    let kicks = |kicks: f64| {
        let mut all = measured(&A);
        all.iter_mut().for_each(|m| m.per_io.kicks = Some(kicks));
        all
    };
    for (a, b) in [(-2.0, -3.0), (2.0, -3.0), (-2.0, 0.0)] {
        let c = compare(Metric::KicksPerIo, &side("a", &kicks(a)), &side("b", &kicks(b)), true, None);
        assert_eq!((c.verdict, c.p, c.ratio), (Verdict::NotComparable, None, None), "{a} {b}");
        assert_eq!(c.reasons, ["kicks_per_io is sometimes below 0, so it has no ratio"]);
    }
}

#[test]
fn arms_are_compared_and_the_control_estimates_the_noise() {
    let cell = |depth: u32, arm: &str, iops: &[f64]| CellRecord {
        cell: 0,
        params: serde_json::json!({"depth": depth, "arm": arm}).as_object().cloned().unwrap(),
        untestable: None,
        measurements: measured(iops).into(),
    };
    let mut record = iotrail_testing::run::two_by_two();
    record.metrics = vec!["iops".into(), "elapsed".into()];
    record.cells = vec![
        cell(1, "default", &A),
        cell(1, "control", &times(1.0)),
        cell(1, "coop_taskrun", &times(1.2)),
        cell(4, "default", &A),
        cell(4, "coop_taskrun", &times(0.8)[..4]),
        cell(16, "default", &A),
        cell(16, "coop_taskrun", &[]),
    ];
    let all = of_run(&record, &|_, _| None);
    let lines: Vec<(&str, u64, &str, usize, Verdict)> = all
        .iter()
        .map(|c| (c.metric.as_str(), c.at["depth"].as_u64().unwrap(), c.b.as_str(), c.pairs, c.verdict))
        .collect();
    assert_eq!(
        lines,
        [
            ("iops", 1, "coop_taskrun", 5, Verdict::Faster),
            ("iops", 4, "coop_taskrun", 4, Verdict::Slower),
            ("elapsed", 1, "coop_taskrun", 5, Verdict::Equivalent),
            ("elapsed", 4, "coop_taskrun", 4, Verdict::Equivalent),
        ]
    );
    assert!(all[0].noise_floor.is_some_and(|n| n < 0.01) && all[1].noise_floor.is_none());
    assert_eq!(all[0].at.len(), 1, "the arm is in the names, not in the place");
}

#[test]
fn an_arm_that_failed_during_the_run_has_no_verdict() {
    let cell = |arm: &str, iops: &[f64], untestable: Option<&str>| CellRecord {
        cell: 0,
        params: serde_json::json!({"arm": arm}).as_object().cloned().unwrap(),
        untestable: untestable.map(str::to_owned),
        measurements: measured(iops).into(),
    };
    let of = |base: Option<&str>, other: Option<&str>| {
        let mut record = iotrail_testing::run::two_by_two();
        record.metrics = vec!["iops".into()];
        record.cells = vec![cell("default", &A, base), cell("coop_taskrun", &times(2.0)[..3], other)];
        of_run(&record, &|_, _| None).remove(0)
    };
    assert_eq!(of(None, None).verdict, Verdict::Faster);
    let c = of(None, Some("it stalled"));
    assert_eq!((c.verdict, c.p, c.p_adjusted, c.ci95, c.pairs), (Verdict::NotComparable, None, None, None, 3));
    assert_eq!(c.reasons[0], "coop_taskrun failed after 3 measurements: it stalled");
    let c = of(Some("no space"), None);
    assert_eq!(
        (c.verdict, c.reasons[0].as_str()),
        (Verdict::NotComparable, "default failed after 5 measurements: no space")
    );
}

#[test]
fn the_interval_width_is_its_larger_relative_half_width() {
    let (a, b) = (measured(&A), measured(&times(1.1)));
    let c = of(&times(1.1), None);
    let width = interval_width(Metric::Iops, &a, &b).unwrap();
    let [lo, hi] = c.ci95.unwrap();
    let ratio = c.ratio.unwrap();
    assert!((width - ((hi / ratio).max(ratio / lo) - 1.0)).abs() < 1e-9);
    assert_eq!(interval_width(Metric::Iops, &a[..1], &b), None);
    assert_eq!(interval_width(Metric::LatencyP99, &a, &b), None);
}

#[test]
fn p_values_are_adjusted_for_the_number_of_comparisons() {
    let alone = of(&times(1.02), None);
    let p = alone.p.unwrap();
    assert!(p > 1e-7 && alone.p_adjusted == Some(p) && alone.together == 1, "{alone:?}");
    let mut many = vec![alone.clone(); 10];
    // The other nine comparisons show no difference.
    many[1..].iter_mut().for_each(|c| c.p = Some(0.9));
    together(&mut many, 0.001);
    assert_eq!((many[0].together, many[0].p_adjusted), (10, Some((10.0 * p).min(1.0))));
    many.iter_mut().for_each(|c| c.p = Some(0.02));
    together(&mut many, 0.001);
    assert!(many.iter().all(|c| c.verdict == Verdict::Inconclusive && c.p_adjusted == Some(0.2)), "{:?}", many[0]);
    // An inconclusive comparison whose interval excludes 1 has a reason, exactly once.
    together(&mut many, 0.001);
    let why = "the interval covers only this comparison: in 20 % of runs, at least one of 10 comparisons of equal arms differs this much";
    assert_eq!((many[0].reasons.as_slice(), why_open(&many[0])), (&[why.to_owned()][..], Some(why)));
    let said = crate::verdicts::side_by_side(&many[..1], crate::unit::Unit::Io);
    assert!(said[0].contains("inconclusive (×1.020, ") && said[0].contains(why), "{said:?}");
    together(&mut many[..1], 0.001);
    assert_eq!((many[0].verdict, why_open(&many[0])), (Verdict::Faster, None));
    assert!(many[0].to_show_10_percent.is_some(), "what Holm leaves open says what would show, too");
    // Two metrics are two questions.
    many[0].metric = "elapsed".into();
    together(&mut many, 0.001);
    assert_eq!((many[0].together, many[1].together), (1, 9));
}

#[test]
fn a_narrow_interval_around_1_is_equivalent_and_a_wide_one_inconclusive() {
    let c = of(&times(1.02), None);
    assert_eq!(c.verdict, Verdict::Equivalent, "2 % with certainty is less than 5 %");
    let mut strict = [c];
    together(&mut strict, 0.01);
    assert_eq!(strict[0].verdict, Verdict::Faster);
    let wide = of(&[700.0, 1400.0, 900.0, 1300.0, 800.0], None);
    assert_eq!(wide.verdict, Verdict::Inconclusive);
    let needed = wide.to_show_10_percent.unwrap();
    assert!(needed.repeats > 50 && needed.seconds > Some(needed.repeats as f64), "{wide:?}");
}

#[test]
fn separately_measured_sides_need_three_runs_each() {
    let (a, b) = (measured(&[A, A].concat()), measured(&[times(1.5), times(1.5)].concat()));
    let of_runs = |name, of, each: usize| {
        let mut s = side(name, of);
        s.repeats.iter_mut().enumerate().for_each(|(i, r)| r.run = Some(i / each));
        s
    };
    let c = compare(Metric::Iops, &of_runs("a", &a, 5), &of_runs("b", &b, 5), false, None);
    assert_eq!((c.verdict, c.p), (Verdict::Inconclusive, None));
    assert!(c.ci95.is_some() && c.reasons[0].starts_with("measured in separate runs, 2 runs per side: "), "{c:?}");
    let c = compare(Metric::Iops, &of_runs("a", &a, 3), &of_runs("b", &b, 3), false, None);
    assert_eq!(c.verdict, Verdict::Faster, "four runs of three, the last of one: {c:?}");
}
