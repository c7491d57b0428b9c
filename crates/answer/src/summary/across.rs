//! The head of one plan on several kernels: each kernel is an arm of the merged run and is compared with the first.

use serde_json::{Map, Value};

use super::when::SETTING;
use super::{Head, notes};
use crate::across::{Boots, KernelRecord, lost_order, short};
use crate::compare::RUNS;
use crate::table::Table;
use iotrail_base::distinct::distinct;
use iotrail_base::words::{list, plural};
use iotrail_schema::comparison::Comparison;
use iotrail_schema::run_record::{ARM, CONTROL, CellRecord, KERNEL, RunRecord};

impl Head {
    /// `merged`: the kernels' runs merged by `across::merged`.
    pub fn of_kernels(merged: &RunRecord, kernels: &[Boots], records: &[KernelRecord]) -> Head {
        let mut head = Head::of_run(&as_arms(merged), false);
        if Table::of(merged).each_run
            && let Some(order) = order(merged, kernels)
        {
            head.also.insert(0, std::mem::replace(&mut head.answer, order));
        }
        let failed = records.iter().flat_map(|k| k.failed.iter().map(move |f| format!("{} failed: {f}", k.asked)));
        let boots = kernels.iter().map(|k| k.runs.len()).min().filter(|n| *n < RUNS && kernels.len() > 1);
        let few = boots.map(|n| {
            format!("{}: a verdict needs at least {RUNS} boots per kernel (--rounds {RUNS})", plural(n, "boot"))
        });
        head.notes = failed.chain(few).chain(std::mem::take(&mut head.notes)).collect();
        let releases: Vec<String> = kernels.iter().map(|k| short(&k.kernel).to_owned()).collect();
        let mut runs: Vec<i64> = records.iter().flat_map(|k| k.runs.clone()).collect();
        runs.sort_unstable();
        let runs: Vec<String> = runs.iter().map(i64::to_string).collect();
        head.on = notes::host(merged, &list(&releases)).map(|on| format!("{on}; runs {}", list(&runs)));
        head
    }
}

/// Turns kernels into arms, and the former arms into a parameter.
fn as_arms(merged: &RunRecord) -> RunRecord {
    let several = merged.arms.len() > 1;
    let releases: Vec<String> = merged.values(KERNEL).iter().filter_map(|k| k.as_str().map(str::to_owned)).collect();
    let is_one = |release: &str| releases.iter().filter(|r| short(r) == short(release)).count() == 1;
    let name = |release: &str| if is_one(release) { short(release) } else { release }.to_owned();
    let place = |params: &Map<String, Value>| -> Map<String, Value> {
        let kept = params.iter().filter(|(axis, _)| *axis != KERNEL && (several || *axis != ARM));
        kept.map(|(axis, value)| (if axis == ARM { SETTING.to_owned() } else { axis.clone() }, value.clone())).collect()
    };
    let cell = |c: &CellRecord| {
        let kernel = c.params.get(KERNEL).and_then(Value::as_str).map(name).unwrap_or_default();
        let mut params = place(&c.params);
        params.insert(ARM.into(), kernel.into());
        CellRecord { params, ..c.clone() }
    };
    let comparison = |c: &Comparison| Comparison { at: place(&c.at), a: name(&c.a), b: name(&c.b), ..c.clone() };
    let mut metrics = distinct(merged.comparisons.iter().map(|c| c.metric.clone()));
    // The experiment's own metrics come first; counts are compared in every experiment.
    metrics.sort_by_key(|m| merged.metrics.iter().position(|asked| asked == m).unwrap_or(usize::MAX));
    let axes = merged.axes.iter().filter(|axis| *axis != KERNEL && *axis != ARM).cloned();
    RunRecord {
        axes: axes.chain(several.then(|| SETTING.to_owned())).chain([ARM.to_owned()]).collect(),
        arms: releases.iter().map(|r| name(r)).collect(),
        cells: merged.cells.iter().filter(|c| c.arm() != CONTROL).map(cell).collect(),
        comparisons: merged.comparisons.iter().map(comparison).collect(),
        metrics,
        // Expectations concern the original arms.
        expectations: Vec::new(),
        ..merged.clone()
    }
}

