//! The screen of a run, and the list of runs.

use super::layout::{Column, Style, field, paragraph, table};
use super::measured::{headed, note};
use super::{cells, compare, cost, delivery, net, order};
use crate::answer::conclude::conclude;
use crate::answer::drift;
use crate::answer::expectation::{Outcome, judge};
use crate::answer::group::{groups, row_axis};
use crate::answer::losses::losses;
use crate::answer::warned;
use crate::answer::words::{UNKNOWN, plural};
use crate::measurement::Measurement;
use crate::run_record::{RunRecord, Table};
use crate::store::RunSummary;

pub fn screen(run: &RunRecord, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, style, run);
    let rows = if matches!(run.table, Table::Cost | Table::Order) { None } else { row_axis(run) };
    for group in groups(run, rows) {
        out.push('\n');
        if !group.title.is_empty() {
            let mut title = String::new();
            paragraph(&mut title, "", &group.title);
            out.push_str(&style.bold(title.trim_end()));
            out.push('\n');
        }
        let cells = || group.rows.iter().flat_map(|r| &r.cells);
        let first = cells().next().and_then(|c| c.untestable.as_ref());
        match first {
            Some(reason) if cells().all(|c| c.untestable.as_ref() == Some(reason) && c.measurements.is_empty()) => {
                paragraph(&mut out, "  ", &format!("not testable here: {reason}"));
            }
            _ => {
                let text = match run.table {
                    Table::Cost => cost::of_group(&group),
                    Table::Order => order::of_group(&group),
                    kind => cells::of_group(kind, &group, rows).unwrap_or_else(|| delivery::of_group(&group, rows)),
                };
                out.push_str(&text);
                out.push('\n');
            }
        }
    }
    out.push('\n');
    let legend = match run.table {
        Table::Cost => cost::LEGEND,
        Table::Order => order::LEGEND,
        _ => delivery::LEGEND,
    };
    paragraph(&mut out, "", cells::legend(run.table).unwrap_or(legend));
    if !run.comparisons.is_empty() {
        out.push('\n');
        out.push_str(&compare::tables(&run.comparisons, style));
        out.push('\n');
        paragraph(&mut out, "", compare::LEGEND);
    }
    expectations(&mut out, style, run);
    seen(&mut out, style, run);
    warnings(&mut out, style, run);
    for conclusion in conclude(run) {
        out.push('\n');
        let mut title = String::new();
        paragraph(&mut title, "", format!("conclusion: {}", conclusion.about).trim_end_matches(": "));
        out.push_str(&style.bold(title.trim_end()));
        out.push('\n');
        for sentence in &conclusion.sentences {
            paragraph(&mut out, "  ", sentence);
        }
    }
    out
}

fn measurements(run: &RunRecord) -> impl Iterator<Item = &Measurement> {
    run.cells.iter().flat_map(|c| &c.measurements)
}

fn head(out: &mut String, style: Style, run: &RunRecord) {
    let quick = if run.quick { " (quick)" } else { "" };
    field(out, style, "run", &[format!("{}: {}{quick}", run.run, run.experiment), run.title.clone()]);
    let mut state = vec![
        format!("{} of {} measurements", run.done(), run.planned()),
        match (&run.stop, run.finished_unix_s) {
            (None, _) => format!("{} of each cell", plural(run.repeats as usize, "repeat")),
            (Some(_), Some(_)) => format!("{} of each cell", plural(blocks(run), "repeat")),
            (Some(_), None) => format!("{} of each cell at most", plural(run.repeats as usize, "repeat")),
        },
        format!("seed {}", run.seed),
    ];
    if run.finished_unix_s.is_none() {
        state.push("not finished".into());
    }
    field(out, style, "done", &state);
    if let Some(m) = measurements(run).next() {
        let mut host = vec![
            format!("{}, Linux {}", m.host.hostname, m.host.kernel),
            m.host.cpu_model.clone(),
            plural(m.host.cpus as usize, "CPU"),
        ];
        if let Some(t) = &m.host.target {
            host.extend(m.load.file.clone());
            host.extend(t.device.clone());
            for i in &t.interrupts {
                let cpus: Vec<String> = i.cpus.iter().map(u32::to_string).collect();
                host.push(format!("interrupt {} {} on CPU {}", i.irq, i.name, cpus.join(",")));
            }
        }
        host.extend(m.net.as_ref().map(|net| net::between(&net.between).to_owned()));
        field(out, style, "host", &host);
    }
    if !run.question.is_empty() {
        field(out, style, "question", std::slice::from_ref(&run.question));
    }
}

/// Repeats of the cell that has most.
fn blocks(run: &RunRecord) -> usize {
    run.cells.iter().map(|c| c.measurements.len()).max().unwrap_or(0)
}

/// Each one, and whether it was met.
fn expectations(out: &mut String, style: Style, run: &RunRecord) {
    let judged = judge(run);
    if judged.is_empty() {
        return;
    }
    out.push('\n');
    out.push_str(&style.bold("expected"));
    out.push('\n');
    for j in judged {
        let outcome = match j.outcome {
            Outcome::Met => "met      ",
            Outcome::NotMet => "NOT MET  ",
            Outcome::Open => "open     ",
        };
        paragraph(out, &format!("  {outcome}"), &j.text);
    }
}

/// What was watched, and what was not seen of it.
fn seen(out: &mut String, style: Style, run: &RunRecord) {
    let number = |(name, n): (&str, Option<u64>)| format!("{} {name}", n.map_or(UNKNOWN.into(), |n| n.to_string()));
    let all: Vec<String> = losses(run).into_iter().map(number).collect();
    if !all.is_empty() {
        out.push('\n');
        field(out, style, "probes", &all);
    }
}

/// Each warning once, with the number of measurements that gave it.
fn warnings(out: &mut String, style: Style, run: &RunRecord) {
    for (w, n) in warned::each_once(run) {
        note(out, style, "warning: ", &warned::sentence(w, n, run.done()), true);
    }
    for w in drift::warnings(run) {
        note(out, style, "warning: ", &format!("{}; {}", w.text, w.remedy), true);
    }
}

pub fn list(runs: &[RunSummary], style: Style) -> String {
    let columns = [
        Column { heading: "run", width: 5, number: true },
        Column { heading: "experiment", width: 18, number: false },
        Column { heading: "started (UTC)", width: 19, number: false },
        Column { heading: "done", width: 11, number: true },
        Column { heading: "kernel", width: 21, number: false },
    ];
    let row = |r: &RunSummary| {
        let kernels = if r.kernels.is_empty() { UNKNOWN.into() } else { r.kernels.join(", ") };
        vec![r.run.to_string(), r.experiment.clone(), r.started.clone(), format!("{}/{}", r.done, r.planned), kernels]
    };
    headed(style, &table(&columns, runs.iter().map(row).collect()))
}
