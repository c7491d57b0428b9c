//! The situations in which arms differ, described by parameters that only these situations share.

use serde_json::Value;

use super::effect::Effect;
use iotrail_base::distinct::distinct;
use iotrail_base::words::{list, span};
use iotrail_schema::run_record::{ARM, RunRecord, VARIANT, value_text};

/// A parameter, and its values in the situations with a difference.
pub type Constraint<'r> = (&'r str, Vec<&'r Value>);

/// Name of the parameter that holds an experiment's arms when kernels are compared.
pub const SETTING: &str = "setting";

/// `None` if the arms differ everywhere, nowhere, or in situations that no parameters identify.
pub fn of(run: &RunRecord, all: &[Effect<'_>], shown: &[Effect<'_>]) -> Option<String> {
    if shown.is_empty() || shown.len() == all.len() {
        return None;
    }
    let constraints = constraints(run, all, shown)?;
    let within = all.iter().filter(|e| holds(&constraints, e)).count();
    let text = words(run, &constraints);
    Some(match within == shown.len() {
        true => text,
        false => format!("in {} of the {within} situations where {text}", shown.len()),
    })
}

/// The smallest set of parameters that identifies the shown situations as well as all parameters do. `None` if no
/// parameter does.
fn constraints<'r>(run: &'r RunRecord, all: &[Effect<'r>], shown: &[Effect<'r>]) -> Option<Vec<Constraint<'r>>> {
    let axes = run.axes.iter().filter(|a| *a != ARM);
    let narrow = |axis: &'r String| {
        let values = |of: &[Effect<'r>]| distinct(of.iter().filter_map(|e| e.c.at.get(axis)));
        let (here, anywhere) = (values(shown), values(all));
        (here.len() < anywhere.len()).then_some((axis.as_str(), here))
    };
    let mut found: Vec<Constraint<'r>> = axes.filter_map(narrow).collect();
    let covered = |of: &[Constraint<'r>]| all.iter().filter(|e| holds(of, e)).count();
    let best = covered(&found);
    let mut i = 0;
    while i < found.len() {
        let mut without = found.clone();
        without.remove(i);
        match covered(&without) == best && !without.is_empty() {
            true => found = without,
            false => i += 1,
        }
    }
    (!found.is_empty()).then_some(found)
}

pub fn holds(constraints: &[Constraint<'_>], e: &Effect<'_>) -> bool {
    constraints.iter().all(|(axis, values)| e.c.at.get(*axis).is_some_and(|v| values.contains(&v)))
}

/// `the thread peeks and runs on a CPU without the disk's interrupt, at depth 1 and 16`.
fn words(run: &RunRecord, constraints: &[Constraint<'_>]) -> String {
    let (mut does, mut at) = (Vec::new(), Vec::new());
    let mut constraints = constraints.to_vec();
    constraints.sort_by_key(|(axis, _)| rank(axis));
    for (axis, values) in &constraints {
        match (&values[..], *axis) {
            ([one], axis) if deed(axis, one).is_some() => does.extend(deed(axis, one).map(str::to_owned)),
            (values, VARIANT) => {
                let quoted: Vec<String> = texts(axis, values).iter().map(|v| format!("'{v}'")).collect();
                at.push(format!("in {}", list(&quoted)));
            }
            (values, SETTING) => at.push(format!("with {}", list(&texts(SETTING, values)))),
            (values, axis) => at.push(format!("at {axis} {}", several(run, axis, values))),
        }
    }
    let mut parts = Vec::new();
    if !does.is_empty() {
        parts.push(format!("the thread {}", list(&does)));
    }
    parts.extend(at);
    parts.join(", ")
}

/// Sort key: the thread's activity comes before its location.
pub fn rank(axis: &str) -> usize {
    ["variant", "wait", "reaper", "cpus", "neighbour"].iter().position(|a| *a == axis).unwrap_or(usize::MAX)
}

/// The thread's activity under an option, in common terms.
pub fn deed(axis: &str, value: &Value) -> Option<&'static str> {
    Some(match (axis, value.as_str()?) {
        ("wait", "peek") => "peeks",
        ("wait", "block") => "waits in the kernel",
        ("cpus", "irq") => "runs on the CPU with the disk's interrupt",
        ("cpus", "non-irq") => "runs on a CPU without the disk's interrupt",
        ("neighbour", "none") => "has its CPU to itself",
        ("neighbour", "busy:1") => "shares its CPU with a busy process",
        ("reaper", "thread") => "leaves reaping to another thread",
        ("reaper", "same") => "reaps its own completions",
        _ => return None,
    })
}

/// A single value in its usual notation.
pub fn text(axis: &str, value: &Value) -> String {
    match (axis, value.as_f64()) {
        ("think", Some(ns)) if ns > 0.0 => span(ns),
        _ => value_text(value),
    }
}

fn texts(axis: &str, values: &[&Value]) -> Vec<String> {
    values.iter().map(|v| text(axis, v)).collect()
}

/// `16 and more` if these are the highest of all values, otherwise `1 and 16`.
fn several(run: &RunRecord, axis: &str, values: &[&Value]) -> String {
    let mut order: Vec<&Value> = run.values(axis).into_iter().filter(|v| v.is_number()).collect();
    order.sort_by(|a, b| a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)));
    let mut these = values.to_vec();
    these.sort_by(|a, b| a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)));
    if these.len() > 1 && order.len() > these.len() {
        if order.ends_with(&these) {
            return format!("{} and more", text(axis, these[0]));
        }
        if order.starts_with(&these) {
            return format!("{} and less", text(axis, these[these.len() - 1]));
        }
    }
    list(&texts(axis, &these))
}
