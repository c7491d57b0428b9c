//! Compares two traces: exact counts exactly, estimates by their intervals. Times come from a single trace each, so
//! they get no verdict.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::figure::{Metric, Unit};
use crate::traced::{Scope, TraceFigure, figures, in_words};
use iotrail_base::words::{UNKNOWN, list, percent, so_many};
use iotrail_schema::account::ThreadRow;
use iotrail_schema::trace_record::{Subject, TraceRecord};

pub const SCHEMA: &str = "iotrail.trace-comparison/1";

/// Changes from the first trace to the second: the schema `iotrail.trace-comparison/1`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceComparison {
    /// `iotrail.trace-comparison/1`.
    pub schema: &'static str,
    /// The first trace.
    pub a: String,
    /// The second trace.
    pub b: String,
    /// The first line.
    pub answer: String,
    /// Findings only in the second trace, by code.
    pub came: Vec<FindingChange>,
    /// Findings only in the first trace.
    pub went: Vec<FindingChange>,
    /// Codes of findings in both traces.
    pub stayed: Vec<String>,
    /// Shares of thread and request time, the largest change first.
    pub account: Vec<FigureChange>,
    /// Counts, and counts per I/O.
    pub counts: Vec<FigureChange>,
    /// Latencies by opcode. Each comes from a single trace, so it has no verdict.
    pub latency: Vec<FigureChange>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FindingChange {
    /// Its name.
    pub code: String,
    /// The sentence.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureChange {
    /// Scope of the metric: `opcode.read`, `threads`, `requests`; empty for the whole trace.
    pub scope: String,
    /// The figure.
    pub figure: String,
    /// Value in the first trace; times in nanoseconds, shares from 0 to 1. Null if unknown.
    pub a: Option<f64>,
    /// Value in the second trace.
    pub b: Option<f64>,
    /// 95 % interval of an estimate; null: exact, or not known.
    pub a_ci95: Option<[f64; 2]>,
    /// The same for the second trace.
    pub b_ci95: Option<[f64; 2]>,
    /// Whether it changed. Null if the intervals overlap, if a value is unknown, or if it is a time.
    pub changed: Option<bool>,
    /// The first value as text.
    #[serde(skip)]
    pub a_text: String,
    /// The second value as text.
    #[serde(skip)]
    pub b_text: String,
}

/// Changes of a time share below this are not listed.
const SHARE: f64 = 0.01;

pub fn compare(a: (&str, &TraceRecord), b: (&str, &TraceRecord)) -> TraceComparison {
    let of = |t: &TraceRecord| {
        let all = t.findings.iter().map(|f| (f.code.clone(), f.text.clone()));
        // If a code occurs several times, the first finding is the largest.
        all.rev().collect::<BTreeMap<_, _>>()
    };
    let (of_a, of_b) = (of(a.1), of(b.1));
    let without = |all: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
        let new = all.iter().filter(|(code, _)| !other.contains_key(*code));
        new.map(|(code, text)| FindingChange { code: code.clone(), text: text.clone() }).collect::<Vec<_>>()
    };
    let (came, went) = (without(&of_b, &of_a), without(&of_a, &of_b));
    let stayed = of_a.keys().filter(|code| of_b.contains_key(*code)).cloned().collect();
    let (counts, latency) = of_figures(a.1, b.1);
    let account = account(a.1, b.1);
    let (of, named) = (program(a.1), program(b.1));
    let is_other = of.is_some() && named.is_some() && of != named;
    let name = |name: &str, program: Option<String>| match program.filter(|_| is_other) {
        Some(program) => format!("{name} ({program})"),
        None => name.to_owned(),
    };
    TraceComparison {
        schema: SCHEMA,
        answer: answer(&name(a.0, of), &name(b.0, named), &counts, &came, &went),
        a: a.0.to_owned(),
        b: b.0.to_owned(),
        came,
        went,
        stayed,
        account,
        counts,
        latency,
    }
}

