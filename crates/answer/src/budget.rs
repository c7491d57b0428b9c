//! Budgets: upper and lower limits on metrics of a trace, the check of a trace against them, and limits derived from
//! several traces.

use serde::Serialize;
use toml::{Table, Value};

use crate::callsites;
use crate::figure::Unit;
use crate::traced::{Scope, TraceFigure, figures, label, unused};
use iotrail_base::distinct::distinct;
use iotrail_base::words::percent;
use iotrail_schema::stacks::CallSite;
use iotrail_schema::syscall::{self, Work};
use iotrail_schema::trace_record::TraceRecord;

/// A limit on one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    pub scope: Scope,
    pub figure: String,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetOutcome {
    /// The figure is within its limits.
    Kept,
    /// It is beyond one of them.
    Broken,
    /// It is not known, or the interval of its estimate includes a limit.
    NotEvaluated,
}

/// A limit, and the value in the trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedLimit {
    /// Scope of the figure: `opcode.read`; empty: the whole trace.
    pub scope: String,
    /// The figure.
    pub figure: String,
    /// Its value; times in nanoseconds. Null: not known.
    pub value: Option<f64>,
    /// 95 % interval of an estimate; null: exact, or not known.
    pub ci95: Option<[f64; 2]>,
    /// The lower limit; null: none.
    pub at_least: Option<f64>,
    /// The upper limit; null: none.
    pub at_most: Option<f64>,
    /// Whether the trace is within it.
    pub outcome: BudgetOutcome,
    /// The outcome in words.
    pub text: String,
    /// Call sites of a broken limit's figure, the largest share first.
    pub from: Vec<CallSite>,
}

/// Parses a budget. Errors name the limit and the reason.
pub fn parse(text: &str) -> Result<Vec<Limit>, String> {
    let table: Table = toml::from_str(text).map_err(|e| e.message().to_owned())?;
    let mut limits = Vec::new();
    for (name, value) in &table {
        let Value::Table(inner) = value else {
            return Err(format!(
                "{name} is outside a section: [budget], [opcode.NAME], [ring.N], [thread.NAME], [file.\"PATH\"]"
            ));
        };
        if name == "budget" {
            section(&Scope::All, inner, &mut limits)?;
            continue;
        }
        for (of, inner) in inner {
            let scope = match name.as_str() {
                "opcode" => Scope::Opcode(of.clone()),
                "ring" => Scope::Ring(of.parse().map_err(|_| format!("[ring.{of}]: {of} is not a ring number"))?),
                "thread" => Scope::Thread(of.clone()),
                "file" => Scope::File(of.clone()),
                _ => {
                    return Err(format!(
                        "unknown section [{name}]: the sections are budget, opcode, ring, thread and file"
                    ));
                }
            };
            let Value::Table(inner) = inner else { return Err(format!("{name}.{of} is not a section")) };
            section(&scope, inner, &mut limits)?;
        }
    }
    match limits.is_empty() {
        true => Err("no limit is set".into()),
        false => Ok(limits),
    }
}

fn section(scope: &Scope, table: &Table, limits: &mut Vec<Limit>) -> Result<(), String> {
    for (name, value) in flat(table) {
        let (at_least, at_most) = bounds(value).map_err(|why| format!("{name}: {why}"))?;
        limits.push(Limit { scope: scope.clone(), figure: name, at_least, at_most });
    }
    Ok(())
}

/// Flattens nested tables: TOML parses `delivered.timer_tick = 0` as a table.
fn flat(table: &Table) -> Vec<(String, &Value)> {
    let mut all = Vec::new();
    for (name, value) in table {
        match value {
            Value::Table(inner) if !inner.contains_key("at_least") && !inner.contains_key("at_most") => {
                all.extend(flat(inner).into_iter().map(|(rest, value)| (format!("{name}.{rest}"), value)));
            }
            value => all.push((name.clone(), value)),
        }
    }
    all
}

type Bounds = (Option<f64>, Option<f64>);

