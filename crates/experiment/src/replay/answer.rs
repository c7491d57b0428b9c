//! Comparisons, except those that the replay errors rule out, and the answer in one sentence.

use std::collections::BTreeMap;

use super::arms::Arm;
use super::measure::Round;
use iotrail_answer::compare::{Metric, Repeat, Side, noise_floor, together, undecided, why_open};
use iotrail_base::words::{per_io, percent, span, three_digits};
use iotrail_replay::observed::Observed;
use iotrail_schema::comparison::{Comparison, EQUIVALENT_WITHIN, Verdict};
use iotrail_schema::replay_record::{Fidelity, ReplayArm};

/// Counts, then CPU time, then time; each with the self-check metric that bounds its error.
const METRICS: [(Metric, &str); 6] = [
    (Metric::SyscallsPerIo, "calls_per_io"),
    // The recording's CPU time includes the program's own work.
    (Metric::CpuPerIo, "iops"),
    (Metric::Elapsed, "iops"),
    (Metric::Iops, "iops"),
    (Metric::LatencyP50, "latency_p50"),
    (Metric::LatencyP99, "latency_p99"),
];

/// Compares each arm with its base, by metric.
///
/// `slowdown`: of recording. The relative error of a time without probes is larger than that of recorded replays by
/// this factor.
pub(super) fn comparisons(
    arms: &[Arm],
    rounds: &[Round],
    fidelity: &BTreeMap<String, Fidelity>,
    slowdown: Option<f64>,
) -> Vec<Comparison> {
    let sides: Vec<Side<'_>> = arms.iter().zip(rounds).map(|(arm, round)| side(arm, round)).collect();
    let control = arms.iter().position(|arm| arm.is_control);
    let mut all = Vec::new();
    for (metric, _) in METRICS {
        let noise = control.and_then(|control| noise_floor(metric, &sides[0], &sides[control]));
        for (at, arm) in arms.iter().enumerate().filter(|(at, arm)| !arm.is_control && arm.base != *at) {
            all.push(undecided(metric, &sides[arm.base], &sides[at], true, noise));
        }
    }
    together(&mut all, EQUIVALENT_WITHIN);
    for c in &mut all {
        let figure = METRICS.iter().find(|(metric, _)| metric.name() == c.metric).map(|(_, figure)| *figure);
        let error = figure.and_then(|figure| fidelity.get(figure)?.error);
        let is_count = c.metric == Metric::SyscallsPerIo.name();
        withhold(c, error.map(|error| if is_count { error } else { error * slowdown.unwrap_or(1.0) }));
    }
    all
}

fn side<'a>(arm: &Arm, round: &'a Round) -> Side<'a> {
    let repeats = round.runs.iter().map(|run| Repeat::new(&run.measurement, Some(run.latency.clone())));
    Side { name: arm.name.clone(), repeats: repeats.collect() }
}

/// Maximum equivalence band. A wider interval is not an answer.
const WIDEST: f64 = 0.15;

/// Withholds an effect within the self-check's error. If the interval extended by this error is narrow, the answer is
/// that there is no difference larger than it.
fn withhold(c: &mut Comparison, error: Option<f64>) {
    let (Some(ratio), Some(error)) = (c.ratio, error) else { return };
    let error = error.abs();
    let effect = ratio.max(1.0 / ratio) - 1.0;
    let is_effect = matches!(c.verdict, Verdict::Faster | Verdict::Slower);
    if c.verdict == Verdict::NotComparable || is_effect && effect > error {
        return;
    }
    let extended = c.ci95.filter(|_| c.p.is_some()).map(|[lo, hi]| [lo / (1.0 + error), hi * (1.0 + error)]);
    // In whole percent, rounded up.
    let band = |[lo, hi]: [f64; 2]| ((hi.max(1.0 / lo) - 1.0) * 100.0).ceil().max(1.0) / 100.0;
    if let Some(extended) = extended.filter(|ends| band(*ends) <= WIDEST) {
        if why_open(c).is_some() {
            c.reasons.remove(0);
        }
        (c.verdict, c.ci95, c.equivalent_within) = (Verdict::Equivalent, Some(extended), band(extended));
        c.reasons.push(format!("the interval includes the self-check's error of {}", percent(error)));
    } else if c.verdict != Verdict::Inconclusive {
        c.verdict = Verdict::Inconclusive;
        let what = format!("the effect of {} is within the self-check's error of {}", percent(effect), percent(error));
        c.reasons.insert(0, what);
    }
}

