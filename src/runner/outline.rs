//! `run --plan`: what would be measured, in which order, and how long it would take.

use serde_json::{Value, json};

use super::progress::minutes;
use std::time::Duration;

use iotrail_base::error::Result;
use iotrail_base::words::{bytes, count, percent, plural};
use iotrail_experiment::execute::most_beyond;
use iotrail_experiment::load::Kind;
use iotrail_experiment::plan::{Cell, Plan, Written};
use iotrail_experiment::schedule::{Slot, order};
use iotrail_report::terminal::{self, Screen, Style};
use iotrail_schema::run_record::{ARM, CONTROL, value_text};
use iotrail_settings::Conditions;

/// Prints the plan.
pub fn show(plan: &Plan, seed: u32, as_json: bool) -> Result<()> {
    if as_json { terminal::print_json(&json(plan, seed)) } else { terminal::show(&text(plan, seed)) }
}

fn text(plan: &Plan, seed: u32) -> Screen {
    let mut out = Screen::new(Style::of_stdout());
    let quick = if plan.quick { " (quick)" } else { "" };
    out.field("experiment", &[format!("{}{quick}", plan.name), plan.title.clone()]);
    out.field("question", std::slice::from_ref(&plan.question));
    out.field("expected", std::slice::from_ref(&plan.expect));
    if let Some(path) = &plan.target {
        out.field("target", &[vec![path.display().to_string()], plan.size.map(bytes).into_iter().collect()].concat());
    }
    let written: Vec<String> = plan.written().iter().map(writes).collect();
    if !written.is_empty() {
        out.field("writes", &written);
    }
    let testable = plan.testable().count();
    let mut size = match &plan.search {
        Some(_) => {
            vec![plural(plan.cells.len(), "candidate"), format!("at most {}", plural(plan.repeats as usize, "block"))]
        }
        None => vec![
            plural(plan.cells.len(), "cell"),
            plural(plan.repeats as usize, "repeat"),
            plural(testable * plan.repeats as usize, "measurement"),
        ],
    };
    if testable < plan.cells.len() {
        size.push(format!("{} not testable here", plural(plan.cells.len() - testable, "cell")));
    }
    out.field("size", &size);
    out.field("time", &[time(plan)]);
    let metrics = if plan.metrics.is_empty() { "the metrics of its table".into() } else { plan.metrics.join(", ") };
    let mut compared = vec![metrics];
    if plan.cells.iter().any(|c| c.params.get(ARM).is_some_and(|arm| arm == CONTROL)) {
        compared.push(format!(
            "{} measured again as the control",
            plan.arms.first().map_or("the first arm", String::as_str)
        ));
    }
    out.field("compared", &compared);
    if let Some(stop) = &plan.stop {
        let mut rule = vec![
            format!("intervals within ±{}", percent(stop.within)),
            format!("{} to {} blocks", stop.at_least, plan.repeats),
        ];
        rule.extend(stop.budget_s.map(|s| format!("at most {}", minutes(Duration::from_secs_f64(s)))));
        out.field("stops at", &rule);
    }
    let device = |c: &Cell| c.target.as_ref().and_then(|t| t.queue_device()).map(str::to_owned);
    let has_one_device = plan.testable().all(|c| device(c) == plan.testable().next().and_then(device));
    let conditions = |c: &'_ Cell| -> Vec<String> {
        let asked = c.options.iter().filter(|(name, _)| Conditions::NAMES.contains(&name.as_str()));
        let on =
            device(c).filter(|_| !has_one_device).map_or_else(String::new, |name| format!(" (for loads on {name})"));
        asked.map(|(name, value)| format!("{name} {}{on}", value_text(value))).collect()
    };
    let mut changed: Vec<String> = plan.testable().flat_map(conditions).collect();
    changed.sort_unstable();
    changed.dedup();
    if !changed.is_empty() {
        changed.push("restored at the end".into());
        out.field("changes", &changed);
    }
    for line in &plan.unmapped {
        out.paragraph("not mapped   ", line);
    }
    for out_of_it in plan.search.iter().flat_map(|search| &search.left_out) {
        out.paragraph("excluded     ", &format!("{}: {}", out_of_it.name, out_of_it.reason));
    }
    out.blank();
    if let Some(search) = &plan.search {
        out.heading("candidates");
        for (cell, candidate) in plan.cells.iter().zip(&search.candidates) {
            let why = untestable(cell);
            let effort = format!(" ({})", candidate.effort.words());
            out.paragraph(&format!("{:5}  ", cell.number), &format!("{}{effort}{why}", candidate.name));
        }
        return out;
    }
    out.heading("cells");
    for cell in &plan.cells {
        out.paragraph(&format!("{:5}  ", cell.number), &format!("{}{}", cell.label, untestable(cell)));
    }
    out.blank();
    out.heading(&format!("order (seed {seed}; --seed {seed} repeats it)"));
    let cells: Vec<u32> = plan.testable().map(|c| c.number).collect();
    let slots = order(&cells, plan.repeats, seed);
    for block in slots.chunk_by(|a, b| a.repeat == b.repeat) {
        let numbers: Vec<String> = block.iter().map(|s| s.cell.to_string()).collect();
        out.paragraph(&format!("{:5}  ", block[0].repeat), &numbers.join(" "));
    }
    out
}

