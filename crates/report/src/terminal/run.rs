//! A run's screen, and the list of runs.

use super::layout::{Column, Screen};
use super::style::Style;
use super::summary::View;
use super::{bars, cells, compare, net, summary};
use iotrail_answer::conclude::conclude;
use iotrail_answer::drift;
use iotrail_answer::expectation::{Outcome, judge};
use iotrail_answer::group::groups;
use iotrail_answer::summary::Head;
use iotrail_answer::table::Table;
use iotrail_answer::warnings;
use iotrail_answer::warnings::losses::losses;
use iotrail_base::corruption::Corruption;
use iotrail_base::distinct::distinct;
use iotrail_base::words::{UNKNOWN, plural};
use iotrail_schema::measurement::{Host, LoadRecord};
use iotrail_schema::run_record::RunRecord;
use iotrail_store::RunSummary;

pub fn screen(run: &RunRecord, answer: &Head, view: View<'_>, style: Style) -> Screen {
    let mut out = Screen::new(style);
    if let Some(found) = &run.corruption {
        corruption(&mut out, found);
        out.blank();
    }
    summary::of(&mut out, answer);
    if !view.full {
        summary::more(&mut out, view);
        return out;
    }
    out.blank();
    plan(&mut out, run);
    let rows = Table::of(run).rows(run);
    for group in groups(run, rows) {
        out.blank();
        if !group.title.is_empty() {
            out.heading(&group.title);
        }
        let cells = || group.rows.iter().flat_map(|r| &r.cells);
        let first = cells().next().and_then(|c| c.untestable.as_ref());
        match first {
            Some(reason) if cells().all(|c| c.untestable.as_ref() == Some(reason) && c.measurements.is_empty()) => {
                out.paragraph("  ", &format!("not testable here: {reason}"));
            }
            _ => {
                cells::of_group(&mut out, run, &group, rows);
                bars::of_group(&mut out, run, &group, rows);
            }
        }
    }
    out.blank();
    out.paragraph("", &Table::of(run).legend);
    if !run.comparisons.is_empty() {
        out.blank();
        compare::tables(&mut out, &run.comparisons);
        out.blank();
        out.paragraph("", compare::LEGEND);
    }
    expectations(&mut out, run);
    seen(&mut out, run);
    warnings(&mut out, run);
    for conclusion in conclude(run) {
        out.blank();
        out.heading(format!("conclusion: {}", conclusion.about).trim_end_matches(": "));
        for sentence in &conclusion.sentences {
            out.paragraph("  ", sentence);
        }
    }
    out
}

fn plan(out: &mut Screen, run: &RunRecord) {
    let quick = if run.quick { " (quick)" } else { "" };
    out.field("run", &[format!("{}: {}{quick}", run.run, run.experiment), run.title.clone()]);
    let mut state = vec![
        format!("{} of {} measurements", run.done(), run.planned()),
        match (&run.stop, run.finished_unix_s) {
            (None, _) if run.added_blocks() > 0 => {
                format!("{} per cell ({} planned)", plural(run.blocks(), "repeat"), run.repeats)
            }
            (None, _) => format!("{} per cell", plural(run.repeats as usize, "repeat")),
            (Some(_), Some(_)) => format!("{} per cell", plural(run.blocks(), "repeat")),
            (Some(_), None) => format!("at most {} per cell", plural(run.repeats as usize, "repeat")),
        },
        format!("seed {}", run.seed),
    ];
    if run.finished_unix_s.is_none() {
        state.push("not finished".into());
    }
    out.field("done", &state);
    if let Some(m) = run.first() {
        let host = [
            format!("{}, Linux {}", m.host.hostname, m.host.kernel),
            m.host.cpu_model.clone(),
            plural(m.host.cpus as usize, "CPU"),
        ];
        let targets = run.set_up().flat_map(|(host, load)| of_target(host, load));
        let mut host = distinct(host.into_iter().chain(targets));
        host.extend(m.net.as_ref().map(|net| net::between(&net.between).to_owned()));
        out.field("host", &host);
    }
    if !run.question.is_empty() {
        out.field("question", std::slice::from_ref(&run.question));
    }
}

/// The file, its device, and the component that completes its I/O. Each cell may have a target of its own.
fn of_target(host: &Host, load: &LoadRecord) -> Vec<String> {
    let Some(t) = &host.target else { return Vec::new() };
    let mut facts: Vec<String> = load.file.iter().cloned().collect();
    facts.extend(t.queue_device.clone());
    let on = if t.queue_device.is_some() { "on " } else { "" };
    facts.extend(t.device.as_ref().map(|d| format!("{on}{d}")));
    facts.extend(t.interrupts.iter().map(|i| format!("interrupt {i}")));
    facts
}

/// The expectations and their outcomes.
fn expectations(out: &mut Screen, run: &RunRecord) {
    let judged = judge(run);
    if judged.is_empty() {
        return;
    }
    out.blank();
    out.heading("expected");
    for j in judged {
        let outcome = match j.outcome {
            Outcome::Met => "met      ",
            Outcome::NotMet => "NOT MET  ",
            Outcome::Open => "open     ",
        };
        out.paragraph(&format!("  {outcome}"), &j.text);
    }
}

/// Traced completions and losses.
fn seen(out: &mut Screen, run: &RunRecord) {
    let number = |(name, n): (&str, Option<u64>)| format!("{} {name}", n.map_or(UNKNOWN.into(), |n| n.to_string()));
    let all: Vec<String> = losses(run).into_iter().map(number).collect();
    if !all.is_empty() {
        out.blank();
        out.field("probes", &all);
    }
}

/// Each warning once, with the number of affected measurements.
fn warnings(out: &mut Screen, run: &RunRecord) {
    for (w, n) in warnings::each_once(run) {
        out.note("warning: ", &warnings::sentence(&w, n, run.done()), true);
    }
    for w in drift::warnings(run) {
        out.note("warning: ", &format!("{}; {}", w.text, w.remedy), true);
    }
}

pub fn corruption(out: &mut Screen, found: &Corruption) {
    out.paragraph("", &found.to_string());
}

pub fn list(out: &mut Screen, runs: &[RunSummary]) {
    let columns = [
        Column::number("run", 5),
        Column::words("experiment", 18),
        Column::words("started (UTC)", 19),
        Column::number("done", 11),
        Column::words("kernel", 21),
    ];
    let row = |r: &RunSummary| {
        let kernels = if r.kernels.is_empty() { UNKNOWN.into() } else { r.kernels.join(", ") };
        vec![r.run.to_string(), r.experiment.clone(), r.started.clone(), format!("{}/{}", r.done, r.planned), kernels]
    };
    out.table(&columns, runs.iter().map(row).collect());
    for (run, found) in runs.iter().filter_map(|r| Some((r.run, r.corruption.as_ref()?))) {
        out.paragraph("", &format!("run {run}: {found}"));
    }
}
