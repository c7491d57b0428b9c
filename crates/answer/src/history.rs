//! Repeated runs of one experiment: when its metrics changed level, by how much, and which facts changed at the same
//! time.
//!
//! Each run is one point: the geometric mean of its repeats, except those that measured a different load from the
//! requested one. Agreement between a run's repeats does not show how much runs differ, so levels are estimated from
//! runs only.

mod said;

use serde::Serialize;
use serde_json::{Map, Value};

pub use self::said::{day, with};

use crate::comparable::{ANOTHER_LOAD, disturbances};
use crate::compare::{Metric, changed, command, metrics};
use crate::unit::Unit;
use iotrail_schema::measurement::Measurement;
use iotrail_schema::run_record::{CONTROL, CellRecord, RunRecord, value_text};
pub use iotrail_stats::changes::FEWEST;
use iotrail_stats::changes::{changes, smallest};

pub const SCHEMA: &str = "iotrail.history/1";

/// Collects points run by run.
#[derive(Debug, Default)]
pub struct Gathered {
    runs: Vec<(RunAt, Measurement)>,
    series: Vec<Points>,
    /// Measurements of a different load from the requested one.
    left_out: u64,
}

#[derive(Debug)]
struct Points {
    metric: Metric,
    hostname: String,
    quick: bool,
    command: Option<String>,
    at: Map<String, Value>,
    values: Vec<OfRun>,
}

#[derive(Debug)]
struct OfRun {
    /// Index of the run.
    run: usize,
    /// Logarithm of the value.
    ln: f64,
    /// Other work disturbed one of its measurements.
    is_disturbed: bool,
}

/// A history, as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// `iotrail.history/1`.
    pub schema: &'static str,
    /// Name of the experiment.
    pub experiment: String,
    /// Oldest first.
    pub runs: Vec<RunAt>,
    /// One series per metric, cell, host and command, with all its changes.
    pub series: Vec<Series>,
    /// Measurements left out because their load differs from the requested one.
    pub left_out: u64,
    /// The unit of a rate per second.
    #[serde(skip)]
    pub unit: Unit,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunAt {
    /// Its number in the store.
    pub run: i64,
    /// Its start, UTC: `2026-03-01 12:00:00`.
    pub started: String,
    /// Its start.
    pub started_unix_s: u64,
    /// Kernel of its first measurement.
    pub kernel: String,
    /// Version of iotrail that measured it.
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The metric.
    pub metric: String,
    /// The host that measured.
    pub hostname: String,
    /// Runs with `--quick`, whose values differ from those of the full form.
    pub quick: bool,
    /// Command of the program that was measured; null: the load is iotrail's own.
    pub command: Option<String>,
    /// The cell's parameters.
    pub at: Map<String, Value>,
    /// One point per run with a value.
    pub points: Vec<Point>,
    /// Changes of the level, oldest first.
    pub changes: Vec<Change>,
    /// Smallest detectable change, as a factor minus 1. With this number of runs, it is detected in 95 % of cases.
    /// Null: too few runs, or there is a change.
    pub smallest_visible: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The run's number.
    pub run: i64,
    /// Geometric mean of its repeats; times in nanoseconds.
    pub value: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The last run of the old level.
    pub after_run: i64,
    /// The first run of the new level.
    pub run: i64,
    /// Its start, UTC.
    pub started: String,
    /// New level divided by old level.
    pub ratio: f64,
    /// 95 % interval of the ratio, if the position of the change is taken as known.
    pub ci95: [f64; 2],
    /// Probability of a difference this large if the levels are equal.
    pub p: f64,
    /// Runs of the old level.
    pub runs_before: usize,
    /// Runs of the new level, up to the next change.
    pub runs_since: usize,
    /// Runs of the old level with a measurement that other work disturbed.
    pub disturbed_before: usize,
    /// The same for the new level.
    pub disturbed_since: usize,
    /// Whether it became worse.
    pub is_worse: bool,
    /// Whether it is the last change in its series, so that the new level is the current one.
    pub is_latest: bool,
    /// Facts that differ in the first run of the new level: `kernel 6.18.2 → 6.18.7`.
    pub with: Vec<String>,
}

impl Change {
    /// Whether other work disturbed all runs of exactly one level, and may be the cause.
    pub fn is_undecided(&self) -> bool {
        (self.disturbed_since == self.runs_since) != (self.disturbed_before == self.runs_before)
    }
}