fn bounds(value: &Value) -> Result<Bounds, String> {
    let number = |value: &Value| match value {
        Value::Integer(n) => Ok(*n as f64),
        Value::Float(x) if x.is_finite() => Ok(*x),
        Value::String(text) => quantity(text),
        other => Err(format!("{other} is not a number")),
    };
    match value {
        Value::Table(limits) => {
            if let Some(name) = limits.keys().find(|name| !["at_least", "at_most"].contains(&name.as_str())) {
                return Err(format!("unknown key {name}: the keys are at_least and at_most"));
            }
            let of = |name: &str| limits.get(name).map(number).transpose();
            let (at_least, at_most) = (of("at_least")?, of("at_most")?);
            match at_least.zip(at_most) {
                Some((lo, hi)) if lo > hi => Err("at_least is above at_most".into()),
                _ => Ok((at_least, at_most)),
            }
        }
        Value::String(text) => {
            if let Some(rest) = text.strip_prefix("<=") {
                Ok((None, Some(quantity(rest)?)))
            } else if let Some(rest) = text.strip_prefix(">=") {
                Ok((Some(quantity(rest)?), None))
            } else {
                let x = quantity(text.strip_prefix('=').unwrap_or(text))?;
                Ok((Some(x), Some(x)))
            }
        }
        value => number(value).map(|x| (Some(x), Some(x))),
    }
}

/// Parses `1.2`, `1 %` or `2 ms`; times are in nanoseconds.
fn quantity(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 9] = [
        ("%", 0.01),
        ("ns", 1.0),
        ("µs", 1e3),
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
    ];
    let text = text.trim();
    let unit = UNITS.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    match number.trim().parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(x * factor),
        _ => Err(format!("'{text}' is not a limit: write <= 1.2, >= 1 %, <= 2 ms, or the exact number")),
    }
}

/// Checks a trace against these limits.
pub fn judge(limits: &[Limit], t: &TraceRecord) -> Vec<JudgedLimit> {
    let mut figures = figures(t);
    let opcodes = distinct(limits.iter().filter_map(|limit| match &limit.scope {
        Scope::Opcode(name) => Some(name),
        _ => None,
    }));
    figures.extend(opcodes.into_iter().flat_map(|opcode| unused(t, opcode)));
    let mut all: Vec<JudgedLimit> = limits.iter().map(|limit| judged(limit, &figures)).collect();
    let Some(stacks) = &t.stacks else { return all };
    for (limit, judged) in limits.iter().zip(&mut all).filter(|(_, judged)| judged.outcome == BudgetOutcome::Broken) {
        let concern = callsites::of_figure(&limit.scope, &limit.figure);
        judged.from = concern.map(|concern| callsites::top(stacks, &concern)).unwrap_or_default();
    }
    all
}

fn judged(limit: &Limit, figures: &[TraceFigure]) -> JudgedLimit {
    let found = figures.iter().find(|f| f.scope == limit.scope && f.name == limit.figure);
    let label = label(&limit.scope.text(), &limit.figure);
    let value = found.and_then(|f| f.value);
    let ci95 = found.and_then(|f| f.ci95);
    let text_of = |x: f64| found.map_or_else(|| x.to_string(), |f| f.text(x));
    let (outcome, text) = match value {
        // A trace has no entry for a call that the program never made.
        None if found.is_none() && limit.scope == Scope::All && limit.figure.starts_with("calls.") => {
            outcome(limit, 0.0, None, &text_of)
        }
        None if found.is_none() => {
            (BudgetOutcome::NotEvaluated, format!("this trace has no such metric{}", alike(limit, figures)))
        }
        None => (BudgetOutcome::NotEvaluated, "its value is unknown".to_owned()),
        Some(value) => outcome(limit, value, ci95, &text_of),
    };
    JudgedLimit {
        scope: limit.scope.text(),
        figure: limit.figure.clone(),
        value,
        ci95,
        at_least: limit.at_least,
        at_most: limit.at_most,
        outcome,
        text: format!("{label}: {text}"),
        from: vec![],
    }
}