/// The traced command or process; `None` for several.
fn program(t: &TraceRecord) -> Option<String> {
    match &t.subject {
        Subject::Command { argv, .. } => Some(argv.join(" ")),
        Subject::Process { comm, .. } => Some(comm.clone()),
        _ => None,
    }
}

fn answer(a: &str, b: &str, counts: &[FigureChange], came: &[FindingChange], went: &[FindingChange]) -> String {
    let changed: Vec<&FigureChange> = counts.iter().filter(|c| c.changed == Some(true)).collect();
    let per_io = changed.iter().filter(|c| c.figure.ends_with("_per_io") || c.figure.starts_with("calls."));
    let mut parts: Vec<String> = per_io.take(2).map(|c| format!("{} {} → {}", c.figure, c.a_text, c.b_text)).collect();
    let codes = |all: &[FindingChange]| list(&all.iter().map(|f| f.code.clone()).collect::<Vec<_>>());
    parts.extend((!came.is_empty()).then(|| format!("new: {}", codes(came))));
    parts.extend((!went.is_empty()).then(|| format!("gone: {}", codes(went))));
    match (changed.len(), parts.is_empty()) {
        (0, true) => format!("{b} against {a}: no exact count changed, and the findings are the same"),
        (n, _) => {
            let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) };
            format!("{b} against {a}: {} changed{parts}", so_many(n as u64, "count"))
        }
    }
}

type Key = (Scope, String);

fn of_figures(a: &TraceRecord, b: &TraceRecord) -> (Vec<FigureChange>, Vec<FigureChange>) {
    let key = |f: &TraceFigure| (f.scope.clone(), f.name.clone());
    let of_a = figures(a);
    let of_b: BTreeMap<Key, TraceFigure> = figures(b).into_iter().map(|f| (key(&f), f)).collect();
    // Ring numbers, and files seen in only one trace, are not comparable.
    let scopes = |f: &&TraceFigure| matches!(f.scope, Scope::All | Scope::Opcode(_));
    let mut all: Vec<(Key, Option<&TraceFigure>, Option<&TraceFigure>)> = Vec::new();
    for f in of_a.iter().filter(scopes) {
        all.push((key(f), Some(f), of_b.get(&key(f))));
    }
    for (key, f) in &of_b {
        let is_new = !of_a.iter().any(|a| a.scope == key.0 && a.name == key.1);
        if is_new && scopes(&f) {
            all.push((key.clone(), None, Some(f)));
        }
    }
    let is_share = |unit| unit == Unit::ShareOfTime;
    let known = all.into_iter().filter(|(_, a, b)| a.and_then(|f| f.value).or(b.and_then(|f| f.value)).is_some());
    let (counts, others): (Vec<_>, Vec<_>) = known
        .filter(|(_, a, b)| a.or(*b).is_some_and(|f| !is_share(f.unit) && f.unit != Unit::Rate))
        .partition(|(_, a, b)| a.or(*b).is_some_and(|f| f.unit != Unit::Time));
    let latency = others.into_iter().filter(|((_, name), ..)| name.starts_with("latency_"));
    let changes = |all: Vec<(Key, Option<&TraceFigure>, Option<&TraceFigure>)>| {
        all.into_iter().map(|(key, a, b)| change(key, a, b)).collect::<Vec<_>>()
    };
    let differs = |c: &FigureChange| c.a != c.b;
    let counts = changes(counts).into_iter().filter(differs).collect();
    (counts, changes(latency.collect()))
}