impl Gathered {
    /// Adds a run; call in chronological order. `started`: start time (UTC, as text). `asked`: only these metrics; if
    /// empty, the run's own. `at`: only cells with these parameters.
    pub fn add(&mut self, run: &RunRecord, started: &str, asked: &[Metric], at: &[(String, String)]) {
        let Some(first) = run.first() else { return };
        let place = self.runs.len();
        self.runs.push((
            RunAt {
                run: run.run,
                started: started.to_owned(),
                started_unix_s: run.started_unix_s,
                kernel: first.host.kernel.clone(),
                version: first.version.to_string(),
            },
            first.clone(),
        ));
        let metrics = if asked.is_empty() { metrics(run) } else { asked.to_vec() };
        for cell in run.cells.iter().filter(|c| c.arm() != CONTROL && is_at(c, at)) {
            let is_other = |m: &&Measurement| m.warnings.iter().any(|w| ANOTHER_LOAD.contains(&w.code.as_str()));
            let all = cell.measurements.all();
            self.left_out += all.iter().filter(is_other).count() as u64;
            let command = all.first().and_then(command);
            let mut hosts: Vec<&str> = all.iter().map(|m| m.host.hostname.as_str()).collect();
            hosts.sort_unstable();
            hosts.dedup();
            for (metric, host) in metrics.iter().flat_map(|m| hosts.iter().map(move |h| (*m, *h))) {
                let of_host = || all.iter().filter(|m| m.host.hostname == host && !is_other(m));
                let values: Vec<f64> =
                    of_host().filter_map(|m| metric.of(m)).filter(|x| *x > 0.0).map(f64::ln).collect();
                if !values.is_empty() {
                    let ln = values.iter().sum::<f64>() / values.len() as f64;
                    let is_disturbed = of_host().any(|m| !disturbances(m).is_empty());
                    let points = self.points(metric, host, run.quick, &command, &cell.params);
                    points.values.push(OfRun { run: place, ln, is_disturbed });
                }
            }
        }
    }

    fn points(
        &mut self,
        metric: Metric,
        hostname: &str,
        quick: bool,
        command: &Option<String>,
        at: &Map<String, Value>,
    ) -> &mut Points {
        let is_it = |p: &Points| {
            (p.metric, p.hostname.as_str(), p.quick) == (metric, hostname, quick)
                && p.command == *command
                && p.at == *at
        };
        let i = self.series.iter().position(is_it).unwrap_or_else(|| {
            self.series.push(Points {
                metric,
                hostname: hostname.to_owned(),
                quick,
                command: command.clone(),
                at: at.clone(),
                values: vec![],
            });
            self.series.len() - 1
        });
        &mut self.series[i]
    }

    /// `at_least`: smallest reported change, as a factor minus 1.
    pub fn history(&self, experiment: &str, at_least: f64) -> History {
        let together = self.series.iter().filter(|s| s.values.len() > 1).count();
        History {
            schema: SCHEMA,
            experiment: experiment.to_owned(),
            runs: self.runs.iter().map(|(run, _)| run.clone()).collect(),
            series: self.series.iter().map(|s| self.told(s, together, at_least)).collect(),
            left_out: self.left_out,
            unit: self.runs.first().map_or(Unit::Io, |(_, m)| Unit::of(m)),
        }
    }

    fn told(&self, points: &Points, together: usize, at_least: f64) -> Series {
        let values: Vec<f64> = points.values.iter().map(|v| v.ln).collect();
        let disturbed = |from: usize, to: usize| points.values[from..to].iter().filter(|v| v.is_disturbed).count();
        let found = changes(&values, together);
        let ends: Vec<usize> =
            std::iter::once(0).chain(found.iter().map(|c| c.at)).chain(std::iter::once(values.len())).collect();
        let of = |i: usize| &self.runs[points.values[i].run];
        let told = found.iter().enumerate().filter(|(_, c)| c.by.abs() >= (1.0 + at_least).ln());
        let told = told.map(|(i, c)| {
            let ((before, old), (after, new)) = (of(c.at - 1), of(c.at));
            Change {
                after_run: before.run,
                run: after.run,
                started: after.started.clone(),
                ratio: c.by.exp(),
                ci95: [c.interval.0.exp(), c.interval.1.exp()],
                p: c.p,
                runs_before: ends[i + 1] - ends[i],
                runs_since: ends[i + 2] - ends[i + 1],
                disturbed_before: disturbed(ends[i], ends[i + 1]),
                disturbed_since: disturbed(ends[i + 1], ends[i + 2]),
                is_worse: (c.by < 0.0) == points.metric.higher_is_better(),
                is_latest: i + 1 == found.len(),
                with: changed(old, new),
            }
        });
        let told: Vec<Change> = told.collect();
        Series {
            metric: points.metric.name().to_owned(),
            hostname: points.hostname.clone(),
            quick: points.quick,
            command: points.command.clone(),
            at: points.at.clone(),
            points: points.values.iter().map(|v| Point { run: self.runs[v.run].0.run, value: v.ln.exp() }).collect(),
            // A smaller change than asked for widens the spread.
            smallest_visible: smallest(&values, together).filter(|_| told.is_empty()).map(|x| x.exp_m1().max(at_least)),
            changes: told,
        }
    }
}