/// Describes what is written to a file or device.
fn writes(file: &Written) -> String {
    let path = file.path.display();
    let part = file.bytes.map_or_else(|| "all of it".into(), |n| format!("up to {}", bytes(n)));
    let by = plural(file.overwrites, "measurement");
    match (file.exists, file.overwrites) {
        (true, _) if !file.allowed => format!("{path}, which exists: {by} would overwrite {part}; needs --allow-write"),
        (true, _) => format!("{path}, which exists: {by} overwrite {part}"),
        (false, 0) => format!("{path} is created, {}", file.bytes.map_or_else(|| "size unknown".into(), bytes)),
        (false, _) => format!("{path} is created, and {by} overwrite {part}"),
    }
}

fn untestable(cell: &Cell) -> String {
    cell.untestable.as_ref().map(|why| format!(" · not testable here: {why}")).unwrap_or_default()
}

fn time(plan: &Plan) -> String {
    if let Some(search) = &plan.search {
        let budget = minutes(Duration::from_secs_f64(search.budget_s));
        return format!("at most {budget}, including trials and confirmation");
    }
    let estimate = plan.estimate();
    let stated = match estimate.least == estimate.stated {
        true => minutes(estimate.stated),
        false => format!("{} to {}", minutes(estimate.least), minutes(estimate.stated)),
    };
    let most = minutes(most(plan, estimate.stated));
    let mut parts = vec![format!("about {stated} (at most {most} if disturbed)")];
    if estimate.runs > 0 {
        parts = vec![format!("{} of the program, plus {stated}", plural(estimate.runs as usize, "run"))];
    }
    if estimate.counted_ios > 0 {
        let what = if plan.kind == Kind::Net { "requests" } else { "I/Os" };
        parts.push(format!("the time for {} {what}", count(estimate.counted_ios as f64)));
    }
    if plan.target.is_some() {
        parts.push("the time to create the target if it is missing".into());
    }
    parts.join(", and ")
}

/// Includes additional measurements beyond the plan.
fn most(plan: &Plan, stated: Duration) -> Duration {
    stated.mul_f64(1.0 + most_beyond(plan))
}

fn json(plan: &Plan, seed: u32) -> Value {
    let estimate = plan.estimate();
    let cells: Vec<Value> = plan
        .cells
        .iter()
        .map(|c| json!({"cell": c.number, "params": c.params, "options": c.options, "untestable": c.untestable}))
        .collect();
    let numbers: Vec<u32> = plan.testable().map(|c| c.number).collect();
    let slots = order(&numbers, plan.repeats, seed);
    let slots: Vec<Value> = slots.iter().map(|Slot { repeat, cell }| json!({"repeat": repeat, "cell": cell})).collect();
    json!({
        "schema": "iotrail.plan/1",
        "experiment": plan.name,
        "quick": plan.quick,
        "seed": seed,
        "repeats": plan.repeats,
        "stop": plan.stop,
        "metrics": plan.metrics,
        "unmapped": plan.unmapped,
        "candidates": plan.search.as_ref().map_or(&[][..], |search| &search.candidates),
        "left_out": plan.search.as_ref().map_or(&[][..], |search| &search.left_out),
        "target": plan.target,
        "size": plan.size,
        "writes": plan.written(),
        "cells": cells,
        "order": slots,
        "estimated_s": estimate.stated.as_secs_f64(),
        "estimated_least_s": estimate.least.as_secs_f64(),
        "estimated_most_s": most(plan, estimate.stated).as_secs_f64(),
        "estimated_without_ios": estimate.counted_ios,
        "estimated_without_runs": estimate.runs,
    })
}