fn change((scope, figure): Key, a: Option<&TraceFigure>, b: Option<&TraceFigure>) -> FigureChange {
    let unit = a.or(b).map_or(Unit::Count, |f| f.unit);
    // An opcode or call without a metric did not occur in that trace.
    let value =
        |f: Option<&TraceFigure>| f.map_or(Some(0.0), |f| f.value).filter(|_| f.is_some() || unit == Unit::Count);
    let text = |x: Option<f64>, ci95: Option<[f64; 2]>| match (x, a.or(b)) {
        (Some(x), Some(f)) => format!("{}{}", if ci95.is_some() { "~" } else { "" }, f.text(x)),
        _ => UNKNOWN.to_owned(),
    };
    let (x, y) = (value(a), value(b));
    let (a_ci95, b_ci95) = (a.and_then(|f| f.ci95), b.and_then(|f| f.ci95));
    let changed = match (x, y, unit) {
        (_, _, Unit::Time) | (None, ..) | (_, None, _) => None,
        (Some(x), Some(y), _) => {
            let ([a_lo, a_hi], [b_lo, b_hi]) = (a_ci95.unwrap_or([x; 2]), b_ci95.unwrap_or([y; 2]));
            let is_exact = a_ci95.is_none() && b_ci95.is_none();
            let is_apart = a_lo > b_hi || b_lo > a_hi;
            if is_exact || is_apart { Some(x != y) } else { None }
        }
    };
    let (a_text, b_text) = (text(x, a_ci95), text(y, b_ci95));
    FigureChange { scope: scope.text(), figure, a: x, b: y, a_ci95, b_ci95, changed, a_text, b_text }
}

/// Shares of thread time and of request latency; these are times of a single trace each.
fn account(a: &TraceRecord, b: &TraceRecord) -> Vec<FigureChange> {
    let (of_a, of_b) = (shares(a), shares(b));
    let keys: BTreeSet<&(&str, String)> = of_a.keys().chain(of_b.keys()).collect();
    let has = |t: &TraceRecord, scope: &str| match scope {
        "threads" => t.own_threads().next().is_some(),
        _ => t.account.as_ref().is_some_and(|account| account.requests.is_some()),
    };
    let change = |key: &(&'static str, String)| {
        let share = |t: &TraceRecord, all: &BTreeMap<(&'static str, String), f64>| {
            has(t, key.0).then(|| all.get(key).copied().unwrap_or(0.0))
        };
        let (x, y) = (share(a, &of_a), share(b, &of_b));
        let text = |x: Option<f64>| x.map_or(UNKNOWN.to_owned(), percent);
        FigureChange {
            scope: key.0.to_owned(),
            figure: key.1.clone(),
            a: x,
            b: y,
            a_ci95: None,
            b_ci95: None,
            changed: None,
            a_text: text(x),
            b_text: text(y),
        }
    };
    let size = |c: &FigureChange| (c.b.unwrap_or(0.0) - c.a.unwrap_or(0.0)).abs();
    let mut all: Vec<FigureChange> = keys.into_iter().map(change).filter(|c| size(c) >= SHARE).collect();
    all.sort_by(|x, y| size(y).total_cmp(&size(x)));
    all
}

fn shares(t: &TraceRecord) -> BTreeMap<(&'static str, String), f64> {
    let mut sums = BTreeMap::new();
    let wall = t.own_threads().map(|thread| thread.wall_ns).sum::<u64>().max(1) as f64;
    for row in t.own_threads().flat_map(|thread| &thread.rows) {
        *sums.entry(("threads", row_words(row))).or_default() += row.ns as f64 / wall;
    }
    if let Some(requests) = t.account.as_ref().and_then(|account| account.requests.as_ref()) {
        for row in &requests.rows {
            let name = [Some(in_words(&row.stage)), row.reason.as_ref().map(in_words)].into_iter().flatten();
            let name = name.collect::<Vec<_>>().join(", ");
            *sums.entry(("requests", name)).or_default() += row.ns as f64 / requests.latency_sum_ns.max(1) as f64;
        }
    }
    sums
}

