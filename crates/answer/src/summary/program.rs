//! The parts of a program's run besides its verdicts: a table of all arms and metrics, the probes' counts in each arm's
//! traced run, and the source change for an arm.

use super::change::{range, value};
use super::effect::Effect;
use super::table::{Mark, Situation, Situations, band, open, visible};
use super::why::{AMOUNT, FACTOR, MOVED, by};
use crate::compare::Metric;
use crate::table::PROGRAM;
use crate::unit::Unit;
use iotrail_base::words::{list, per_io, percent, span};
use iotrail_schema::comparison::{Comparison, Verdict};
use iotrail_schema::delivery_path::DeliveryPath;
use iotrail_schema::program_record::{Legal, ProgramRing, TriedArm, WatchedRun};
use iotrail_schema::run_record::RunRecord;
use iotrail_schema::setup_flag;

/// Maximum number of metric columns.
const COLUMNS: usize = 3;

/// One row per arm, one column per metric. If an arm has several situations, the one with the largest difference is
/// shown.
pub fn table(compared: &[(Metric, Vec<super::ByArm<'_>>)]) -> Option<Situations> {
    // A program with a fixed run time takes equally long with every arm.
    let says = |(metric, all): &&(Metric, Vec<super::ByArm<'_>>)| {
        let same = || all.iter().flat_map(|(_, e)| e).all(|e| e.c.verdict == Verdict::Equivalent);
        *metric != Metric::Elapsed || !same() || compared.len() == 1
    };
    let shown: Vec<_> = compared.iter().filter(says).take(COLUMNS).collect();
    let (_, arms) = shown.first()?;
    let row = |(arm, _): &super::ByArm<'_>| {
        let mark = |(metric, all): &&(Metric, Vec<super::ByArm<'_>>)| {
            let (_, effects) = all.iter().find(|(name, _)| name == arm)?;
            let most = effects.iter().max_by(|a, b| a.size().total_cmp(&b.size()))?;
            Some(Mark::of(*metric, most))
        };
        Situation { name: (*arm).to_owned(), marks: shown.iter().map(mark).collect() }
    };
    let effects = || shown.iter().flat_map(|(_, all)| all).flat_map(|(_, e)| e);
    Some(Situations {
        columns: shown.iter().map(|(metric, _)| column(*metric)).collect(),
        rows: arms.iter().map(row).collect(),
        more: 0,
        visible: visible(effects()),
        band: band(effects()),
        open: open(effects()),
    })
}

fn column(metric: Metric) -> String {
    match metric {
        Metric::CpuPerUnit(_) => "cpu per unit".into(),
        metric => metric.words(Unit::Io).to_lowercase(),
    }
}

fn of<'r>(run: &'r RunRecord, arm: &str) -> Option<&'r TriedArm> {
    run.tried.iter().find(|t| t.name == arm)
}

/// A count per I/O from a traced run, and its source.
type Count = (Metric, fn(&WatchedRun) -> Option<f64>);
const COUNTS: [Count; 3] = [
    (Metric::KicksPerIo, |w| w.kicks_per_io),
    (Metric::SyscallsPerIo, |w| w.syscalls_per_io),
    (Metric::ContextSwitchesPerIo, |w| w.sleeps_per_io),
];

/// A value per operation, with the interval if it is an estimate.
struct PerOperation(f64, Option<[f64; 2]>);

impl PerOperation {
    fn of(w: &WatchedRun, (metric, of): &Count) -> Option<Self> {
        let scale = w.completions_per_operation()?;
        Some(Self(of(w)? * scale, w.per_io_intervals.get(metric.field()).map(|ci95| ci95.map(|x| x * scale))))
    }

    fn range(&self) -> [f64; 2] {
        self.1.unwrap_or([self.0; 2])
    }

    /// Whether they differ by more than chance and sampling error.
    fn differs_from(&self, other: &Self) -> bool {
        let ([low, high], [others_low, others_high]) = (self.range(), other.range());
        let is_apart = high < others_low || others_high < low;
        is_apart && (self.0 - other.0).abs() >= AMOUNT && self.0.max(other.0) >= FACTOR * self.0.min(other.0)
    }