/// Why the metric was not found: the trace lacks the scope, or the scope has only other metrics, of which similar ones
/// are listed, or the first ones.
fn alike(limit: &Limit, figures: &[TraceFigure]) -> String {
    let of_scope = || figures.iter().filter(|f| f.scope == limit.scope).map(|f| f.name.as_str());
    if of_scope().next().is_none() {
        return format!(": it has no {}", limit.scope.text());
    }
    let head = limit.figure.split(['.', '_']).next().unwrap_or_default();
    let mut near: Vec<&str> = of_scope().filter(|name| name.starts_with(head)).take(8).collect();
    if near.is_empty() {
        near = of_scope().take(12).collect();
    }
    let scope = if limit.scope == Scope::All { "it".into() } else { limit.scope.text() };
    format!(": {scope} has {}", near.join(", "))
}

fn outcome(limit: &Limit, value: f64, ci95: Option<[f64; 2]>, text: &dyn Fn(f64) -> String) -> (BudgetOutcome, String) {
    let [lo, hi] = ci95.unwrap_or([value; 2]);
    let estimated = ci95.map_or(String::new(), |[lo, hi]| format!(" (estimated, {} to {})", text(lo), text(hi)));
    let by = |limit: f64| match limit {
        0.0 => String::new(),
        limit => format!(", off by {}", percent((value - limit).abs() / limit.abs())),
    };
    // Tolerance: the last digits of a computed ratio differ from a decimal limit.
    let above = |x: f64, limit: f64| x > limit + limit.abs() * 1e-9;
    let broken = |words: &str, at: f64| {
        (BudgetOutcome::Broken, format!("{}{estimated}, {words} {}{}", text(value), text(at), by(at)))
    };
    match (limit.at_least, limit.at_most) {
        (_, Some(most)) if above(lo, most) => broken("at most", most),
        (Some(least), _) if above(least, hi) => broken("at least", least),
        (least, most) if most.is_some_and(|most| above(hi, most)) || least.is_some_and(|least| above(least, lo)) => (
            BudgetOutcome::NotEvaluated,
            format!(
                "{}{estimated}: the interval includes a limit; trace the program for longer, or trace it with --exact",
                text(value)
            ),
        ),
        _ => (BudgetOutcome::Kept, format!("{}{estimated}", text(value))),
    }
}

/// Exit status of a gate with these limits; `None` if the trace meets all of them.
pub fn status(judged: &[JudgedLimit]) -> Option<u8> {
    let any = |outcome| judged.iter().any(|j| j.outcome == outcome);
    match () {
        () if any(BudgetOutcome::Broken) => Some(1),
        () if any(BudgetOutcome::NotEvaluated) => Some(iotrail_base::error::NOT_EVALUATED),
        () => None,
    }
}

/// A steady count gets a limit only if it varies by at most this share across the runs.
const STEADY: f64 = 0.25;
/// Margin above the largest value, in multiples of the value range.
const MARGINS: f64 = 4.0;
/// Limits of counts that grow with run time allow for a run this many times the longest.
const LONGER: f64 = 10.0;
/// Relative margin for calls whose count depends on timing; at least one call.
const SPARE: f64 = 0.01;
/// Minimum share of completions in every run for a delivery path to get a lower limit; also the value of that limit.
const DOMINANT: f64 = 0.9;
const LEAST: f64 = 0.5;

