//! Limits of a run's answer, one per line.

use super::effect::Effect;
use crate::compare::{failed, metrics};
use crate::expectation::{Outcome, judge};
use iotrail_base::words::{plural, span};
use iotrail_schema::comparison::{Comparison, Needed};
use iotrail_schema::run_record::{CONTROL, RunRecord};

/// A longer measurement is not worthwhile.
const LONGEST_NS: f64 = 2.0 * 3600e9;

/// Maximum of `run --repeats`.
const MOST_REPEATS: usize = 1000;
/// Maximum of `run --rounds`.
const MOST_ROUNDS: usize = 20;

pub fn of_run(run: &RunRecord) -> Vec<String> {
    let mut notes = Vec::new();
    // A search chooses its own number of measurements.
    let searched = run.search.is_some() && run.finished_unix_s.is_some();
    if run.done() < run.planned() && !searched {
        notes.push(format!(
            "partial run: {} of {} measurements; the answer covers only these",
            run.done(),
            run.planned()
        ));
    }
    notes.extend(never_measured(run));
    notes.extend(failures(run));
    notes.extend(disturbed(run));
    notes.extend(added(run));
    let all = || run.measurements();
    match all().filter(|m| m.probe.mode == "off").count() {
        0 => {}
        _ if run.search.is_some() => {}
        // One run per arm was traced.
        _ if run.tried.iter().any(|t| t.watched.is_some()) => {}
        n if n == run.done() => notes.push("not traced: the delivery paths are unknown".into()),
        n => notes.push(format!("{} not traced: the delivery paths there are unknown", plural(n, "measurement"))),
    }
    if run.is_emulated() {
        notes.push("the machine is emulated: counts are compared, times are not".into());
    }
    notes.extend(expected(run));
    notes
}

/// Cells without a measurement, with the first one's reason. Excludes a program's arms that have their own note.
fn never_measured(run: &RunRecord) -> Option<String> {
    let is_said = |reason: &str| run.tried.iter().any(|t| t.dropped.as_deref() == Some(reason) || t.reason == reason);
    let never = run.cells.iter().filter(|c| c.arm() != CONTROL && c.measurements.is_empty());
    let mut reasons = never.filter_map(|c| c.untestable.as_deref()).filter(|reason| !is_said(reason));
    let first = reasons.next()?;
    Some(format!("{} not testable here: {first}", plural(1 + reasons.count(), "cell")))
}

/// Cells that failed during the run.
fn failures(run: &RunRecord) -> Option<String> {
    let (control, arms): (Vec<_>, Vec<_>) = run.cells.iter().partition(|c| c.arm() == CONTROL);
    let mut all = arms.into_iter().filter_map(failed);
    // If the load fails, its control also fails.
    let Some(first) = all.next() else { return control.into_iter().find_map(failed) };
    Some(match all.count() {
        0 => first,
        more => format!("{first}; {} also failed during the run", plural(more, "other cell")),
    })
}

/// Follows the answer for comparisons of one metric if all of them use disturbed measurements.
pub fn all_disturbed<'c>(mut all: impl Iterator<Item = &'c Comparison>) -> Option<&'static str> {
    let is = |c: &Comparison| c.disturbed.counted > 0;
    (is(all.next()?) && all.all(is)).then_some("; other work disturbed every comparison")
}

/// For the comparisons of the first metric. A comparison that leaves out its disturbed pairs is not disturbed.
fn disturbed(run: &RunRecord) -> Option<String> {
    let metric = metrics(run).first()?.name();
    let all: Vec<&Comparison> = run.comparisons.iter().filter(|c| c.metric == metric).collect();
    let sum = |f: fn(&Comparison) -> usize| all.iter().map(|c| f(c)).sum::<usize>();
    let (left_out, counted) = (sum(|c| c.disturbed.left_out), sum(|c| c.disturbed.counted));
    let touched = all.iter().filter(|c| c.disturbed.counted > 0).count();
    // Kernels are not measured in pairs.
    let unit = if all.iter().all(|c| c.paired) { "pair" } else { "measurement" };
    let every = sum(|c| if c.paired { c.pairs + c.disturbed.left_out } else { c.disturbed.measurements });
    let every = plural(every, unit);
    let used = || {
        let of = plural(all.len(), "comparison");
        format!("other work disturbed {touched} of {of}: {} used (*)", plural(counted, &format!("disturbed {unit}")))
    };
    match (left_out, counted) {
        (0, 0) => None,
        (0, _) => Some(used()),
        (n, 0) => {
            Some(format!("other work disturbed {n} of {every}, which {} left out", if n == 1 { "is" } else { "are" }))
        }
        (n, _) => Some(format!("{}; {n} of {every} left out", used())),
    }
}

/// Blocks added to the plan.
fn added(run: &RunRecord) -> Option<String> {
    (run.added_blocks() > 0).then(|| {
        format!(
            "{} planned per cell, {} run: most of the repeated measurements were disturbed again",
            plural(run.repeats as usize, "repeat"),
            run.blocks()
        )
    })
}

/// The machine, in one line.
pub fn of_one_host(run: &RunRecord) -> Option<String> {
    host(run, &run.first()?.host.kernel)
}

