//! What a program's run says beside its verdicts: every arm and metric in one table, what the probes counted in each arm's watched run,
//! and what to write to have it so.

use super::change::{range, value};
use super::effect::Effect;
use super::table::{Mark, Situation, Situations, band, visible};
use super::why::{AMOUNT, FACTOR, MOVED, by};
use crate::compare::Metric;
use crate::unit::Unit;
use iotrail_base::words::{list, per_io, percent};
use iotrail_schema::comparison::Verdict;
use iotrail_schema::program_record::{Legal, ProgramRing, TriedArm, WatchedRun};
use iotrail_schema::run_record::RunRecord;
use iotrail_schema::setup_flag;
use iotrail_schema::vehicle::Vehicle;

/// Metrics that have a column.
const COLUMNS: usize = 3;

/// A row for each arm, a column for each metric; several situations of one arm as the one that differs most.
pub fn table(compared: &[(Metric, Vec<super::ByArm<'_>>)]) -> Option<Situations> {
    // A program that runs for a set time takes that long with every arm.
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
        columns: shown.iter().map(|(metric, _)| metric.words(Unit::Io).to_lowercase()).collect(),
        rows: arms.iter().map(row).collect(),
        more: 0,
        visible: visible(effects()),
        band: band(effects()),
    })
}

fn of<'r>(run: &'r RunRecord, arm: &str) -> Option<&'r TriedArm> {
    run.tried.iter().find(|t| t.name == arm)
}

/// What the probes counted in the arm's watched run against that of the first arm.
pub fn why(run: &RunRecord, base: &str, arm: &str) -> Option<String> {
    let (a, b) = (of(run, base)?.watched.as_ref()?, of(run, arm)?.watched.as_ref()?);
    let mut parts: Vec<String> = Vec::new();
    let shares = |w: &WatchedRun, v: Vehicle| {
        let all: u64 = w.vehicles.iter().map(|(_, n)| n).sum();
        let its: u64 = w.vehicles.iter().filter(|(vehicle, _)| *vehicle == v).map(|(_, n)| n).sum();
        its as f64 / all.max(1) as f64
    };
    let grown = Vehicle::ALL.into_iter().map(|v| (v, shares(b, v), shares(b, v) - shares(a, v)));
    if let Some((vehicle, share, _)) = grown.max_by(|x, y| x.2.total_cmp(&y.2)).filter(|(.., gain)| *gain >= MOVED) {
        let most = Vehicle::ALL.into_iter().max_by(|x, y| shares(a, *x).total_cmp(&shares(a, *y)));
        let before = most.map(|v| format!(" (with {base}, {} {})", percent(shares(a, v)), by(v))).unwrap_or_default();
        parts.push(format!("{} of its completions were delivered {}{before}", percent(share), by(vehicle)));
    }
    let counts: [(&str, Option<f64>, Option<f64>); 3] = [
        ("kicks", a.kicks_per_io, b.kicks_per_io),
        ("system calls", a.syscalls_per_io, b.syscalls_per_io),
        ("sleeps", a.sleeps_per_io, b.sleeps_per_io),
    ];
    for (name, x, y) in counts {
        if let Some((x, y)) = x.zip(y)
            && (x - y).abs() >= AMOUNT
            && x.max(y) >= FACTOR * x.min(y)
        {
            parts.push(format!("{name} per I/O {} → {}", per_io(x), per_io(y)));
        }
    }
    if let Some((x, y)) = a.cpu_per_io_ns.zip(b.cpu_per_io_ns)
        && (x > 1.1 * y || y > 1.1 * x)
    {
        parts.push(format!("CPU time per I/O {} → {}", value(Metric::CpuPerIo, x), value(Metric::CpuPerIo, y)));
    }
    match parts.is_empty() {
        true => Some(
            "the probes count the same in both: delivery paths, kicks, system calls, sleeps, CPU time per I/O".into(),
        ),
        false => Some(format!("{arm}: {}", parts.join("; "))),
    }
}

