use serde_json::json;

use super::*;
use iotrail_testing::sample;

/// A run with two arms on this kernel, one repeat per element of `kicks` (kicks per I/O of the first arm); `inversions`
/// out of 1,000 completions.
fn boot(run: i64, kernel: &str, kicks: &[f64], inversions: u64) -> RunRecord {
    let cell = |number: u32, arm: &str| {
        let mut params = Map::new();
        params.insert("depth".into(), json!(1));
        params.insert(ARM.into(), json!(arm));
        let measurements = kicks.iter().map(|kicks| {
            let mut m = sample::measurement();
            m.host.kernel = kernel.into();
            m.host.virtualisation = Some("qemu".into());
            m.per_io.kicks = Some(if number == 1 { *kicks } else { 0.0 });
            sample::delivered(&mut m, if number == 1 { inversions } else { 0 }, 3);
            m
        });
        CellRecord { cell: number, params, untestable: None, measurements: measurements.collect() }
    };
    RunRecord {
        run,
        axes: vec!["depth".into(), ARM.into()],
        arms: vec!["defer".into(), "coop".into()],
        cells: vec![cell(1, "defer"), cell(2, "coop")],
        ..sample::run()
    }
}

fn two_kernels() -> Vec<Boots> {
    let old = [boot(1, "6.1", &[1.0, 1.01], 400), boot(3, "6.1", &[1.0, 1.0], 100), boot(5, "6.1", &[1.0, 1.0], 100)];
    let new = [boot(2, "7.3", &[0.5, 0.5], 0), boot(4, "7.3", &[0.51, 0.5], 0), boot(6, "7.3", &[0.5, 0.5], 0)];
    vec![Boots { kernel: "6.1".into(), runs: old.into() }, Boots { kernel: "7.3".into(), runs: new.into() }]
}

#[test]
fn runs_on_several_kernels_merge_into_one_run_with_a_kernel_parameter() {
    let run = merged(&two_kernels(), &|_, _, _| None).unwrap();
    assert_eq!((run.axes, run.arms.len()), (vec!["kernel".to_owned(), "depth".into(), "arm".into()], 2));
    let cells: Vec<(u32, &str, &str, usize)> =
        run.cells.iter().map(|c| (c.cell, c.params[KERNEL].as_str().unwrap(), c.arm(), c.measurements.len())).collect();
    assert_eq!(cells, [(1, "6.1", "defer", 6), (2, "6.1", "coop", 6), (3, "7.3", "defer", 6), (4, "7.3", "coop", 6)]);
    assert_eq!((run.repeats, run.finished_unix_s), (3, Some(2)));
    assert!(merged(&[], &|_, _, _| None).is_none());
}

#[test]
fn only_counts_are_compared_between_emulated_kernels() {
    let run = merged(&two_kernels(), &|_, _, _| None).unwrap();
    let metrics: Vec<&str> = run.comparisons.iter().map(|c| c.metric.as_str()).collect();
    assert!(metrics.iter().all(|m| m.ends_with("_per_io") && *m != "cpu_per_io"), "{metrics:?}");
    let kicks = run.comparisons.iter().find(|c| c.metric == "kicks_per_io").unwrap();
    assert_eq!((kicks.a.as_str(), kicks.b.as_str(), &kicks.at[ARM]), ("6.1", "7.3", &json!("defer")));
    assert!((kicks.ratio.unwrap() - 0.5).abs() < 0.01, "{kicks:?}");
    assert_eq!(kicks.verdict, Verdict::Faster, "{kicks:?}");
    // Twelve repeats of two boots are two numbers, as in `compare`.
    let mut two = two_kernels();
    for kernel in &mut two {
        kernel.runs.truncate(2);
        for cell in kernel.runs.iter_mut().flat_map(|run| &mut run.cells) {
            let all = cell.measurements.all().to_vec();
            cell.measurements = [&all[..], &all[..], &all[..]].concat().into();
        }
    }
    let run = merged(&two, &|_, _, _| None).unwrap();
    assert!(run.comparisons.iter().all(|c| (c.verdict, c.p) == (Verdict::Inconclusive, None)), "{:?}", run.comparisons);
    let why = "measured in separate runs, 2 runs per side: ";
    assert!(run.comparisons.iter().all(|c| c.reasons[0].starts_with(why)), "{:?}", run.comparisons);
}