    /// `1.00`, or `~16.00 (12.00–21.00)` for an estimate.
    fn text(&self) -> String {
        match self.1 {
            None => per_io(self.0),
            Some([low, high]) => format!("~{} ({}–{})", per_io(self.0), per_io(low), per_io(high)),
        }
    }
}

/// Counts of the arm's traced run compared with the first arm's: a single run each.
pub fn why(run: &RunRecord, base: &str, arm: &str) -> Option<String> {
    let (a, b) = (of(run, base)?.watched.as_ref()?, of(run, arm)?.watched.as_ref()?);
    let idle: Vec<String> =
        [(base, a), (arm, b)].iter().filter(|(_, w)| w.completions == 0).map(|(name, _)| (*name).to_owned()).collect();
    if !idle.is_empty() {
        return Some(format!(
            "unknown: the traced run of {} had no asynchronous I/O, and the probes count per I/O",
            list(&idle)
        ));
    }
    let mut parts: Vec<String> = Vec::new();
    let (mut same, mut missing) = (Vec::new(), Vec::new());
    let is_known = |w: &WatchedRun| !w.vehicles.is_empty();
    let mut file = |name: &str, is_known: bool| if is_known { &mut same } else { &mut missing }.push(name.to_owned());
    let shares = |w: &WatchedRun, v: DeliveryPath| {
        let all: u64 = w.vehicles.iter().map(|(_, n)| n).sum();
        let its: u64 = w.vehicles.iter().filter(|(vehicle, _)| *vehicle == v).map(|(_, n)| n).sum();
        its as f64 / all.max(1) as f64
    };
    let grown = DeliveryPath::ALL.into_iter().map(|v| (v, shares(b, v), shares(b, v) - shares(a, v)));
    match grown.max_by(|x, y| x.2.total_cmp(&y.2)).filter(|(.., gain)| *gain >= MOVED && is_known(a)) {
        Some((vehicle, share, _)) => {
            let most = DeliveryPath::ALL.into_iter().max_by(|x, y| shares(a, *x).total_cmp(&shares(a, *y)));
            let before =
                most.map(|v| format!(" (with {base}, {} {})", percent(shares(a, v)), by(v))).unwrap_or_default();
            let share = percent(share);
            parts.push(format!("{share} of its completions were delivered {}{before}", by(vehicle)));
        }
        None => file("delivery paths", is_known(a) && is_known(b)),
    }
    let is_one = |w: &WatchedRun| w.completions_per_operation().is_some_and(|n| (n - 1.0).abs() < 0.01);
    let per = if is_one(a) && is_one(b) { "per I/O" } else { "per operation" };
    for count in &COUNTS {
        match PerOperation::of(a, count).zip(PerOperation::of(b, count)) {
            Some((x, y)) if x.differs_from(&y) => {
                parts.push(format!("{} {per} {} → {}", count.0.counted(), x.text(), y.text()));
            }
            both => file(&format!("{} {per}", count.0.counted()), both.is_some()),
        }
    }
    parts.extend(cpu(run, arm, (a, b), per));
    if !parts.is_empty() {
        return Some(format!("{arm}, one traced run each: {}", parts.join("; ")));
    }
    let same = if same.is_empty() { String::new() } else { format!("no large difference in {}", list(&same)) };
    let missing = if missing.is_empty() { String::new() } else { format!("unknown: {}", list(&missing)) };
    let both = [same, missing].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
    Some(format!("one traced run each: {both}"))
}

/// CPU time of the traced runs, if the timed runs, which have intervals, differ in the same direction.
fn cpu(run: &RunRecord, arm: &str, (a, b): (&WatchedRun, &WatchedRun), per: &str) -> Option<String> {
    let of = |w: &WatchedRun| Some(w.cpu_per_io_ns? * w.completions_per_operation()?);
    let (x, y) = of(a).zip(of(b))?;
    let verdict = if y > 1.1 * x { Verdict::Slower } else { Verdict::Faster };
    let is_cpu = |c: &&Comparison| c.b == arm && c.metric.parse().is_ok_and(Metric::is_of_cpu);
    let agrees = run.comparisons.iter().filter(is_cpu).all(|c| c.verdict == verdict);
    (agrees && (y > 1.1 * x || x > 1.1 * y))
        .then(|| format!("CPU time {per} {} → {}", value(Metric::CpuPerIo, x), value(Metric::CpuPerIo, y)))
}