fn is_at(cell: &CellRecord, at: &[(String, String)]) -> bool {
    at.iter().all(|(name, value)| cell.params.get(name).is_some_and(|v| value_text(v) == *value))
}

#[cfg(test)]
mod tests {
    use iotrail_schema::program_record::ProgramRecord;
    use iotrail_testing::sample::measurement;

    use super::*;
    use crate::verdicts::factor;

    /// A run of one cell with a single repeat.
    fn run(number: i64, kernel: &str, iops: f64) -> RunRecord {
        let mut m = measurement();
        m.host.kernel = kernel.into();
        m.iops = Some(iops);
        let mut record = RunRecord { run: number, experiment: "e".into(), ..RunRecord::single(&m) };
        record.cells[0].measurements = vec![m].into();
        record
    }

    fn gathered(of: impl IntoIterator<Item = RunRecord>) -> Gathered {
        let mut all = Gathered::default();
        of.into_iter().for_each(|run| all.add(&run, &format!("day {}", run.run), &[Metric::Iops], &[]));
        all
    }

    /// Alternates above and below a level.
    fn level(from: i64, n: i64, kernel: &'static str, iops: f64) -> impl Iterator<Item = RunRecord> {
        (from..from + n).map(move |i| run(i, kernel, iops * (1.0 + 0.004 * ((i % 3) as f64 - 1.0))))
    }

    #[test]
    fn a_change_is_reported_with_its_run_size_and_facts() {
        let all = gathered(level(1, 6, "6.18.2", 1000.0).chain(level(7, 6, "6.18.7", 900.0)));
        let history = all.history("e", 0.01);
        let [series] = &history.series[..] else { panic!("{history:?}") };
        let [change] = &series.changes[..] else { panic!("{series:?}") };
        assert_eq!((change.after_run, change.run, &change.started[..]), (6, 7, "day 7"));
        assert_eq!((change.runs_before, change.runs_since, change.is_worse, change.is_latest), (6, 6, true, true));
        assert!((change.ratio - 0.9).abs() < 1e-3 && change.ci95[0] < 0.9 && 0.9 < change.ci95[1], "{change:?}");
        assert_eq!(change.with, ["kernel 6.18.2 → 6.18.7"]);
        assert_eq!((series.points.len(), series.points[0].run), (12, 1));
        // Changes below the limit are not reported.
        let large = all.history("e", 0.2);
        assert_eq!(large.series[0].changes, []);
        assert!(large.series[0].smallest_visible.is_some_and(|visible| visible >= 0.2), "{large:?}");
    }

    #[test]
    fn a_history_without_changes_reports_the_minimum_detectable_effect() {
        let history = gathered(level(1, 12, "6.18.2", 1000.0)).history("e", 0.01);
        let visible = history.series[0].smallest_visible.unwrap();
        let said = format!("e: no change over 12 runs (1 to 12); iops: minimum detectable effect {}", factor(visible));
        assert_eq!(history.answer(), said);
        // The smallest detectable change is never below the limit, however small the spread.
        assert_eq!(gathered(level(1, 12, "6.18.2", 1000.0)).history("e", 0.3).series[0].smallest_visible, Some(0.3));
        let changed = gathered(level(1, 6, "6.18.2", 1000.0).chain(level(7, 6, "6.18.7", 900.0))).history("e", 0.01);
        assert_eq!(changed.series[0].smallest_visible, None);
    }

    #[test]
    fn each_host_has_its_own_series() {
        let elsewhere = level(7, 6, "6.18.2", 500.0).map(|mut run| {
            run.cells[0].measurements.open()[0].host.hostname = "other".into();
            run
        });
        let history = gathered(level(1, 6, "6.18.2", 1000.0).chain(elsewhere)).history("e", 0.01);
        assert_eq!(history.series.len(), 2);
        assert!(history.series.iter().all(|s| s.changes.is_empty() && s.points.len() == 6), "{history:?}");
    }