#[test]
fn a_cell_that_failed_in_a_boot_has_no_verdict() {
    let mut kernels = two_kernels();
    kernels[1].runs[2].cells[0].untestable = Some("it stalled".into());
    let run = merged(&kernels, &|_, _, _| None).unwrap();
    let [c, ..] = &run.comparisons[..] else { panic!("comparisons") };
    assert_eq!(
        (c.verdict, &*c.reasons[0]),
        (Verdict::NotComparable, "run 6: defer failed after 2 measurements: it stalled")
    );
}

#[test]
fn the_control_arm_is_the_noise_floor() {
    let mut kernels = two_kernels();
    for run in kernels.iter_mut().flat_map(|kernel| &mut kernel.runs) {
        let mut control = run.cells[0].clone();
        (control.cell, control.params[ARM]) = (3, json!(CONTROL));
        let all = control.measurements.all().to_vec();
        let twice = |m: &Measurement| {
            let mut m = m.clone();
            m.per_io.kicks = m.per_io.kicks.map(|kicks| 3.0 * kicks);
            m
        };
        control.measurements = all.iter().map(twice).collect();
        run.cells.push(control);
    }
    let run = merged(&kernels, &|_, _, _| None).unwrap();
    let kicks = run.comparisons.iter().find(|c| c.metric == "kicks_per_io").unwrap();
    assert!(kicks.noise_floor.is_some_and(|floor| floor >= 2.0) && kicks.verdict == Verdict::Inconclusive, "{kicks:?}");
}

#[test]
fn differing_facts_are_listed_separately_from_equal_facts() {
    let cells = beside(&two_kernels());
    assert_eq!(
        cells.iter().map(|c| c.label.as_str()).collect::<Vec<_>>(),
        ["depth 1 · arm defer", "depth 1 · arm coop"]
    );
    let shown: Vec<(&str, Vec<&str>)> = cells[0]
        .differing
        .iter()
        .map(|f| (f.name.as_str(), f.values.iter().map(|v| v.as_deref().unwrap()).collect()))
        .collect();
    assert_eq!(
        shown,
        [
            ("kicks per I/O", vec!["1.00", "0.50 (0.50–0.51)"]),
            ("posted out of order", vec!["1200 of 6000", "0 of 6000"])
        ]
    );
    assert!(cells[0].alike.contains(&"mode switches per I/O 2.10".to_owned()), "{:?}", cells[0].alike);
    assert!(cells[1].alike.contains(&"kicks per I/O 0.00".to_owned()), "{:?}", cells[1].alike);
}

#[test]
fn completion_order_is_reported_as_exact_counts() {
    let kernels = two_kernels();
    let run = merged(&kernels, &|_, _, _| None).unwrap();
    let said = sentences(&kernels, &run.comparisons);
    assert_eq!(
        said[0],
        "defer: posted before a completion that was ready earlier: on 6.1 1200 of 6000 (1200 of them in task work, \
         by at most 3 places); posted in ready order: on 7.3 (6000 completions)."
    );
    assert_eq!(said[1], "coop: posted in ready order: on 6.1 (6000 completions) and 7.3 (6000 completions).");
    assert!(said[2].starts_with("Kicks per I/O on 7.3 against 6.1: lower with arm defer (×0.50"), "{}", said[2]);
    assert!(said.last().unwrap().starts_with("Times are not compared"), "{said:?}");
}

#[test]
fn runs_with_different_cells_have_different_plans() {
    let mut kernels = two_kernels();
    assert!(have_one_plan(&kernels));
    kernels[1].runs[1].cells.pop();
    assert!(!have_one_plan(&kernels));
}

#[test]
fn values_with_overlapping_ranges_are_alike() {
    let of = |values: &[f64]| Spread::of(values.iter().copied());
    assert!(are_alike(&[of(&[1.0, 1.2]), of(&[1.1, 1.4])]));
    assert!(are_alike(&[of(&[1.0]), of(&[1.019])]) && are_alike(&[of(&[0.0]), of(&[0.004])]));
    assert!(!are_alike(&[of(&[1.0]), of(&[1.03])]) && !are_alike(&[of(&[1.0]), None]));
    assert_eq!(
        [short("6.12.107+deb13-amd64"), short("6.1.0-50-amd64"), short("7.3.4")],
        ["6.12.107", "6.1.0-50", "7.3.4"]
    );
    assert_eq!(spread_text(of(&[0.9, 1.0, 1.3]).unwrap(), per_io), "1.00 (0.90–1.30)");
    assert_eq!(spread_text(of(&[0.4, 0.6]).unwrap(), percent), "50 % (40–60 %)");
    assert_eq!(spread_text(of(&[1.0, 1.001]).unwrap(), per_io), "1.00");
}
