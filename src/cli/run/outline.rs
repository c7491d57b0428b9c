//! `run --plan`: what would be measured, in which order, and for how long.

use serde_json::{Value, json};

use super::progress::minutes;
use crate::answer::words::{bytes, count, plural};
use crate::experiment::plan::Plan;
use crate::experiment::schedule::{Slot, order};
use crate::report::terminal::{Style, field, paragraph};

pub fn text(plan: &Plan, seed: u32) -> String {
    let style = Style::of_stdout();
    let mut out = String::new();
    let quick = if plan.quick { " (quick)" } else { "" };
    field(&mut out, style, "experiment", &[format!("{}{quick}", plan.name), plan.title.clone()]);
    field(&mut out, style, "question", std::slice::from_ref(&plan.question));
    field(&mut out, style, "expected", std::slice::from_ref(&plan.expect));
    if let Some(path) = &plan.target {
        field(
            &mut out,
            style,
            "target",
            &[vec![path.display().to_string()], plan.size.map(bytes).into_iter().collect()].concat(),
        );
    }
    let testable = plan.testable().count();
    let mut size = vec![
        plural(plan.cells.len(), "cell"),
        plural(plan.repeats as usize, "repeat"),
        plural(testable * plan.repeats as usize, "measurement"),
    ];
    if testable < plan.cells.len() {
        size.push(format!("{} not testable here", plural(plan.cells.len() - testable, "cell")));
    }
    field(&mut out, style, "size", &size);
    field(&mut out, style, "time", &[time(plan)]);
    out.push_str("\ncells\n");
    for cell in &plan.cells {
        let why = cell.untestable.as_ref().map(|r| format!(" · not testable here: {r}")).unwrap_or_default();
        paragraph(&mut out, &format!("{:5}  ", cell.number), &format!("{}{why}", cell.label));
    }
    out.push_str(&format!("\norder (seed {seed}; --seed {seed} gives it again)\n"));
    let cells: Vec<u32> = plan.testable().map(|c| c.number).collect();
    let slots = order(&cells, plan.repeats, seed);
    for block in slots.chunk_by(|a, b| a.repeat == b.repeat) {
        let numbers: Vec<String> = block.iter().map(|s| s.cell.to_string()).collect();
        paragraph(&mut out, &format!("{:5}  ", block[0].repeat), &numbers.join(" "));
    }
    out
}

fn time(plan: &Plan) -> String {
    let estimate = plan.estimate();
    let stated = minutes(estimate.stated);
    match estimate.counted_ios {
        0 => format!("about {stated}, and the time to make the target if it is not there"),
        n => format!(
            "about {stated}, and what {} I/Os take; and the time to make the target if it is not there",
            count(n as f64)
        ),
    }
}

pub fn json(plan: &Plan, seed: u32) -> Value {
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
        "target": plan.target,
        "size": plan.size,
        "cells": cells,
        "order": slots,
        "estimated_s": estimate.stated.as_secs_f64(),
        "estimated_without_ios": estimate.counted_ios,
    })
}