/// `; it takes 2.0× more CPU time`: what of the other metrics gets worse with the arm.
pub fn price(run: &RunRecord, arm: &str, compared: &[(Metric, Vec<super::ByArm<'_>>)]) -> Option<String> {
    let worse = compared.iter().filter_map(|(metric, all)| {
        let (_, effects) = all.iter().find(|(name, _)| *name == arm)?;
        let worse: Vec<&Effect<'_>> = effects.iter().filter(|e| e.c.verdict == Verdict::Slower).collect();
        (!worse.is_empty()).then(|| range(*metric, Unit::of_run(run), &worse, true))
    });
    let worse: Vec<String> = worse.collect();
    (!worse.is_empty()).then(|| format!("; the price: {}", list(&worse)))
}

/// The flags in C, and the kernel that they need; `None`: the arm changes no flags.
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
        (true, false) => Some(format!("leave out {}", c(&less))),
        (false, false) => Some(format!("set {}{since}, leave out {}", c(&more), c(&less))),
    }
}

fn only(of: &[String], but: &[String]) -> Vec<&'static setup_flag::SetupFlag> {
    let names = of.iter().filter(|f| !but.contains(f));
    names.filter_map(|name| setup_flag::find(name)).collect()
}

/// Arms that are not measured, and why; risks of those that are.
pub fn notes(run: &RunRecord) -> Vec<String> {
    let left_out = |t: &TriedArm| match (t.legal, &t.dropped) {
        (Legal::No, _) => Some(format!("{} was not run: {}", t.name, t.reason)),
        (_, Some(why)) => Some(format!("{} was dropped: {why}", t.name)),
        _ => partly(t),
    };
    run.tried.iter().filter_map(left_out).collect()
}

/// Rings that were set up as the program asked, in an arm that changes them.
fn partly(t: &TriedArm) -> Option<String> {
    let left = |r: &&ProgramRing| r.left_as_asked.is_some();
    let first = t.rings.iter().find(left)?;
    let (n, all) = (t.rings.iter().filter(left).count(), t.rings.len());
    Some(format!("{}: {n} of {all} rings were set up as asked: {}", t.name, first.left_as_asked.as_deref()?))
}

#[cfg(test)]
mod tests {
    use crate::compare;
    use crate::head::Head;
    use iotrail_schema::measurement::Measurement;
    use iotrail_schema::program_record::{OwnFigure, ProgramRecord};
    use iotrail_schema::run_record::Table;
    use iotrail_testing::{run::two_by_two, sample};

    /// Of two arms of which the second takes half of the CPU time.
    fn head(tps: [[f64; 6]; 2]) -> Head {
        let mut run = two_by_two();
        run.cells.truncate(2);
        (run.table, run.repeats) = (Table::Program, 6);
        for (cell, tps) in run.cells.iter_mut().zip(tps) {
            let one = |value: f64| {
                let figures = vec![OwnFigure { name: "tps".into(), value, less_is_better: false }];
                let mut m = Measurement { elapsed_ns: 2_000_000_000, ..sample::measurement() };
                m.program = Some(ProgramRecord { figures, ..ProgramRecord::default() }.into());
                m.cpu.user_ns = Some(1_000_000_000 / u64::from(cell.cell));
                m.cpu.system_ns = Some(0);
                m
            };
            cell.measurements = tps.map(one).to_vec().into();
        }
        run.comparisons = compare::of_run(&run, &|_, _| None);
        Head::of_run(&run, false)
    }

    #[test]
    fn what_is_known_of_cpu_time_alone_is_no_advice_on_the_rest() {
        let a = [1000.0, 1400.0, 900.0, 1300.0, 800.0, 1200.0];
        let h = head([a, [1300.0, 900.0, 1250.0, 800.0, 1350.0, 1000.0]]);
        assert!(h.answer.starts_with("coop_taskrun against default: 2.0× less CPU time"), "{}", h.answer);
        assert_eq!(h.advice.as_deref(), Some("use coop_taskrun, where CPU time matters; the rest is not known"));
        assert!(h.also[0].starts_with("tps inconclusive"), "{:?}", h.also);
        let h = head([a, a]);
        assert_eq!(h.advice.as_deref(), Some("use coop_taskrun, where CPU time matters"));
        assert!(h.also[0].starts_with("tps equivalent"), "{:?}", h.also);
    }
}