/// A TOML budget that these runs meet with a margin. A comment lists metrics that are omitted because they depend on
/// the machine's load.
pub fn saved(runs: &[TraceRecord], command: &str) -> String {
    let all: Vec<Vec<TraceFigure>> = runs.iter().map(figures).collect();
    let elapsed: Vec<f64> = runs.iter().map(|run| run.total.elapsed_ns as f64).collect();
    let (mut out, mut left_out) =
        (format!("# Limits from {} runs of: {}\n", runs.len(), command.replace('\n', " ")), Vec::new());
    let mut scope = None;
    let first = all.first().map_or(&[][..], Vec::as_slice);
    for figure in first.iter().filter(|f| matches!(f.scope, Scope::All | Scope::Opcode(_))) {
        let of = |run: &Vec<TraceFigure>| run.iter().find(|f| f.scope == figure.scope && f.name == figure.name)?.value;
        let Some(values) = all.iter().map(of).collect::<Option<Vec<f64>>>() else { continue };
        let Some(limit) = limit(figure, &values, &elapsed) else {
            let (lo, hi) = range(&values);
            left_out.push(format!("# left out: {} ({} to {})\n", figure.label(), figure.text(lo), figure.text(hi)));
            continue;
        };
        if scope.as_ref() != Some(&figure.scope) {
            let section = match &figure.scope {
                Scope::All => "budget".to_owned(),
                scope => scope.text(),
            };
            out += &format!("\n[{section}]\n");
            if figure.scope == Scope::All {
                out += &syncs_never_made(runs);
            }
            scope = Some(figure.scope.clone());
        }
        out += &format!("\"{}\" = {limit}\n", figure.name);
    }
    out.push('\n');
    out + &left_out.concat()
}

fn range(values: &[f64]) -> (f64, f64) {
    let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or(0.0);
    (fold(f64::min), fold(f64::max))
}

/// Lists sync calls that no run made, because a record has no count for them. A new sync is the most important change
/// to detect.
fn syncs_never_made(runs: &[TraceRecord]) -> String {
    let are_counted = runs.iter().all(|run| run.calls.is_some());
    let is_made = |name: &str| runs.iter().any(|run| run.call(name).is_some());
    let syncs = syscall::ALL.iter().filter(|call| call.work == Some(Work::Syncs) && are_counted && !is_made(call.name));
    syncs.map(|call| format!("\"calls.{}\" = 0\n", call.name)).collect()
}

/// Least-squares slope of the values over run time, per nanosecond; 0 if they decrease.
fn growth(values: &[f64], elapsed: &[f64]) -> f64 {
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let (value, time) = (mean(values), mean(elapsed));
    let with_time: f64 = values.iter().zip(elapsed).map(|(v, t)| (v - value) * (t - time)).sum();
    let of_time: f64 = elapsed.iter().map(|t| (t - time).powi(2)).sum();
    if of_time > 0.0 { (with_time / of_time).max(0.0) } else { 0.0 }
}

/// Whether a call's count depends on timing. Submissions and syncs do not; other calls may: one in 13 PostgreSQL server
/// starts makes one epoll_ctl(2) call fewer.
fn is_timing_dependent(name: &str) -> bool {
    let call = name.strip_prefix("calls.").and_then(syscall::find);
    call.is_some_and(|call| !matches!(call.work, Some(Work::Syncs | Work::Submits)))
}

/// The TOML value of a limit; `None` if the metric is omitted.
fn limit(figure: &TraceFigure, values: &[f64], elapsed: &[f64]) -> Option<String> {
    let (lo, hi) = range(values);
    if !figure.is_steady {
        // No limits on times and rates: load on the machine changes them without bound.
        let is_path = figure.name.starts_with("delivered.");
        return (is_path && lo >= DOMINANT).then(|| format!("{{ at_least = {LEAST} }}"));
    }
    if lo == hi && is_timing_dependent(&figure.name) {
        return Some(format!("{{ at_most = {:.0} }}", lo + (lo * SPARE).ceil().max(1.0)));
    }
    if lo == hi {
        // A ratio with the same value in all runs is written with full precision.
        let x = if matches!(figure.unit, Unit::Count) && lo.fract() == 0.0 {
            format!("{lo:.0}")
        } else {
            format!("{lo:?}")
        };
        return Some(x);
    }
    // A polling thread makes more calls in a slower run.
    let grown = growth(values, elapsed) * range(elapsed).1 * (LONGER - 1.0);
    let most = hi + (MARGINS * (hi - lo)).max(grown);
    let at_most = if hi.fract() == 0.0 { format!("{:.0}", most.ceil()) } else { format!("{most:.6}") };
    (hi - lo <= STEADY * hi && grown <= hi).then(|| format!("{{ at_most = {at_most} }}"))
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