/// `; it takes 2.0× more CPU time`: other metrics that the arm worsens.
pub fn price(run: &RunRecord, arm: &str, compared: &[(Metric, Vec<super::ByArm<'_>>)]) -> Option<String> {
    let worse = compared.iter().filter_map(|(metric, all)| {
        let (_, effects) = all.iter().find(|(name, _)| *name == arm)?;
        let worse: Vec<&Effect<'_>> = effects.iter().filter(|e| e.c.verdict == Verdict::Slower).collect();
        (!worse.is_empty()).then(|| range(*metric, Unit::of_run(run), &worse, true))
    });
    let worse: Vec<String> = worse.collect();
    (!worse.is_empty()).then(|| format!(", at the cost of {}", list(&worse)))
}

/// The flags in C and the kernel version that they require; `None` if the arm does not change flags.
pub fn to_write(run: &RunRecord, arm: &str) -> Option<String> {
    let ring = of(run, arm)?.rings.iter().find(|r| r.asked != r.granted)?;
    let (mut more, less) = (only(&ring.granted, &ring.asked), only(&ring.asked, &ring.granted));
    more.retain(|f| !f.name.is_empty());
    let c = |flags: &[&setup_flag::SetupFlag]| {
        let names: Vec<String> = flags.iter().map(|f| format!("IORING_SETUP_{}", f.name.to_uppercase())).collect();
        names.join(" | ")
    };
    let since = more.iter().map(|f| f.since).max().map(|(x, y)| format!(" (Linux {x}.{y})")).unwrap_or_default();
    match (more.is_empty(), less.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("set {}{since}", c(&more))),
        (true, false) => Some(format!("drop {}", c(&less))),
        (false, false) => Some(format!("set {}{since}, drop {}", c(&more), c(&less))),
    }
}

fn only(of: &[String], but: &[String]) -> Vec<&'static setup_flag::SetupFlag> {
    let names = of.iter().filter(|f| !but.contains(f));
    names.filter_map(|name| setup_flag::find(name)).collect()
}

/// Arms that were not measured, with the reason; risks of the measured arms.
pub fn notes(run: &RunRecord) -> Vec<String> {
    let left_out = |t: &TriedArm| match (t.legal, &t.dropped) {
        _ if t.hang.is_some() => hung(run, t),
        (Legal::No, _) => Some(format!("{} was not run: {}", t.name, t.reason)),
        (_, Some(why)) => Some(format!("{} was dropped: {why}", t.name)),
        _ => partly(t).or_else(|| interrupted(run, t)),
    };
    run.tried.iter().filter_map(left_out).chain(cpu_per_run(run)).collect()
}

/// Follows the answer: the command fails although `--metric` or `--check` accepted its results.
pub fn failing(run: &RunRecord) -> Option<String> {
    let status = run.first()?.program.as_ref()?.exit_status;
    (status != 0).then(|| format!("; the command exited with status {status} in every run"))
}

/// A program with a fixed run time does more work with a better arm, and uses more CPU time for it.
fn cpu_per_run(run: &RunRecord) -> Option<String> {
    let of = |metric: Metric| run.comparisons.iter().filter(move |c| c.metric == metric.name());
    let differs = |c: &Comparison| matches!(c.verdict, Verdict::Faster | Verdict::Slower);
    let takes_as_long = of(Metric::Elapsed).all(|c| c.verdict == Verdict::Equivalent);
    (run.table == PROGRAM && takes_as_long && of(Metric::CpuTime).any(differs)).then(|| {
        "CPU time is per run: if the program runs for a fixed time, an arm that does more work takes more CPU time; --metric NAME=REGEX measures its work"
            .into()
    })
}