/// Kernels on which completions were posted out of order, for the arm with the most of them.
fn order(merged: &RunRecord, kernels: &[Boots]) -> Option<String> {
    let of = |arm: &String| Some((arm.clone(), lost_order(arm, kernels)?));
    let share =
        |lost: &[(String, u64, u64)]| lost.iter().map(|(_, n, of)| *n as f64 / (*of).max(1) as f64).fold(0.0, f64::max);
    let (arm, lost) = merged.arms.iter().filter_map(of).max_by(|a, b| share(&a.1).total_cmp(&share(&b.1)))?;
    let (kept, lost): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(_, n, _)| *n == 0);
    let kept: Vec<String> = kept.into_iter().map(|(kernel, ..)| kernel).collect();
    let said = |(i, (kernel, n, of)): (usize, (String, u64, u64))| match i {
        0 => format!("{n} of {of} completions posted out of order on {kernel}"),
        _ => format!("{n} of {of} on {kernel}"),
    };
    let mut parts: Vec<String> = lost.into_iter().enumerate().map(said).collect();
    if parts.is_empty() {
        return Some(format!("no completion was posted out of order on {}", list(&kept)));
    }
    parts.extend((!kept.is_empty()).then(|| format!("none on {}", list(&kept))));
    Some(format!("{arm}: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::across::merged;
    use iotrail_testing::sample;

    fn boot(run: i64, kernel: &str, kicks: f64, inversions: u64) -> RunRecord {
        let cell = |number: u32, arm: &str| {
            let params = json!({"depth": 1, "arm": arm}).as_object().unwrap().clone();
            let repeat = |_| {
                let mut m = sample::measurement();
                m.host.kernel = kernel.into();
                m.host.virtualisation = Some("qemu".into());
                m.per_io.kicks = Some(if number == 1 { kicks } else { 0.0 });
                sample::delivered(&mut m, if number == 1 { inversions } else { 0 }, 3);
                m
            };
            CellRecord { cell: number, params, untestable: None, measurements: (0..6).map(repeat).collect() }
        };
        RunRecord {
            run,
            axes: vec!["depth".into(), ARM.into()],
            arms: vec!["defer".into(), "coop".into()],
            repeats: 6,
            cells: vec![cell(1, "defer"), cell(2, "coop"), cell(3, CONTROL)],
            ..sample::run()
        }
    }

    fn two() -> Vec<Boots> {
        let of = |kernel: &str, runs: [i64; 3], kicks, lost| Boots {
            kernel: kernel.into(),
            runs: runs.map(|run| boot(run, kernel, kicks, lost)).into(),
        };
        vec![of("6.1.1+deb12-amd64", [1, 3, 5], 1.0, 400), of("7.3.2+deb14-amd64", [2, 4, 6], 0.5, 0)]
    }

    fn records(failed: &str) -> Vec<KernelRecord> {
        let of = |asked: &str, runs: [i64; 3]| KernelRecord {
            asked: asked.into(),
            kernel: None,
            runs: runs.into(),
            emulated: Some(true),
            failed: Vec::new(),
        };
        let mut both = vec![of("6.1", [1, 3, 5]), of("newest", [2, 4, 6])];
        both[1].failed.extend((!failed.is_empty()).then(|| failed.to_owned()));
        both
    }

    #[test]
    fn kernels_are_compared_like_arms() {
        let kernels = two();
        let head = Head::of_kernels(&merged(&kernels, &|_, _, _| None).unwrap(), &kernels, &records("it hung"));
        assert!(head.answer.starts_with("7.3.2 against 6.1.1: 2.0× fewer kicks per I/O"), "{head:?}");
        let rows: Vec<&str> = head.table.as_ref().unwrap().rows.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(rows, ["defer", "coop"]);
        assert_eq!(head.notes[0], "newest failed: it hung");
        assert!(head.notes.iter().any(|n| n.contains("emulated")), "{head:?}");
        let on = head.on.unwrap();
        assert!(on.starts_with("Linux 6.1.1 and 7.3.2, ") && on.ends_with("; runs 1, 2, 3, 4, 5 and 6"), "{on}");
    }

    #[test]
    fn two_boots_per_kernel_have_no_verdict() {
        let mut kernels = two();
        kernels.iter_mut().for_each(|k| k.runs.truncate(2));
        let head = Head::of_kernels(&merged(&kernels, &|_, _, _| None).unwrap(), &kernels, &records(""));
        assert!(
            head.answer.starts_with("7.3.2 against 6.1.1: kicks per I/O inconclusive in all 2 situations"),
            "{head:?}"
        );
        assert_eq!(head.notes[0], "2 boots: a verdict needs at least 3 boots per kernel (--rounds 3)");
    }

    #[test]
    fn the_answer_of_an_order_experiment_is_the_completion_order() {
        let mut kernels = two();
        kernels.iter_mut().flat_map(|k| &mut k.runs).for_each(|r| r.table = "order".into());
        let of =
            |kernels: &[Boots]| Head::of_kernels(&merged(kernels, &|_, _, _| None).unwrap(), kernels, &records(""));
        let head = of(&kernels);
        assert_eq!(head.answer, "defer: 7200 of 18000 completions posted out of order on 6.1.1, none on 7.3.2");
        assert!(head.also[0].starts_with("7.3.2 against 6.1.1: "), "{:?}", head.also);
        kernels.remove(0);
        assert_eq!(of(&kernels).answer, "no completion was posted out of order on 7.3.2");
    }
}