    #[test]
    fn each_command_has_its_own_series() {
        let of = |run: RunRecord, command: &str| {
            let mut run = run;
            let argv = command.split(' ').map(str::to_owned).collect();
            let program = ProgramRecord { argv, watched: true, ..ProgramRecord::default() };
            run.cells[0].measurements.open()[0].program = Some(program.into());
            run
        };
        let first = level(1, 6, "6.18.2", 1000.0).map(|run| of(run, "./server --io uring"));
        let history =
            gathered(first.chain(level(7, 5, "6.18.2", 500.0).map(|run| of(run, "fio job.fio")))).history("try", 0.01);
        let at: Vec<String> = history.series.iter().map(|s| history.at(s)).collect();
        assert_eq!(at, ["command ./server --io uring", "command fio job.fio"]);
        assert!(history.series.iter().all(|s| s.changes.is_empty()), "{history:?}");
        // Eleven runs are enough, but five of one command are not.
        let few = level(1, 5, "6.18.2", 1000.0).map(|run| of(run, "./server --io uring"));
        let few =
            gathered(few.chain(level(6, 5, "6.18.2", 500.0).map(|run| of(run, "fio job.fio")))).history("try", 0.01);
        assert_eq!(
            few.answer(),
            "try: too few runs to detect a change: 5 of 10 runs (1 to 10) in the longest series; at least 6 are needed"
        );
    }

    #[test]
    fn series_with_too_few_runs_are_named_and_not_counted_as_unchanged() {
        let elsewhere = level(8, 4, "6.18.2", 500.0).map(|mut run| {
            run.cells[0].measurements.open()[0].host.hostname = "other".into();
            run
        });
        let history = gathered(level(1, 7, "6.18.2", 1000.0).chain(elsewhere)).history("e", 0.01);
        let visible = factor(history.series[0].smallest_visible.unwrap());
        let answer = "e: no change over 7 of 11 runs (1 to 11) in the longest series; iops: minimum detectable effect";
        assert_eq!(history.answer(), format!("{answer} {visible}"));
        let at = history.at(&history.series[1]);
        assert!(at.contains("host other"), "{at}");
        let short = format!("too few runs to detect a change in 1 of 2 series (at least 6 are needed): {at} (4 runs)");
        assert_eq!(history.too_few(), Some(short));
        assert_eq!(gathered(level(1, 7, "6.18.2", 1000.0)).history("e", 0.01).too_few(), None);
        assert_eq!(gathered(level(1, 4, "6.18.2", 1000.0)).history("e", 0.01).too_few(), None);
    }

    #[test]
    fn a_change_is_reported_with_the_number_of_disturbed_runs() {
        let busy = level(7, 6, "6.18.2", 500.0).map(|mut run| {
            let warning = iotrail_schema::measurement::Warning::new("cpu_contended", "", "");
            run.cells[0].measurements.open()[0].warnings.push(warning);
            run
        });
        let history = gathered(level(1, 6, "6.18.2", 1000.0).chain(busy)).history("e", 0.01);
        let change = &history.series[0].changes[0];
        assert_eq!((change.disturbed_before, change.disturbed_since), (0, 6));
        let undecided = |before, since| {
            Change { disturbed_before: before, disturbed_since: since, ..change.clone() }.is_undecided()
        };
        assert_eq!([(0, 6), (6, 0), (0, 5), (6, 6)].map(|(b, s)| undecided(b, s)), [true, true, false, false]);
        assert!(
            history
                .answer()
                .ends_with("since run 7 of day; other work disturbed 6 of the 6 runs since, 0 of the 6 before"),
            "{}",
            history.answer()
        );
        assert_eq!(with([change]), "runs that other work disturbed: 0 of 6 → 6 of 6");
    }

    #[test]
    fn quick_runs_have_their_own_series() {
        let quick = level(7, 6, "6.18.2", 500.0).map(|run| RunRecord { quick: true, ..run });
        let history = gathered(level(1, 6, "6.18.2", 1000.0).chain(quick)).history("e", 0.01);
        let at: Vec<String> = history.series.iter().map(|s| history.at(s)).collect();
        assert!(history.series.iter().all(|s| s.changes.is_empty()), "{history:?}");
        assert!(at[0].ends_with("full form") && at[1].ends_with("quick form"), "{at:?}");
    }

    #[test]
    fn runs_of_a_different_load_are_excluded_and_counted() {
        let mut bad = run(4, "6.18.2", 1.0);
        bad.cells[0].measurements.open()[0].warnings.push(iotrail_schema::measurement::Warning::new(
            ANOTHER_LOAD[0],
            "",
            "",
        ));
        let history = gathered(level(1, 3, "6.18.2", 1000.0).chain([bad])).history("e", 0.01);
        assert_eq!((history.left_out, history.series[0].points.len(), history.runs.len()), (1, 3, 4));
    }
}