/// Reports an arm that hung, once for all arms with the same settings. `None` if it is one of the others.
fn hung(run: &RunRecord, t: &TriedArm) -> Option<String> {
    let hang = t.hang.as_ref().filter(|hang| hang.arm == t.name)?;
    let is_with = |other: &&TriedArm| other.name != t.name && other.hang.as_ref() == Some(hang);
    let with: Vec<String> = run.tried.iter().filter(is_with).map(|other| other.name.clone()).collect();
    let beside = if with.is_empty() {
        String::new()
    } else {
        format!("; not run, because their settings are the same: {}", list(&with))
    };
    let why = t.dropped.clone().unwrap_or_else(|| format!("ended after {}", span(hang.waited_ns as f64)));
    Some(format!("{} hung: {why}{beside}", t.name))
}

/// Rings whose flags were not modified, in an arm that modifies flags.
fn partly(t: &TriedArm) -> Option<String> {
    let left = |r: &&ProgramRing| r.left_as_asked.is_some();
    let first = t.rings.iter().find(left)?;
    let (n, all) = (t.rings.iter().filter(left).count(), t.rings.len());
    Some(format!(
        "{}: {n} of {all} rings were set up with unmodified flags: {}",
        t.name,
        first.left_as_asked.as_deref()?
    ))
}

/// Effects of signals on an arm's rings that only the supervisor causes: from the first affected measurement.
fn interrupted(run: &RunRecord, t: &TriedArm) -> Option<String> {
    run.cells.iter().filter(|cell| cell.arm() == t.name).find_map(|cell| {
        let all = cell.measurements.all();
        let found = all.iter().flat_map(|m| &m.warnings).find(|w| w.code == "setups_interrupted")?;
        Some(format!("{}: {}", t.name, found.text))
    })
}

#[cfg(test)]
mod tests {
    use crate::compare::{self, Metric};
    use crate::summary::Head;
    use iotrail_schema::comparison::Verdict;
    use iotrail_schema::delivery_path::DeliveryPath;
    use iotrail_schema::measurement::{Measurement, Warning};
    use iotrail_schema::program_record::{Hang, Legal, OwnFigure, ProgramRecord, TriedArm, WatchedRun};
    use iotrail_schema::run_record::RunRecord;
    use iotrail_schema::trace_record::Subject;
    use iotrail_testing::{run::two_by_two, sample};

    /// Two arms, of which the second uses half the CPU time.
    fn run(tps: [[f64; 6]; 2]) -> RunRecord {
        let mut run = two_by_two();
        run.cells.truncate(2);
        (run.table, run.repeats) = (super::PROGRAM.into(), 6);
        for (cell, tps) in run.cells.iter_mut().zip(tps) {
            let one = |value: f64| {
                let figures = vec![OwnFigure { name: "tps".into(), value, less_is_better: false }];
                let mut m = Measurement { elapsed_ns: 2_000_000_000, ios: None, ..sample::measurement() };
                m.program = Some(ProgramRecord { figures, ..ProgramRecord::default() }.into());
                // Twice the work takes twice the CPU time.
                m.cpu.user_ns = Some((value * 1e6) as u64 / u64::from(cell.cell));
                m.cpu.system_ns = Some(0);
                m
            };
            cell.measurements = tps.map(one).to_vec().into();
        }
        run.comparisons = compare::of_run(&run, &|_, _| None);
        run
    }

    const LEVEL: [f64; 6] = [1000.0, 1400.0, 900.0, 1300.0, 800.0, 1200.0];

    #[test]
    fn the_requested_metric_is_reported_first_for_any_verdict() {
        let head = |tps| Head::of_run(&run(tps), false);
        let h = head([LEVEL, [1300.0, 900.0, 1250.0, 800.0, 1350.0, 1000.0]]);
        assert!(h.answer.starts_with("coop_taskrun against default: tps inconclusive: ×"), "{}", h.answer);
        assert!(h.answer.contains(" (95 % CI ") && h.answer.contains(" → "), "{}", h.answer);
        assert_eq!(
            h.advice.as_deref(),
            Some("use coop_taskrun, if CPU time per unit of tps matters; the effect on tps is unknown")
        );
        assert!(h.also[0].starts_with("2.0× less CPU time per unit of tps"), "{:?}", h.also);
        assert_eq!(h.forest.unwrap().metric.name(), "tps");
        let h = head([LEVEL, LEVEL]);
        assert!(
            h.answer.ends_with("tps equivalent within ±5 %: ×1.000 (95 % CI 1.000–1.000) (1.10 k → 1.10 k)"),
            "{}",
            h.answer
        );
        assert_eq!(h.advice.as_deref(), Some("use coop_taskrun, if CPU time per unit of tps matters"));
        let h = head([[0.0; 6]; 2]);
        assert_eq!(h.answer, "coop_taskrun against default: tps is 0 in both arms");
        let h = head([LEVEL, [-1.0; 6]]);
        assert_eq!(h.advice.as_deref(), Some("compare a metric that is never below 0"));
    }