fn row_words(row: &ThreadRow) -> String {
    let reason = row.reason.as_ref().map(in_words);
    let parts = [Some(in_words(&row.state)), row.mode.as_ref().map(in_words), row.syscall.clone(), reason];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Counts per I/O first, then the program's activity, then the rest; changed values before possibly changed ones.
pub fn in_order(counts: &[FigureChange]) -> Vec<&FigureChange> {
    let per_io: Vec<&str> = Metric::PER_IO.iter().map(|m| m.name()).collect();
    let mut all: Vec<&FigureChange> = counts.iter().collect();
    all.sort_by_key(|c| {
        let group = match c.figure.as_str() {
            name if c.scope.is_empty() && per_io.contains(&name) => 0,
            _ if c.scope.is_empty() => 1,
            _ => 2,
        };
        (c.changed != Some(true), group)
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_schema::account::{Account, Mode, ThreadAccount, ThreadState};
    use iotrail_schema::finding::{Finding, Severity};
    use iotrail_testing::trace::clean;

    fn compared(b: &TraceRecord) -> TraceComparison {
        compare(("t1", &clean()), ("t2", b))
    }

    fn count<'c>(c: &'c TraceComparison, figure: &str) -> Option<&'c FigureChange> {
        c.counts.iter().find(|f| f.figure == figure && f.scope.is_empty())
    }

    #[test]
    fn equal_traces_have_no_changes() {
        let c = compared(&clean());
        assert!(c.counts.is_empty() && c.account.is_empty() && c.came.is_empty() && c.went.is_empty());
        assert_eq!(c.answer, "t2 against t1: no exact count changed, and the findings are the same");
        assert!(c.latency.iter().all(|l| l.changed.is_none()));
        let mut other = clean();
        other.subject = Subject::Command { argv: vec!["./other".into(), "7".into()], exit_status: Some(0) };
        let c = compared(&other);
        assert!(c.answer.starts_with("t2 (./other 7) against t1 ("), "{}", c.answer);
    }

    #[test]
    fn exact_counts_are_compared_by_value_and_estimates_by_interval() {
        let mut b = clean();
        b.total.opcodes[0].requests += 1;
        b.total.per_io.kicks = Some(0.5);
        let c = compared(&b);
        assert_eq!(count(&c, "requests").unwrap().changed, Some(true));
        assert_eq!(count(&c, "kicks_per_io").unwrap().changed, Some(true));
        b.total.per_io_intervals.insert("kicks".into(), [-0.1, 0.9]);
        assert_eq!(count(&compared(&b), "kicks_per_io").unwrap().changed, None);
        b.total.per_io_intervals.insert("kicks".into(), [0.4, 0.6]);
        assert_eq!(count(&compared(&b), "kicks_per_io").unwrap().changed, Some(true));
    }

    #[test]
    fn an_unknown_count_does_not_count_as_a_change() {
        let mut b = clean();
        b.total.per_io.kicks = None;
        let c = compared(&b);
        let kicks = count(&c, "kicks_per_io").unwrap();
        assert_eq!((kicks.b, kicks.changed, kicks.b_text.as_str()), (None, None, "–"));
    }

    #[test]
    fn new_and_gone_findings_are_listed() {
        let finding = |code: &str| Finding::new(code, Severity::Warning, format!("{code} is there"), "", &[]);
        let (mut a, mut b) = (clean(), clean());
        a.findings = vec![finding("kick_storm"), finding("overflow")];
        b.findings = vec![finding("overflow"), finding("wrong_core")];
        let c = compare(("a", &a), ("b", &b));
        assert_eq!((c.came[0].code.as_str(), c.went[0].code.as_str()), ("wrong_core", "kick_storm"));
        assert_eq!(c.stayed, ["overflow"]);
        assert!(c.answer.ends_with("new: wrong_core; gone: kick_storm"), "{}", c.answer);
    }

    #[test]
    fn shares_of_time_have_no_verdict() {
        let with = |user: u64| {
            let row = |mode, ns| ThreadRow { mode: Some(mode), ..ThreadRow::new(ThreadState::Running, ns) };
            let rows = vec![row(Mode::User, user), row(Mode::Kernel, 100 - user)];
            let thread = ThreadAccount { wall_ns: 100, rows, ..ThreadAccount::default() };
            TraceRecord { account: Some(Account { threads: vec![thread], ..Account::default() }), ..clean() }
        };
        let c = compare(("a", &with(20)), ("b", &with(50)));
        let user = c.account.iter().find(|f| f.figure == "running, user").unwrap();
        assert_eq!((user.a_text.as_str(), user.b_text.as_str(), user.changed), ("20 %", "50 %", None));
    }
}