/// The same with these kernel releases.
pub fn host(run: &RunRecord, kernel: &str) -> Option<String> {
    let m = run.first()?;
    let device = m.host.target.as_ref().and_then(|t| t.device.clone().map(|d| (d, t.driver.clone())));
    let device = device.map(|(d, driver)| format!(", {d}{}", driver.map(|d| format!(" ({d})")).unwrap_or_default()));
    Some(format!(
        "Linux {kernel}, {}, {}{}",
        m.host.cpu_model,
        plural(m.host.cpus as usize, "CPU"),
        device.unwrap_or_default()
    ))
}

fn expected(run: &RunRecord) -> Option<String> {
    let judged = judge(run);
    let of = |outcome| judged.iter().filter(|j| j.outcome == outcome).count();
    let (met, not, open) = (of(Outcome::Met), of(Outcome::NotMet), of(Outcome::Open));
    (!judged.is_empty()).then(|| format!("expectations: {met} met, {not} not met, {open} open"))
}

/// `--repeats 40 (about 12.0 min) shows ±10 %`, for the comparison that needs most repeats, within an hour.
pub fn more_repeats<'a, 'r: 'a>(
    run: &RunRecord,
    is_built_in: bool,
    effects: impl Iterator<Item = &'a Effect<'r>>,
) -> Option<String> {
    let all: Vec<&Comparison> = effects.map(|e| e.c).collect();
    let Needed { repeats: needed, seconds } =
        all.iter().filter_map(|c| c.to_show_10_percent).max_by_key(|n| n.repeats)?;
    if all.iter().any(|c| !c.paired) {
        // The sides are kernels, and each boot counts once.
        let boots =
            if needed > MOST_ROUNDS { format!("{needed} boots per kernel") } else { format!("--rounds {needed}") };
        return Some(format!("{boots} would detect ±10 %"));
    }
    let whole = seconds.unwrap_or(0.0) * 1e9;
    if whole > LONGEST_NS || needed > MOST_REPEATS {
        return Some(format!(
            "{needed} repeats (about {}) would detect ±10 % here; a quieter machine needs fewer",
            minutes(whole)
        ));
    }
    let quick = if run.quick { " --quick" } else { "" };
    let command = if is_built_in {
        format!("iotrail run {}{quick} --repeats {needed}", run.experiment)
    } else {
        format!("--repeats {needed}")
    };
    Some(format!("{command} would detect ±10 % (about {})", minutes(whole)))
}

fn minutes(ns: f64) -> String {
    match ns / 60e9 {
        m if m >= 90.0 => format!("{:.0} hours", m / 60.0),
        m if m >= 1.5 => format!("{m:.0} min"),
        _ => span(ns),
    }
}

#[cfg(test)]
mod tests {
    use crate::compare;
    use crate::summary::Head;
    use iotrail_schema::measurement::Measurement;
    use iotrail_schema::run_record::{CONTROL, RunRecord};
    use iotrail_testing::{run::two_by_two, sample};

    #[test]
    fn a_cell_that_failed_midway_is_reported_once_without_a_verdict() {
        let measured = |untestable: Option<&str>, blocks: usize| {
            let mut run = two_by_two();
            run.cells.truncate(2);
            for cell in &mut run.cells {
                let one = Measurement { iops: Some(250.0 * f64::from(cell.cell)), ..sample::measurement() };
                cell.measurements = vec![one; blocks].into();
            }
            run.cells[1].untestable = untestable.map(str::to_owned);
            run.comparisons = compare::of_run(&run, &|_, _| None);
            run
        };
        let failed = "coop_taskrun failed after 3 measurements: it stalled";
        let head = |run: &RunRecord| Head::of_run(run, false);
        let h = head(&measured(Some("it stalled"), 3));
        assert_eq!(h.answer, format!("coop_taskrun against default: not comparable: {failed}"));
        assert_eq!(h.advice.as_deref(), Some("check why coop_taskrun fails, and measure again"));
        assert!(!h.notes.iter().any(|note| note.contains(failed)), "{:?}", h.notes);
        // A program that occasionally fails does so in both arms.
        let mut both = measured(Some("it stalled"), 3);
        both.cells[0].untestable = Some("it stalled".into());
        both.comparisons = compare::of_run(&both, &|_, _| None);
        let advice = "check why default and coop_taskrun fail, and measure again";
        assert_eq!(head(&both).advice.as_deref(), Some(advice));
        // With several arms, the answer is about the remaining arms.
        let mut run = measured(Some("it stalled"), 3);
        let mut third = run.cells[0].clone();
        third.params.insert("arm".into(), "sqpoll".into());
        (third.cell, run.arms) = (3, ["default", "coop_taskrun", "sqpoll"].map(str::to_owned).to_vec());
        run.cells.push(third);
        run.comparisons = compare::of_run(&run, &|_, _| None);
        assert!(head(&run).notes.contains(&failed.to_owned()), "{:?}", head(&run));
        // The user specified no arm with this name.
        let mut control = run.cells[1].clone();
        (control.cell, control.params["arm"]) = (4, CONTROL.into());
        run.cells.insert(0, control);
        assert!(head(&run).notes.contains(&failed.to_owned()), "{:?}", head(&run));
        run.cells[2].untestable = None;
        let failed = "the control (the first arm, measured again) failed after 3 measurements: it stalled";
        assert!(head(&run).notes.contains(&failed.to_owned()), "{:?}", head(&run));
        // The arm failed before its first measurement.
        let h = head(&measured(Some("it stalled"), 0));
        assert!(h.notes.contains(&"1 cell not testable here: it stalled".to_owned()), "{:?}", h.notes);
    }
}