    #[test]
    fn a_non_zero_exit_status_is_reported_in_the_first_line() {
        let mut run = run([LEVEL, LEVEL]);
        for m in run.cells.iter_mut().flat_map(|c| c.measurements.open()) {
            m.program.as_mut().unwrap().exit_status = 3;
        }
        let answer = Head::of_run(&run, false).answer;
        assert!(answer.ends_with("; the command exited with status 3 in every run"), "{answer}");
        let argv = vec!["false".to_owned()];
        let mut trace = iotrail_testing::trace::clean();
        trace.subject = Subject::Command { argv, exit_status: Some(3) };
        let answer = crate::summary::measured::of_trace(&trace).answer;
        assert!(answer.starts_with("the command exited with status 3; 32.0 k completions per second"), "{answer}");
        assert!(answer.ends_with("no finding explains the exit status"), "{answer}");
    }

    #[test]
    fn cpu_time_is_divided_by_the_work_that_the_metric_counts() {
        let twice = LEVEL.map(|tps| 2.0 * tps);
        let timed = run([LEVEL, twice]);
        let cpu = timed.comparisons.iter().find(|c| c.metric == "cpu_per_unit:tps").unwrap();
        assert!((cpu.ratio.unwrap() - 0.5).abs() < 1e-6, "{cpu:?}");
        let of_first = Metric::CpuTime.of(timed.first().unwrap()).unwrap();
        let per_unit = "cpu_per_unit:tps".parse::<Metric>().unwrap().of(timed.first().unwrap()).unwrap();
        // 2 s at 1,000 per second.
        assert!((per_unit - of_first / 2000.0).abs() < 1e-6);
        let mut run = run([LEVEL, LEVEL]);
        for cell in &mut run.cells {
            for m in cell.measurements.open() {
                m.program.as_mut().unwrap().figures[0].less_is_better = true;
            }
        }
        // A metric for which less is better does not count work.
        run.comparisons = compare::of_run(&run, &|_, _| None);
        let noted = Head::of_run(&run, false).notes;
        assert!(noted.iter().any(|note| note.starts_with("CPU time is per run: ")), "{noted:?}");
    }

    #[test]
    fn a_hung_arm_is_reported_once_with_the_arms_that_share_its_settings() {
        let mut run = run([LEVEL, LEVEL]);
        let hang = Some(Hang { arm: "sqpoll".into(), waited_ns: 12_000_000_000 });
        let tried = |name: &str| TriedArm {
            legal: Legal::Risky,
            reason: "it may stall".into(),
            dropped: Some("it was still running after 12.0 s".into()),
            hang: hang.clone(),
            ..TriedArm::new(name)
        };
        run.tried = ["sqpoll", "sqpoll · cpus irq", "sqpoll sq-cpu 1"].map(tried).to_vec();
        let notes: Vec<String> = super::notes(&run).into_iter().filter(|note| note.contains("hung")).collect();
        assert_eq!(
            notes,
            [
                "sqpoll hung: it was still running after 12.0 s; not run, because their settings are the same: sqpoll · cpus irq and sqpoll \
              sq-cpu 1"
            ]
        );
    }

    #[test]
    fn interrupted_ring_setups_of_an_arm_are_noted() {
        let mut run = run([LEVEL, LEVEL]);
        let text = "signals interrupted 3 of 9 io_uring_setup calls";
        run.cells[1].measurements.open()[2].warnings.push(Warning::new("setups_interrupted", text, ""));
        run.tried = run.arms.iter().map(|name| TriedArm::new(name)).collect();
        assert_eq!(super::notes(&run)[..1], [format!("coop_taskrun: {text}")]);
    }