/// The answer: what the variants change, or how far the replay deviates from the recording.
pub(super) fn sentence(arms: &[ReplayArm], fidelity: &BTreeMap<String, Fidelity>, observed: &Observed) -> String {
    let is_variant = |arm: &ReplayArm| !arm.comparisons.is_empty() && !arm.per_call;
    let per_call = |at: usize| arms.get(at + 1).filter(|next| next.per_call);
    let variants = arms.iter().enumerate().filter(|(_, arm)| is_variant(arm));
    let variants: Vec<String> = variants.filter_map(|(at, arm)| of_variant(&arms[0], arm, per_call(at))).collect();
    if !variants.is_empty() {
        return variants.join(" ");
    }
    if observed.doubts.imported {
        return "The iolog's requests were replayed one at a time; an iolog has no calls and no latencies to compare."
            .into();
    }
    let (iops, calls) = (fidelity.get("iops"), fidelity.get("calls_per_io"));
    let error = iops.and_then(|f| Some((f.error?, f.ci95)));
    let Some((error, ci95)) = error else {
        return "The recording was replayed; it is too short for a comparison with the recorded program.".into();
    };
    let calls = calls.and_then(|f| f.recorded.zip(f.replayed)).map_or_else(String::new, |(recorded, replayed)| {
        format!(", with {} system calls per I/O instead of {}", per_io(replayed), per_io(recorded))
    });
    format!(
        "The unchanged replay has {} times the recorded IOPS{}{calls}.",
        three_digits(1.0 + error),
        of_interval(ci95.map(|c| c.map(|x| 1.0 + x)))
    )
}

fn of_interval(ci95: Option<[f64; 2]>) -> String {
    ci95.map_or_else(String::new, |[lo, hi]| format!(" (95 %: {} to {})", three_digits(lo), three_digits(hi)))
}

/// Describes counts, CPU time and time. `per_call`: the same variant with think time per call, if it is different.
fn of_variant(unchanged: &ReplayArm, arm: &ReplayArm, per_call: Option<&ReplayArm>) -> Option<String> {
    let iops = find(arm, Metric::Iops)?;
    let time = of_iops(iops, per_call.and_then(|arm| find(arm, Metric::Iops)), arm.upper_bound)?;
    // Calls are compared with the unchanged replay, so only if that is the base.
    let (a, b) = (unchanged.counts.calls_per_io, arm.counts.calls_per_io);
    let calls = a.zip(b).filter(|(a, b)| per_io(*a) != per_io(*b) && iops.a == unchanged.name);
    let calls = calls.map(|(a, b)| format!("{} instead of {} system calls per I/O, ", per_io(b), per_io(a)));
    // The program's own CPU time is not known either if its think time is not.
    let cpu = find(arm, Metric::CpuPerIo).filter(|_| per_call.is_none());
    let cpu = cpu.filter(|c| matches!(c.verdict, Verdict::Faster | Verdict::Slower));
    let cpu = cpu.and_then(|c| {
        Some(format!("{} of CPU time per I/O ({} times), ", span(arm.cpu_per_io_ns?), three_digits(c.ratio?)))
    });
    Some(format!("{}: {}{}{time}.", arm.name, calls.unwrap_or_default(), cpu.unwrap_or_default()))
}

fn find(arm: &ReplayArm, metric: Metric) -> Option<&Comparison> {
    arm.comparisons.iter().find(|c| c.metric == metric.name())
}

