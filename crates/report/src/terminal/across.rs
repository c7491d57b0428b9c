//! The same plan on several kernels: the answer, then the kernels side by side.

use super::layout::{Column, Screen};
use super::style::Style;
use super::summary;
use iotrail_answer::across::{Beside, Figure, KernelRecord, short};
use iotrail_answer::summary::Head;
use iotrail_base::words::{UNKNOWN, list, plural};
use iotrail_schema::run_record::RunRecord;

/// Width of the metric name column.
const NAME: u16 = 26;

const LEGEND: &str = "Medians over all measurements of a kernel, with minimum and maximum if they differ. The table lists the figures whose ranges \
     do not overlap on all kernels; the figures below it are the same on all kernels. –: unknown.";

/// The comparison of all kernels.
pub struct Across<'a> {
    pub run: &'a RunRecord,
    pub kernels: &'a [KernelRecord],
    pub cells: &'a [Beside],
    /// The conclusions.
    pub said: &'a [String],
    /// The option that names the store in suggested commands: ` --store s.db`, or empty.
    pub store: &'a str,
}

pub fn screen(of: &Across<'_>, answer: &Head, full: bool, style: Style) -> Screen {
    let Across { run, kernels, cells, said, store } = of;
    let mut out = Screen::new(style);
    summary::of(&mut out, answer);
    if !full {
        details(&mut out, kernels, store, answer);
        return out;
    }
    out.blank();
    let quick = if run.quick { " (quick)" } else { "" };
    out.field("experiment", &[format!("{}{quick}", run.experiment), run.title.clone(), format!("seed {}", run.seed)]);
    for (i, k) in kernels.iter().enumerate() {
        let runs: Vec<String> = k.runs.iter().map(i64::to_string).collect();
        let mut items = vec![k.kernel.clone().unwrap_or_else(|| k.asked.clone())];
        items.push(match runs.len() {
            0 => "nothing was measured".into(),
            n => format!("{} (run {})", plural(n, "boot"), list(&runs)),
        });
        items.extend((k.emulated == Some(true)).then(|| "emulated".to_owned()));
        items.extend(k.failed.clone());
        out.field(if i == 0 { "kernels" } else { "" }, &items);
    }
    if !run.question.is_empty() {
        out.field("question", std::slice::from_ref(&run.question));
    }
    let measured: Vec<&str> =
        kernels.iter().filter(|k| !k.runs.is_empty()).filter_map(|k| k.kernel.as_deref()).collect();
    for cell in *cells {
        out.blank();
        out.heading(&cell.label);
        if !cell.differing.is_empty() {
            differing(&mut out, cell, &measured);
        }
        if !cell.alike.is_empty() {
            out.paragraph("  the same: ", &cell.alike.join(", "));
        }
    }
    out.blank();
    out.paragraph("", LEGEND);
    if !said.is_empty() {
        out.blank();
        out.heading("conclusion");
        for sentence in *said {
            out.paragraph("  ", sentence);
        }
    }
    out
}

/// Each boot is a separate run. For two kernels, `compare` has the same verdicts on these runs.
fn details(out: &mut Screen, kernels: &[KernelRecord], store: &str, answer: &Head) {
    let runs = |k: &KernelRecord| k.runs.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    let measured: Vec<String> = kernels.iter().map(runs).filter(|runs| !runs.is_empty()).collect();
    let Some(first) = kernels.iter().find_map(|k| k.runs.first()) else { return };
    out.blank();
    out.line(&format!("details: iotrail report {first}{store} --full"));
    // Verdicts on more kernels are adjusted together.
    if let [a, b] = &measured[..] {
        let metric = answer.forest.as_ref().map(|f| format!(" --metric {}", f.metric.name())).unwrap_or_default();
        out.line(&format!("again:   iotrail compare {a} {b}{metric}{store} --full"));
    }
}

fn differing(out: &mut Screen, cell: &Beside, kernels: &[&str]) {
    let room = super::WIDTH as u16 - NAME - 1;
    let width = (room / kernels.len().max(1) as u16).clamp(9, 24) - 1;
    let mut columns = vec![Column::words("", NAME)];
    columns.extend(kernels.iter().map(|k| Column::named(short(k), width, true)));
    let line = |f: &Figure| -> Vec<String> {
        let values = f.values.iter().map(|v| v.clone().unwrap_or(UNKNOWN.into()));
        std::iter::once(f.name.clone()).chain(values).collect()
    };
    out.table(&columns, cell.differing.iter().map(line).collect());
}
