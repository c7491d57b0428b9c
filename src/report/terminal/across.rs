//! The same plan on several kernels, side by side.

use super::layout::{Column, Style, field, paragraph, table};
use crate::answer::across::{Beside, Figure, KernelRecord, short};
use crate::answer::words::{UNKNOWN, list, plural};
use crate::run_record::RunRecord;

/// Of the figures' names.
const NAME: u16 = 26;

const LEGEND: &str = "Medians over all measurements of a kernel, with the lowest and highest where these are apart. Listed are the figures \
     whose ranges do not meet on all kernels; under each table, those that are the same. –: not known.";

pub fn screen(run: &RunRecord, kernels: &[KernelRecord], cells: &[Beside], said: &[String], style: Style) -> String {
    let mut out = String::new();
    let quick = if run.quick { " (quick)" } else { "" };
    field(
        &mut out,
        style,
        "experiment",
        &[format!("{}{quick}", run.experiment), run.title.clone(), format!("seed {}", run.seed)],
    );
    for (i, k) in kernels.iter().enumerate() {
        let runs: Vec<String> = k.runs.iter().map(i64::to_string).collect();
        let mut items = vec![k.kernel.clone().unwrap_or_else(|| k.asked.clone())];
        items.push(match runs.len() {
            0 => "nothing was measured".into(),
            n => format!("{} (run {})", plural(n, "boot"), list(&runs)),
        });
        items.extend((k.emulated == Some(true)).then(|| "emulated".to_owned()));
        items.extend(k.failed.clone());
        field(&mut out, style, if i == 0 { "kernels" } else { "" }, &items);
    }
    if !run.question.is_empty() {
        field(&mut out, style, "question", std::slice::from_ref(&run.question));
    }
    let measured: Vec<&str> =
        kernels.iter().filter(|k| !k.runs.is_empty()).filter_map(|k| k.kernel.as_deref()).collect();
    for cell in cells {
        out.push('\n');
        let mut title = String::new();
        paragraph(&mut title, "", &cell.label);
        out.push_str(&style.bold(title.trim_end()));
        out.push('\n');
        if !cell.differing.is_empty() {
            out.push_str(&differing(cell, &measured));
            out.push('\n');
        }
        if !cell.alike.is_empty() {
            paragraph(&mut out, "  the same: ", &cell.alike.join(", "));
        }
    }
    out.push('\n');
    paragraph(&mut out, "", LEGEND);
    if !said.is_empty() {
        out.push('\n');
        out.push_str(&style.bold("conclusion"));
        out.push('\n');
        for sentence in said {
            paragraph(&mut out, "  ", sentence);
        }
    }
    out
}

fn differing(cell: &Beside, kernels: &[&str]) -> String {
    let room = super::WIDTH as u16 - NAME - 1;
    let width = (room / kernels.len().max(1) as u16).clamp(9, 24) - 1;
    let mut columns = vec![Column { heading: "", width: NAME, number: false }];
    columns.extend(kernels.iter().map(|k| Column { heading: short(k), width, number: true }));
    let line = |f: &Figure| {
        let values = f.values.iter().map(|v| v.clone().unwrap_or(UNKNOWN.into()));
        std::iter::once(f.name.clone()).chain(values).collect()
    };
    table(&columns, cell.differing.iter().map(line).collect())
}