/// Describes the ratio of the IOPS, or the range of both if there are two.
fn of_iops(iops: &Comparison, per_call: Option<&Comparison>, upper_bound: bool) -> Option<String> {
    let is_open = |c: &&Comparison| matches!(c.verdict, Verdict::Inconclusive | Verdict::NotComparable);
    if let Some(open) = [Some(iops), per_call].into_iter().flatten().find(is_open) {
        let too_wide = || format!("the interval{} is too wide", of_interval(open.ci95));
        let why = open.reasons.first().cloned().unwrap_or_else(too_wide);
        return Some(format!("no answer for the IOPS: {why}"));
    }
    let ratio = three_digits(iops.ratio?);
    let at_most = if upper_bound { "at most " } else { "" };
    if let Some(other) = per_call {
        let ([a, b], [c, d]) = (iops.ci95?, other.ci95?);
        let interval = of_interval(Some([a.min(c), b.max(d)]));
        return Some(format!(
            "{at_most}{ratio} times the IOPS if think time is per request, and {} times if it is per call{interval}",
            three_digits(other.ratio?)
        ));
    }
    if iops.verdict == Verdict::Equivalent {
        let what = if upper_bound { "increase" } else { "difference" };
        let band = percent(iops.equivalent_within);
        return Some(format!("no {what} in IOPS larger than {band}: {ratio} times{}", of_interval(iops.ci95)));
    }
    Some(format!("{at_most}{ratio} times the IOPS{}", of_interval(iops.ci95)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::measurement::Measurement;

    fn compared(ratio: f64, error: Option<f64>) -> Comparison {
        let run =
            |i: u64, iops: f64| Measurement { iops: Some(iops * (1.0 + i as f64 / 1e4)), ..Measurement::default() };
        let (a, b): (Vec<_>, Vec<_>) = (0..8).map(|i| (run(i, 1000.0), run(i, 1000.0 * ratio))).unzip();
        let side = |name: &str, of: &'static [Measurement]| Side {
            name: name.into(),
            repeats: of.iter().map(|m| Repeat::new(m, None)).collect(),
        };
        let (a, b) = (Vec::leak(a), Vec::leak(b));
        let mut c = undecided(Metric::Iops, &side("unchanged", a), &side("--depth 4", b), true, None);
        together(std::slice::from_mut(&mut c), EQUIVALENT_WITHIN);
        withhold(&mut c, error);
        c
    }

    #[test]
    fn an_effect_within_the_self_check_error_does_not_count() {
        assert_eq!(compared(1.28, Some(0.04)).verdict, Verdict::Faster);
        let withheld = compared(1.08, Some(-0.1));
        assert_eq!(withheld.verdict, Verdict::Inconclusive);
        assert_eq!(withheld.reasons[0], "the effect of 8 % is within the self-check's error of 10 %");
        let equivalent = compared(1.001, Some(0.021));
        assert_eq!((equivalent.verdict, equivalent.equivalent_within), (Verdict::Equivalent, 0.03));
        let [lo, hi] = equivalent.ci95.unwrap();
        assert!((lo - 1.001 / 1.021).abs() < 1e-6 && (hi - 1.001 * 1.021).abs() < 1e-6, "{lo} {hi}");
        // A small effect within the error is no effect, but the error limits it.
        let small = compared(0.96, Some(-0.08));
        assert_eq!((small.verdict, small.equivalent_within), (Verdict::Equivalent, 0.13));
        assert_eq!(small.reasons, ["the interval includes the self-check's error of 8 %"]);
        assert_eq!(compared(1.001, Some(0.2)).verdict, Verdict::Inconclusive);
        assert_eq!(compared(1.08, None).verdict, Verdict::Faster);
    }

    #[test]
    fn the_answer_includes_counts_and_the_ratio_of_the_variant() {
        let arm = |name: &str, calls: f64, comparisons: Vec<Comparison>| ReplayArm {
            name: name.into(),
            upper_bound: !comparisons.is_empty(),
            per_call: false,
            counts: iotrail_schema::replay_record::ReplayCounts { calls_per_io: Some(calls), ..Default::default() },
            cpu_per_io_ns: None,
            iops: None,
            comparisons,
        };
        let of = |c: Comparison| {
            sentence(
                &[arm("unchanged", 2.0, vec![]), arm("--depth 4", 1.0, vec![c])],
                &BTreeMap::new(),
                &Observed::default(),
            )
        };
        assert_eq!(
            of(compared(1.28, None)),
            "--depth 4: 1.00 instead of 2.00 system calls per I/O, at most 1.28 times the IOPS (95 %: 1.28 to 1.28)."
        );
        assert!(of(compared(1.08, Some(0.1))).contains("no answer for the IOPS: the effect of 8 % is within"));
        assert!(
            of(compared(1.03, Some(0.04)))
                .ends_with("no increase in IOPS larger than 8 %: 1.03 times (95 %: 0.990 to 1.07).")
        );
        let range = |per_call: Comparison| {
            let arms = [
                arm("unchanged", 2.0, vec![]),
                arm("--batch 8", 0.5, vec![compared(1.2, None)]),
                ReplayArm { per_call: true, ..arm("--batch 8, think time per call", 0.5, vec![per_call]) },
            ];
            sentence(&arms, &BTreeMap::new(), &Observed::default())
        };
        assert!(
            range(compared(1.5, None)).ends_with(
                "at most 1.20 times the IOPS if think time is per request, and 1.50 times if it is per call (95 %: 1.20 to 1.50)."
            ),
            "{}",
            range(compared(1.5, None))
        );
        assert!(range(compared(1.08, Some(0.1))).contains("no answer for the IOPS: the effect of 8 % is within"));
    }
}