    /// The `why` line for two arms whose traced runs had these counts and whose timed runs had this verdict on CPU
    /// time.
    fn explained(a: WatchedRun, b: WatchedRun, timed: Verdict) -> String {
        let mut run = run([LEVEL, LEVEL]);
        let tried = |(name, watched): (&String, WatchedRun)| TriedArm {
            name: name.clone(),
            legal: Legal::Yes,
            reason: String::new(),
            rings: Vec::new(),
            dropped: None,
            watched: Some(watched),
            hang: None,
        };
        run.tried = run.arms.iter().zip([a, b]).map(tried).collect();
        run.comparisons.retain(|c| c.metric.starts_with("cpu_"));
        run.comparisons.iter_mut().for_each(|c| c.verdict = timed);
        super::why(&run, "default", "coop_taskrun").unwrap()
    }

    fn traced(completions: u64, operations: u64) -> WatchedRun {
        WatchedRun {
            completions,
            operations: Some(operations),
            kicks_per_io: Some(0.0),
            syscalls_per_io: Some(1.0),
            sleeps_per_io: Some(0.5),
            cpu_per_io_ns: Some(10_000.0),
            vehicles: vec![(DeliveryPath::Enter, completions)],
            ..WatchedRun::default()
        }
    }

    #[test]
    fn counts_are_per_operation_if_an_operation_has_two_completions() {
        // The same calls and CPU time with half as many completions.
        let one = WatchedRun { syscalls_per_io: Some(2.0), cpu_per_io_ns: Some(20_000.0), ..traced(6_400, 6_400) };
        let one = WatchedRun { sleeps_per_io: Some(1.0), ..one };
        assert_eq!(
            explained(traced(12_800, 6_400), one.clone(), Verdict::Faster),
            "one traced run each: no large difference in delivery paths, kicks per operation, system calls per operation and context switches per \
             operation"
        );
        let dearer = WatchedRun { cpu_per_io_ns: Some(32_600.0), ..one };
        let said = explained(traced(12_800, 6_400), dearer, Verdict::Slower);
        assert_eq!(said, "coop_taskrun, one traced run each: CPU time per operation 20.0 µs → 32.6 µs");
    }

    #[test]
    fn a_missing_count_is_reported_as_unknown() {
        let none = WatchedRun { operations: Some(0), ..WatchedRun::default() };
        let said = explained(traced(1000, 1000), none, Verdict::Faster);
        assert!(said.starts_with("unknown: the traced run of coop_taskrun had no asynchronous I/O"), "{said}");
        let unknown = WatchedRun { syscalls_per_io: None, ..traced(1000, 1000) };
        let said = explained(traced(1000, 1000), unknown, Verdict::Faster);
        assert!(said.ends_with("context switches per I/O; unknown: system calls per I/O"), "{said}");
        assert!(!said.split("; unknown").next().unwrap().contains("system calls"), "{said}");
    }

    #[test]
    fn estimates_differ_only_if_their_intervals_do_not_overlap() {
        let estimated = |calls: f64, ci95: [f64; 2]| WatchedRun {
            syscalls_per_io: Some(calls),
            per_io_intervals: [("syscalls".to_owned(), ci95)].into(),
            ..traced(1000, 1000)
        };
        let said = explained(estimated(2.0, [1.0, 4.0]), estimated(16.0, [12.0, 21.0]), Verdict::Faster);
        assert_eq!(
            said,
            "coop_taskrun, one traced run each: system calls per I/O ~2.00 (1.00–4.00) → ~16.00 (12.00–21.00)"
        );
        let said = explained(estimated(2.0, [1.0, 4.0]), estimated(5.0, [3.0, 9.0]), Verdict::Faster);
        assert!(said.starts_with("one traced run each: no large difference in "), "{said}");
    }

    #[test]
    fn traced_cpu_time_is_omitted_if_the_timed_runs_are_equivalent() {
        let cpu = |ns: f64| WatchedRun { cpu_per_io_ns: Some(ns), ..traced(1000, 1000) };
        let said = |verdict| explained(cpu(21_600.0), cpu(18_600.0), verdict);
        assert!(!said(Verdict::Equivalent).contains("CPU time"));
        assert!(said(Verdict::Faster).ends_with("CPU time per I/O 21.6 µs → 18.6 µs"));
    }
}
